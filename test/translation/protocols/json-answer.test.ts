import { describe, expect, test } from 'bun:test'
import type { TextPart } from '../../../src/language/part.ts'
import {
  JsonAnswer,
  JsonAnswerReader,
  pickAnswerToolName,
} from '../../../src/translation/protocols/json-answer.ts'
import { buildTextCall } from '../../support/call.ts'
import { collectParts } from '../../support/parts.ts'

const said = (text: string): TextPart => ({ type: 'text-delta', choice: 0, text })
const begun = (index: number, name: string): TextPart => ({
  type: 'tool-call-start',
  choice: 0,
  index,
  id: `t${index}`,
  name,
})
const input = (index: number, text: string): TextPart => ({
  type: 'tool-call-delta',
  choice: 0,
  index,
  input: text,
})
const ended = (reason: 'tool_calls' | 'stop' | 'length'): TextPart => ({
  type: 'finish',
  choice: 0,
  reason,
  native: 'x',
})

/** Returns what the parts become, read one by one as they stream. */
const answered = (...parts: TextPart[]) => {
  const answer = new JsonAnswer('json')
  return collectParts(parts.flatMap(part => answer.read([part])))
}

describe('an answer by a tool', () => {
  test('is the input of the tool, and ends with stop', () => {
    const { text, calls, finish } = answered(
      begun(0, 'json'),
      input(0, '{"a"'),
      input(0, ':1}'),
      ended('tool_calls'),
    )
    expect([text, calls, finish]).toEqual(['{"a":1}', [], { reason: 'stop', native: 'x' }])
  })

  test('drops the text around it', () => {
    expect(
      answered(
        said('Sure: '),
        begun(0, 'json'),
        input(0, '{}'),
        said(' Done.'),
        ended('tool_calls'),
      ).text,
    ).toBe('{}')
  })

  test('is returned once, however often the tool is called', () => {
    expect(
      answered(
        begun(0, 'json'),
        input(0, '{"a":1}'),
        begun(1, 'json'),
        input(1, '{"a":2}'),
        ended('tool_calls'),
      ).text,
    ).toBe('{"a":1}')
  })

  test('stands beside other calls, whose indexes do not count it', () => {
    const { text, calls, finish } = answered(
      begun(0, 'json'),
      input(0, '{}'),
      begun(1, 'add'),
      input(1, '{"x":1}'),
      ended('tool_calls'),
    )
    expect([text, calls]).toEqual(['{}', [{ id: 't1', name: 'add', input: '{"x":1}' }]])
    expect(finish?.reason).toBe('tool_calls')
  })

  test('keeps its finish reason if it was cut off', () => {
    expect(answered(begun(0, 'json'), input(0, '{"a'), ended('length'))).toMatchObject({
      text: '{"a',
      finish: { reason: 'length' },
    })
  })

  test('is the text if the tool is not called', () => {
    expect(answered(said('No'), said('.'), ended('stop'))).toMatchObject({
      text: 'No.',
      finish: { reason: 'stop' },
    })
    expect(answered(said('Hm'), begun(0, 'add'), ended('tool_calls'))).toMatchObject({
      text: 'Hm',
      finish: { reason: 'tool_calls' },
    })
  })

  test('holds back a limited amount of text', () => {
    const answer = new JsonAnswer('json')
    const given = Array.from({ length: 100 }, () => answer.read([said('x'.repeat(1000))]).length)
    expect(given.slice(0, 65).every(length => length === 0)).toBe(true)
    expect(given.reduce((sum, length) => sum + length, 0)).toBe(100)
  })

  test('passes on all other parts', () => {
    const thought: TextPart = { type: 'reasoning-delta', choice: 0, text: 'Hm', details: [] }
    expect(new JsonAnswer('json').read([thought])).toEqual([thought])
  })
})

test('the reader is complete when the wrapped reader is', () => {
  const inner = {
    complete: false,
    read: () => [begun(0, 'json'), input(0, '{}')],
    end: () => [ended('tool_calls')],
  }
  const reader = new JsonAnswerReader(inner, 'json')
  expect(collectParts(reader.read({ event: null, data: '' })).text).toBe('{}')
  expect(reader.complete).toBe(false)
  expect(collectParts(reader.end()).finish?.reason).toBe('stop')
  inner.complete = true
  expect(reader.complete).toBe(true)
})

test('the name of the tool differs from those of the caller’s tools', () => {
  const named = (...names: string[]) =>
    pickAnswerToolName(buildTextCall({ tools: names.map(name => ({ type: 'function', name })) }))
  expect([named(), named('json'), named('json', 'json_answer')]).toEqual([
    'json',
    'json_answer',
    'json_answer_answer',
  ])
})
