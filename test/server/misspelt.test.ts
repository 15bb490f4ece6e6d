import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { isObject, type Json } from '../../src/base/json.ts'
import { KINDS } from '../../src/observability/destinations/registry.ts'
import { createApp } from '../../src/server/app.ts'
import { type DescribedRoute, listDescribedRoutes } from '../../src/server/openapi.ts'
import { dialects } from '../../src/translation/dialects/registry.ts'
import { openWorld, REQUESTS, type World } from '../support/access.ts'
import { testGateway } from '../support/gateway.ts'

/** What is no management: calls travel on with what they have, and so do lists of models. */
const isOpen = ({ path, operation, credential }: DescribedRoute): boolean =>
  dialects.some(dialect => path === `/api/v1${dialect.path}`) ||
  // Doors of other clients.
  /^\/(openai|v1beta|model|mcp|api\/v1\/moderations)(\/|$)/.test(path) ||
  /^\/api\/v1\/(models?|images\/models|videos\/models|embeddings\/models|presets\/:slug\/(chat|messages|responses)|responses|messages)(\/|$)/.test(
    path,
  ) ||
  credential === 'scim' ||
  credential === undefined ||
  operation.accepts !== undefined

const app = createApp(await testGateway())
const routes = listDescribedRoutes(app).filter(route => !isOpen(route))
const description = (await (
  await app.handle(new Request('http://localhost/openapi.json'))
).json()) as { paths: Record<string, Record<string, { requestBody?: Json }>> }

const UPSTREAM = 'http://127.0.0.1:9'

/** Lists the objects of a body, with their paths. */
function* listObjects(value: unknown, path: string[] = []): Generator<string[]> {
  if (Array.isArray(value)) {
    for (const [i, item] of value.entries()) yield* listObjects(item, [...path, String(i)])
  } else if (isObject(value)) {
    yield path
    for (const [name, field] of Object.entries(value)) yield* listObjects(field, [...path, name])
  }
}

/** Returns a copy of a body with a misspelt field in the object at this path, and its name. */
function misspell(body: object, path: string[]): { body: object; field: string } {
  const copy = structuredClone(body)
  const at = path.reduce<Json>((holder, name) => holder[name] as Json, copy as Json)
  const name = `${Object.keys(at)[0] ?? 'name'}x`
  at[name] = 1
  return { body: copy, field: [...path, name].join('.') }
}

/** What keeps words of callers: their names are their own. */
const OWN_WORDS = [
  ...['createBatch requests.0.body', 'createBatch metadata'],
  ...['createObservabilityDestination config.headers'],
  ...['updateObservabilityDestination config.headers'],
]

const readStored = (world: World) => {
  const { refusals: _, sqlite_sequence: __, ...stored } = world.readStored()
  return stored
}

const ask = async (world: World, route: DescribedRoute, request: object) => {
  const who = route.credential === 'management' ? 'management key' : 'inference key'
  const { status, body } = await world.ask(route, world.live[who], request)
  return { status, error: (JSON.parse(body) as { error?: Json }).error ?? {} }
}

describe('a misspelt rule is refused by its name, and nothing is stored', () => {
  const withBody = routes.filter(({ operation }) => operation.body)

  test.each(withBody.map(route => [route.operation.id, route] as const))(
    '%s',
    async (id, route) => {
      await using world = await openWorld(UPSTREAM)
      const request = await REQUESTS[id]?.(world.gateway, world.actors.operator)
      const { body } = request ?? {}
      if (!body) throw new Error(`${id} has no valid body`)
      const before = readStored(world)
      for (const path of listObjects(body)) {
        if (OWN_WORDS.includes(`${id} ${path.join('.')}`)) continue
        const wrong = misspell(body, path)
        const { status, error } = await ask(world, route, { ...request, body: wrong.body })
        const { field } = (error.metadata ?? {}) as { field?: string }
        expect([status, field, error.message]).toEqual([
          ...[400, wrong.field],
          expect.stringContaining('expected no such field'),
        ])
      }
      expect(readStored(world)).toEqual(before)
    },
  )

  test('as the description says of every object', () => {
    const open = routes.flatMap(({ method, path, operation }) => {
      const template = path.replace(/:(\w+)/g, '{$1}')
      const body = description.paths[template]?.[method]?.requestBody
      return [...listOpenSchemas(body)].map(at => `${operation.id} ${at}`)
    })
    const kinds = KINDS.flatMap(({ type, config }) =>
      [...listOpenSchemas(config)].map(at => `${type} ${at}`),
    )
    // Headers have the names that a receiver asks for.
    expect(kinds.filter(at => !at.endsWith(' headers'))).toEqual([])
    expect(open).toEqual([
      // What a caller calls, its own notes, and what each kind of destination checks.
      ...['createObservabilityDestination config', 'updateObservabilityDestination config'],
      ...['createBatch requests.body', 'createBatch metadata'],
    ])
  })
})

/** Lists the objects of a schema that take fields which they do not name. */
function* listOpenSchemas(schema: unknown, path: string[] = []): Generator<string> {
  if (Array.isArray(schema)) for (const one of schema) yield* listOpenSchemas(one, path)
  if (!isObject(schema)) return
  if (schema.type === 'object' && schema.additionalProperties !== false) yield path.join('.')
  for (const [name, field] of Object.entries((schema.properties ?? {}) as Json))
    yield* listOpenSchemas(field, [...path, name])
  for (const name of ['items', 'anyOf', 'content', 'application/json', 'schema'])
    if (schema[name] !== undefined && path.at(-1) !== name)
      yield* listOpenSchemas(schema[name], path)
}

describe('a misspelt filter is refused by its name, with those that are known', () => {
  const withQuery = routes.filter(({ operation }) => operation.query && !operation.body)
  let world: World
  beforeAll(async () => {
    world = await openWorld(UPSTREAM)
  })
  afterAll(() => world[Symbol.asyncDispose]())

  test.each(withQuery.map(route => [route.operation.id, route] as const))(
    '%s',
    async (_, route) => {
      const [name = ''] = Object.keys(route.operation.query?.properties ?? {})
      const { status, error } = await ask(world, route, { query: `${name}x=1` })
      expect([status, error.message]).toEqual([
        400,
        expect.stringMatching(
          new RegExp(`^${name}x: expected no such parameter; known to this version: .*${name}`),
        ),
      ])
    },
  )
})
