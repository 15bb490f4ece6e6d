import { describe, expect, test } from 'bun:test'
import {
  count,
  countWithin,
  defined,
  isObject,
  isRawJson,
  member,
  objects,
  own,
  parseExact,
  parseObject,
  pickGiven,
  text,
} from '../../../src/core/kernel/json.ts'

describe('parseExact', () => {
  test('trap 26: an integer that JavaScript would round is written again as it was', () => {
    const json =
      '{"id":12345678901234567890,"list":[-99999999999999999999,{"deep":9007199254740993}],"text":"12345678901234567890"}'
    expect(JSON.stringify(parseExact(json))).toBe(json)
  })

  test('what JavaScript can hold is a number', () => {
    expect(parseExact('[1,1.5,9007199254740991,0.12345678901234568,1e300,-0]')).toEqual([
      1, 1.5, 9007199254740991, 0.12345678901234568, 1e300, -0,
    ])
  })

  test('beside a fraction of many digits, too', () => {
    const json = '[0.1234567890123456,{"id":12345678901234567890}]'
    expect(JSON.stringify(parseExact(json))).toBe(json)
  })

  test('what nests so deep that nobody could write it again throws, and brackets in texts do not count', () => {
    const nested = (depth: number) =>
      `${'[{"a":'.repeat(depth / 2)}"[\\"${'[{'.repeat(20_000)}"${'}]'.repeat(depth / 2)}`
    expect(JSON.stringify(parseExact(nested(5_000)))).toBe(nested(5_000))
    expect(() => parseExact(nested(5_002))).toThrow(SyntaxError)
    expect(() => parseExact('['.repeat(1_000_000))).toThrow(SyntaxError)
  })

  test('what is not JSON throws', () => {
    expect(() => parseExact('{"a":12345678901234567890')).toThrow(SyntaxError)
    expect(() => parseExact('')).toThrow(SyntaxError)
  })
})

test('parseObject gives objects and nothing else', () => {
  expect(parseObject('{"a":1}')).toEqual({ a: 1 })
  for (const json of ['[]', '"a"', '1', 'null', '{', '']) expect(parseObject(json)).toBeUndefined()
})

test('the guards take what they are named for', () => {
  expect([{}, [], null, 'a', 1].map(isObject)).toEqual([true, false, false, false, false])
  expect([member({ a: { b: 1 } }, 'a'), member({ a: [] }, 'a'), member({}, 'a')]).toEqual([
    { b: 1 },
    {},
    {},
  ])
  expect([objects([{}, 1, null, []]), objects({}), objects(undefined)]).toEqual([[{}], [], []])
  expect([text(''), text(1), text(null)]).toEqual(['', null, null])
  expect([0, 5, -1, 1.5, 1e10, Number.NaN, '5'].map(count)).toEqual([
    0,
    5,
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ])
})

test('a table gives what was put there, and nothing that every object has', () => {
  const table = { stop: 'end_turn' }
  const names = [
    'stop',
    'constructor',
    'toString',
    '__proto__',
    'length',
    undefined,
    null,
    { toString: 1 },
  ]
  expect(names.map(name => own(table, name))).toEqual(['end_turn', ...Array(7).fill(undefined)])
})

test('a part is no larger than its whole', () => {
  expect([5, 15, -1, '5', undefined].map(value => countWithin(10, value))).toEqual([5, 10, 0, 0, 0])
})

test('members without a value are left out, null is one', () => {
  expect(Object.keys(defined({ a: 0, b: null, c: undefined, d: '' }))).toEqual(['a', 'b', 'd'])
})

test('of a body only the fields that are asked for are picked, and only those that have a value', () => {
  const body: { name?: string | null; slug?: string; admin?: boolean } = { name: null, admin: true }
  expect(pickGiven(body, { name: 'a schema', slug: 'another' })).toEqual({ name: null })
  expect(pickGiven({ name: undefined, other: 1 }, { name: 'a schema' })).toEqual({})
})

test('an integer that is kept exactly is told from other values', () => {
  const { long } = parseExact('{"long":12345678901234567890}') as { long: unknown }
  expect([isRawJson(long), isRawJson({}), isRawJson(1), isRawJson(null)]).toEqual([
    true,
    false,
    false,
    false,
  ])
})
