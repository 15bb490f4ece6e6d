import { describe, expect, test } from 'bun:test'
import { text } from '../../../../src/engine/kinds/text.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import type { Tool } from '../../../../src/language/tool.ts'
import { buildTextCall } from '../../../support/call.ts'

const ADD: Tool = {
  type: 'function',
  name: 'add',
  parameters: { type: 'object', required: ['a', 'b'] },
}
const NOW: Tool = { type: 'function', name: 'now' }

const called = (name: string, ...inputs: string[]): TextPart[] => [
  { type: 'tool-call-start', choice: 0, index: 0, id: 'call_1', name },
  ...inputs.map(input => ({ type: 'tool-call-delta' as const, choice: 0, index: 0, input })),
]
const finished = (
  reason: 'stop' | 'tool_calls' | 'length' | 'error' | 'content_filter' = 'tool_calls',
): TextPart => ({
  type: 'finish',
  choice: 0,
  reason,
  native: null,
})
const said: TextPart = { type: 'text-delta', choice: 0, text: 'Hello' }

const verdict = (call: Partial<TextCall>, parts: TextPart[], broken = false) => {
  const meter = text.metering.startMeter(buildTextCall({ tools: [ADD, NOW], ...call }))
  meter.read(parts)
  return meter.hasValidToolCalls(broken)
}

describe('an answer to a call with tools is', () => {
  test.each<[name: string, isSound: boolean | null, parts: TextPart[], call?: Partial<TextCall>]>([
    ['valid with all required members', true, [...called('add', '{"a":1,', '"b":2}'), finished()]],
    ['valid with more than that', true, [...called('add', '{"a":1,"b":2,"c":3}'), finished()]],
    ['valid without arguments if none are required', true, [...called('now', ''), finished()]],
    ['invalid without a required one', false, [...called('add', '{"a":1}'), finished()]],
    ['invalid without any', false, [...called('add'), finished()]],
    [
      'invalid with arguments that do not parse',
      false,
      [...called('add', '{"a":1,"b":'), finished()],
    ],
    ['invalid with arguments that are not an object', false, [...called('now', '[1]'), finished()]],
    [
      'invalid if an inherited name stands for a member',
      false,
      [...called('odd', '{}'), finished()],
      { tools: [odd('toString')] },
    ],
    ['invalid with a tool that was not offered', false, [...called('subtract', '{}'), finished()]],
    [
      'invalid as soon as one of its calls is',
      false,
      [...called('now', '{}'), ...called('now', '{'), finished()],
    ],
    ['invalid when it ends in an error', false, [said, finished('error')]],
    ['invalid when it is empty', false, [finished('stop')]],
    [
      'invalid without a call if one is required',
      false,
      [said, finished('stop')],
      { params: { tool_choice: 'required' } },
    ],
    ['not judged when it gives text instead', null, [said, finished('stop')]],
    ['not judged when it was cut', null, [...called('add', '{"a":1,'), finished('length')]],
    ['not judged when a filter stopped it', null, [finished('content_filter')]],
    [
      'not judged when it calls a tool of another kind',
      null,
      [...called('bash', 'ls'), finished()],
      {
        tools: [
          ADD,
          { type: 'other', dialect: 'messages', value: { type: 'bash_20250124', name: 'bash' } },
        ],
      },
    ],
    [
      'not judged if tools may not be called',
      null,
      [...called('add', '{'), finished()],
      { params: { tool_choice: 'none' } },
    ],
    ['not judged without tools', null, [finished('error')], { tools: [] }],
    [
      'not judged with more arguments than are kept',
      null,
      [...called('add', '{"a":1,', ' '.repeat(2 ** 20), '"b":2}'), finished()],
    ],
  ])('%s', (_, isSound, parts, call = {}) => {
    expect(verdict(call, parts)).toBe(isSound)
  })

  test('invalid when it breaks off, unless no tools were offered', () => {
    expect(verdict({}, [said], true)).toBe(false)
    expect(verdict({ tools: [] }, [said], true)).toBeNull()
  })

  test('judged call by call, however their pieces are interleaved', () => {
    const start = (index: number): TextPart => ({
      type: 'tool-call-start',
      choice: 0,
      index,
      id: `call_${index}`,
      name: 'add',
    })
    const piece = (index: number, input: string): TextPart => ({
      type: 'tool-call-delta',
      choice: 0,
      index,
      input,
    })
    const mingled = [
      start(0),
      start(1),
      piece(0, '{"a":1,'),
      piece(1, '{"b":2,'),
      piece(0, '"b":2}'),
      piece(1, '"a":1}'),
      finished(),
    ]
    expect(verdict({}, mingled)).toBe(true)
    expect(verdict({}, [...mingled.slice(0, -2), finished()])).toBe(false)
  })
})

function odd(required: string): Tool {
  return { type: 'function', name: 'odd', parameters: { required: [required, 7] } }
}
