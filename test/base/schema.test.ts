import { describe, expect, test } from 'bun:test'
import { type TSchema, Type } from '@sinclair/typebox'
import {
  describeSchema,
  describeValue,
  findSchemaIssue,
  matchesSchema,
} from '../../src/base/schema.ts'

const timeFits = (text: string) => matchesSchema(Type.String({ format: 'utc-time' }), text)
const wrong = (schema: TSchema, value: unknown) => findSchemaIssue(schema, value)

describe('formats', () => {
  test('E2 a time is ISO 8601 in UTC with seconds, optionally with fractions', () => {
    expect(timeFits('2027-01-02T03:04:05Z')).toBe(true)
    expect(timeFits('2027-01-02T03:04:05.1Z')).toBe(true)
    expect(timeFits('2027-01-02T03:04:05.123456789Z')).toBe(true)
    expect(timeFits('2028-02-29T00:00:00Z')).toBe(true)
  })

  test('E2 a time of minute precision is refused', () => {
    expect(timeFits('2027-01-02T03:04Z')).toBe(false)
  })

  test.each([
    '2027-01-02',
    '2027-01-02T03:04:05',
    '2027-01-02T03:04:05+00:00',
    '2027-01-02T03:04:05+02:00',
    '2027-01-02 03:04:05Z',
    '2027-01-02t03:04:05z',
    ' 2027-01-02T03:04:05Z',
    '2027-01-02T03:04:05Z\n',
    '2027-02-29T00:00:00Z',
    '2027-02-30T00:00:00Z',
    '2027-13-01T00:00:00Z',
    '2027-01-02T24:00:00Z',
    '2027-01-02T23:59:60Z',
    '2027-01-02T03:04:05.Z',
    '2027-01-02T03:04:05.1234567890Z',
    '1798859045',
    '',
  ])('E2 %j is not a valid time', text => {
    expect(timeFits(text)).toBe(false)
  })

  test('a uuid may be in upper or lower case, with nothing around it', () => {
    const isUuid = (text: string) => matchesSchema(Type.String({ format: 'uuid' }), text)
    expect(isUuid('00000000-0000-7000-8000-000000000001')).toBe(true)
    expect(isUuid('ABCDEF00-0000-7000-8000-000000000001')).toBe(true)
    expect(isUuid('00000000-0000-7000-8000-00000000000')).toBe(false)
    expect(isUuid('{00000000-0000-7000-8000-000000000001}')).toBe(false)
    expect(isUuid('default')).toBe(false)
  })

  test('a url is http or https', () => {
    const isUrl = (text: string) => matchesSchema(Type.String({ format: 'url' }), text)
    expect(isUrl('http://127.0.0.1:4010/v1')).toBe(true)
    expect(isUrl('HTTPS://example.com')).toBe(true)
    expect(isUrl('file:///etc/passwd')).toBe(false)
    expect(isUrl('example.com/v1')).toBe(false)
    expect(isUrl('javascript:alert(1)')).toBe(false)
  })
})

describe('findSchemaIssue', () => {
  test('returns nothing for a matching value', () => {
    expect(wrong(Type.Object({ a: Type.Integer() }), { a: 1 })).toBeUndefined()
  })

  test('names the path, what was expected and what was found', () => {
    const schema = Type.Object({
      list: Type.Array(Type.Object({ n: Type.Number({ minimum: 0, maximum: 2 }) })),
    })
    expect(wrong(schema, { list: [{ n: 1 }, { n: 3 }] })).toEqual({
      path: 'list.1.n',
      expected: 'number from 0 to 2',
      found: '3',
    })
    expect(wrong(schema, { list: [{}] })).toEqual({
      path: 'list.0.n',
      expected: 'number from 0 to 2',
      found: 'nothing',
    })
    expect(wrong(schema, { list: 'x' })).toEqual({
      path: 'list',
      expected: 'array',
      found: 'a string',
    })
    expect(wrong(schema, null)).toEqual({ path: '', expected: 'object', found: 'null' })
  })

  test('reports unknown fields where they are not allowed', () => {
    const schema = Type.Object({ a: Type.Optional(Type.String()) }, { additionalProperties: false })
    expect(wrong(schema, { b: 'secret' })).toEqual({
      path: 'b',
      expected: 'no such field',
      found: 'a string',
    })
  })

  test('never repeats a text of the value', () => {
    const found = ['sk-secret', ['sk-secret'], { key: 'sk-secret' }].map(value =>
      wrong(Type.Integer(), value),
    )
    expect(JSON.stringify(found)).not.toContain('sk-secret')
  })

  const Part = Type.Union([
    Type.Object({ type: Type.Literal('text'), text: Type.String() }),
    Type.Object({
      type: Type.Literal('image'),
      image: Type.Object({ url: Type.String({ minLength: 1 }) }),
    }),
  ])

  test('reports the deepest variant of a union', () => {
    expect(wrong(Part, { type: 'text', text: 5 })).toEqual({
      path: 'text',
      expected: 'string',
      found: 'a number',
    })
    expect(wrong(Part, { type: 'image', image: { url: '' } })).toEqual({
      path: 'image.url',
      expected: 'string of at least 1 character',
      found: 'an empty string',
    })
  })

  test('reports the deepest place of unions in lists in unions', () => {
    const schema = Type.Object({ content: Type.Union([Type.String(), Type.Array(Part)]) })
    expect(wrong(schema, { content: [{ type: 'text', text: 'a' }, { type: 'text' }] })).toEqual({
      path: 'content.1.text',
      expected: 'string',
      found: 'nothing',
    })
  })

  test('tells a list that is only too long or too short by its length, and not as another list', () => {
    const input = Type.Union([
      Type.String(),
      Type.Array(Type.String(), { minItems: 1, maxItems: 3 }),
      Type.Array(Type.Integer()),
    ])
    const tooLong = { path: '', expected: 'array of 1 to 3 items', found: '4 items' }
    expect(wrong(input, ['a', 'b', 'c', 'd'])).toEqual(tooLong)
    expect(wrong(Type.Object({ input }), { input: ['a', 'b', 'c', 'd'] })).toEqual({
      ...tooLong,
      path: 'input',
    })
    expect(wrong(input, ['a', 2])?.path).toBe('1')
    const listed = Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1 })])
    expect(wrong(listed, [])).toEqual({
      path: '',
      expected: 'array of at least 1 item',
      found: 'an empty array',
    })
  })

  test('skips a variant with another tag, even if more of it is missing', () => {
    const Other = Type.Object({
      type: Type.Literal('other'),
      id: Type.String(),
      size: Type.Number(),
    })
    expect(wrong(Type.Union([Part, Other]), { type: 'other', id: 'a' })).toMatchObject({
      path: 'size',
      found: 'nothing',
    })
  })

  test('reports a value that matches no variant at the union itself', () => {
    expect(
      wrong(Type.Object({ stop: Type.Union([Type.String(), Type.Null()]) }), { stop: 5 }),
    ).toEqual({
      path: 'stop',
      expected: 'string or null',
      found: '5',
    })
  })
})

describe('descriptions', () => {
  test('a schema is described in plain words', () => {
    expect(
      describeSchema(Type.Union([Type.Literal('auto'), Type.Literal('none'), Type.Null()])),
    ).toBe('"auto" or "none" or null')
    expect(describeSchema(Type.Number({ exclusiveMinimum: 0, maximum: 1 }))).toBe(
      'number above 0 to 1',
    )
    expect(describeSchema(Type.Integer({ minimum: 1 }))).toBe('integer from 1')
    expect(describeSchema(Type.Array(Type.String(), { maxItems: 4 }))).toBe(
      'array of at most 4 items',
    )
    expect(describeSchema(Type.String({ minLength: 1, maxLength: 64 }))).toBe(
      'string of 1 to 64 characters',
    )
    expect(describeSchema(Type.String({ format: 'uuid' }))).toBe('string in the form uuid')
    expect(describeSchema(Type.String({ format: 'utc-time' }))).toBe(
      'time in ISO 8601, in UTC and with seconds',
    )
    expect(describeSchema(Type.String({ title: 'small letters', maxLength: 5 }))).toBe(
      'string of at most 5 characters: small letters',
    )
  })

  test('a value is described without its contents, except numbers, booleans and null', () => {
    expect([undefined, null, 1.5, false, '', 'x', [], [1], {}].map(describeValue)).toEqual([
      'nothing',
      'null',
      '1.5',
      'false',
      'an empty string',
      'a string',
      'an empty array',
      'an array',
      'an object',
    ])
  })
})

describe('a schema that has been compiled', () => {
  /** More checks than a schema is interpreted for, and a value too large to be interpreted. */
  const [MANY, LARGE] = [100, 2_000]
  const build = () =>
    Type.Object(
      {
        name: Type.String({ minLength: 1, maxLength: 3 }),
        at: Type.Optional(Type.String({ format: 'utc-time' })),
        count: Type.Optional(Type.Integer({ minimum: 0 })),
        part: Type.Optional(
          Type.Union([
            Type.Object({ type: Type.Literal('text'), text: Type.String() }),
            Type.Object({ type: Type.Literal('image'), url: Type.String({ format: 'url' }) }),
          ]),
        ),
        numbers: Type.Optional(Type.Array(Type.Number())),
        map: Type.Optional(Type.Record(Type.String({ pattern: '^x' }), Type.Boolean())),
      },
      { additionalProperties: false },
    )
  const values: [name: string, value: unknown][] = [
    ['nothing else', { name: 'abc' }],
    ['characters of two units', { name: '😀😀😀' }],
    ['all fields', { name: 'a', at: '2027-01-02T03:04:05Z', count: 0, map: { x1: true } }],
    ['a variant', { name: 'a', part: { type: 'image', url: 'https://x.example' } }],
    ['no variant', { name: 'a', part: { type: 'image', url: 'x' } }],
    ['a time that is none', { name: 'a', at: 'soon' }],
    ['a text too long', { name: 'abcd' }],
    ['an unknown field', { name: 'a', nam: 'b' }],
    ['a wrong key', { name: 'a', map: { y: true } }],
    ['no whole number', { name: 'a', count: 0.5 }],
    ['infinity', { name: 'a', numbers: [Number.POSITIVE_INFINITY] }],
    ['undefined', { name: 'a', count: undefined }],
    ['null', null],
    ['a list', []],
    ['a long list', { name: 'a', numbers: Array.from({ length: LARGE }, (_, i) => i) }],
    ['a long list with a fault', { name: 'a', numbers: [...Array(LARGE).fill(1), 'x'] }],
  ]

  test.each(values)('judges as before: %s', (_, value) => {
    const schema = build()
    const first = findSchemaIssue(schema, value)
    for (let check = 0; check < MANY; check++) findSchemaIssue(schema, { name: 'a' })
    expect(findSchemaIssue(schema, value)).toEqual(first)
    expect(matchesSchema(build(), value)).toBe(first === undefined)
  })
})
