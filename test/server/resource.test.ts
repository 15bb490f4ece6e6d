import { beforeEach, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { type AnyElysia, Elysia } from 'elysia'
import type { Gateway } from '../../src/app/gateway.ts'
import { Uuid } from '../../src/base/schema-builders.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { rotateKey } from '../../src/resources/keys/rotation.ts'
import { createKey, deleteKey, updateKey } from '../../src/resources/keys.ts'
import { addMember, updateMember } from '../../src/resources/members.ts'
import { defineOperation, defineTerminalOperation } from '../../src/resources/operation.ts'
import { createScimToken, revokeScimToken } from '../../src/resources/scim/tokens.ts'
import { beginSession } from '../../src/resources/sign-ins.ts'
import { createApp } from '../../src/server/app.ts'
import { listDescribedRoutes } from '../../src/server/openapi.ts'
import { defineResource } from '../../src/server/resource.ts'
import { addRoutes, type Routes } from '../../src/server/routes.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { USER_ID } from '../support/scim.ts'

const Boat = Type.Object({ length: Type.Integer(), owner_id: Type.Optional(Uuid) })
const Query = Type.Object({ limit: Type.Optional(Type.Integer()), port_id: Type.Optional(Uuid) })

const echo = (_: Gateway, __: unknown, ...input: unknown[]) => ({ data: input })
const params = { name: 'The boat’s name', port: 'The port’s name' }

const boats = defineResource({ tag: 'Boats', access: 'management', params }, [
  defineOperation('GET /boats', 'listBoats', 'List boats', echo, { query: Query }),
  defineOperation('POST /boats', 'createBoat', 'Make a boat', echo, {
    body: Boat,
    status: 201,
    location: ({ data }) => `/boats/${data.length}`,
  }),
  defineOperation('PUT /ports/:port/boats/:name', 'berthBoat', 'Berth a boat', echo, {
    body: Boat,
    query: Query,
    refusals: [409],
  }),
  defineTerminalOperation(echo),
])
const harbour = defineResource({ tag: 'Boats', access: 'open' }, [
  defineOperation('GET /harbour', 'getHarbour', 'The harbour', (_, nobody) => ({
    asks: nobody ?? null,
  })),
])

let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>

beforeEach(async () => {
  gateway = await testGateway()
  keys = await createTestKeys(gateway)
})

/** Serves the routes of a noun alone. */
function serve(routes: Routes): AnyElysia {
  const app = new Elysia()
  addRoutes(app, [routes])
  return app
}

const ask = (method: string, path: string, body?: string, key: string = keys.management) =>
  serve(boats(gateway)).handle(
    new Request(`http://localhost${path}`, {
      method,
      headers: { authorization: `Bearer ${key}` },
      ...(body === undefined ? {} : { body }),
    }),
  )

test('routes are those of operations with a path; statuses follow from access, names and input', () => {
  const statuses = Object.fromEntries(
    [boats, harbour].flatMap(noun =>
      listDescribedRoutes(serve(noun(gateway))).map(({ operation }) => [
        operation.id,
        operation.statuses,
      ]),
    ),
  )
  expect(statuses).toEqual({
    listBoats: [200, 400, 401, 403, 429, 500],
    createBoat: [201, 400, 401, 403, 429, 500],
    berthBoat: [200, 400, 401, 403, 404, 409, 429, 500],
    getHarbour: [200, 500],
  })
})

test('a core function gets the path’s parameters in order, the body, then the query', async () => {
  const answer = await ask('PUT', '/ports/kiel/boats/ada?limit=3', '{"length":7}')
  expect(await answer.json()).toEqual({ data: ['kiel', 'ada', { length: 7 }, { limit: 3 }] })
})

test('a UUID in any case names the same: in a path, a body and a query', async () => {
  const id = '018F3C5E-7B3A-7CC1-9A77-0242AC120002'
  const path = `/ports/${id}/boats/Ada?port_id=${id}`
  const answer = await ask('PUT', path, JSON.stringify({ length: 7, owner_id: id }))
  const lower = id.toLowerCase()
  expect(await answer.json()).toEqual({
    data: [lower, 'Ada', { length: 7, owner_id: lower }, { port_id: lower }],
  })
})

test('an answer has the status and the location of its row', async () => {
  const answer = await ask('POST', '/boats', '{"length":7}')
  expect([answer.status, answer.headers.get('location')]).toEqual([201, '/boats/1'])
})

test('the key is checked before the body', async () => {
  const described = listDescribedRoutes(serve(boats(gateway))).map(({ credential }) => credential)
  expect(described).toEqual(['management', 'management', 'management'])
  for (const [key, status] of [
    ['none', 401],
    [keys.inference, 403],
  ] as const) {
    const refused = ask('POST', '/boats', '{"', key).then(answer => answer.status)
    expect(await refused).toBe(status)
  }
})

/** A body that is being read once it has started, and of which the last byte comes when it is told. */
function holdBody(json: string) {
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>()
  const writer = writable.getWriter()
  const [bytes, last] = [Buffer.from(json), json.length - 1]
  const started = writer.write(bytes.subarray(0, last))
  const finish = () => Promise.all([writer.write(bytes.subarray(last)), writer.close()])
  return { readable, started, finish }
}

const operator = () => getOperator(gateway)
const makeManager = () => createKey(gateway, operator(), { name: 'short' }, 'management')

test.each<[string, (hash: string) => unknown]>([
  ['deleted', hash => deleteKey(gateway, operator(), hash)],
  ['disabled', hash => updateKey(gateway, operator(), hash, { disabled: true })],
  ['rotated', hash => rotateKey(gateway, operator(), hash, { overlap_seconds: 0 })],
])('E2 a key that is %s while its body arrives makes nothing', async (_, end) => {
  const { key, data } = await makeManager()
  const { readable, started, finish } = holdBody('{"name":"last"}')
  const answer = createApp(gateway).handle(
    new Request('http://localhost/api/v1/keys', {
      ...{ method: 'POST', headers: { authorization: `Bearer ${key}` }, body: readable },
    }),
  )
  await started
  await end(data.hash)
  await finish()
  expect((await answer).status).toBe(401)
  expect(gateway.memory.keys.filter(({ name }) => name === 'last')).toEqual([])
})

test.each([
  [
    'a preset',
    '/api/v1/presets/late/chat/completions',
    { model: 'sandbox/echo', messages: [{ role: 'user', content: 'Hi' }] },
  ],
  ['a session of MCP', '/mcp', { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} }],
])('a key that is deleted while its body arrives makes no more: %s', async (_, path, body) => {
  const { key, data } = await createKey(gateway, operator(), { name: 'short' })
  const { readable, started, finish } = holdBody(JSON.stringify(body))
  const answer = createApp(gateway).handle(
    new Request(`http://localhost${path}`, {
      ...{ method: 'POST', headers: { authorization: `Bearer ${key}` }, body: readable },
    }),
  )
  await started
  await deleteKey(gateway, operator(), data.hash)
  await finish()
  expect((await answer).status).toBe(401)
})

test('a session whose member manages no more when its body is there makes nothing', async () => {
  const ada = await addMember(gateway, operator(), { email: 'ada@a.example', role: 'org:admin' })
  const cookie = `gateway_console=${await beginSession(gateway, ada.id)}`
  const { readable, started, finish } = holdBody('{"name":"last"}')
  const headers = { cookie, host: 'localhost:8080', 'x-gateway-console': '1' }
  const answer = createApp(gateway).handle(
    new Request('http://localhost:8080/api/v1/guardrails', {
      ...{ method: 'POST', headers, body: readable },
    }),
  )
  await started
  await updateMember(gateway, operator(), ada.id, { role: 'org:member' })
  await finish()
  expect((await answer).status).toBe(403)
})

test('an identity provider whose token is revoked while its body arrives makes no user', async () => {
  const { token, data } = await createScimToken(gateway, operator(), { name: 'short' })
  const { readable, started, finish } = holdBody(
    JSON.stringify({ schemas: [USER_ID], userName: 'late' }),
  )
  const answer = createApp(gateway).handle(
    new Request('http://localhost/api/v1/scim/v2/Users', {
      ...{ method: 'POST', headers: { authorization: `Bearer ${token}` }, body: readable },
    }),
  )
  await started
  await revokeScimToken(gateway, operator(), data.id)
  await finish()
  expect((await answer).status).toBe(401)
})

test('E2 requests of a management key have a limit of each minute, on every route', async () => {
  const clock = new TestClock()
  gateway = await testGateway({ config: { limits: { management_per_minute: 2 } }, clock })
  keys = await createTestKeys(gateway)
  const app = createApp(gateway)
  const managed = listDescribedRoutes(app).filter(route => route.credential === 'management')
  expect(managed.length).toBeGreaterThan(50)
  const send = (method: string, path: string, key = keys.management) =>
    app.handle(
      new Request(`http://localhost${path}`, {
        method,
        headers: { authorization: `Bearer ${key}` },
      }),
    )
  for (const _ of ['first', 'second']) expect((await send('GET', '/api/v1/keys')).status).toBe(200)
  for (const { method, path, operation } of managed) {
    const answer = await send(method.toUpperCase(), path.replace(/:\w+/g, 'a'))
    expect([operation.id, answer.status]).toEqual([operation.id, 429])
    expect(operation.statuses).toContain(429)
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0)
    const { error } = (await answer.json()) as { error: { message: string } }
    expect(error.message).toBe('Rate limit exceeded: management-per-min')
  }
  // Another key is not a manager's; the next minute has a count of its own.
  expect((await send('GET', '/api/v1/keys', keys.inference)).status).toBe(403)
  clock.pass(60_000)
  expect((await send('GET', '/api/v1/keys')).status).toBe(200)
})

test('a route that needs no key has no actor', async () => {
  const answer = await serve(harbour(gateway)).handle(new Request('http://localhost/harbour'))
  expect(await answer.json()).toEqual({ asks: null })
})

test('a name in a path without a description is refused', () => {
  const define = () =>
    defineResource({ tag: 'Boats', access: 'open' }, [
      defineOperation('GET /boats/:name', 'getBoat', 'Get a boat', echo),
    ])
  expect(define).toThrow('The path parameter :name has no description')
})
