import { expect, test } from 'bun:test'
import { type TSchema, Type } from '@sinclair/typebox'
import { matchesSchema } from '../../src/base/schema.ts'
import {
  closed,
  nullable,
  oneOf,
  open,
  optional,
  TrueOrFalse,
  Uuid,
} from '../../src/base/schema-builders.ts'

const fitting = (schema: TSchema, values: unknown[]) =>
  values.filter(value => matchesSchema(schema, value))

test.each<[string, TSchema, unknown[], unknown[]]>([
  ['nullable', nullable(Type.String()), ['a', null, undefined, 1], ['a', null]],
  ['oneOf', oneOf('a', 'b'), ['a', 'b', 'c', null], ['a', 'b']],
  ['oneOf with words from a constant', oneOf(...(['a', 'b'] as const)), ['a', 'c'], ['a']],
  ['TrueOrFalse', TrueOrFalse, ['true', 'false', true, 'yes'], ['true', 'false']],
  [
    'Uuid',
    Uuid,
    ['00000000-0000-7000-8000-000000000001', '1'],
    ['00000000-0000-7000-8000-000000000001'],
  ],
  [
    'optional',
    Type.Object({ a: optional(Type.Integer()) }),
    [{}, { a: null }, { a: 1 }, { a: 'b' }],
    [{}, { a: null }, { a: 1 }],
  ],
  ['open', Type.Object({}, open), [{}, { b: 1 }], [{}, { b: 1 }]],
  ['closed', Type.Object({}, closed), [{}, { b: 1 }], [{}]],
])('%s accepts only matching values', (_, schema, values, expected) => {
  expect(fitting(schema, values)).toEqual(expected)
})

test('a description is at the place that JSON schema requires', () => {
  expect(JSON.parse(JSON.stringify(nullable(Type.Integer(), { description: 'How many' })))).toEqual(
    {
      description: 'How many',
      anyOf: [{ type: 'integer' }, { type: 'null' }],
    },
  )
})
