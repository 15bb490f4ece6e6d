import { describe, expect, test } from 'bun:test'
import { toJsonSchema } from '../../../../../src/translation/protocols/gemini/schema.ts'

const object = (properties: object, more: object = {}) => ({ type: 'object', properties, ...more })

describe('plain JSON Schema', () => {
  test('stays, except for const and $schema', () => {
    const schema = object(
      {
        kind: { const: 'a' },
        const: { type: 'string' },
        list: { anyOf: [{ const: null }, { $ref: '#/$defs/T' }] },
      },
      {
        $schema: 'x',
        additionalProperties: false,
        $defs: { T: { type: 'array', items: { $ref: '#/$defs/T' } } },
        default: { const: 1 },
      },
    )
    expect(toJsonSchema(schema, 'f')).toEqual(
      object(
        {
          kind: { enum: ['a'] },
          const: { type: 'string' },
          list: { anyOf: [{ enum: [null] }, { $ref: '#/$defs/T' }] },
        },
        {
          additionalProperties: false,
          $defs: { T: { type: 'array', items: { $ref: '#/$defs/T' } } },
          default: { const: 1 },
        },
      ),
    )
  })

  test('X-31 refuses a schema without end by name', () => {
    let deep: object = { type: 'string' }
    for (let i = 0; i < 5_000; i++) deep = { type: 'array', items: deep }
    expect(() => toJsonSchema({ ...deep }, 'f')).toThrow(
      expect.objectContaining({ type: 'invalid_request', metadata: { field: 'f' } }),
    )
  })
})
