import { type Static, Type } from '@sinclair/typebox'
import type { Period } from '../../base/clock.ts'
import { hashSecret, maskSecret } from '../../base/credential.ts'
import { isObject, type Json, readObject } from '../../base/json.ts'
import { MAX_USD, toNanos } from '../../base/money.ts'
import { open, optional } from '../../base/schema-builders.ts'
import type { Interval } from '../budgets/interval.ts'
import { clampSpent, hasValue, listUnknown, readTime } from './fields.ts'
import type { HeldRates, KeyRow, ModelBudget, TeamRow } from './rows.ts'

const Text = optional(Type.String({ maxLength: 1_000 }))
const Count = optional(Type.Number({ minimum: 0 }))
const BUDGET = {
  max_budget: optional(Type.Number({ minimum: 0, maximum: MAX_USD })),
  budget_duration: Text,
  rpm_limit: Count,
  tpm_limit: Count,
  max_parallel_requests: Count,
}
const LIMITED = {
  ...BUDGET,
  litellm_budget_table: optional(Type.Object(BUDGET, open)),
  spend: optional(Type.Number()),
  blocked: optional(Type.Boolean()),
  models: optional(Type.Array(Type.String({ maxLength: 1_000 }), { maxItems: 10_000 })),
}

/** A key of `GET /key/list?return_full_object=true`. */
export const LiteLlmKey = Type.Object(
  {
    token: Type.String({ minLength: 8, maxLength: 1_000 }),
    key_alias: Text,
    key_name: Text,
    team_id: Text,
    expires: Text,
    ...LIMITED,
  },
  open,
)
type LiteLlmKey = Static<typeof LiteLlmKey> & Record<string, unknown>

/** A team of `GET /team/list`. */
export const LiteLlmTeam = Type.Object(
  { team_id: Type.String({ minLength: 1, maxLength: 1_000 }), team_alias: Text, ...LIMITED },
  open,
)
type LiteLlmTeam = Static<typeof LiteLlmTeam> & Record<string, unknown>

/** What gives, tells or names something, is lost, and opens nothing. */
const LOST: [field: string, why: string][] = [
  ['soft_budget', 'workspaces have soft budgets, keys have none'],
  ['user_id', 'members are not imported'],
  ['members_with_roles', 'members are not imported'],
  ['metadata', 'there is no metadata'],
]

/** What restricts, and has no place here, and why: a key without it could do more. */
const RESTRICTING: [field: string, why: string][] = [
  ['budget_limits', 'a key has one budget'],
  ['model_rpm_limit', 'there are no rate limits of models'],
  ['model_tpm_limit', 'there are no rate limits of models'],
  ['guardrails', 'guardrails are not imported'],
  ['policies', 'policies are not imported'],
  ['aliases', 'presets stand for models'],
  ['model_aliases', 'presets stand for models'],
  ['enforced_params', 'no parameter is required here'],
  ['access_group_ids', 'groups of models are not in the export'],
  ['organization_id', 'its organization is not in the export'],
  ['org_id', 'its organization is not in the export'],
  ['project_id', 'its project is not in the export'],
  ['team_member_budget', 'there are no budgets of members of a team'],
  ['team_member_budget_id', 'there are no budgets of members of a team'],
  ['team_member_budget_table', 'there are no budgets of members of a team'],
]

/** What is carried over from a row, and not from its metadata. */
const NOT_OF_METADATA = ['rpm_limit', 'tpm_limit', 'max_parallel_requests', 'model_max_budget'].map(
  (field): [string, string] => [field, 'it is read beside the metadata only'],
)

/** What looks as if it restricted, and does not: carried over, a grant, or a note. */
const HARMLESS = [
  ...['max_budget', 'budget_duration', 'budget_reset_at', 'soft_budget', 'soft_budget_cooldown'],
  ...['blocked', 'rpm_limit', 'tpm_limit', 'max_parallel_requests', 'model_max_budget'],
  ...['permissions', 'object_permission'],
  ...['object_permission_id', 'allowed_cache_controls', 'litellm_budget_table', 'allowed_routes'],
  ...['team_member_permissions', 'budget_id', 'rpm_limit_type', 'tpm_limit_type'],
  ...[
    'temp_budget_increase',
    'temp_budget_expiry',
    'last_refreshed_at',
    'disable_global_guardrails',
  ],
]

const list = (row: Record<string, unknown>, fields: [string, string][]): string[] =>
  fields.filter(([field]) => hasValue(row[field])).map(([field, why]) => `${field}: ${why}`)

/**
 * Lists what a row could not do there and could here. Metadata restricts as fields do, and a field
 * that is not known is taken by its name.
 */
function listOpens(row: Record<string, unknown>): string[] {
  const { metadata, litellm_budget_table: shared, allowed_routes, budget_id } = row
  const known = [...RESTRICTING, ...LOST].map(([field]) => field)
  const found = [
    ...list(row, RESTRICTING),
    ...(isObject(metadata) ? list(metadata, [...RESTRICTING, ...NOT_OF_METADATA]) : []),
    ...[row, ...(isObject(shared) ? [shared] : [])].flatMap(place =>
      listUnknown(place, [...known, ...HARMLESS]),
    ),
  ]
  if (isObject(shared)) found.push(...listDifferent(row, shared))
  else if (hasValue(budget_id)) found.push('budget_id: its budget is not in the export')
  if (hasValue(allowed_routes) && !isOfInference(allowed_routes))
    found.push('allowed_routes: keys may call every route of inference')
  return [...new Set(found)]
}

/** What a budget of its own, which several may share, holds each of them to. */
const SHARED = [
  ...(['max_budget', 'budget_duration', 'rpm_limit', 'max_parallel_requests'] as const),
  ...(['tpm_limit', 'model_max_budget'] as const),
]

/** Lays the budget that a key or team refers to under its own fields. */
function layBudget<Row extends LiteLlmKey | LiteLlmTeam>(row: Row): Row {
  const [own, shared]: Json[] = [row, readObject(row, 'litellm_budget_table')]
  const missing = SHARED.filter(field => own?.[field] == null && shared?.[field] != null)
  return { ...row, ...Object.fromEntries(missing.map(field => [field, shared?.[field]])) }
}

const listDifferent = (row: Record<string, unknown>, shared: Record<string, unknown>): string[] =>
  SHARED.filter(field => shared[field] != null && !Bun.deepEquals(shared[field], row[field])).map(
    field => `litellm_budget_table.${field}: it has two, and one is kept`,
  )

const isOfInference = (routes: unknown): boolean =>
  Array.isArray(routes) && routes.includes('llm_api_routes')

const INTERVALS: Record<string, Exclude<Interval, 'lifetime'>> = {
  '1d': 'daily',
  '24h': 'daily',
  '7d': 'weekly',
  '1w': 'weekly',
  '30d': 'monthly',
  '1mo': 'monthly',
}

/** Finds the window of a budget. One of another length becomes one of all time, which is stricter. */
function readInterval(row: LiteLlmKey | LiteLlmTeam, lost: string[]): Interval {
  const { max_budget, budget_duration: duration } = row
  if (max_budget == null || duration == null || duration === '') return 'lifetime'
  const interval = Object.hasOwn(INTERVALS, duration) ? INTERVALS[duration] : undefined
  lost.push(
    interval
      ? `budget_duration: its window begins with the calendar’s, ${interval}`
      : `budget_duration: there is no window of ${duration}: it is of all time`,
  )
  return interval ?? 'lifetime'
}

/** Says what counts as spent: only a budget needs it. */
function readSpent({ spend, max_budget }: LiteLlmKey | LiteLlmTeam, lost: string[]): number {
  const spent = max_budget == null ? 0 : clampSpent(spend)
  if (spent > 0) lost.push(`spend: $${spent} of its budget is counted as spent`)
  else if ((spend ?? 0) > 0) lost.push('spend: without a budget, spending begins at 0')
  return spent
}

/** What rates are called there and here. */
const RATES = {
  rpm_limit: 'requests_per_minute',
  tpm_limit: 'tokens_per_minute',
  max_parallel_requests: 'concurrent_requests',
} as const

/** The most that a guardrail takes. */
const HIGHEST_RATE = 1_000_000_000_000

/** Reads how often it could call. A part of a call is none. */
function readRates(row: LiteLlmKey | LiteLlmTeam, opens: string[]): HeldRates {
  const rates: HeldRates = {
    ...{ requests_per_minute: null, tokens_per_minute: null, concurrent_requests: null },
  }
  for (const [field, name] of Object.entries(RATES)) {
    const rate = row[field as keyof typeof RATES]
    if (rate == null) continue
    if (rate < 1) opens.push(`${field}: there is no ${name} below 1`)
    else rates[name] = Math.min(HIGHEST_RATE, Math.floor(rate))
  }
  return rates
}

/** Reads what calls of single models could cost: amounts, or objects that have a window too. */
function readModelBudgets(
  { model_max_budget: budgets }: Record<string, unknown>,
  { lost, opens }: { lost: string[]; opens: string[] },
): ModelBudget[] {
  if (!hasValue(budgets)) return []
  if (!isObject(budgets)) {
    opens.push('model_max_budget: expected an object')
    return []
  }
  return Object.entries(budgets).flatMap(([model, entry]) => {
    const place = `model_max_budget.${model.slice(0, 100)}`
    const fields: Json = isObject(entry) ? entry : { budget_limit: entry as never }
    opens.push(...list(fields, OF_MODELS).map(one => `${place}.${one}`))
    const limit_usd = readAmount(fields.budget_limit ?? fields.max_budget)
    const reset_interval = findPeriod(fields.time_period ?? fields.budget_duration)
    if (limit_usd === undefined) opens.push(`${place}: expected an amount`)
    else if (!reset_interval)
      opens.push(`${place}: budgets of models have a window of a month at most`)
    if (limit_usd === undefined || !reset_interval) return []
    lost.push(`${place}: its window is the calendar’s, ${reset_interval}, and begins at $0`)
    return { model, limit_usd, reset_interval }
  })
}

/** What else may hold calls of one model there. */
const OF_MODELS = ['rpm_limit', 'tpm_limit'].map((field): [string, string] => [
  field,
  'there are no rate limits of models',
])

function readAmount(value: unknown): number | undefined {
  const amount = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof amount === 'number' && amount >= 0 && amount <= MAX_USD ? amount : undefined
}

/** In days. */
const UNITS: Record<string, number> = { s: 1 / 86_400, m: 1 / 1440, h: 1 / 24, d: 1, w: 7, mo: 30 }
const LENGTHS = [
  [1, 'daily'],
  [7, 'weekly'],
  [30, 'monthly'],
] as const

/** Finds a window that is as long or longer, which is as strict or stricter; undefined for none. */
function findPeriod(duration: unknown): Period | undefined {
  const [, count, unit = ''] = /^(\d{1,9})(s|m|h|d|w|mo)$/.exec(String(duration)) ?? []
  const days = Number(count) * (UNITS[unit] ?? Number.NaN)
  return LENGTHS.find(([most]) => days > 0 && days <= most)?.[1]
}

const EVERY_MODEL = ['*', 'all-proxy-models', 'all-team-models']

/** Reads the models that may be called; null for all. A key that may call none has an empty list. */
function readModels({ models }: LiteLlmKey | LiteLlmTeam): string[] | null {
  if (!models || models.length === 0 || models.some(name => EVERY_MODEL.includes(name))) return null
  return models.filter(name => name !== 'no-default-models')
}

/** Reads the hash of a key’s secret from its token, which is the secret in some versions. */
export const readHash = (token: string): string =>
  /^[0-9a-f]{64}$/.test(token) ? token : hashSecret(token)

/** Reads a key. Its `token` is the SHA-256 of its secret, as ours are. */
export function readLiteLlmKey(row: string, exported: LiteLlmKey): KeyRow {
  const key = layBudget(exported)
  const lost = list(key, LOST)
  const opens = listOpens(key)
  const interval = readInterval(key, lost)
  const hash = readHash(key.token)
  const isHash = hash === key.token
  const label = key.key_name || (isHash ? `${hash.slice(0, 9)}...` : maskSecret(key.token))
  return {
    ...{ kind: 'key', row, lost, label, external: null, team: key.team_id || null },
    hash,
    disabled: key.blocked === true,
    models: readModels(key),
    spent: readSpent(key, lost),
    rates: readRates(key, opens),
    model_budgets: readModelBudgets(key, { lost, opens }),
    opens,
    input: {
      name: key.key_alias || label,
      limit: key.max_budget ?? null,
      limit_reset: interval === 'lifetime' ? null : interval,
      expires_at: readTime(key.expires),
    },
  }
}

/** Reads a team. What restricts it restricts its keys. */
export function readLiteLlmTeam(row: string, exported: LiteLlmTeam): TeamRow {
  const team = layBudget(exported)
  const lost = list(team, LOST)
  const interval = readInterval(team, lost)
  const { max_budget, blocked } = team
  const opens = listOpens(team)
  if (blocked) opens.push('blocked: a workspace cannot be blocked')
  const isNothing = max_budget != null && toNanos(max_budget) === 0n
  if (isNothing) opens.push('max_budget: a workspace has no budget of $0')
  return {
    ...{ kind: 'team', row, id: team.team_id, name: team.team_alias || team.team_id, lost, opens },
    models: readModels(team),
    rates: readRates(team, opens),
    model_budgets: readModelBudgets(team, { lost, opens }),
    spent: readSpent(team, lost),
    budget: max_budget == null || isNothing ? null : { interval, limit_usd: max_budget },
  }
}
