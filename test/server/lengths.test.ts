import { expect, test } from 'bun:test'
import type { TSchema } from '@sinclair/typebox'
import { createApp } from '../../src/server/app.ts'
import { listDescribedRoutes } from '../../src/server/openapi.ts'
import { testGateway } from '../support/gateway.ts'

/*
 * Issue: "strings and arrays have lengths in every schema". What has no length of its own costs
 * whatever its sender likes.
 */

const operations = listDescribedRoutes(createApp(await testGateway())).map(
  ({ operation }) => operation,
)
const schemas = operations.flatMap(({ id, body, query }) => [
  ...(body ? [[`${id}: body`, body] as const] : []),
  ...(query ? [[`${id}: query`, query] as const] : []),
])

test.each(schemas)('%s bounds every text, list and map', (_, schema) => {
  expect(listUnbounded(schema)).toEqual([])
})

test('finds what is not bounded, wherever it stands', () => {
  const inner = { type: 'object', properties: { a: { anyOf: [{ type: 'string' }] } } }
  const map = { type: 'object', patternProperties: { '.*': { type: 'array', maxItems: 1 } } }
  const schema = { type: 'array', items: { anyOf: [inner, map, { const: 'b', type: 'string' }] } }
  expect(listUnbounded(schema as unknown as TSchema)).toEqual(['body', 'body[].a', 'body[]'])
})

/** Lists the places of a schema that have no length. Literals are as long as they are. */
function listUnbounded(schema: TSchema, path = 'body'): string[] {
  const { type, maxLength, maxItems, maxProperties, patternProperties } = schema
  const lacks =
    (type === 'string' && schema.const === undefined && maxLength === undefined) ||
    (type === 'array' && maxItems === undefined) ||
    (patternProperties !== undefined && maxProperties === undefined)
  const members = Object.entries({ ...schema.properties, ...patternProperties })
  return [
    ...(lacks ? [path] : []),
    ...((schema.anyOf ?? []) as TSchema[]).flatMap(variant => listUnbounded(variant, path)),
    ...(schema.items ? listUnbounded(schema.items, `${path}[]`) : []),
    ...members.flatMap(([name, member]) => listUnbounded(member as TSchema, `${path}.${name}`)),
  ]
}
