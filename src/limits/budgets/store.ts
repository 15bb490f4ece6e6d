import type { AuditEntry } from '../../resources/audit/store.ts'
import type { Interval } from './interval.ts'

/**
 * The limit on what all keys of a workspace may spend together in one window. Times in ISO 8601.
 */
export interface Budget {
  id: string
  workspace_id: string
  interval: Interval
  /** In nano-dollars, as all money inside; USD on the wire. */
  limit_usd: bigint
  /** Whether it refuses nothing, and alerts alone tell that it is near. */
  soft: boolean
  created_at: string
  updated_at: string
}

/**
 * Stores budgets: one for each workspace and interval. A change and its audit entry are one
 * transaction.
 */
export interface BudgetStore {
  /** Lists all budgets, or those that memory has under these names. */
  all(names?: string[]): Promise<Budget[]>
  /**
   * Sets a budget and, unless undefined, whether callers' own provider keys count in all budgets of
   * the workspace. Throws 404 where the workspace no longer exists, and what `assertLimitsDecrease`
   * throws.
   */
  upsert(
    budget: Budget,
    include_byok_in_budgets: boolean | undefined,
    entry: AuditEntry,
  ): Promise<void>
  remove(id: string, entry: AuditEntry): Promise<void>
}
