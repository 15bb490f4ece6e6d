import type { NewKey } from '../../identity/keys/schema.ts'
import type { Interval } from '../budgets/interval.ts'

/** A key of another service, as it would be created here. */
export interface KeyRow {
  kind: 'key'
  /** Its place in the export: `keys.3`. */
  row: string
  input: Pick<NewKey, 'name' | 'limit' | 'limit_reset' | 'expires_at' | 'include_byok_in_limit'>
  /** The hash of its secret where that is SHA-256, as here: its holders go on using it. */
  hash: string | null
  /** The service's id of a key whose secret is not known: it gets a new one. */
  external: string | null
  label: string
  disabled: boolean
  /** The team that it belongs to: a workspace here. */
  team: string | null
  /** What cannot be carried over, in words. */
  lost: string[]
}

/** A team of another service: a workspace here, with a budget. */
export interface TeamRow {
  kind: 'team'
  row: string
  id: string
  name: string
  slug: string
  budget: { interval: Interval; limit_usd: number } | null
  lost: string[]
}

/** A row that cannot be read, and why. */
export interface BadRow {
  kind: 'bad'
  row: string
  problem: string
}

export type ImportRow = KeyRow | TeamRow | BadRow
