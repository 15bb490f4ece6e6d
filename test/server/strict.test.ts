import { describe, expect, test } from 'bun:test'
import type { TSchema } from '@sinclair/typebox'
import { isObject } from '../../src/base/json.ts'
import { closeSchema } from '../../src/base/schema-builders.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createApp } from '../../src/server/app.ts'
import { listDescribedRoutes } from '../../src/server/openapi.ts'
import { REQUESTS } from '../support/access.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'

const routes = listDescribedRoutes(createApp(await testGateway())).filter(
  ({ credential }) => credential === 'management',
)

const UNKNOWN = 'zz_no_such_rule'

/** Lists an object and all below it that have a schema without room for more. */
function* listClosed(schema: TSchema, value: unknown, path = ''): Generator<[string, object]> {
  if (schema.anyOf) for (const variant of schema.anyOf) yield* listClosed(variant, value, path)
  if (Array.isArray(value) && schema.items)
    for (const [i, item] of value.entries()) yield* listClosed(schema.items, item, `${path}${i}.`)
  if (!isObject(value) || !schema.properties) return
  if (schema.additionalProperties === false) yield [path, value]
  for (const [name, member] of Object.entries(value))
    if (schema.properties[name])
      yield* listClosed(schema.properties[name], member, `${path}${name}.`)
}

/** A gateway with what a valid request of this operation needs, and that request. */
async function openHouse(id: string, path: string) {
  const gateway = await testGateway()
  const app = createApp(gateway)
  const { params = {}, body, query } = (await REQUESTS[id]?.(gateway, getOperator(gateway))) ?? {}
  const { management } = await createTestKeys(gateway)
  const url = `http://gateway.test${path.replace(/[:{](\w+)\}?/g, (_, name) => params[name] ?? name)}`
  const send = async (method: string, search: string) => {
    const request = new Request(search ? `${url}?${search}` : url, {
      method: method.toUpperCase(),
      headers: { authorization: `Bearer ${management}`, 'content-type': 'application/json' },
      ...(isObject(body) ? { body: JSON.stringify(body) } : {}),
    })
    const response = await app.handle(request)
    return [response.status, await response.text()]
  }
  return { body, query, send, [Symbol.asyncDispose]: () => gateway.close() }
}

describe('an unknown field of an object that restricts, protects or configures is refused', () => {
  const withBody = routes.filter(({ operation }) => operation.body && !operation.accepts)
  test.each(withBody.map(route => [route.operation.id, route] as const))(
    '%s',
    async (id, { method, path, operation }) => {
      await using house = await openHouse(id, path)
      const { body, query = '' } = house
      if (!isObject(body)) throw new Error('There is no valid request')
      const places = [...listClosed(closeSchema(operation.body as TSchema), body)]
      expect(places.length).toBeGreaterThan(0)
      for (const [place, object] of places) {
        Object.assign(object, { [UNKNOWN]: 5 })
        const named = expect.stringContaining(`${place}${UNKNOWN}`)
        expect(await house.send(method, query)).toEqual([400, named])
        delete (object as Record<string, unknown>)[UNKNOWN]
      }
    },
  )

  const withQuery = routes.filter(({ operation }) => operation.query)
  test.each(withQuery.map(route => [route.operation.id, route] as const))(
    '%s, in its query',
    async (id, { method, path }) => {
      await using house = await openHouse(id, path)
      const named = expect.stringContaining(UNKNOWN)
      const search = `${house.query ?? ''}&${UNKNOWN}=1`
      expect(await house.send(method, search)).toEqual([400, named])
    },
  )
})
