import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import type { AuditEntry } from '../../src/resources/audit/store.ts'
import { listAudit } from '../../src/resources/audit.ts'
import { createApp } from '../../src/server/app.ts'
import { type DescribedRoute, listDescribedRoutes } from '../../src/server/openapi.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { EXAMPLES } from '../support/operations.ts'

// Counting and asking change nothing. Only calls can answer 402, and they leave a generation instead. A
// change by an identity provider leaves an entry for each thing that it moves:
// test/server/scim/scenarios.test.ts.
const UNCHANGING = new Set([
  'testAlert',
  'countTokens',
  'createModeration',
  'countMessageTokens',
  'countResponseTokens',
  ...['askMcp', 'askMcpServer', 'leaveMcp', 'leaveMcpServer'],
  'queryAnalytics',
])

const changing = listDescribedRoutes(createApp(await testGateway())).filter(
  ({ method, operation: { id, open, statuses, tag } }) =>
    method !== 'get' &&
    !open &&
    !statuses.includes(402) &&
    tag !== 'SCIM provisioning' &&
    !UNCHANGING.has(id),
)

let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>
let app: ReturnType<typeof createApp>

beforeEach(async () => {
  gateway = await testGateway()
  keys = await createTestKeys(gateway)
  app = createApp(gateway)
})

const entries = async (): Promise<AuditEntry[]> =>
  (await listAudit(gateway, getOperator(gateway), { limit: 100 })).data

/** Everything else in the store, noun by noun. */
const kept = async () => {
  const nouns = Object.entries(gateway.store).filter(
    ([, noun]) => typeof noun === 'object' && 'all' in noun,
  )
  return Object.fromEntries(
    await Promise.all(nouns.map(async ([name, noun]) => [name, await noun.all()])),
  )
}

interface Asking {
  params?: Record<string, string>
  query?: string
  body?: object | string
  key?: string | null
}

async function ask(
  { method, path }: DescribedRoute,
  { params = {}, query = '', body, key = keys.management }: Asking,
): Promise<number> {
  const at = path.replace(/:(\w+)/g, (_, name: string) => params[name] ?? 'unknown')
  const headers = {
    ...(body instanceof FormData ? {} : { 'content-type': 'application/json' }),
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
  }
  const init = {
    method: method.toUpperCase(),
    headers,
    ...(body === undefined ? {} : { body: textOf(body) }),
  }
  return (await app.handle(new Request(`http://localhost${at}?${query}`, init))).status
}

const textOf = (body: object | string) =>
  typeof body === 'string' || body instanceof FormData ? body : JSON.stringify(body)

/** The operation's example request, and the action of its entry. */
async function exampleOf({ operation: { id } }: DescribedRoute) {
  const { key, ...example } = (await EXAMPLES[id]?.(gateway, getOperator(gateway))) ?? {
    action: 'none',
  }
  const otherKey = key === 'inference' ? keys.management : keys.inference
  const wrongKey = key === 'either' ? undefined : otherKey
  return { ...example, key: key === 'inference' ? keys.inference : keys.management, wrongKey }
}

test('every operation that changes something has an example, and no other has one', () => {
  expect(Object.keys(EXAMPLES).sort()).toEqual(changing.map(({ operation }) => operation.id).sort())
})

describe.each(changing.map(route => [route.operation.id, route] as const))('%s', (id, route) => {
  test('leaves exactly one entry when it is done: actor, action, state before and after; none when it is refused: 400, 401, 403, 404', async () => {
    const { action, key, wrongKey, ...asking } = await exampleOf(route)
    const before = await entries()
    expect(await ask(route, { ...asking, key: null })).toBe(401)
    if (wrongKey) expect(await ask(route, { ...asking, key: wrongKey })).toBe(403)
    if (route.operation.body) expect(await ask(route, { ...asking, key, body: '{"' })).toBe(400)
    if (route.operation.params && key === keys.management)
      expect(
        await ask(route, {
          ...asking,
          key,
          params: Object.fromEntries(Object.keys(asking.params ?? {}).map(isUnknown)),
        }),
      ).toBe(404)
    expect(await entries()).toEqual(before)
    expect(Math.floor((await ask(route, { ...asking, key })) / 100)).toBe(2)
    const [entry, ...others] = await entries()
    // Its requests are a file of their own.
    const rest = id === 'createMessageBatch' ? others.slice(1) : others
    expect(rest).toEqual(before)
    expect(entry).toMatchObject({
      action,
      actor: key === keys.inference ? 'inference' : 'management',
      user_id: gateway.memory.owner.user_id,
    })
    expect(entry?.key_hash).toBe(
      key === keys.inference ? keys.hash : new Bun.CryptoHasher('sha256').update(key).digest('hex'),
    )
    if (action.endsWith('.create')) expect(entry?.before).toBeNull()
    if (action.endsWith('.delete')) expect(entry?.after).toBeNull()
    expect(entry?.before).not.toEqual(entry?.after ?? null)
    expect(JSON.stringify(entry)).not.toContain('canary')
  })

  test('changes nothing if its entry cannot be stored, and leaves none when the store fails: 500', async () => {
    const { action: _, wrongKey: __, ...asking } = await exampleOf(route)
    const [before, all] = [await entries(), await kept()]
    gateway.ids = { ...gateway.ids, uuid: () => before[0]?.id ?? '' }
    expect(await ask(route, asking)).toBeGreaterThanOrEqual(400)
    expect(await entries()).toEqual(before)
    expect(await kept()).toEqual(all)
    for (const [name, noun] of Object.entries(gateway.store))
      if (name !== 'audit' && typeof noun === 'object') breakDown(noun)
    expect(await ask(route, asking)).toBe(500)
    expect(await entries()).toEqual(before)
  })
})

const isUnknown = (name: string) => [name, '00000000-0000-7000-8000-0000000000ff']

function breakDown(noun: object): void {
  for (const name of Object.keys(noun))
    Object.assign(noun, { [name]: () => Promise.reject(new Error('The disk is gone')) })
}
