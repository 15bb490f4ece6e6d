import { describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import type { AuditEntry } from '../../src/resources/audit/store.ts'
import {
  createGroupMapping,
  finishSyncJob,
  type NewGroupMapping,
} from '../../src/resources/scim/operations.ts'
import { beginSession } from '../../src/resources/sign-ins.ts'
import { createApp } from '../../src/server/app.ts'
import { type DescribedRoute, listDescribedRoutes } from '../../src/server/openapi.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { EXAMPLES, makeMember } from '../support/operations.ts'

// Every operation of these resources, and one case for each status of its description. A status
// that is described and that nothing here produces is a failing test.
const TAGS = ['API Keys', 'Guardrails', 'Workspaces', 'Credits', 'Organization', 'SCIM']
const routes = listDescribedRoutes(createApp(await testGateway())).filter(({ operation }) =>
  TAGS.includes(operation.tag),
)

/** Refused requests change nothing, so that one gateway sees them all, and then the good one. */
const isRefused = (status: number) => status >= 400 && status <= 404
const isShared = (status: number) => isRefused(status) || status < 300

// Of each operation the refusals come first, then what succeeds, then what needs its own gateway.
const cases = routes.flatMap(route => {
  const { id, statuses } = route.operation
  const ordered = [
    ...statuses.filter(isRefused),
    ...statuses.filter(status => status < 300),
    ...statuses.filter(status => !isShared(status)),
  ]
  return ordered.map(status => [id, status, route] as const)
})

let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>
let app: ReturnType<typeof createApp>

/** The operation whose cases share the gateway, and its valid request. */
let shared: { route: DescribedRoute; good: Asking } | null = null

/** Prepares a case: in a new gateway, or in the one of the operation. Returns a valid request. */
async function prepare(route: DescribedRoute, status: number): Promise<Asking> {
  const kept = isShared(status) && shared?.route === route ? shared.good : null
  const good = kept ?? (await openNew(route))
  // Only what is refused leaves the gateway as it was.
  shared = isRefused(status) ? { route, good } : null
  return good
}

async function openNew(route: DescribedRoute): Promise<Asking> {
  gateway = await testGateway()
  keys = await createTestKeys(gateway)
  app = createApp(gateway)
  return goodRequest(route)
}

interface Asking {
  params?: Record<string, string>
  query?: string
  body?: object | string
  key?: string | null
  cookie?: string
  ifMatch?: string
}

async function ask(
  { method, path }: DescribedRoute,
  { params = {}, query = '', body, key = keys.management, cookie, ifMatch }: Asking,
) {
  const at = path.replace(/:(\w+)/g, (_, name: string) => params[name] ?? UNKNOWN)
  const headers = {
    'content-type': 'application/json',
    ...(key === null ? {} : { authorization: `Bearer ${key}` }),
    ...(cookie ? { cookie, 'x-gateway-console': '1' } : {}),
    ...(ifMatch ? { 'if-match': ifMatch } : {}),
  }
  const text = typeof body === 'object' ? JSON.stringify(body) : body
  const init = {
    method: method.toUpperCase(),
    headers,
    ...(text === undefined ? {} : { body: text }),
  }
  const response = await app.handle(new Request(`http://localhost${at}?${query}`, init))
  return { status: response.status, answer: await response.json() }
}

const UNKNOWN = '00000000-0000-7000-8000-0000000000ff'

/** The resources whose examples have the names that this operation needs. */
const LIKE: Record<string, string> = {
  getKey: 'updateKeys',
  getGuardrail: 'updateGuardrail',
  listGuardrailKeyAssignments: 'updateGuardrail',
  listGuardrailMemberAssignments: 'updateGuardrail',
  getWorkspace: 'updateWorkspace',
  listWorkspaceBudgets: 'updateWorkspace',
  getWorkspaceBudget: 'deleteWorkspaceBudget',
  listWorkspaceMembers: 'updateWorkspace',
  getScimGroupMapping: 'updateScimGroupMapping',
}

/** Prepares and returns a valid request of this operation. */
async function goodRequest({ method, operation: { id } }: DescribedRoute): Promise<Asking> {
  if (id === 'getScimSyncJob')
    return { params: { id: (await finishSyncJob(gateway, getOperator(gateway))).data.id } }
  const example = await EXAMPLES[LIKE[id] ?? id]?.(gateway, getOperator(gateway))
  if (method !== 'get') return { ...example, key: keys.management }
  return example?.params ? { params: example.params } : {}
}

/** Makes a valid request invalid: by its body, its page, its path or its query. */
function badRequest(
  { method, operation: { id, body, query } }: DescribedRoute,
  good: Asking,
): Asking {
  if (id === 'deleteWorkspace') return { params: { id: 'default' } }
  if (id === 'deleteScimGroupMapping') return { ...good, query: 'keep_members=perhaps' }
  if (id.endsWith('WorkspaceBudget'))
    return { ...good, params: { ...good.params, interval: 'yearly' } }
  if (body) return { ...good, body: '{"' }
  if (method === 'delete') return { ...good, ifMatch: 'none' }
  return query ? { ...good, query: 'offset=-1' } : good
}

/** Simulates a concurrent change by another process. */
const RIVALS: Record<string, (good: Asking) => unknown> = {
  updateGuardrail({ params }) {
    const { replace } = gateway.store.guardrails
    gateway.store.guardrails.replace = (one, entry) =>
      isGone(params?.id, entry).then(() => replace(one, entry))
  },
  rotateKey({ params }) {
    const key = gateway.memory.keys.get(params?.hash ?? '')
    const expires_at = gateway.clock.now().toISOString()
    if (key) gateway.memory.keys.set({ ...key, expires_at })
  },
  bulkAssignKeysToGuardrail: losesItsGuardrail,
  bulkAssignMembersToGuardrail: losesItsGuardrail,
  createScimGroupMapping: ({ body }) =>
    createGroupMapping(gateway, getOperator(gateway), {
      ...(body as NewGroupMapping),
      role: 'member',
    }),
}

function losesItsGuardrail({ params }: Asking): void {
  const { assign } = gateway.store.assignments
  gateway.store.assignments.assign = (all, entry) =>
    isGone(params?.id, entry).then(() => assign(all, entry))
}

const isGone = (id = '', entry: AuditEntry) =>
  gateway.store.guardrails.remove(id, { ...entry, id: UNKNOWN })

/** Makes every read of the store fail, on disk and in memory, except that of the caller. */
function breakDown(): void {
  const isBroken = (): never => {
    throw new Error('The disk is gone')
  }
  const nouns = Object.values(gateway.store).filter(noun => typeof noun === 'object')
  for (const noun of [...nouns, ...Object.values(gateway.store.scim)])
    for (const name of Object.keys(noun))
      if (typeof noun[name] === 'function') Object.assign(noun, { [name]: async () => isBroken() })
  for (const memory of [
    gateway.memory.workspaces,
    gateway.memory.budgets,
    gateway.memory.guardrails,
    gateway.memory.assignments,
  ])
    Object.assign(memory, { get: isBroken, values: isBroken, filter: isBroken })
  Object.assign(gateway.memory.keys, { values: isBroken })
  Object.assign(gateway.ledger, { getSpent: isBroken })
}

/** Makes the operation answer with a status, if it can. */
async function produce(
  route: DescribedRoute,
  status: number,
): Promise<{ status: number; answer: unknown }> {
  const good = await prepare(route, status)
  if (status === 400) return ask(route, badRequest(route, good))
  if (status === 401) return ask(route, { ...good, key: null })
  if (status === 403 && route.credential === 'key')
    return ask(route, { ...good, key: null, cookie: await beginMemberSession() })
  if (status === 403) return ask(route, { ...good, key: keys.inference })
  if (status === 404) return ask(route, ofNothing(route, good))
  if (status === 409) await RIVALS[route.operation.id]?.(good)
  if (status === 412) return ask(route, { ...good, ifMatch: '"other"' })
  if (status === 429) await exhaustMinute(route, good)
  if (status === 500) breakDown()
  return ask(route, good)
}

/** Begins the session of a member who manages nothing, at the console. */
async function beginMemberSession(): Promise<string> {
  const { id } = await makeMember(gateway)
  return `gateway_console=${await beginSession(gateway, id)}`
}

/** Makes the only request of the minute. */
async function exhaustMinute(route: DescribedRoute, good: Asking): Promise<void> {
  const limits = { ...gateway.config.limits, management_per_minute: 1 }
  gateway.traffic.counters.reconfigure({ ...gateway.config, limits }, null)
  await ask(route, good)
}

/** Returns the same request for something that does not exist. */
function ofNothing({ operation: { id } }: DescribedRoute, good: Asking): Asking {
  if (id === 'createScimGroupMapping')
    return { ...good, body: { ...(good.body as NewGroupMapping), scim_group_id: UNKNOWN } }
  return {
    ...good,
    params: { ...good.params, ...(good.params?.hash ? { hash: UNKNOWN } : { id: UNKNOWN }) },
  }
}

test('the operations of these resources are described', () => {
  expect(routes.length).toBeGreaterThanOrEqual(40)
  expect(new Set(routes.map(({ operation }) => operation.tag))).toEqual(new Set(TAGS))
})

describe('each status that is described is produced', () => {
  test.each(cases)('%s %d', async (_, status, route) => {
    const { status: produced, answer } = await produce(route, status)
    expect(produced).toBe(status)
    if (status >= 400)
      expect(answer).toMatchObject({ error: { code: status, message: expect.any(String) } })
    expect(JSON.stringify(answer)).not.toContain('The disk is gone')
  })
})
