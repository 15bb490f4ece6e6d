import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/core/gateway.ts'
import { authenticate, getOperator } from '../../../src/core/identity/actor.ts'
import { hashSecret } from '../../../src/core/identity/keys/secret.ts'
import { importExport, planImport } from '../../../src/core/policy/imports.ts'
import { testGateway } from '../../support/gateway.ts'

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
      models: ['gpt-4o'],
      rpm_limit: 10,
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
    'spend: spending begins at 0; models: models are allowed by guardrails; ' +
      'rpm_limit: rate limits are the same for all keys',
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
    'usage: spending begins at 0',
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
