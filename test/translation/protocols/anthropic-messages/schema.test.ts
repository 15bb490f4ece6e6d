import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import {
  closeSchema,
  isClosable,
} from '../../../../src/translation/protocols/anthropic-messages/schema.ts'

const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more })

describe('a closed schema', () => {
  test('closes objects, turns alternatives into anyOf, and keeps the rest', () => {
    const given = object(
      {
        a: { oneOf: [object({}), { type: 'null' }] },
        b: { type: 'array', items: object({ c: { enum: [1, 2], default: 1 } }) },
      },
      { $defs: { d: object({}) }, required: ['a'], title: 'T' },
    )
    const closed = { type: 'object', properties: {}, additionalProperties: false }
    expect(closeSchema(given)).toEqual({
      type: 'object',
      title: 'T',
      required: ['a'],
      additionalProperties: false,
      $defs: { d: closed },
      properties: {
        a: { anyOf: [closed, { type: 'null' }] },
        b: {
          type: 'array',
          items: {
            type: 'object',
            properties: { c: { enum: [1, 2], default: 1 } },
            additionalProperties: false,
          },
        },
      },
    })
  })

  test('states bounds in the description', () => {
    expect(
      closeSchema({ type: 'integer', minimum: 1, maximum: 9, description: 'How many' }),
    ).toEqual({
      type: 'integer',
      description: 'How many\nminimum: 1, maximum: 9',
    })
    expect(closeSchema({ type: 'string', format: 'phone', pattern: '^\\d+$' })).toEqual({
      type: 'string',
      description: 'pattern: "^\\\\d+$", format: "phone"',
    })
    expect(closeSchema({ type: 'string', format: 'date' })).toEqual({
      type: 'string',
      format: 'date',
    })
    expect(closeSchema({ format: { toString: 1 } })).toEqual({
      description: 'format: {"toString":1}',
    })
  })

  test('allows members with the names of keywords', () => {
    expect(
      closeSchema(object({ minimum: { type: 'string' }, format: { type: 'string' } })),
    ).toEqual(
      object(
        { minimum: { type: 'string' }, format: { type: 'string' } },
        { additionalProperties: false },
      ),
    )
  })

  test('leaves the given schema unchanged', () => {
    const given = object({ a: { type: 'integer', minimum: 1 } })
    const before = structuredClone(given)
    closeSchema(given)
    expect(given).toEqual(before)
  })

  test('trap 39: refuses a schema without end', () => {
    let deep: Record<string, unknown> = {}
    for (let i = 0; i < 10_000; i++) deep = object({ a: deep })
    expect(() => closeSchema(deep)).toThrow(GatewayError)
    expect(isClosable(deep)).toBe(true)
  })
})

describe('isClosable', () => {
  test.each<[string, Record<string, unknown>, boolean]>([
    ['an object', object({ a: { type: 'string' } }), true],
    [
      'an object that says it has no members',
      { type: 'object', additionalProperties: false },
      true,
    ],
    ['an open object', { type: 'object' }, false],
    ['arbitrary members', object({}, { additionalProperties: true }), false],
    [
      'pattern properties, deep inside',
      object({ a: { type: 'array', items: { patternProperties: {} } } }),
      false,
    ],
    [
      'a member called additionalProperties',
      object({ additionalProperties: { type: 'string' } }),
      true,
    ],
    [
      'a definition',
      object({ a: { $ref: '#/$defs/b' } }, { $defs: { b: { type: 'string' } } }),
      true,
    ],
    ['a recursive schema', object({ a: { $ref: '#' } }), false],
    [
      'a recursive definition',
      object({ a: { $ref: '#/$defs/b' } }, { $defs: { b: object({ c: { $ref: '#/$defs/b' } }) } }),
      false,
    ],
    [
      'two mutually recursive definitions',
      object({}, { $defs: { b: { $ref: '#/$defs/c' }, c: { anyOf: [{ $ref: '#/$defs/b' }] } } }),
      false,
    ],
  ])('%s', (_what, schema, expected) => {
    expect(isClosable(schema)).toBe(expected)
  })
})
