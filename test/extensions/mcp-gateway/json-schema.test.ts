import { expect, test } from 'bun:test'
import { ITEMS_AT_ONCE, runAtOnce } from '../../../src/base/turns.ts'
import { findMismatch } from '../../../src/extensions/mcp-gateway/json-schema.ts'

const find = (schema: unknown, value: unknown, hasPatterns = true) =>
  runAtOnce(findMismatch(schema, value, { hasPatterns }))

test.each<[unknown, unknown, string | null]>([
  [true, 1, null],
  [{}, { a: 1 }, null],
  [{ type: 'object' }, [], ''],
  [{ type: 'object' }, {}, null],
  [{ type: ['string', 'null'] }, null, null],
  [{ type: ['string', 'null'] }, 1, ''],
  [{ type: [] }, 1, null],
  [{ type: null }, null, null],
  [{ type: 7 }, 7, ''],
  [{ type: 'integer' }, 1.5, ''],
  [{ type: 'array' }, {}, ''],
  [{ enum: ['a', { b: [1] }] }, { b: [1] }, null],
  [{ enum: ['a', { b: [1] }] }, 'b', ''],
  [{ minimum: 1, maximum: 2 }, 3, ''],
  [{ minimum: 1, maximum: 2 }, 2, null],
  [{ maxLength: 1 }, '😀', null],
  [{ maxLength: 1 }, 'ab', ''],
  [{ minLength: 2 }, '😀', ''],
  [{ pattern: '^a+$' }, 'aa', null],
  [{ pattern: '^a+$' }, 'ab', ''],
  [{ maxItems: 1 }, [1, 2], ''],
  [{ items: { type: 'number' } }, [1, 'a'], '1'],
  [{ required: ['a'] }, {}, 'a'],
  [{ required: ['toString'] }, {}, 'toString'],
  [{ properties: { a: {} }, additionalProperties: false }, { a: 1, b: 2 }, 'b'],
  [{ properties: { a: { items: { properties: { b: { type: 'string' } } } } } }, A_B(1), 'a.0.b'],
  [{ properties: { a: { items: { properties: { b: { type: 'string' } } } } } }, A_B('x'), null],
])('%j and %j: %j', (schema, value, path) => {
  expect(find(schema, value)).toBe(path)
})

function A_B(b: unknown) {
  return { a: [{ b }] }
}

test('a pattern of a server is not read', () => {
  expect(find({ pattern: '^a+$' }, 'b', false)).toBeNull()
})

const many = Array.from({ length: 100_000 }, (_, i) => i)

test.each<[string, unknown, unknown]>([
  ['items', { items: { type: 'integer' } }, many],
  ['values to choose from', { enum: many }, -1],
  ['types', { type: many }, -1],
  ['required members', { required: many }, Object.fromEntries(many.map(i => [i, i]))],
  ['members', { properties: Object.fromEntries(many.map(i => [i, {}])) }, { ...many }],
])('others get their turn in %s', (_, schema, value) => {
  const work = findMismatch(schema, value, { hasPatterns: false })
  let turns = 0
  while (!work.next().done) turns += 1
  expect(turns).toBeGreaterThanOrEqual(Math.floor(many.length / ITEMS_AT_ONCE))
})

test('what would take the product of two long lists does not match', () => {
  const rows = many.map(() => ({ a: -1 }))
  expect(find({ items: { properties: { a: { enum: many } } } }, rows)).not.toBeNull()
  expect(
    find({ items: { required: many } }, [Object.fromEntries(many.map(i => [i, i]))]),
  ).toBeNull()
})
