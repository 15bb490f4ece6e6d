import { expect, test } from 'bun:test'
import type { TextPart } from '../../../src/language/part.ts'
import { PartMender } from '../../../src/translation/protocols/halves.ts'

const [HIGH, LOW] = ['\ud83d', '\ude00'] as const
const REPLACED = '\ufffd'
const logprobs = [{ token: 'a', bytes: null, logprob: 0, top_logprobs: [] }]

/** Every kind of piece of a choice, with this text. */
const listPieces = (choice: number, text: string): TextPart[] => [
  { type: 'text-delta', choice, text },
  { type: 'refusal-delta', choice, text },
  { type: 'reasoning-delta', choice, text, details: [] },
  { type: 'tool-call-delta', choice, index: 0, input: text },
  { type: 'tool-call-delta', choice, index: 1, input: text },
]
const finish = (choice: number) => ({ type: 'finish', choice, reason: 'stop' }) as TextPart

test('halves of a character that come apart are joined, each with those of its own text', () => {
  const mender = new PartMender()
  const firsts = [...listPieces(0, `a${HIGH}`), ...listPieces(1, `b${HIGH}`)]
  expect(mender.read(firsts)).toEqual([...listPieces(0, 'a'), ...listPieces(1, 'b')])
  const seconds = [...listPieces(1, `${LOW}d`), ...listPieces(0, `${LOW}c`)]
  expect(mender.read(seconds)).toEqual([
    ...listPieces(1, `${HIGH}${LOW}d`),
    ...listPieces(0, `${HIGH}${LOW}c`),
  ])
  expect(mender.end()).toEqual([])
})

test('a half that stays alone is said before its choice ends, and every other at the end', () => {
  const mender = new PartMender()
  expect(mender.read([...listPieces(0, HIGH), ...listPieces(1, HIGH)])).toEqual([])
  expect(mender.read([finish(1)])).toEqual([...listPieces(1, REPLACED), finish(1)])
  expect(mender.end()).toEqual(listPieces(0, REPLACED))
  expect(mender.end()).toEqual([])
})

test('what has more than its text is passed on at once', () => {
  const mender = new PartMender()
  const piece = { type: 'text-delta', choice: 0, text: HIGH, logprobs } as unknown as TextPart
  expect(mender.read([piece])).toEqual([{ ...piece, text: '' } as TextPart])
  expect(mender.end()).toEqual([{ type: 'text-delta', choice: 0, text: REPLACED }])
})
