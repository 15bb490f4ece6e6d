import { describe, expect, test } from 'bun:test'
import {
  getOwn,
  isObject,
  isRawJson,
  omitUndefined,
  parseCount,
  parseExact,
  parseObject,
  parsePartCount,
  pickDefined,
  readObject,
  readObjects,
  readString,
} from '../../src/base/json.ts'

describe('parseExact', () => {
  test('trap 26: an integer that JavaScript would round is written again unchanged', () => {
    const json =
      '{"id":12345678901234567890,"list":[-99999999999999999999,{"deep":9007199254740993}],' +
      '"text":"12345678901234567890"}'
    expect(JSON.stringify(parseExact(json))).toBe(json)
  })

  test('numbers that JavaScript represents exactly stay numbers', () => {
    expect(parseExact('[1,1.5,9007199254740991,0.12345678901234568,1e300,-0]')).toEqual([
      1, 1.5, 9007199254740991, 0.12345678901234568, 1e300, -0,
    ])
  })

  test('an exact integer next to a long fraction is kept too', () => {
    const json = '[0.1234567890123456,{"id":12345678901234567890}]'
    expect(JSON.stringify(parseExact(json))).toBe(json)
  })

  test('C-06 refuses nesting too deep to write again, and ignores brackets in texts', () => {
    const nested = (depth: number) =>
      `${'[{"a":'.repeat(depth / 2)}"[\\"${'[{'.repeat(20_000)}"${'}]'.repeat(depth / 2)}`
    expect(JSON.stringify(parseExact(nested(5_000)))).toBe(nested(5_000))
    expect(() => parseExact(nested(5_002))).toThrow(SyntaxError)
    expect(() => parseExact('['.repeat(1_000_000))).toThrow(SyntaxError)
  })

  test('throws for text that is not JSON', () => {
    expect(() => parseExact('{"a":12345678901234567890')).toThrow(SyntaxError)
    expect(() => parseExact('')).toThrow(SyntaxError)
  })
})

test('parseObject returns only objects', () => {
  expect(parseObject('{"a":1}')).toEqual({ a: 1 })
  for (const json of ['[]', '"a"', '1', 'null', '{', '']) expect(parseObject(json)).toBeUndefined()
})

test('the readers accept only their own type', () => {
  expect([{}, [], null, 'a', 1].map(isObject)).toEqual([true, false, false, false, false])
  expect([
    readObject({ a: { b: 1 } }, 'a'),
    readObject({ a: [] }, 'a'),
    readObject({}, 'a'),
  ]).toEqual([{ b: 1 }, {}, {}])
  expect([readObjects([{}, 1, null, []]), readObjects({}), readObjects(undefined)]).toEqual([
    [{}],
    [],
    [],
  ])
  expect([readString(''), readString(1), readString(null)]).toEqual(['', null, null])
  expect([0, 5, -1, 1.5, 1e10, Number.NaN, '5'].map(parseCount)).toEqual([
    0,
    5,
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ])
})

test('getOwn returns own entries only, no inherited ones', () => {
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
  expect(names.map(name => getOwn(table, name))).toEqual(['end_turn', ...Array(7).fill(undefined)])
})

test('a part is at most its whole', () => {
  expect([5, 15, -1, '5', undefined].map(value => parsePartCount(10, value))).toEqual([
    5, 10, 0, 0, 0,
  ])
})

test('members without a value are left out, null is kept', () => {
  expect(Object.keys(omitUndefined({ a: 0, b: null, c: undefined, d: '' }))).toEqual([
    'a',
    'b',
    'd',
  ])
})

test('only named fields with a value are picked from a body', () => {
  const body: { name?: string | null; slug?: string; admin?: boolean } = { name: null, admin: true }
  expect(pickDefined(body, { name: 'a schema', slug: 'another' })).toEqual({ name: null })
  expect(pickDefined({ name: undefined, other: 1 }, { name: 'a schema' })).toEqual({})
})

test('isRawJson recognizes an exactly kept integer', () => {
  const { long } = parseExact('{"long":12345678901234567890}') as { long: unknown }
  expect([isRawJson(long), isRawJson({}), isRawJson(1), isRawJson(null)]).toEqual([
    true,
    false,
    false,
    false,
  ])
})
