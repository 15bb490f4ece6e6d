import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { hashSecret } from '../../src/base/credential.ts'
import { findFaults, readBooks, toNanos } from '../support/books.ts'
import {
  fetchGeneration,
  parseStream,
  readGenerationId,
  readMetric,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { createSeededIntegers, SEED } from '../support/random.ts'
import type { RawCall } from '../support/raw-client.ts'
import { type Server, startServer } from '../support/server.ts'
import { readRefusedLimit } from '../support/shortage.ts'
import {
  delta,
  done,
  finish,
  sseHead,
  startUpstream,
  type Upstream,
  usage,
} from '../support/upstream.ts'

/**
 * A dollar for a million output tokens: a call with this maximum costs ten cents, and holds as
 * much.
 */
const BOUND = 100_000
const COST = 0.1

let server: Server
let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
  const endpoint = {
    provider: 'local',
    model: 'm',
    usd_per_million_tokens: { prompt: 0, completion: 1 },
  }
  server = await startServer({
    config: {
      limits: { strict: false, wait_seconds: 0 },
      providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
      models: [{ id: 'acme/small', context_length: 1_000_000, endpoints: [endpoint] }],
    },
  })
})

afterAll(async () => {
  expect(await findFaults(server.data)).toBeNull()
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

afterEach(() => upstream.emptied())

interface Shown {
  usage: number
  usage_daily: number
  usage_weekly: number
  usage_monthly: number
  limit_remaining: number | null
}

async function manage<Data = { id: string }>(
  method: string,
  path: string,
  json?: object,
): Promise<Data> {
  const response = await server.fetch(path, {
    key: server.management_key,
    method,
    ...(json ? { json } : {}),
  })
  const answer = (await response.json()) as { data: Data; key?: string }
  if (response.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`)
  return answer.key === undefined ? answer.data : { ...answer.data, key: answer.key }
}

/** The callers of a test: a member's key in a workspace of its own. */
interface Caller {
  key: string
  hash: string
  workspace_id: string
  member: string
}

let made = 0
async function newCaller(limits: object = { limit: 1 }): Promise<Caller> {
  const name = `w${++made}`
  const { stdout } = await runCommand([
    'members',
    'create',
    '--email',
    `${name}@acme.example`,
    '--json',
    '--data',
    server.data,
  ])
  const member = JSON.parse(stdout).data.id as string
  const { id: workspace_id } = await manage('POST', '/workspaces', { name, slug: name })
  const { key } = await manage<{ key: string }>('POST', '/keys', {
    name,
    workspace_id,
    creator_user_id: member,
    ...limits,
  })
  return { key, hash: hashSecret(key), workspace_id, member }
}

const shown = (caller: Caller) => manage<Shown>('GET', `/keys/${caller.hash}`)
const spentBy = async (caller: Caller) => {
  const { usage, usage_daily, usage_weekly, usage_monthly } = await shown(caller)
  return [usage, usage_daily, usage_weekly, usage_monthly]
}

/** A call that has begun to answer, and waits for its gate to end. */
async function begun(caller: Caller, gate: string): Promise<RawCall> {
  upstream.plan([
    sseHead(),
    delta('Hel'),
    { wait: gate },
    delta('lo'),
    finish('stop', usage(1, BOUND)),
    done(),
    '0\r\n\r\n',
  ])
  const call = sendChat(server, { stream: true, max_tokens: BOUND }, { key: caller.key })
  await call.sees('Hel')
  return call
}

const ask = (caller: Caller) =>
  sendChat(server, { max_tokens: BOUND }, { key: caller.key }).outcome()
const reasonOf = ({ body }: { body: string }): string =>
  readRefusedLimit(JSON.parse(body).error.message)

/** What happens while a call runs, and the answer to the next one. */
const CHANGES: [
  name: string,
  change: (caller: Caller) => Promise<unknown>,
  status: number,
  reason: string,
][] = [
  [
    'its limit falls below what it holds',
    c => manage('PATCH', `/keys/${c.hash}`, { limit: 0.05 }),
    402,
    'Key limit exceeded (total limit)',
  ],
  [
    'its limit falls to zero',
    c => manage('PATCH', `/keys/${c.hash}`, { limit: 0 }),
    402,
    'Key limit exceeded (total limit)',
  ],
  [
    'its limit gets a window',
    c => manage('PATCH', `/keys/${c.hash}`, { limit: 0.1, limit_reset: 'daily' }),
    402,
    'Key limit exceeded (daily limit)',
  ],
  ['its key is disabled', c => manage('PATCH', `/keys/${c.hash}`, { disabled: true }), 401, ''],
  [
    'its key is deleted',
    c => server.fetch(`/keys/${c.hash}`, { key: server.management_key, method: 'DELETE' }),
    401,
    '',
  ],
  [
    'its member leaves',
    c => runCommand(['members', 'deactivate', c.member, '--yes', '--data', server.data]),
    401,
    '',
  ],
  [
    'its workspace gets a budget',
    c => manage('PUT', `/workspaces/${c.workspace_id}/budgets/weekly`, { limit_usd: 0.15 }),
    402,
    'Workspace weekly budget of $0.15 exceeded. Contact your org admin.',
  ],
  [
    'a guardrail is assigned to its key',
    assignKey,
    402,
    'Guardrail daily budget of $0.15 exceeded. Contact your org admin.',
  ],
  [
    'a guardrail is assigned to its member',
    assignMember,
    402,
    'Guardrail daily budget of $0.15 exceeded. Contact your org admin.',
  ],
]

const guardrail = (c: Caller) =>
  manage('POST', '/guardrails', {
    name: 'Little',
    workspace_id: c.workspace_id,
    limit_usd: 0.15,
    reset_interval: 'daily',
  })

async function assignKey(caller: Caller): Promise<string> {
  const { id } = await guardrail(caller)
  await manage('POST', `/guardrails/${id}/assignments/keys`, { key_hashes: [caller.hash] })
  return id
}

async function assignMember(caller: Caller): Promise<string> {
  const { id } = await guardrail(caller)
  await manage('POST', `/guardrails/${id}/assignments/members`, {
    member_user_ids: [caller.member],
  })
  return id
}

describe('A-16 while a call runs', () => {
  test.each(CHANGES)(
    '%s: it ends and is charged, the next is refused, and no counter changes',
    async (name, change, status, reason) => {
      const caller = await newCaller()
      const call = await begun(caller, name)
      await change(caller)
      // Changes from the terminal take effect a moment later.
      if (status === 401)
        await waitUntil(
          async () => (await server.fetch('/key', { key: caller.key })).status === 401,
        )
      const refused = await ask(caller)
      expect(refused.status).toBe(status)
      if (reason) expect(reasonOf(refused)).toBe(reason)
      upstream.open(name)
      const outcome = await call.outcome()
      expect(parseStream(outcome.body)).toMatchObject({ text: 'Hello', errors: [], dones: 1 })
      expect(parseStream(outcome.body).usages[0]?.usage?.cost).toBe(COST)
      await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
      expect(readBooks(server.data, caller.key)).toEqual({
        ledger: 1e8,
        counted: 1e8,
        recorded: 1e8,
        calls: 1,
        held: 0,
      })
    },
  )

  test.each<[name: string, release: (caller: Caller, id: string) => Promise<unknown>]>([
    [
      'is unassigned',
      (c, id) =>
        manage('POST', `/guardrails/${id}/assignments/keys/remove`, { key_hashes: [c.hash] }),
    ],
    [
      'is deleted',
      (_, id) =>
        server.fetch(`/guardrails/${id}`, { key: server.management_key, method: 'DELETE' }),
    ],
  ])('a guardrail that %s has counted it too', async (name, release) => {
    const caller = await newCaller({})
    const id = await assignKey(caller)
    const call = await begun(caller, name)
    expect((await ask(caller)).status).toBe(402)
    await release(caller, id)
    upstream.open(name)
    expect((await call.outcome()).complete).toBe(true)
    expect((await ask(caller)).status).toBe(200)
    expect(await spentBy(caller)).toEqual([0.2, 0.2, 0.2, 0.2])
    await assignKey(caller)
    expect((await ask(caller)).status).toBe(402)
  })
})

test('A-16 management does not change what was spent', async () => {
  const caller = await newCaller()
  const call = await begun(caller, 'counted')
  upstream.open('counted')
  await call.outcome()
  const changes: object[] = [
    { name: 'x' },
    { limit: 5 },
    { limit_reset: 'monthly' },
    { limit: null },
    { limit_reset: null },
    { disabled: true },
    { disabled: false },
  ]
  for (const change of changes) {
    await manage('PATCH', `/keys/${caller.hash}`, change)
    for (const spent of [{ usage: 0 }, { limit_remaining: 99 }, { usage_daily: -5 }])
      await expect(
        manage('PATCH', `/keys/${caller.hash}`, { ...change, ...spent }),
      ).rejects.toThrow('expected no such field')
    expect(await spentBy(caller)).toEqual([COST, COST, COST, COST])
  }
  await manage('PATCH', `/keys/${caller.hash}`, { limit: COST })
  expect(await shown(caller)).toMatchObject({ limit_remaining: 0 })
  expect((await ask(caller)).status).toBe(402)
})

test('a key created again under the same name starts at zero, its member does not', async () => {
  const caller = await newCaller({ limit: 0.1 })
  const { id } = await guardrail(caller)
  await manage('POST', `/guardrails/${id}/assignments/members`, {
    member_user_ids: [caller.member],
  })
  const call = await begun(caller, 'again')
  await server.fetch(`/keys/${caller.hash}`, { key: server.management_key, method: 'DELETE' })
  upstream.open('again')
  await call.outcome()
  const { workspace_id, member } = caller
  const { key } = await manage<{ key: string }>('POST', '/keys', {
    name: 'again',
    workspace_id,
    creator_user_id: member,
    limit: 0.1,
  })
  const again = { ...caller, key, hash: hashSecret(key) }
  expect(await spentBy(again)).toEqual([0, 0, 0, 0])
  expect(reasonOf(await ask(again))).toBe(
    'Guardrail daily budget of $0.15 exceeded. Contact your org admin.',
  )
})

test('A-22 all reports of money agree', async () => {
  const caller = await newCaller({ limit: 5, limit_reset: 'weekly' })
  const random = createSeededIntegers(SEED)
  upstream.answer(({ json }) => {
    const tokens = 1 + random(BOUND)
    const end = [delta('Hello'), finish('stop', usage(1, tokens)), done(), '0\r\n\r\n']
    return (json as { user?: string }).user
      ? [sseHead(), delta('Hello'), { end: 'rst' }]
      : [sseHead(), ...end]
  })
  const asked = Array.from({ length: 30 }, (_, i) =>
    sendChat(
      server,
      { stream: true, max_tokens: BOUND, ...(i % 3 === 0 ? { user: 'cut' } : {}) },
      { key: caller.key },
    ).outcome(),
  )
  const ids = (await Promise.all(asked)).map(readGenerationId)
  await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
  const { ledger, ...books } = readBooks(server.data, caller.key)
  expect(ledger).toBeGreaterThan(0)
  expect(books).toEqual({ counted: ledger, recorded: ledger, calls: 30, held: 0 })
  const costs = await Promise.all(
    ids.map(async id => toNanos((await fetchGeneration(server, id, caller.key)).total_cost)),
  )
  const listed = await manage<(Shown & { hash: string })[]>(
    'GET',
    `/keys?workspace_id=${caller.workspace_id}`,
  )
  const own = ((await (await server.fetch('/key', { key: caller.key })).json()) as { data: Shown })
    .data
  const printed = JSON.parse(
    (
      await runCommand([
        'keys',
        'list',
        '--workspace',
        caller.workspace_id,
        '--json',
        '--data',
        server.data,
      ])
    ).stdout,
  )
  const all = [own, await shown(caller), listed[0], printed.data[0]] as Shown[]
  expect(costs.reduce((sum, nanos) => sum + nanos, 0)).toBe(ledger)
  for (const one of all) {
    expect([one.usage, one.usage_daily, one.usage_weekly, one.usage_monthly].map(toNanos)).toEqual(
      Array(4).fill(ledger),
    )
    expect(toNanos(one.limit_remaining ?? Number.NaN)).toBe(5e9 - ledger)
  }
  const before = await manage<{ total_usage: number }>('GET', '/credits')
  const call = await begun(caller, 'credits')
  upstream.open('credits')
  await call.outcome()
  expect(
    toNanos(
      (await manage<{ total_usage: number }>('GET', '/credits')).total_usage - before.total_usage,
    ),
  ).toBe(1e8)
})
