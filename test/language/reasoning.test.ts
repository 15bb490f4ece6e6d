import { expect, test } from 'bun:test'
import type { ReasoningDetail } from '../../src/language/reasoning.ts'
import { appendDetail } from '../../src/language/reasoning.ts'

const collected = (...pieces: ReasoningDetail[]) => {
  const details: ReasoningDetail[] = []
  for (const piece of pieces) appendDetail(details, piece)
  return details
}
const text = (more: object) => ({ type: 'reasoning.text', format: 'anthropic-claude-v1', ...more })
const summary = (more: object) => ({
  type: 'reasoning.summary',
  format: 'openai-responses-v1',
  ...more,
})

test('the pieces of a streamed entry become that entry, its signature last', () => {
  expect(
    collected(
      text({ text: 'Let ', index: 0 }),
      text({ text: 'me see', index: 0 }),
      text({ text: '', signature: 'EqQB', index: 0 }),
    ),
  ).toEqual([text({ text: 'Let me see', signature: 'EqQB', index: 0 })])
})

test('trap 94: a signature without words is an entry of its own', () => {
  expect(
    collected(
      text({ text: '', signature: 'A', index: 0 }),
      text({ text: '', signature: 'B', index: 0 }),
    ),
  ).toHaveLength(2)
})

test('entries of other indices, types or ids are separate', () => {
  expect(
    collected(
      summary({ summary: 'a', index: 0, id: 'rs_1' }),
      summary({ summary: 'b', index: 0, id: 'rs_2' }),
    ),
  ).toHaveLength(2)
  expect(
    collected(summary({ summary: 'a', index: 0 }), summary({ summary: 'b', index: 1 })),
  ).toHaveLength(2)
  expect(
    collected(text({ text: 'a', index: 0 }), summary({ summary: 'b', index: 0 })),
  ).toHaveLength(2)
})

test('entries without an index, and encrypted ones, stay as they came', () => {
  expect(collected(text({ text: 'a' }), text({ text: 'b' }))).toEqual([
    text({ text: 'a' }),
    text({ text: 'b' }),
  ])
  const encrypted = { type: 'reasoning.encrypted', data: 'x', index: 0 }
  expect(collected(encrypted, encrypted)).toEqual([encrypted, encrypted])
})

test('a field that a piece lacks keeps its value: null removes nothing', () => {
  expect(
    collected(
      text({ text: 'a', index: 0, id: 'r1' }),
      text({ text: null, signature: 's', id: null, index: 0 }),
    ),
  ).toEqual([text({ text: 'a', index: 0, id: 'r1', signature: 's' })])
})

test('entries without text add no words', () => {
  const hostile = { toString: 1 }
  expect(collected(text({ text: 'a', index: 0 }), text({ text: hostile, index: 0 }))).toEqual([
    text({ text: 'a', index: 0 }),
  ])
  expect(
    collected({ type: 'constructor', index: 0 }, { type: 'constructor', index: 0 }),
  ).toHaveLength(2)
})
