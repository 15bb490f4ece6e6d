import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { type ErrorType, STATUS, type Trouble } from '../../../src/base/errors.ts'
import { isObject, type Json, parseObject } from '../../../src/base/json.ts'
import { ENDS } from '../../../src/translation/protocols/ends.data.ts'
import type { Frame, Protocol } from '../../../src/translation/protocols/protocol.ts'
import { REFUSALS } from '../../../src/translation/protocols/refusals.data.ts'
import { LONG } from '../../support/random.ts'
import {
  readFrames,
  readWhole,
  VARIANTS,
  WIRES,
  type Wire,
  type WireAnswer,
  type WireVerdict,
  writeFrames,
} from './wires.ts'

/*
 * Every protocol's reader gives one verdict on the same broken answer: its end, its arguments, its
 * text, its refusal.
 */

const answer = (more: Partial<WireAnswer>): WireAnswer => ({
  text: '',
  calls: [],
  word: null,
  ...more,
})
const call = (input: string, name = 'f') => ({ id: `call_${name}`, name, input })

/** Answers with arguments that are a text, and what they are. */
const ARGUMENTS: [what: string, given: WireAnswer, verdict: WireVerdict][] = [
  [
    'no arguments',
    answer({ calls: [call('')] }),
    { text: '', calls: [['f', '{}']], end: 'tool_calls' },
  ],
  [
    'objects that run together',
    answer({ calls: [call('{"a":1} {"a":2}')] }),
    {
      text: '',
      calls: [
        ['f', '{"a":1}'],
        ['f', '{"a":2}'],
      ],
      end: 'tool_calls',
    },
  ],
  [
    'objects that run together before another call',
    answer({ calls: [call('{"a":1}{"a":2}'), call('{"b":1}', 'g')] }),
    {
      text: '',
      calls: [
        ['f', '{"a":1}'],
        ['f', '{"a":2}'],
        ['g', '{"b":1}'],
      ],
      end: 'tool_calls',
    },
  ],
  [
    'text behind an object',
    answer({ calls: [call('{"a":1}x')] }),
    { text: '', calls: [['f', '{"a":1}']], end: 'error' },
  ],
  [
    'arguments that are cut',
    answer({ calls: [call('{"a":')] }),
    { text: '', calls: [['f', '{"a":']], end: 'error' },
  ],
  [
    'arguments that are no object, as the model wrote them',
    answer({ calls: [call('[1]')] }),
    { text: '', calls: [['f', '[1]']], end: 'tool_calls' },
  ],
]

/** Tests that a protocol gives the one verdict on every broken answer. */
export function testBrokenAnswers(name: string, protocol: Protocol<'text'>): void {
  const createWire = WIRES[name]
  if (!createWire) throw new Error(`${name} has no wire in test/suites/protocol/wires.ts`)
  const stream = (given: WireAnswer, sizes: number[] = []) =>
    readFrames(protocol, writeFrames(createWire(), given, sizes))
  const whole = (given: WireAnswer) => {
    const { words, whole } = createWire()
    const usual = given.calls.length > 0 ? words.calls : words.stop
    return readWhole(protocol, whole({ ...given, word: given.word ?? usual }))
  }
  const { words, hasTexts, refusal } = createWire()

  describe(`${name}: broken answers`, () => {
    const KNOWN = ENDS.flatMap(({ reason, words }) => words.map(word => [word, reason] as const))
    test.each(KNOWN.filter(([, reason]) => reason !== null))('the end %s is %s', (word, reason) => {
      const hello = answer({ text: 'Hello', word })
      // A status is no reason why a response is incomplete.
      expect([stream(hello).end, whole(hello).end]).toEqual([reason, reason].map(String))
    })

    test('an end that is not known is an error, whole and streamed', () => {
      for (const word of ['a_word_of_tomorrow', 'constructor', '__proto__']) {
        expect(stream(answer({ text: 'Hello', word })).end).toBe('error')
        expect(whole(answer({ text: 'Hello', word })).end).toBe('error')
      }
    })

    test('an answer with calls ends with them, whatever the word for a plain end', () => {
      const given = answer({ calls: [call('{"a":1}')], word: words.stop })
      const verdict: WireVerdict = { text: '', calls: [['f', '{"a":1}']], end: 'tool_calls' }
      expect(stream(given)).toEqual(verdict)
      expect(whole(given)).toEqual(verdict)
    })

    test('a stream without its end is cut', () => {
      const wire = createWire()
      expect(readFrames(protocol, [...wire.start(), ...wire.text('Hello')])).toEqual({
        text: 'Hello',
        calls: [],
        end: 'error',
      })
    })

    test.skipIf(!hasTexts).each(ARGUMENTS)('%s, wherever they are cut', (_, given, verdict) => {
      for (const size of [1, 2, 3, 100]) expect(stream(given, [size])).toEqual(verdict)
    })

    test.skipIf(!hasTexts)('arguments that are cut at the bound of the output say so', () => {
      const given = answer({ calls: [call('{"a":')], word: words.length })
      expect(stream(given)).toEqual({ text: '', calls: [['f', '{"a":']], end: 'length' })
    })

    test('half of a character is joined with the other, or replaced', () => {
      const given = answer({ text: 'a\u{1f600}b\ud83d' })
      for (const size of [1, 2, 3]) expect(stream(given, [size]).text).toBe('a\u{1f600}b\ufffd')
    })

    test('whole and streamed are the same, however an answer is cut and its fields are ordered', () => {
      fc.assert(
        fc.property(answers, pieces, orders, (given, sizes, order) => {
          const expected = toExpected(given)
          const frames = writeFrames(createWire(), given, sizes).map(one => reorder(one, order))
          expect(readFrames(protocol, frames)).toEqual(expected)
          expect(whole(given)).toEqual(expected)
        }),
        { numRuns: LONG ? 2_000 : 150 },
      )
    })

    test.each(VARIANTS[name] ?? [])('streamed is the same with %s', (_, createVariant) => {
      fc.assert(
        fc.property(answers, pieces, (given, sizes) => {
          // Two calls of one function without arguments and ids are one that is repeated.
          fc.pre(given.calls.every(({ input }) => input !== ''))
          const frames = writeFrames(createVariant(), given, sizes)
          expect(readFrames(protocol, frames)).toEqual(toExpected(given))
        }),
        { numRuns: LONG ? 2_000 : 100 },
      )
    })

    test.each(listRefusals(refusal))(
      'a refusal %s, %s at %p, is %s',
      (code, message, status, type) => {
        const error = protocol.readFailure(status, refusal(code, message))
        expect([error.type, error.status]).toEqual([type, STATUS[type]])
      },
    )

    test.each(TROUBLES)('only the operator can mend it: %s', (message, trouble) => {
      const error = protocol.readFailure(400, refusal('a_code', message))
      expect([error.type, error.trouble]).toEqual(['provider_unavailable', trouble])
    })
  })
}

const TROUBLES: [message: string, trouble: Trouble | undefined][] = [
  ['Your credit balance is too low to access the Anthropic API.', 'balance'],
  ['Insufficient Balance', 'balance'],
  ['Incorrect API key provided: sk-x', 'credential'],
  ['API key not valid. Please pass a valid API key.', 'credential'],
  ['Your organization must be verified to use the model', 'account'],
  ['User location is not supported for the API use: this region is not supported', 'account'],
  ['The model `x-1` does not exist', 'model'],
  ['Model Not Exist', 'model'],
  ['Failed to call a function. Please adjust your prompt. See failed_generation', undefined],
]

/** A row for each code of the table, where the protocol's errors have codes. */
function listRefusals(
  refusal: Wire['refusal'],
): [code: string, message: string, status: number, type: ErrorType][] {
  const hasCodes = JSON.stringify(refusal('a_code', '')).includes('a_code')
  // Bedrock's are names of exceptions.
  const hasNames = JSON.stringify(refusal('a_code', '')).includes('__type')
  if (!hasCodes || hasNames) return [['', 'prompt is too long', 400, 'context_length_exceeded']]
  return REFUSALS.flatMap(({ codes = [], type, at }) =>
    codes.map((code): [string, string, number, ErrorType] => [
      code,
      'no',
      [400, 404, 503].find(status => at?.(status) ?? true) ?? 400,
      type,
    ]),
  ).filter(([code]) => !/Exception$/.test(code))
}

/** Texts of all kinds of characters, none of them a lone half. */
const words = fc.string({ unit: 'binary', maxLength: 12 })

const inputs = fc
  .dictionary(fc.string({ maxLength: 4 }), fc.jsonValue({ maxDepth: 2, stringUnit: 'binary' }), {
    maxKeys: 3,
    noNullPrototype: true,
  })
  .map(value => JSON.stringify(value))

const answers = fc
  .record({
    text: words,
    inputs: fc.array(fc.oneof(inputs, fc.constant('')), { maxLength: 3 }),
  })
  .filter(({ text, inputs: given }) => text.trim() !== '' || given.length > 0)
  .map(
    ({ text, inputs: given }): WireAnswer => ({
      text,
      calls: given.map((input, i) => ({ id: `call_${i}`, name: i % 2 ? 'g' : 'f', input })),
      word: null,
    }),
  )

const pieces = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 6 })
const orders = fc.integer({ min: 0, max: 3 })

const toExpected = ({ text, calls }: WireAnswer): WireVerdict => ({
  text,
  calls: calls.map(({ name, input }) => [name, input || '{}']),
  end: calls.length > 0 ? 'tool_calls' : 'stop',
})

/** Returns the frame with its members in another order, and with members of no interest. */
function reorder({ event, data }: Frame, order: number): Frame {
  const value = parseObject(data)
  return value ? { event, data: JSON.stringify(shuffle(value, order)) } : { event, data }
}

function shuffle(value: unknown, order: number): unknown {
  if (Array.isArray(value)) return value.map(item => shuffle(item, order))
  if (!isObject(value)) return value
  const members = Object.entries(value).map(([name, member]): [string, unknown] => [
    name,
    // What the model wrote is no field.
    name === 'args' || name === 'input' ? member : shuffle(member, order),
  ])
  const turned = order & 1 ? members.reverse() : members
  return Object.fromEntries(order & 2 ? [...turned, ['of_no_interest', null]] : turned) as Json
}
