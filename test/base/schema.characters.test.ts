import { expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { findSchemaIssue, matchesSchema } from '../../src/base/schema.ts'

const EMOJI = '\u{1F600}'
const Named = Type.Object({
  name: Type.String({ maxLength: 200 }),
  other: Type.Optional(Type.Union([Type.String({ maxLength: 3 }), Type.Null()])),
})

test('a length counts characters: 200 emoji are 200', () => {
  const fits = { name: EMOJI.repeat(200), other: EMOJI.repeat(3) }
  expect([matchesSchema(Named, fits), findSchemaIssue(Named, fits)]).toEqual([true, undefined])
})

test.each([
  [{ name: EMOJI.repeat(201) }, 'name'],
  [{ name: `${EMOJI.repeat(200)}x` }, 'name'],
  [{ name: 'x'.repeat(201) }, 'name'],
  [{ name: EMOJI.repeat(200), other: EMOJI.repeat(4) }, 'other'],
  [{ name: EMOJI.repeat(200), other: 7 }, 'other'],
])('more is too long, and other errors are found beside it: %#', (value, path) => {
  expect(matchesSchema(Named, value)).toBe(false)
  expect(findSchemaIssue(Named, value)?.path).toBe(path)
})
