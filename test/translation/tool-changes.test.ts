import { expect, test } from 'bun:test'
import type { Message } from '../../src/language/message.ts'
import type { Tool } from '../../src/language/tool.ts'
import { applyToolChanges } from '../../src/translation/tool-changes.ts'
import { buildTextCall } from '../support/call.ts'

const schema = { type: 'object', properties: {} }
const tool = (name: string): Tool => ({ type: 'function', name, parameters: schema })
const change = (type: 'tool_addition' | 'tool_removal', of: object) => ({
  type: 'other' as const,
  dialect: 'messages' as const,
  value: { type, tool: of },
})
const add = (name: string) => change('tool_addition', { type: 'tool_reference', name })
const define = (definition: object) =>
  change('tool_addition', { type: 'tool_definition', definition })
const remove = (name: string) => change('tool_removal', { type: 'tool_reference', name })
const system = (...blocks: Message['blocks']): Message => ({ role: 'system', blocks })
const say = (words: string) => ({ type: 'text' as const, text: words })
const user: Message = { role: 'user', blocks: [say('Hi')] }

const apply = (...messages: Message[]) =>
  applyToolChanges(buildTextCall({ dialect: 'messages', tools: [tool('a'), tool('b')], messages }))
const names = (...blocks: Message['blocks']) =>
  apply(user, system(...blocks)).tools.map(one => one.type === 'function' && one.name)

test('a call has the tools that its messages leave it', () => {
  expect(names(remove('a'))).toEqual(['b'])
  expect(names(remove('a'), add('a'))).toEqual(['b', 'a'])
  expect(names(add('a'), add('b'))).toEqual(['a', 'b'])
  expect(names(define({ name: 'c', input_schema: schema }))).toEqual(['a', 'b', 'c'])
  const defined = define({ name: 'c', input_schema: schema })
  expect(names(defined, remove('c'), remove('a'))).toEqual(['b'])
  expect(names(defined, remove('c'), add('c'))).toEqual(['a', 'b', 'c'])
  // What is unknown, or no tool, changes nothing.
  expect(names(add('x'), remove('__proto__'), define({ name: 'd' }), define([]))).toEqual([
    ...['a', 'b'],
  ])
})

test('what changed the tools is not shown, what was said beside it is', () => {
  const changed = apply(user, system(say('Now less'), remove('a')), system(remove('b')))
  expect(changed.messages).toEqual([user, system(say('Now less'))])
  expect(changed.tools).toEqual([])
})

test('nothing is changed in what the user says, or in calls of other clients', () => {
  const said: Message = { role: 'user', blocks: [remove('a')] }
  expect(apply(said).messages).toEqual([said])
  const chat = buildTextCall({ dialect: 'chat', messages: [system(remove('a'))] })
  expect(applyToolChanges(chat)).toBe(chat)
})
