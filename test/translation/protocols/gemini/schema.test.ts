import { describe, expect, test } from 'bun:test'
import { reduceSchema } from '../../../../src/translation/protocols/gemini/schema.ts'

const reduced = (schema: Record<string, unknown>) =>
  reduceSchema(schema, 'tools.0.function.parameters')
const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more })
/** Returns the reduced form of a member within an object. */
const member = (schema: unknown) =>
  (reduced(object({ a: schema })) as { properties: { a: unknown } }).properties.a
const refusal = (field: string) =>
  expect.objectContaining({ type: 'invalid_request', metadata: { field } })

describe('the reduced form', () => {
  test('trap 38: omits unsupported keywords at any depth', () => {
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

  test('does not take names of properties for keywords', () => {
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

  test('trap 38: replaces references by their targets, and keeps keywords beside them', () => {
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

  test('allows several references to one place', () => {
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
  ])('trap 39: refuses a schema that refers to %s by name', (_, schema) => {
    expect(() => reduced(schema)).toThrow(refusal('tools.0.function.parameters'))
  })

  test.each(['#/$defs/Gone', 'https://example.org/schema', '#/properties/toString', '#/%'])(
    'refuses an unresolvable reference to %s by name',
    $ref => {
      expect(() => reduced(object({ a: { $ref } }))).toThrow(refusal('tools.0.function.parameters'))
    },
  )

  test('X-31 trap 39: refuses multiplying references and endless depth', () => {
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

  test('trap 40: turns a type or null into nullable, several types into alternatives', () => {
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

  test('gives a type beside alternatives to each that names none', () => {
    expect(
      member({ type: 'integer', anyOf: [{ maximum: 3 }, { minimum: 9 }, { type: 'null' }] }),
    ).toEqual({
      anyOf: [
        { type: 'integer', maximum: 3, nullable: true },
        { type: 'integer', minimum: 9, nullable: true },
      ],
    })
    expect(member({ type: 'array', items: { type: 'number' }, oneOf: [{ minItems: 2 }] })).toEqual({
      type: 'array',
      items: { type: 'number' },
      minItems: 2,
    })
  })

  test('trap 41: turns null among alternatives into nullable, with nothing beside anyOf', () => {
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

  test('trap 43: merges allOf into one schema', () => {
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

  test('turns const into an enum, and states values that are no strings', () => {
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

  test('keeps only the formats that Google knows for the type', () => {
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

  test('gives every place a type, and every list its items', () => {
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

  test('leaves the given schema unchanged', () => {
    const schema = object(
      { a: { allOf: [{ type: 'string' }] }, b: { type: ['null', 'string'] } },
      { $defs: {} },
    )
    const before = structuredClone(schema)
    reduced(schema)
    expect(schema).toEqual(before)
  })
})

test('treats inherited property names as ordinary types', () => {
  for (const type of ['constructor', '__proto__', 'toString'])
    expect(member({ type, format: { toString: 1 } })).toEqual({ type: type.toLowerCase() })
})
