import type { Period } from '../../base/clock.ts'
import type { NewKey } from '../../resources/keys/schema.ts'
import type { Interval } from '../budgets/interval.ts'
import type { RATE_FIELDS } from '../rates.ts'

export type HeldRates = Record<(typeof RATE_FIELDS)[number], number | null>

/** What calls of one model could cost in a window, in USD. */
export interface ModelBudget {
  model: string
  limit_usd: number
  reset_interval: Period
}

/** What another service held a key or a team to, as far as it can be carried over. */
interface Held {
  /** Its place in the export: `keys.3`. */
  row: string
  /** The models that it could call, as they are named there; null for all. */
  models: string[] | null
  /** How often it could call; null for no limit. */
  rates: HeldRates
  /** What calls of single models could cost, by their names there. */
  model_budgets: ModelBudget[]
  /** What counts as spent in the window of its budget, in USD. */
  spent: number
  /** What cannot be carried over, in words. */
  lost: string[]
  /** What it could not do there and could here, in words: its keys are created disabled. */
  opens: string[]
}

/** A key of another service, as it would be created here. */
export interface KeyRow extends Held {
  kind: 'key'
  input: Pick<NewKey, 'name' | 'limit' | 'limit_reset' | 'expires_at' | 'include_byok_in_limit'>
  /** The hash of its secret where that is SHA-256, as here: its holders go on using it. */
  hash: string | null
  /** The service's id of a key whose secret is not known: it gets a new one. */
  external: string | null
  label: string
  disabled: boolean
  /** The team that it belongs to: a workspace here. */
  team: string | null
}

/** A team of another service: a workspace here, with a budget. */
export interface TeamRow extends Held {
  kind: 'team'
  id: string
  name: string
  budget: { interval: Interval; limit_usd: number } | null
}

/** A row that cannot be read, and why. */
interface BadRow {
  kind: 'bad'
  row: string
  /** The key or team that it is about, as far as it says so. */
  of: string | null
  problem: string
}

export type ImportRow = KeyRow | TeamRow | BadRow
