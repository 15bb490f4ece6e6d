import { type Static, Type } from '@sinclair/typebox'
import { hashSecret, maskSecret } from '../../identity/keys/secret.ts'
import { MAX_USD } from '../../kernel/money.ts'
import { open, optional } from '../../kernel/schema-builders.ts'
import type { Interval } from '../budgets/interval.ts'
import type { KeyRow, TeamRow } from './rows.ts'

const Text = optional(Type.String({ maxLength: 1_000 }))
const Usd = optional(Type.Number({ minimum: 0, maximum: MAX_USD }))
const LIMITED = { max_budget: Usd, budget_duration: Text }

/** A key of `GET /key/list?return_full_object=true`. */
export const LiteLlmKey = Type.Object(
  {
    token: Type.String({ minLength: 8, maxLength: 1_000 }),
    key_alias: Text,
    key_name: Text,
    team_id: Text,
    expires: Text,
    blocked: optional(Type.Boolean()),
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

/** What of a key or team has no place here, and why. */
const LOST: [field: string, why: string][] = [
  ['spend', 'spending begins at 0'],
  ['models', 'models are allowed by guardrails'],
  ['tpm_limit', 'there are no limits of tokens per minute'],
  ['rpm_limit', 'rate limits are the same for all keys'],
  ['max_parallel_requests', 'rate limits are the same for all keys'],
  ['soft_budget', 'there are no soft budgets'],
  ['model_max_budget', 'there are no budgets of models'],
  ['user_id', 'members are not imported'],
  ['members_with_roles', 'members are not imported'],
  ['guardrails', 'guardrails are not imported'],
  ['metadata', 'there is no metadata'],
  ['aliases', 'presets stand for models'],
]

const hasValue = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  value !== 0 &&
  !(typeof value === 'object' && Object.keys(value as object).length === 0)

const listLost = (row: Record<string, unknown>): string[] =>
  LOST.filter(([field]) => hasValue(row[field])).map(([field, why]) => `${field}: ${why}`)

const INTERVALS: Record<string, Exclude<Interval, 'lifetime'>> = {
  '1d': 'daily',
  '24h': 'daily',
  '7d': 'weekly',
  '1w': 'weekly',
  '30d': 'monthly',
  '1mo': 'monthly',
}

/** Finds the window of a budget. One of another length becomes one of all time, which is stricter. */
function readInterval(duration: string | null | undefined, lost: string[]): Interval {
  if (duration == null || duration === '') return 'lifetime'
  const interval = INTERVALS[duration]
  if (!interval) lost.push(`budget_duration: there is no window of ${duration}: it is of all time`)
  return interval ?? 'lifetime'
}

/** Reads a key. Its `token` is the SHA-256 of its secret, as ours are. */
export function readLiteLlmKey(row: string, key: LiteLlmKey): KeyRow {
  const lost = listLost(key)
  const interval = readInterval(key.max_budget == null ? null : key.budget_duration, lost)
  const isHash = /^[0-9a-f]{64}$/.test(key.token)
  const label = key.key_name || (isHash ? `${key.token.slice(0, 9)}...` : maskSecret(key.token))
  return {
    ...{ kind: 'key', row, lost, label, external: null, team: key.team_id || null },
    hash: isHash ? key.token : hashSecret(key.token),
    disabled: key.blocked === true,
    input: {
      name: key.key_alias || label,
      limit: key.max_budget ?? null,
      limit_reset: interval === 'lifetime' ? null : interval,
      expires_at: readTime(key.expires),
    },
  }
}

/** Reads a time, which has no zone in some versions and is in UTC. Throws for none. */
function readTime(text: string | null | undefined): string | null {
  if (text == null || text === '') return null
  const hasZone = /(Z|[+-]\d\d:?\d\d)$/.test(text)
  return new Date(hasZone ? text : `${text}Z`).toISOString()
}

/** Reads a team. */
export function readLiteLlmTeam(row: string, team: LiteLlmTeam): TeamRow {
  const lost = listLost(team)
  const interval = readInterval(team.max_budget == null ? null : team.budget_duration, lost)
  const name = team.team_alias || team.team_id
  return {
    ...{ kind: 'team', row, id: team.team_id, name, slug: toSlug(name), lost },
    budget: team.max_budget ? { interval, limit_usd: team.max_budget } : null,
  }
}

const toSlug = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 50)
