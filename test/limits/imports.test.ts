import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runChecks } from '../../src/app/doctor.ts'
import type { Gateway } from '../../src/app/gateway.ts'
import { hashSecret } from '../../src/base/credential.ts'
import { deleteBudget } from '../../src/limits/budgets.ts'
import { getCredits } from '../../src/limits/credits.ts'
import { getPolicy, listAppliedGuardrails } from '../../src/limits/effective.ts'
import { updateGuardrail } from '../../src/limits/guardrails.ts'
import { importExport, planImport } from '../../src/limits/imports.ts'
import { authenticate, getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import type { Key } from '../../src/resources/keys/store.ts'
import { showKey } from '../../src/resources/keys.ts'
import { createCountedIds, testGateway } from '../support/gateway.ts'

let gateway: Gateway
beforeEach(async () => {
  gateway = await testGateway()
})
afterEach(() => gateway.close())

const run = (exported: unknown) => importExport(gateway, getOperator(gateway), exported, {})
const plan = (exported: unknown) => planImport(gateway, getOperator(gateway), exported, {})

const SECRET = 'sk-litellm-1234567890'
const LITELLM = {
  keys: [
    {
      token: hashSecret(SECRET),
      key_name: 'sk-...7890',
      key_alias: 'ci',
      spend: 3.5,
      max_budget: 10,
      budget_duration: '30d',
      expires: '2027-01-01T00:00:00',
      user_id: 'default_user_id',
      team_id: 'team-1',
    },
    {
      token: hashSecret('b'),
      key_name: 'sk-...b',
      blocked: true,
      budget_duration: '2h',
      max_budget: 1,
    },
    { token: hashSecret('c'), key_alias: 'old', expires: '2020-01-01T00:00:00Z' },
    { token: hashSecret('d'), max_budget: 'ten' },
    { token: hashSecret('e'), expires: 'never' },
    'sk-...',
    { token: hashSecret('b') },
  ],
  teams: [
    { team_id: 'team-1', team_alias: 'Data Science', max_budget: 100, budget_duration: '7d' },
  ],
}

test('a plan says of each row what would be done and what is lost, and changes nothing', async () => {
  const { data } = await plan(LITELLM)
  expect(data.map(({ row, name, action, secret }) => [row, name, action, secret])).toEqual([
    ['teams.0', 'Data Science', 'create', null],
    ['keys.0', 'ci', 'create', 'kept'],
    ['keys.1', 'sk-...b', 'create', 'kept'],
    ['keys.2', 'old', 'over', 'kept'],
    ['keys.3', null, 'bad', null],
    ['keys.4', null, 'bad', null],
    ['keys.5', null, 'bad', null],
    ['keys.6', null, 'bad', null],
  ])
  const remarks = Object.fromEntries(data.map(({ row, remarks }) => [row, remarks.join('; ')]))
  expect(remarks['keys.0']).toBe(
    'user_id: members are not imported; ' +
      'budget_duration: its window begins with the calendar’s, monthly; ' +
      'spend: $3.5 of its budget is counted as spent',
  )
  expect(remarks['keys.1']).toContain('there is no window of 2h: it is of all time')
  expect(remarks['keys.3']).toContain('max_budget: expected')
  expect(remarks['keys.4']).toContain('expires: expected a time')
  expect(remarks['keys.6']).toContain('it stands there twice')
  expect([gateway.memory.keys.size, gateway.memory.workspaces.size]).toEqual([0, 1])
})

test('keys of LiteLLM keep their secrets, in the workspaces of their teams, with budgets', async () => {
  const { data } = await run(LITELLM)
  expect(data.filter(({ is_done }) => is_done).map(({ row }) => row)).toEqual([
    'teams.0',
    'keys.0',
    'keys.1',
  ])
  expect(data.every(({ key }) => key === null)).toBe(true)
  const actor = authenticate(gateway, `Bearer ${SECRET}`)
  const [team] = gateway.memory.workspaces.filter(({ slug }) => slug === 'data-science')
  expect(actor).toMatchObject({ kind: 'inference', workspace_id: team?.id })
  expect(gateway.memory.keys.get(hashSecret(SECRET))).toMatchObject({
    ...{ name: 'ci', limit: 10_000_000_000n, limit_reset: 'monthly' },
    expires_at: '2027-01-01T00:00:00.000Z',
  })
  expect([...gateway.memory.budgets.values()]).toMatchObject([
    { workspace_id: team?.id, interval: 'weekly', limit_usd: 100_000_000_000n },
  ])
  expect(gateway.memory.keys.get(hashSecret('b'))).toMatchObject({
    disabled: true,
    limit_reset: null,
  })
  const again = await run(LITELLM)
  expect(again.data.slice(0, 3).map(({ action, is_done }) => [action, is_done])).toEqual([
    ['there', false],
    ['there', false],
    ['there', false],
  ])
})

const OPENROUTER = {
  data: [
    {
      hash: 'f'.repeat(64),
      name: 'prod',
      label: 'sk-or-v1-abc...def',
      disabled: false,
      limit: 50,
      limit_reset: 'weekly',
      include_byok_in_limit: true,
      usage: 12.5,
      expires_at: null,
    },
    { hash: 'e'.repeat(64), name: 'off', disabled: true, limit: null },
    { hash: 'd'.repeat(64), name: '' },
  ],
}

test('keys of OpenRouter get new secrets, which are told once', async () => {
  const { data } = await run(OPENROUTER)
  const [prod, off, bad] = data
  expect(prod).toMatchObject({ action: 'create', secret: 'new', is_done: true })
  expect(prod?.remarks).toEqual([
    'secret: only its service knows it, so that a new one is made',
    'usage: $12.5 of its limit is counted as spent',
  ])
  const actor = authenticate(gateway, `Bearer ${prod?.key}`)
  expect(gateway.memory.keys.get(String(actor.key_hash))).toMatchObject({
    ...{ name: 'prod', limit: 50_000_000_000n, limit_reset: 'weekly', include_byok_in_limit: true },
  })
  expect(() => authenticate(gateway, `Bearer ${off?.key}`)).toThrow('Invalid API key')
  expect(bad).toMatchObject({ action: 'bad', remarks: [expect.stringContaining('name: expected')] })
  const again = await run(OPENROUTER)
  expect(again.data.map(({ action, key }) => [action, key])).toEqual([
    ['there', null],
    ['there', null],
    ['bad', null],
  ])
})

/** Imports one key beside these teams, and returns its row. */
async function importKey(key: Record<string, unknown>, teams: unknown[] = []) {
  const { data } = await run({ keys: [{ token: hashSecret(SECRET), ...key }], teams })
  const row = data.at(-1)
  const record = gateway.memory.keys.get(hashSecret(SECRET))
  return { row, record, workspace: gateway.memory.workspaces.get(record?.workspace_id ?? '') }
}

/** A budget of one model, as an export has it. */
const ofModel = (model: string, more: object) => ({
  model_max_budget: { [model]: { budget_limit: 2, time_period: '1d', ...more } },
})

test.each<[string, Record<string, unknown>, string]>([
  ['of no tokens per minute', { tpm_limit: 0 }, 'tpm_limit: there is no tokens_per_minute below 1'],
  ['of a budget without a window', { model_max_budget: { 'gpt-4o': 1 } }, 'a window of a month'],
  ['of a longer window', ofModel('gpt-4o', { time_period: '90d' }), 'model_max_budget.gpt-4o: b'],
  ['of an amount that is none', ofModel('gpt-4o', { budget_limit: 'x' }), 'expected an amount'],
  ['of a model that is not known', ofModel('house', {}), 'model_max_budget.house: not known here'],
  ['of rates of a model', ofModel('gpt-4o', { rpm_limit: 5 }), 'model_max_budget.gpt-4o.rpm_limit'],
  ['of budgets of no form', { model_max_budget: 'gpt-4o' }, 'model_max_budget: expected an object'],
  ['of a rate in its metadata', { metadata: { tpm_limit: 1 } }, 'tpm_limit: it is read beside'],
  ['of guardrails in its metadata', { metadata: { guardrails: ['pii'] } }, 'guardrails'],
  ['of routes', { allowed_routes: ['/embeddings'] }, 'allowed_routes'],
  ['of models that are not known', { models: ['house-model'] }, 'models'],
  ['of no model at all', { models: ['no-default-models'] }, 'models'],
  ['of a budget that is not there', { budget_id: 'b' }, 'budget_id'],
  ['that is not known', { allowed_weekdays: [1] }, 'allowed_weekdays'],
  ['of a team that the export lacks', { team_id: 'gone' }, 'team_id'],
])('a key with a limit %s is created disabled, and says why and where', async (_, key, why) => {
  const { row, record } = await importKey(key)
  expect(row).toMatchObject({ action: 'create', is_done: true, disabled: true })
  expect(row?.remarks.join('; ')).toContain(why)
  expect(row?.remarks.at(-1)).toBe(
    'it could do more here than it could: it is disabled, in default',
  )
  expect(record?.disabled).toBe(true)
})

test.each<[string, Record<string, unknown>]>([
  ['a budget of nothing', { max_budget: 0 }],
  ['a block', { blocked: true }],
  ['a rate of nothing', { tpm_limit: 0 }],
  ['models that are not known', { models: ['house-model'] }],
])('keys of a team with %s are created disabled, in its workspace', async (_, more) => {
  const team = { team_id: 't', team_alias: 'Ops', ...more }
  const { row, record, workspace } = await importKey({ team_id: 't' }, [team])
  expect([row?.disabled, record?.disabled, workspace?.slug]).toEqual([true, true, 'ops'])
})

test('teams are told apart by their ids, whatever their names are', async () => {
  const teams = [
    { team_id: 'a', team_alias: 'Ops', max_budget: 5 },
    { team_id: 'b', team_alias: 'ops!', max_budget: 7 },
    { team_id: 'c', team_alias: 'Отдел', max_budget: 9 },
  ]
  const keys = teams.map(({ team_id }) => ({ token: hashSecret(team_id), team_id }))
  const { data } = await run({ keys, teams })
  expect(data.map(({ workspace, action, disabled }) => [workspace, action, disabled])).toEqual([
    ...['ops', 'ops-2', 'c'].map(slug => [slug, 'create', null]),
    ...['ops', 'ops-2', 'c'].map(slug => [slug, 'create', false]),
  ])
  const budgets = [...gateway.memory.budgets.values()]
  for (const [i, { team_id }] of teams.entries()) {
    const key = gateway.memory.keys.get(hashSecret(team_id))
    const budget = budgets.find(({ workspace_id }) => workspace_id === key?.workspace_id)
    expect(budget?.limit_usd).toBe(BigInt(5 + 2 * i) * 1_000_000_000n)
  }
})

test('models of keys and teams become guardrails', async () => {
  const team = { team_id: 't', team_alias: 'Ops', models: ['gpt-4o', 'gpt-4o-mini'] }
  const { row, record, workspace } = await importKey({ team_id: 't', models: ['gpt-4o'] }, [team])
  expect([row?.disabled, record?.disabled, workspace?.slug]).toEqual([false, false, 'ops'])
  const actor = authenticate(gateway, `Bearer ${SECRET}`)
  const allowed = listAppliedGuardrails(gateway, actor).map(({ scope, guardrail }) => [
    scope,
    guardrail.allowed_models,
  ])
  expect(allowed).toEqual([
    ['workspace', ['openai/gpt-4o', 'openai/gpt-4o-mini']],
    ['key', ['openai/gpt-4o']],
  ])
})

test('rates and budgets of models become guardrails, which keys with the same share', async () => {
  const held = { rpm_limit: 60.5, tpm_limit: 1000, max_parallel_requests: 4 }
  const team = { team_id: 't', team_alias: 'Ops', rpm_limit: 600, ...ofModel('gpt-4o', {}) }
  const budgets = { 'gpt-4o': { budget_limit: '0.5', time_period: '2h' } }
  const more = { team_id: 't', model_max_budget: budgets, litellm_budget_table: held }
  const { row } = await importKey(more, [team])
  expect(row).toMatchObject({ disabled: false })
  expect(row?.remarks).toEqual([
    'model_max_budget.gpt-4o: its window is the calendar’s, daily, and begins at $0',
  ])
  const actor = authenticate(gateway, `Bearer ${SECRET}`)
  const none = { requests_per_minute: null, tokens_per_minute: null, concurrent_requests: null }
  const { rates, budgets: limits } = getPolicy(gateway, actor)
  expect(rates).toMatchObject([
    { scope: 'workspace', ...none, requests_per_minute: 600 },
    {
      ...{ scope: 'key', account: `key ${hashSecret(SECRET)}` },
      ...{ requests_per_minute: 60, tokens_per_minute: 1000, concurrent_requests: 4 },
    },
  ])
  expect(limits?.map(({ scope, by, name, limit, period }) => [scope, by, name, limit, period])) //
    .toEqual([
      ['workspace', 'model', 'openai/gpt-4o', 2_000_000_000n, 'daily'],
      ['key', 'model', 'openai/gpt-4o', 500_000_000n, 'daily'],
    ])
  const count = gateway.memory.guardrails.size
  const names = [...gateway.memory.guardrails.values()].map(({ name }) => name)
  expect(names.filter(name => name.startsWith('Imported keys'))).toEqual([
    'Imported keys: requests_per_minute 60, tokens_per_minute 1000, concurrent_requests 4, ' +
      '$0.5 daily of openai/gpt-4o',
  ])
  await run({ keys: [{ token: hashSecret('other'), ...more }], teams: [team] })
  expect([gateway.memory.guardrails.size, gateway.memory.keys.size]).toEqual([count, 2])
  // A workspace that lets its keys do more than their team takes them disabled.
  const { id } = [...gateway.memory.workspaces.values()].find(({ slug }) => slug === 'ops') ?? {}
  const wide = { requests_per_minute: 601 }
  await updateGuardrail(gateway, getOperator(gateway), getDefaultGuardrailId(id ?? ''), wide)
  const { data } = await run({ keys: [{ token: hashSecret('late'), ...more }], teams: [team] })
  expect(data.at(-1)).toMatchObject({ disabled: true })
})

test('what was spent of a budget stays spent, once, and is paid in', async () => {
  const teams = [{ team_id: 't', team_alias: 'Ops', max_budget: 100, spend: 60 }]
  const { record } = await importKey({ team_id: 't', max_budget: 10, spend: 4 }, teams)
  const key = showKey(gateway, record as Key)
  expect([key.usage, key.limit_remaining, key.usage_monthly]).toEqual([4, 6, 0])
  const actor = authenticate(gateway, `Bearer ${SECRET}`)
  const left = getPolicy(gateway, actor).bounds.map(bound => gateway.ledger.getRemaining(bound))
  expect(left).toEqual([6_000_000_000n, 40_000_000_000n])
  const { data } = getCredits(gateway, getOperator(gateway))
  expect([data.total_credits, data.total_usage]).toEqual([60, 60])
  const checks = await runChecks(gateway, gateway.secrets.mac)
  expect(checks.flatMap(({ problems }) => problems)).toEqual([])
})

test('a running server counts what another process opens', async () => {
  const data = mkdtempSync(join(tmpdir(), 'gateway-openings-'))
  const server = await testGateway({ data })
  const terminal = await testGateway({ data, ids: createCountedIds(1_000) })
  const key = { token: hashSecret(SECRET), max_budget: 10, spend: 10 }
  await importExport(terminal, getOperator(terminal), { keys: [key] }, {})
  await server.catchUp()
  await server.catchUp()
  const actor = authenticate(server, `Bearer ${SECRET}`)
  const left = getPolicy(server, actor).bounds.map(bound => server.ledger.getRemaining(bound))
  expect(left).toEqual([0n])
  await Promise.all([server.close(), terminal.close()])
  const next = await testGateway({ data })
  expect(next.ledger.getSpent('all', null, false)).toBe(10_000_000_000n)
  await next.close()
  rmSync(data, { recursive: true })
})

test('a workspace that allows more than its team did takes keys disabled', async () => {
  const teams = [{ team_id: 't', team_alias: 'Ops', max_budget: 5 }]
  await run({ keys: [], teams })
  const [ops] = gateway.memory.workspaces.filter(({ slug }) => slug === 'ops')
  await deleteBudget(gateway, getOperator(gateway), String(ops?.id), 'lifetime')
  const { row } = await importKey({ team_id: 't' }, teams)
  expect(row).toMatchObject({ workspace: 'ops', disabled: true })
})

test.each<[string, unknown]>([
  ['a text', 'x'],
  ['nothing', {}],
  ['rows of nobody', { data: [{ id: 1 }] }],
  ['keys without their fields', { keys: ['sk-1', 'sk-2'] }],
  ['both services', [{ token: 'a'.repeat(64) }, { hash: 'a'.repeat(64) }]],
  ['no list', { keys: { a: 1 } }],
])('%s is no export', async (_, exported) => {
  await expect(plan(exported)).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining('export: expected'),
  })
})
