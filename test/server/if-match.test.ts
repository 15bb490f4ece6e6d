import { beforeEach, describe, expect, test } from 'bun:test'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Gateway } from '../../src/app/gateway.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { updateDestination } from '../../src/observability/destinations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createWorkspace, deleteWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { listDescribedRoutes } from '../../src/server/openapi.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { EXAMPLES, makeDestination } from '../support/operations.ts'

// SCIM's resources have versions of their own: test/server/scim/provisioning.test.ts.
const changing = listDescribedRoutes(createApp(await testGateway())).filter(
  ({ operation: { tag, statuses } }) => statuses.includes(412) && tag !== 'SCIM provisioning',
)

const isRefused = { status: 412, json: { error: { code: 412 } } }

let gateway: Gateway
let ask: (
  method: string,
  path: string,
  asked?: { body?: object; ifMatch?: string },
) => Promise<{ status: number; etag: string | null; json: { data: never; error: never } }>

beforeEach(async () => {
  gateway = await testGateway()
  const { management } = await createTestKeys(gateway)
  const app = createApp(gateway)
  ask = async (method, path, { body, ifMatch } = {}) => {
    const headers = {
      authorization: `Bearer ${management}`,
      'content-type': 'application/json',
      ...(ifMatch === undefined ? {} : { 'if-match': ifMatch }),
    }
    const init = { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) }
    const response = await app.handle(new Request(`http://localhost${path}`, init))
    const etag = response.headers.get('etag')
    return { status: response.status, etag, json: await response.json() }
  }
})

test('what is read with a tag is changed and deleted with it', () => {
  const count = (wanted: string) => changing.filter(({ method }) => method === wanted).length
  expect(count('patch')).toBeGreaterThan(6)
  expect(count('delete')).toBe(count('patch'))
})

describe.each(changing.map(route => [route.operation.id, route] as const))('%s', (id, route) => {
  /** Makes a thing, and returns where it is and the valid body of a change. */
  const make = async () => {
    const example = await EXAMPLES[id]?.(gateway, getOperator(gateway))
    const { params = {}, body = {}, query = '' } = example ?? {}
    const at = route.path.replace(/:(\w+)/g, (_, name: string) => params[name] ?? 'unknown')
    return { at, to: query ? `${at}?${query}` : at, body }
  }

  if (route.method === 'patch')
    test('with a tag changes what has it still, and nothing else', async () => {
      const { at, body } = await make()
      const tag = (await ask('GET', at)).etag ?? ''
      expect(tag).toMatch(/^W\/"[^"]+"$/)
      expect(await ask('PATCH', at, { body, ifMatch: '"other"' })).toMatchObject(isRefused)
      expect((await ask('GET', at)).etag).toBe(tag)
      expect((await ask('PATCH', at, { body, ifMatch: `"other", ${tag}` })).status).toBe(200)
      const next = (await ask('GET', at)).etag
      expect(next).not.toBe(tag)
      const before = (await ask('GET', at)).json
      expect(await ask('PATCH', at, { body, ifMatch: tag })).toMatchObject(isRefused)
      expect(await ask('GET', at)).toEqual({ status: 200, etag: next, json: before })
      expect((await ask('PATCH', at, { body, ifMatch: '*' })).status).toBe(200)
      expect((await ask('PATCH', at, { body })).status).toBe(200)
    })
  else
    test.each(['its tag', '*'])('with %s deletes what has it still, and nothing else', async by => {
      const { at, to } = await make()
      const before = await ask('GET', at)
      const trail = await gateway.store.audit.listPage({}, 0, 100)
      expect(await ask('DELETE', to, { ifMatch: '"other"' })).toMatchObject(isRefused)
      expect(await ask('GET', at)).toEqual(before)
      expect(await gateway.store.audit.listPage({}, 0, 100)).toEqual(trail)
      const ifMatch = by === '*' ? by : (before.etag ?? '')
      expect((await ask('DELETE', to, { ifMatch })).status).toBe(200)
      expect((await ask('GET', at)).status).toBe(404)
      expect((await ask('DELETE', to, { ifMatch })).status).toBe(404)
    })
})

test('of twenty changes at once with one tag exactly one is made', async () => {
  const { data } = await createGuardrail(gateway, getOperator(gateway), { name: 'Bound' })
  const at = `/api/v1/guardrails/${data.id}`
  const { etag } = await ask('GET', at)
  const answers = await Promise.all(
    Array.from({ length: 20 }, async (_, i) => {
      const description = `Change ${i}`
      return {
        description,
        ...(await ask('PATCH', at, { body: { description }, ifMatch: etag ?? '' })),
      }
    }),
  )
  const [made, ...others] = answers.filter(({ status }) => status === 200)
  expect(others).toEqual([])
  expect(answers.filter(({ status }) => status === 412)).toHaveLength(19)
  expect((await ask('GET', at)).json.data).toMatchObject({ description: made?.description })
  const trail = await gateway.store.audit.listPage({ resource_id: data.id }, 0, 10)
  expect(trail.entries.map(({ action }) => action)).toEqual([
    'guardrails.update',
    'guardrails.create',
  ])
})

test('of twenty deletions at once with one tag exactly one is made', async () => {
  const { data } = await createGuardrail(gateway, getOperator(gateway), { name: 'Bound' })
  const at = `/api/v1/guardrails/${data.id}`
  const ifMatch = (await ask('GET', at)).etag ?? ''
  const change = ask('PATCH', at, { body: { description: 'Changed' }, ifMatch })
  const deletions = Array.from({ length: 20 }, () => ask('DELETE', at, { ifMatch }))
  const statuses = (await Promise.all([change, ...deletions])).map(({ status }) => status)
  expect(statuses.filter(status => status === 200)).toHaveLength(1)
  expect(statuses.filter(status => status === 404 || status === 412)).toHaveLength(20)
})

describe.each(['PATCH', 'DELETE'])('the tags of a %s', method => {
  const make = async () => {
    const { data } = await createGuardrail(gateway, getOperator(gateway), { name: 'Bound' })
    return `/api/v1/guardrails/${data.id}`
  }
  const asked = method === 'PATCH' ? { body: { name: 'Other' } } : {}
  const many = Array(40).fill('"a"').join()

  test.each(['', 'x', 'W/x', '"a', '"a" "b"', '*, "a"', ',', '\t', many, `"${'a'.repeat(201)}"`])(
    'that are none are refused: %j',
    async ifMatch => {
      const at = await make()
      expect(await ask(method, at, { ...asked, ifMatch })).toMatchObject({
        status: 400,
        json: { error: { message: 'If-Match: expected a tag as in ETag, such as W/"1", or *' } },
      })
      expect((await ask('GET', at)).json.data).toMatchObject({ name: 'Bound' })
    },
  )

  test.each(['"a",\t,TAG', 'TAG,', ', ,TAG\t, "b"', '"a"\t,TAG', '"a,b","é"\t,\tTAG'])(
    'are a list that may have empty items: %j',
    async list => {
      const at = await make()
      const missed = list.replace('TAG', '"other"')
      expect(await ask(method, at, { ...asked, ifMatch: missed })).toMatchObject(isRefused)
      const ifMatch = list.replace('TAG', (await ask('GET', at)).etag ?? '')
      expect((await ask(method, at, { ...asked, ifMatch })).status).toBe(200)
    },
  )
})

test('what has the name by the time the body is there is not changed by another’s tag', async () => {
  const operator = getOperator(gateway)
  const { management } = await createTestKeys(gateway)
  const create = async () =>
    (await createWorkspace(gateway, operator, { name: 'Team', slug: 'team' })).data
  const old = await create()
  const at = '/api/v1/workspaces/team'
  const { etag } = await ask('GET', at)
  const body = new TransformStream<Uint8Array, Uint8Array>()
  const request = new Request(`http://localhost${at}`, {
    method: 'PATCH',
    headers: {
      authorization: `Bearer ${management}`,
      'content-type': 'application/json',
      'if-match': etag ?? '',
    },
    body: body.readable,
  })
  const answer = createApp(gateway).handle(request)
  const writer = body.writable.getWriter()
  await writer.write(Buffer.from('{"name":'))
  await deleteWorkspace(gateway, operator, old.id, {})
  const { id } = await create()
  await writer.write(Buffer.from('"Other"}'))
  await writer.close()
  expect((await answer).status).toBe(412)
  expect((await ask('GET', at)).json.data).toMatchObject({ id, name: 'Team' })
})

test('a change with a tag is made of what another process has written', async () => {
  const data = await mkdtemp(join(tmpdir(), 'gateway-if-match-'))
  const [one, other] = [await testGateway({ data }), await testGateway({ data })]
  const actor = getOperator(one)
  const { id } = await makeDestination(one, actor)
  const { management } = await createTestKeys(one)
  await other.catchUp()
  await updateDestination(one, actor, id, { config: { headers: { 'x-team': 'blue' } } })
  const version = await one.store.audit.readVersion(id)
  const answer = await createApp(other).handle(
    new Request(`http://localhost/api/v1/observability/destinations/${id}`, {
      method: 'PATCH',
      headers: {
        authorization: `Bearer ${management}`,
        'content-type': 'application/json',
        'if-match': `W/"${version}"`,
      },
      body: JSON.stringify({ config: { url: 'https://hooks.example.com/others' } }),
    }),
  )
  expect(await answer.json()).toMatchObject({
    data: {
      config: { headers: { 'x-team': '...' }, url: 'https://hooks.example.com/others' },
    },
  })
  await Promise.all([one.close(), other.close()])
  await rm(data, { recursive: true })
})

test('what does not exist has no version', async () => {
  const asked = { body: { name: 'Other' }, ifMatch: '*' }
  expect((await ask('PATCH', '/api/v1/guardrails/none', asked)).status).toBe(404)
  expect((await ask('DELETE', '/api/v1/guardrails/none', { ifMatch: '*' })).status).toBe(404)
})
