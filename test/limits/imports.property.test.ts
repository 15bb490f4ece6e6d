import { afterEach, expect, test } from 'bun:test'
import fc from 'fast-check'
import { runChecks } from '../../src/app/doctor.ts'
import type { Gateway } from '../../src/app/gateway.ts'
import { hashSecret } from '../../src/base/credential.ts'
import { toUsd } from '../../src/base/money.ts'
import type { CallBudget } from '../../src/limits/call-budgets.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { importExport, planImport } from '../../src/limits/imports.ts'
import { authenticate, getOperator } from '../../src/resources/actor.ts'
import { updateKey } from '../../src/resources/keys.ts'
import { testGateway } from '../support/gateway.ts'
import { LONG } from '../support/random.ts'

const EXPORTS = LONG ? 2_000 : 60

type Row = Record<string, unknown>

let gateway: Gateway
afterEach(() => gateway.close())

const MODELS = ['openai/gpt-4o', 'openai/gpt-4o-mini', 'anthropic/claude-opus-4.5']
/** Names as an export has them, of which some say nothing here. */
const NAMES = ['gpt-4o', 'openai/gpt-4o-mini', 'claude-opus-4.5', 'house-model', 'openai/*']
const EVERY = ['*', 'all-proxy-models', 'all-team-models']

const odd = <Value>(...values: Value[]) => fc.option(fc.constantFrom(...values))
const LIMITED = {
  max_budget: odd<unknown>(0, 1e-12, 0.5, 10, 1e9, 1e10, -1, '10'),
  budget_duration: odd('1d', '7d', '30d', '1mo', '2h', '', 'constructor', '45m'),
  spend: odd<unknown>(0, 0.25, 9.999999999, 10, 10.5, 1e9, -3),
  blocked: odd(true, false),
  models: odd<unknown>(
    [],
    ...NAMES.map(name => [name]),
    NAMES.slice(0, 3),
    ...EVERY.map(n => [n]),
    ['no-default-models'],
  ),
  rpm_limit: odd(0, 5, 60.5),
  tpm_limit: odd(0, 1000, 1e15),
  max_parallel_requests: odd(0.5, 3),
  model_max_budget: odd<unknown>(
    {},
    { 'gpt-4o': { budget_limit: 1, time_period: '1d' } },
    { 'gpt-4o': { budget_limit: '0.5', time_period: '2h' }, 'openai/gpt-4o': { budget_limit: 2 } },
    { 'openai/gpt-4o-mini': { budget_limit: 3, time_period: '30d' } },
    { 'gpt-4o': { budget_limit: 3, time_period: '90d' } },
    { 'gpt-4o': { budget_limit: -1, time_period: '1d' } },
    { 'house-model': { budget_limit: 3, time_period: '1d' } },
  ),
  metadata: odd<unknown>(
    {},
    { tags: ['a'] },
    { guardrails: ['pii'] },
    { model_rpm_limit: { a: 1 } },
  ),
  allowed_routes: odd(['llm_api_routes'], ['/embeddings'], []),
  budget_id: odd('b'),
  litellm_budget_table: odd<unknown>({ max_budget: 3 }, { max_budget: 7, tpm_limit: 5 }, {}),
  allowed_weekdays: odd([1], []),
}
/** Rows with few fields, as most have. */
const sparse = (fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Row> =>
  fc
    .record(fields)
    .chain(row =>
      fc.subarray(Object.keys(row)).map(names => Object.fromEntries(names.map(n => [n, row[n]]))),
    )
const TEAM = fc
  .tuple(
    fc.constantFrom('t1', 't2', 't3'),
    fc.constantFrom('Ops', 'ops', 'Отдел', '-', 'x'.repeat(200), null),
    sparse(LIMITED),
  )
  .map(([team_id, team_alias, more]) => ({ ...more, team_id, team_alias }))
const KEY = fc
  .tuple(fc.nat(7), fc.constantFrom(null, 't1', 't2', 't3', 'gone', ''), sparse(LIMITED))
  .map(([n, team_id, more]) => ({ ...more, token: hashSecret(`sk-${n}`), team_id }))
const EXPORT = fc.record({
  teams: fc.array(TEAM, { maxLength: 3 }),
  keys: fc.array(KEY, { minLength: 1, maxLength: 5 }),
})

const RATES = {
  rpm_limit: 'requests_per_minute',
  tpm_limit: 'tokens_per_minute',
  max_parallel_requests: 'concurrent_requests',
} as const

/** In days, at most. */
const WINDOWS: Record<string, number> = { '2h': 1 / 12, '1d': 1, '30d': 30 }
const PERIODS = { daily: 1, weekly: 7, monthly: 30 }

/** Whether a budget here holds a model to what one of the export did, or to less. */
function isBudgetKept(budgets: CallBudget[], name: string, before: unknown): boolean {
  const { budget_limit, time_period } = before as Row
  return budgets.some(
    ({ by, id, limit, period }) =>
      by === 'model' &&
      id?.endsWith(name) &&
      toUsd(limit) <= Number(budget_limit) &&
      PERIODS[period ?? 'daily'] >= (WINDOWS[String(time_period)] ?? Number.POSITIVE_INFINITY),
  )
}

const isGiven = (value: unknown): boolean =>
  value != null &&
  value !== false &&
  value !== '' &&
  !(typeof value === 'object' && Object.keys(value).length === 0)

/** What a row could spend and call there, in the words of the export; null for no limit. */
function readBefore(row: Row) {
  const budgets = [row, (row.litellm_budget_table ?? {}) as Row].flatMap(
    ({ max_budget: budget }) => (typeof budget === 'number' ? [budget] : []),
  )
  const spend = Math.max(0, Number(row.spend ?? 0))
  const names = row.models as string[] | undefined
  return {
    left: budgets.length > 0 ? Math.max(0, Math.min(...budgets) - spend) : null,
    models: !names?.length || names.some(name => EVERY.includes(name)) ? null : names,
    rates: [row, (row.litellm_budget_table ?? {}) as Row].flatMap(place =>
      Object.entries(RATES).flatMap(([field, name]) =>
        typeof place[field] === 'number' ? [[name, place[field]] as const] : [],
      ),
    ),
    budgets: Object.entries((row.model_max_budget ?? {}) as Record<string, unknown>),
    /** Whether it was held by something that nothing here does. */
    isHeldOtherwise: [
      ...[row.blocked, row.allowed_weekdays],
      (row.metadata as Row | undefined)?.guardrails,
      (row.metadata as Row | undefined)?.model_rpm_limit,
      row.budget_id != null && row.litellm_budget_table == null,
      (row.allowed_routes as string[] | undefined)?.includes('/embeddings'),
    ].some(isGiven),
  }
}

/** Says what a key may do here that it could not, in the oracle's own words. */
function findMore(exported: { teams: Row[]; keys: Row[] }, n: number): string[] {
  const hash = hashSecret(`sk-${n}`)
  const record = gateway.memory.keys.get(hash)
  if (!record || record.disabled) return []
  const {
    bounds,
    rules,
    rates = [],
    budgets = [],
  } = getPolicy(gateway, authenticate(gateway, `Bearer sk-${n}`))
  const left = bounds.map(bound => toUsd(gateway.ledger.getRemaining(bound)))
  const may = MODELS.filter(slug => {
    const endpoint = gateway.catalog.models.get(slug)?.endpoints[0]
    return endpoint && rules.every(rule => !rule.excludes(endpoint))
  })
  // Every row of a key or team that stands there twice holds it.
  const keys = exported.keys.filter(({ token }) => token === hash)
  const teams = exported.teams.filter(team => keys.some(({ team_id }) => team_id === team.team_id))
  const more: string[] = []
  if (keys.some(({ team_id }) => team_id && !teams.some(team => team.team_id === team_id)))
    more.push('its team is not there')
  for (const row of [...keys, ...teams]) {
    const before = readBefore(row)
    if (before.isHeldOtherwise) more.push('it was held by something else')
    if (before.left !== null && !left.some(one => one <= (before.left ?? 0) + 2e-9))
      more.push(`it had ${before.left} left, and has ${left}`)
    for (const [name, rate] of before.rates)
      if (!rates.some(one => (one[name] ?? Number.POSITIVE_INFINITY) <= rate))
        more.push(`it had ${rate} ${name}`)
    for (const [name, budget] of before.budgets)
      if (!isBudgetKept(budgets, name, budget)) more.push(`${name} had a budget`)
    const isNamed = (slug: string) => before.models?.some(name => slug.endsWith(name)) ?? true
    const others = may.filter(slug => !isNamed(slug))
    if (others.length > 0) more.push(`it may call ${others}, and could call ${before.models}`)
  }
  return more
}

test(
  'keys of odd exports may do no more than before',
  async () => {
    let enabled = 0
    await fc.assert(
      fc.asyncProperty(EXPORT, async exported => {
        gateway = await testGateway()
        const planned = await planImport(gateway, getOperator(gateway), exported, {})
        const { data } = await importExport(gateway, getOperator(gateway), exported, {})
        const isDone = data.filter(({ is_done }) => is_done)
        for (const { key: _, is_done: __, ...row } of isDone)
          expect(planned.data.find(one => one.row === row.row)).toMatchObject(row)
        for (let n = 0; n < 8; n += 1) {
          expect(findMore(exported, n)).toEqual([])
          enabled += Number(gateway.memory.keys.get(hashSecret(`sk-${n}`))?.disabled === false)
        }
        for (const row of isDone.filter(({ disabled }) => disabled))
          expect(row.remarks.at(-1)).toMatch(/it is disabled, (in .+|and stays so)$/)
        const checks = await runChecks(gateway, gateway.secrets.mac)
        expect(checks.flatMap(({ problems }) => problems)).toEqual([])
        // A second run changes nothing, and opens nothing.
        const before = [...gateway.memory.keys.values()].map(({ disabled }) => disabled)
        await importExport(gateway, getOperator(gateway), exported, {})
        expect([...gateway.memory.keys.values()].map(({ disabled }) => disabled)).toEqual(before)
        await gateway.close()
      }),
      { numRuns: EXPORTS },
    )
    // An oracle that nothing passes by shows nothing.
    expect(enabled).toBeGreaterThan(EXPORTS / 10)
    gateway = await testGateway()
  },
  LONG ? 600_000 : 60_000,
)

test('the oracle sees a key that may do more', async () => {
  gateway = await testGateway()
  const keys = [{ token: hashSecret('sk-1'), max_budget: 1, models: ['house'] }]
  await importExport(gateway, getOperator(gateway), { keys }, {})
  expect(findMore({ keys, teams: [] }, 1)).toEqual([])
  const change = { disabled: false, limit: 5 }
  await updateKey(gateway, getOperator(gateway), hashSecret('sk-1'), change)
  expect(findMore({ keys, teams: [] }, 1)).toHaveLength(2)
})
