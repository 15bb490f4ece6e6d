import { expect, test } from 'bun:test'
import { renderInput } from '../../../src/extensions/broadcast/exported-call.ts'
import type { TextCall } from '../../../src/language/call.ts'

const LONGEST = 10_000_000

/** Renders a conversation of messages with these texts, and returns how long each has become. */
const measure = (...texts: string[]): number[] => {
  const messages = texts.map(text => ({ role: 'user', blocks: [{ type: 'text', text }] }))
  const rendered = renderInput('text', { messages } as unknown as TextCall)
  return rendered.map(message => (message as { content: string }).content.length)
}

test('what was asked is told up to its longest, in the order of its messages', () => {
  const half = 'a'.repeat(LONGEST / 2)
  expect(measure(half, half)).toEqual([LONGEST / 2, LONGEST / 2])
  expect(measure(half, `${half}b`, 'c')).toEqual([LONGEST / 2, LONGEST / 2, 0])
  expect(measure('ab', half, half)).toEqual([2, LONGEST / 2, LONGEST / 2 - 2])
})

test('a message is told with each of its calls of tools, and what was thought before them', () => {
  const blocks = [
    { type: 'reasoning', text: 'Two.' },
    { type: 'tool-call', id: 'c-1', name: 'add', input: '{"a":1}' },
    { type: 'tool-call', id: 'c-2', name: 'add', input: '{"a":2}' },
  ]
  const call = { messages: [{ role: 'assistant', blocks }] } as unknown as TextCall
  const asked = (id: string, text: string) => ({
    ...{ id, type: 'function', function: { name: 'add', arguments: text } },
  })
  expect(renderInput('text', call)).toEqual([
    {
      ...{ role: 'assistant', content: null, reasoning: 'Two.' },
      tool_calls: [asked('c-1', '{"a":1}'), asked('c-2', '{"a":2}')],
    },
  ])
})
