import { describe, expect, test } from 'bun:test'
import { reducedSchema } from '../../../../src/core/protocols/gemini/schema.ts'

const reduced = (schema: Record<string, unknown>) =>
  reducedSchema(schema, 'tools.0.function.parameters')
const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more })
/** The reduced form of a member, within an object. */
const member = (schema: unknown) =>
  (reduced(object({ a: schema })) as { properties: { a: unknown } }).properties.a
const refusal = (field: string) =>
  expect.objectContaining({ type: 'invalid_request', metadata: { field } })

describe('the reduced form', () => {
  test('trap 38: what it has no word for is left out, at any depth', () => {
    const schema = object(
      {
        a: {
          type: 'string',
          default: 'x',
          examples: ['x'],
          minLength: 1,
          pattern: '^a',
          $comment: 'x',
        },
        b: { type: 'array', items: object({}, { patternProperties: {} }), uniqueItems: true },
      },
      {
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        additionalProperties: false,
        propertyNames: {},
        required: ['a', 'gone'],
        title: 'T',
        description: 'D',
      },
    )
    expect(reduced(schema)).toEqual({
      type: 'object',
      title: 'T',
      description: 'D',
      properties: {
        a: { type: 'string', minLength: 1, pattern: '^a' },
        b: { type: 'array', items: { type: 'object' } },
      },
      required: ['a'],
    })
  })

  test('names of members are not keywords', () => {
    expect(
      reduced(
        object({
          $ref: { type: 'string' },
          default: { type: 'integer' },
          properties: object({ type: { type: 'string' } }),
        }),
      ),
    ).toEqual(
      object({
        $ref: { type: 'string' },
        default: { type: 'integer' },
        properties: object({ type: { type: 'string' } }),
      }),
    )
  })

  test('trap 38: references stand where they point to, and what stands beside one stays', () => {
    const schema = object(
      {
        a: { $ref: '#/$defs/P', description: 'one' },
        b: { type: 'array', items: { $ref: '#/definitions/a~1b%20c' } },
      },
      {
        $defs: { P: object({ x: { $ref: '#/$defs/N' } }), N: { type: 'number' } },
        definitions: { 'a/b c': { type: 'boolean' } },
      },
    )
    expect(reduced(schema)).toEqual(
      object({
        a: object({ x: { type: 'number' } }, { description: 'one' }),
        b: { type: 'array', items: { type: 'boolean' } },
      }),
    )
  })

  test('one place may be referred to from many', () => {
    expect(
      reduced(
        object(
          { a: { $ref: '#/$defs/P' }, b: { $ref: '#/$defs/P' } },
          { $defs: { P: { type: 'string' } } },
        ),
      ),
    ).toEqual(object({ a: { type: 'string' }, b: { type: 'string' } }))
  })

  test.each([
    ['itself', { type: 'object', properties: { a: { $ref: '#' } } }],
    [
      'what contains it',
      {
        type: 'object',
        properties: { a: { $ref: '#/$defs/T' } },
        $defs: {
          T: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/U' }] },
          U: { type: 'array', items: { $ref: '#/$defs/T' } },
        },
      },
    ],
    ['a reference to itself', { $ref: '#/$defs/T', $defs: { T: { $ref: '#/$defs/T' } } }],
  ])('trap 39: a schema that refers to %s is refused by name', (_, schema) => {
    expect(() => reduced(schema)).toThrow(refusal('tools.0.function.parameters'))
  })

  test.each(['#/$defs/Gone', 'https://example.org/schema', '#/properties/toString', '#/%'])(
    'a reference to %s leads nowhere, and is refused by name',
    $ref => {
      expect(() => reduced(object({ a: { $ref } }))).toThrow(refusal('tools.0.function.parameters'))
    },
  )

  test('trap 39: references that multiply, and depth without end, are refused', () => {
    const doubling = Object.fromEntries(
      Array.from({ length: 30 }, (_, i) => [
        `d${i}`,
        object({ a: { $ref: `#/$defs/d${i + 1}` }, b: { $ref: `#/$defs/d${i + 1}` } }),
      ]),
    )
    expect(() =>
      reduced({ $ref: '#/$defs/d0', $defs: { ...doubling, d30: { type: 'string' } } }),
    ).toThrow(refusal('tools.0.function.parameters'))
    let deep: object = { type: 'string' }
    for (let i = 0; i < 5_000; i++) deep = { type: 'array', items: deep }
    expect(() => reduced({ ...deep })).toThrow(refusal('tools.0.function.parameters'))
  })

  test('trap 40: a type or null is nullable, several types are alternatives', () => {
    expect(member({ type: ['string', 'null'], description: 'D' })).toEqual({
      type: 'string',
      description: 'D',
      nullable: true,
    })
    expect(member({ type: ['string', 'integer', 'null'], description: 'D' })).toEqual({
      anyOf: [
        { type: 'string', description: 'D', nullable: true },
        { type: 'integer', description: 'D', nullable: true },
      ],
    })
    expect(member({ type: ['string'] })).toEqual({ type: 'string' })
    expect(member({ type: ['null'] })).toEqual({ type: 'string', nullable: true })
  })

  test('trap 41: null among alternatives is nullable, and nothing stands beside several', () => {
    expect(member({ anyOf: [{ type: 'integer' }, { type: 'null' }], title: 'T' })).toEqual({
      type: 'integer',
      title: 'T',
      nullable: true,
    })
    expect(
      member({ description: 'D', oneOf: [{ type: 'string' }, object({ x: { const: 'y' } })] }),
    ).toEqual({
      anyOf: [
        { type: 'string', description: 'D' },
        object({ x: { type: 'string', enum: ['y'] } }, { description: 'D' }),
      ],
    })
  })

  test('trap 43: what several schemas say together is said in one', () => {
    const P = object({ x: { type: 'string' } }, { required: ['x'], description: 'P' })
    expect(
      reduced({
        allOf: [{ $ref: '#/$defs/P' }, object({ y: { type: 'number' } }, { required: ['y'] })],
        description: 'D',
        $defs: { P },
      }),
    ).toEqual(
      object(
        { x: { type: 'string' }, y: { type: 'number' } },
        { required: ['x', 'y'], description: 'D' },
      ),
    )
  })

  test('a single value is an enum; values that are no texts are told in words', () => {
    expect(member({ const: 'a' })).toEqual({ type: 'string', enum: ['a'] })
    expect(member({ enum: ['a', '', null, 'b'] })).toEqual({
      type: 'string',
      enum: ['a', 'b'],
      nullable: true,
    })
    expect(member({ type: 'integer', enum: [1, 2], description: 'D' })).toEqual({
      type: 'integer',
      description: 'D. One of: 1, 2',
    })
    expect(member({ const: 5 })).toEqual({ type: 'number', description: 'One of: 5' })
    expect(member({ const: true })).toEqual({ type: 'boolean', description: 'One of: true' })
  })

  test('only formats that Google knows for the type stay', () => {
    expect(member({ type: 'string', format: 'uri' })).toEqual({ type: 'string' })
    expect(member({ type: 'string', format: 'date-time' })).toEqual({
      type: 'string',
      format: 'date-time',
    })
    expect(member({ type: 'integer', format: 'int64' })).toEqual({
      type: 'integer',
      format: 'int64',
    })
    expect(member({ type: 'integer', format: 'double' })).toEqual({ type: 'integer' })
  })

  test('every place gets a type, every list its items', () => {
    expect(member({})).toEqual({ type: 'string' })
    expect(member(true)).toEqual({ type: 'string' })
    expect(member({ properties: { x: {} } })).toEqual(object({ x: { type: 'string' } }))
    expect(member({ type: 'array' })).toEqual({ type: 'array', items: { type: 'string' } })
    expect(
      member({ type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }], minItems: 2 }),
    ).toEqual({
      type: 'array',
      items: { anyOf: [{ type: 'string' }, { type: 'number' }] },
      minItems: 2,
    })
    expect(member({ items: [{ type: 'number' }] })).toEqual({
      type: 'array',
      items: { type: 'number' },
    })
  })

  test('the schema handed in stays as it is', () => {
    const schema = object(
      { a: { allOf: [{ type: 'string' }] }, b: { type: ['null', 'string'] } },
      { $defs: {} },
    )
    const before = structuredClone(schema)
    reduced(schema)
    expect(schema).toEqual(before)
  })
})

test('a type that every object has a member for is a type like any other', () => {
  for (const type of ['constructor', '__proto__', 'toString'])
    expect(member({ type, format: { toString: 1 } })).toEqual({ type: type.toLowerCase() })
})
