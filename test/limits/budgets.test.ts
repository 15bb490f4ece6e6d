import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { toDayNumber } from '../../src/base/clock.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { INTERVALS, type Interval } from '../../src/limits/budgets/interval.ts'
import {
  deleteBudget,
  listBudgets,
  listSoftLimits,
  listWorkspaceBounds,
  setBudget,
} from '../../src/limits/budgets.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { createGuardrail, updateGuardrail } from '../../src/limits/guardrails.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { createApi, readRefusalStatus, readTrail } from '../support/api.ts'
import { createCountedIds, createTestKeys, TestClock } from '../support/gateway.ts'

let data: string
let clock: TestClock
let gateway: Gateway
let actor: Actor
let keys: Awaited<ReturnType<typeof createTestKeys>>
let ask: ReturnType<typeof createApi>
const others: Gateway[] = []

beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  clock = new TestClock()
  gateway = await openGateway({ data, clock, ids: createCountedIds() })
  actor = getOperator(gateway)
  keys = await createTestKeys(gateway)
  ask = createApi(gateway, keys.management)
})

afterEach(async () => {
  await Promise.all([gateway, ...others.splice(0)].map(one => one.close()))
  rmSync(data, { recursive: true, force: true })
})

async function another(): Promise<Gateway> {
  const one = await openGateway({ data, clock })
  others.push(one)
  return one
}

const here = () => gateway.memory.owner.workspace_id
const set = (interval: string, limit_usd: number, of = gateway) =>
  setBudget(of, getOperator(of), here(), interval, { limit_usd })
const limits = (of = gateway) =>
  Object.fromEntries(
    listBudgets(of, getOperator(of), here()).data.map(one => [
      one.reset_interval ?? 'lifetime',
      one.limit_usd,
    ]),
  )
const put = (interval: string, body: object, key?: string) =>
  ask('PUT', `/workspaces/default/budgets/${interval}`, { body, ...(key ? { key } : {}) })

test('budgets show what is spent of them, of a workspace, a key and a member', async () => {
  const { hash } = keys
  const payer = { key_hash: hash, user_id: actor.user_id, workspace_id: here() }
  for (const [nanos, byok] of [
    [3_000_000_000n, false],
    [2_000_000_000n, true],
  ] as const)
    gateway.ledger.charge({ ...payer, day: toDayNumber(clock.now()), byok, nanos })
  const cost = { own: 1_000_000_000n, byok: null }
  gateway.ledger.reserve(payer, { maximum: cost, minimum: cost }, [])
  expect((await put('daily', { limit_usd: 10 })).json.data).toMatchObject({
    ...{ spent_usd: 3, remaining_usd: 6 },
  })
  const byok = await put('daily', { limit_usd: 10, include_byok_in_budgets: true })
  expect(byok.json.data).toMatchObject({ spent_usd: 5, remaining_usd: 4 })
  const rules = { limit_usd: 2, reset_interval: 'daily' } as const
  const own = getDefaultGuardrailId(here())
  expect((await updateGuardrail(gateway, actor, own, rules)).data).toMatchObject({
    ...{ spent_usd: 3, remaining_usd: 0 },
  })
  const { data: assigned } = await createGuardrail(gateway, actor, { name: 'a', ...rules })
  expect(assigned).not.toHaveProperty('spent_usd')
  await assignKeys(gateway, actor, assigned.id, { key_hashes: [hash] })
  const { json } = await ask('GET', `/guardrails/${assigned.id}/assignments/keys`)
  expect(json.data).toMatchObject([{ key_hash: hash, spent_usd: 3, remaining_usd: 0 }])
})

describe('a budget', () => {
  test('is set, shown, changed and listed, broadest first', async () => {
    const { status, json } = await put('monthly', { limit_usd: 500 })
    expect([status, json]).toEqual([
      200,
      {
        data: {
          ...{
            id: expect.stringMatching(/^[0-9a-f-]{36}$/),
            workspace_id: here(),
            limit_usd: 500,
            ...{ spent_usd: 0, remaining_usd: 500 },
            reset_interval: 'monthly',
            soft: false,
          },
          ...{ created_at: '2026-03-04T05:06:07.000Z', updated_at: '2026-03-04T05:06:07.000Z' },
        },
        include_byok_in_budgets: false,
      },
    ])
    expect((await ask('GET', '/workspaces/default/budgets/monthly')).json).toEqual(json)
    clock.pass(1_000)
    const changed = await put('monthly', { limit_usd: 0.5 })
    expect(changed.json.data).toEqual({
      ...json.data,
      ...{ limit_usd: 0.5, remaining_usd: 0.5 },
      updated_at: '2026-03-04T05:06:08.000Z',
    })
    for (const [interval, limit] of [
      ['daily', 0.1],
      ['lifetime', 1_000_000_000],
      ['weekly', 0.2],
    ] as const)
      await set(interval, limit)
    const listed = (await ask('GET', `/workspaces/${here()}/budgets`)).json
    expect(listed.data.map((one: { reset_interval: string }) => one.reset_interval)).toEqual([
      null,
      'monthly',
      'weekly',
      'daily',
    ])
    expect(listed.include_byok_in_budgets).toBe(false)
    expect(limits(await another())).toEqual({
      lifetime: 1_000_000_000,
      monthly: 0.5,
      weekly: 0.2,
      daily: 0.1,
    })
  })

  test('is deleted, and deleting it again succeeds', async () => {
    const { data: made } = await set('weekly', 5)
    const before = readTrail(data)
    for (let i = 0; i < 2; i++)
      expect(await ask('DELETE', '/workspaces/default/budgets/weekly')).toEqual({
        status: 200,
        json: { deleted: true },
      })
    expect((await ask('GET', '/workspaces/default/budgets/weekly')).status).toBe(404)
    expect(limits(await another())).toEqual({})
    expect(readTrail(data).slice(before.length)).toEqual([`budgets.delete ${made.id}`])
  })

  test('is stored to the nano-dollar', async () => {
    for (const limit of [0.000000001, 0.1, 5.979018446, 9_007_199.254740991]) {
      expect((await set('daily', limit)).data.limit_usd).toBe(limit)
      expect(limits(await another()).daily).toBe(limit)
    }
  })

  test.each([
    ['no limit', {}, 'limit_usd'],
    ['a limit of zero', { limit_usd: 0 }, 'limit_usd'],
    ['less than a nano-dollar', { limit_usd: 1e-10 }, 'limit_usd'],
    ['a negative limit', { limit_usd: -1 }, 'limit_usd'],
    ['a limit as text', { limit_usd: '5' }, 'limit_usd'],
    ['more than the maximum', { limit_usd: 1_000_000_001 }, 'limit_usd'],
    [
      'a flag that is no boolean',
      { limit_usd: 1, include_byok_in_budgets: 'yes' },
      'include_byok_in_budgets',
    ],
  ])('refuses %s with 400 and names the field', async (_, body, field) => {
    const { status, json } = await put('daily', body)
    expect([status, json.error.metadata.field]).toEqual([400, field])
    expect(limits()).toEqual({})
  })

  test('with an unknown interval is 400, by every method', async () => {
    for (const method of ['GET', 'PUT', 'DELETE'])
      for (const interval of ['yearly', 'constructor', 'Daily'])
        expect(
          (
            await ask(
              method,
              `/workspaces/default/budgets/${interval}`,
              method === 'PUT' ? { body: { limit_usd: 1 } } : {},
            )
          ).status,
        ).toBe(400)
  })
})

describe('limits decrease as the scope narrows', () => {
  test('and the error names the two that do not', async () => {
    await set('weekly', 600)
    const { status, json } = await put('monthly', { limit_usd: 500 })
    expect([status, json.error.message]).toEqual([
      400,
      'Budget limits must be strictly decreasing as scope narrows: ' +
        'the monthly limit ($500) must be greater than the weekly limit ($600).',
    ])
    expect(limits()).toEqual({ weekly: 600 })
    expect((await put('daily', { limit_usd: 600.5 })).json.error.message).toEndWith(
      'the weekly limit ($600) must be greater than the daily limit ($600.50).',
    )
  })

  test('for every pair: equal limits are refused, a nano-dollar more is accepted', async () => {
    for (const [i, broad] of INTERVALS.entries())
      for (const narrow of INTERVALS.slice(i + 1)) {
        for (const interval of INTERVALS) await deleteBudget(gateway, actor, here(), interval)
        await set(narrow, 2)
        expect([
          broad,
          narrow,
          await readRefusalStatus(set(broad, 2)),
          await readRefusalStatus(set(broad, 1)),
        ]).toEqual([broad, narrow, 400, 400])
        await set(broad, 2.000000001)
        expect(await readRefusalStatus(set(narrow, 2.000000001))).toBe(400)
        expect(limits()).toEqual({ [broad]: 2.000000001, [narrow]: 2 })
      }
  })

  test('under concurrent changes, in one process and in two', async () => {
    const terminal = await another()
    const attempts: [Interval, number][] = [
      ['monthly', 10],
      ['weekly', 20],
      ['daily', 15],
      ['lifetime', 12],
    ]
    await Promise.all(
      attempts.map(([interval, limit], i) =>
        readRefusalStatus(set(interval, limit, i % 2 ? terminal : gateway)),
      ),
    )
    await Promise.all([gateway.catchUp(), terminal.catchUp()])
    for (const one of [gateway, terminal, await another()]) {
      const kept = listBudgets(one, getOperator(one), here()).data.map(budget => budget.limit_usd)
      expect(kept).toEqual(kept.toSorted((a, b) => b - a))
      expect(new Set(kept).size).toBe(kept.length)
    }
    expect(limits(gateway)).toEqual(limits(terminal))
  })

  test('of two contradicting concurrent changes one is refused', async () => {
    const outcomes = await Promise.all([
      readRefusalStatus(set('monthly', 10)),
      readRefusalStatus(set('weekly', 20)),
    ])
    expect(outcomes.toSorted()).toEqual([400, undefined])
  })

  test('two concurrent changes of one budget leave one, with the later limit', async () => {
    const [first, second] = await Promise.all([set('daily', 1), set('daily', 2)])
    expect(first.data.id).toBe(second.data.id)
    expect([limits(), limits(await another())]).toEqual([{ daily: 2 }, { daily: 2 }])
  })
})

describe('own provider keys', () => {
  test('count in all budgets of the workspace from when one is set so until reset', async () => {
    expect(
      (await put('daily', { limit_usd: 1, include_byok_in_budgets: true })).json
        .include_byok_in_budgets,
    ).toBe(true)
    expect((await put('weekly', { limit_usd: 5 })).json.include_byok_in_budgets).toBe(true)
    expect((await ask('GET', '/workspaces/default')).json.data.include_byok_in_budgets).toBe(true)
    expect(
      (await ask('GET', '/workspaces/default/budgets/weekly')).json.include_byok_in_budgets,
    ).toBe(true)
    expect(listWorkspaceBounds(gateway, here()).map(bound => bound.byok)).toEqual([true, true])
    const again = await another()
    expect(listWorkspaceBounds(again, here()).map(bound => bound.byok)).toEqual([true, true])
    await put('weekly', { limit_usd: 5, include_byok_in_budgets: false })
    expect(listWorkspaceBounds(gateway, here()).map(bound => bound.byok)).toEqual([false, false])
  })

  test('stay as they are where the limit is refused', async () => {
    await set('weekly', 5)
    await put('daily', { limit_usd: 5, include_byok_in_budgets: true })
    const again = await another()
    for (const one of [gateway, again])
      expect(listBudgets(one, getOperator(one), here()).include_byok_in_budgets).toBe(false)
  })
})

describe('the bounds of calls', () => {
  const bounds = (of = gateway, workspace_id = here()) =>
    getPolicy(of, { ...getOperator(of), kind: 'inference', workspace_id, key_hash: keys.hash })
      .bounds

  test('are every budget of the workspace, broadest first', async () => {
    await createKey(gateway, actor, { name: 'x' })
    for (const [interval, limit] of [
      ['daily', 0.0005],
      ['monthly', 500],
      ['lifetime', 1_234.5],
    ] as const)
      await set(interval, limit)
    expect(bounds()).toEqual([
      {
        ...{ account: `workspace ${here()}`, period: null, limit: 1_234_500_000_000n, byok: false },
        message: 'Workspace lifetime budget of $1234.50 exceeded. Contact your org admin.',
      },
      {
        ...{
          account: `workspace ${here()}`,
          period: 'monthly',
          limit: 500_000_000_000n,
          byok: false,
        },
        message: 'Workspace monthly budget of $500.00 exceeded. Contact your org admin.',
      },
      {
        ...{ account: `workspace ${here()}`, period: 'daily', limit: 500_000n, byok: false },
        message: 'Workspace daily budget of $0.0005 exceeded. Contact your org admin.',
      },
    ])
  })

  test('are no soft budgets, which may be of any amount', async () => {
    await set('monthly', 500)
    const { status, json } = await put('daily', { limit_usd: 600, soft: true })
    expect([status, json.data]).toMatchObject([200, { limit_usd: 600, soft: true, spent_usd: 0 }])
    expect(bounds().map(({ period }) => period)).toEqual(['monthly'])
    expect(bounds(await another())).toEqual(bounds())
    expect(listSoftLimits(gateway, here()).map(({ limit }) => limit)).toEqual([600_000_000_000n])
    expect((await put('daily', { limit_usd: 600 })).status).toBe(400)
    expect((await put('daily', { limit_usd: 5 })).json.data.soft).toBe(false)
    expect(bounds().map(({ period }) => period)).toEqual(['monthly', 'daily'])
    expect((await put('weekly', { limit_usd: 5, soft: 'yes' })).status).toBe(400)
  })

  test('change at once with each budget, also one set by another process', async () => {
    const terminal = await another()
    expect(bounds()).toEqual([])
    await set('daily', 1)
    expect(bounds().map(one => one.limit)).toEqual([1_000_000_000n])
    await terminal.catchUp()
    await set('daily', 2, terminal)
    await setBudget(terminal, getOperator(terminal), here(), 'weekly', {
      limit_usd: 3,
      include_byok_in_budgets: true,
    })
    await gateway.catchUp()
    expect(bounds().map(one => [one.limit, one.byok])).toEqual([
      [3_000_000_000n, true],
      [2_000_000_000n, true],
    ])
    await deleteBudget(gateway, actor, here(), 'weekly')
    expect(bounds()).toHaveLength(1)
    await terminal.catchUp()
    expect(bounds(terminal)).toHaveLength(1)
  })

  test('belong to one workspace only', async () => {
    const { data: team } = await createWorkspace(gateway, actor, { name: 'Team', slug: 'team' })
    await setBudget(gateway, actor, 'team', 'daily', { limit_usd: 1 })
    expect([
      listWorkspaceBounds(gateway, here()),
      listWorkspaceBounds(gateway, team.id).length,
    ]).toEqual([[], 1])
  })

  test('keep what this process sets while it reloads', async () => {
    const terminal = await another()
    await set('weekly', 3, terminal)
    const { all } = gateway.store.budgets
    gateway.store.budgets.all = async names => {
      const read = await all(names)
      await set('daily', 1)
      return read
    }
    await gateway.catchUp()
    expect(limits()).toEqual({ daily: 1, weekly: 3 })
  })
})

describe('authorization', () => {
  const OPERATIONS: [method: string, path: string, body?: object][] = [
    ['GET', '/workspaces/default/budgets'],
    ['GET', '/workspaces/default/budgets/daily'],
    ['PUT', '/workspaces/default/budgets/daily', { limit_usd: 1 }],
    ['DELETE', '/workspaces/default/budgets/daily'],
  ]

  test.each(OPERATIONS)(
    '%s %s: 401 without a key, 403 with an inference key, 404 elsewhere, 500 without a store',
    async (method, path, body) => {
      const more = body ? { body } : {}
      const { data: team } = await createWorkspace(gateway, actor, { name: 'Team', slug: 'team' })
      const foreign = await createKey(
        gateway,
        actor,
        { name: 'x', workspace_id: team.id },
        'management',
      )
      const status = async (of: string, key?: string | null) =>
        (await ask(method, of, { ...more, ...(key === undefined ? {} : { key }) })).status
      expect(await status(path, null)).toBe(401)
      expect(await status(path, keys.inference)).toBe(403)
      expect(await status(path, foreign.key)).toBe(404)
      expect(await status(path.replace('default', 'none'))).toBe(404)
      await set('daily', 5)
      gateway.store.budgets.upsert = gateway.store.budgets.remove = () =>
        Promise.reject(new Error('disk full'))
      if (method === 'GET') gateway.memory.budgets = undefined as never
      expect(await status(path)).toBe(500)
    },
  )

  test('a management key of another workspace sets its own', async () => {
    const { data: team } = await createWorkspace(gateway, actor, { name: 'Team', slug: 'team' })
    const { key } = await createKey(
      gateway,
      actor,
      { name: 'x', workspace_id: team.id },
      'management',
    )
    expect(
      (await ask('PUT', '/workspaces/team/budgets/daily', { key, body: { limit_usd: 1 } })).status,
    ).toBe(200)
    expect((await ask('GET', '/workspaces/team/budgets', { key })).json.data).toHaveLength(1)
  })
})
