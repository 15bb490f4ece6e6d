import type { AuditEntry } from '../../identity/audit.ts'
import type { Interval } from './interval.ts'

/**
 * What may be spent in a workspace in one window, by all of its keys together. Times in ISO 8601.
 */
export interface Budget {
  id: string
  workspace_id: string
  interval: Interval
  /** In nano-dollars here, as all money; USD on the wire. */
  limit_usd: bigint
  created_at: string
  updated_at: string
}

/**
 * Remembers budgets: one for a workspace and an interval. What changes one is one transaction with
 * the entry that tells of it.
 */
export interface BudgetStore {
  all(): Promise<Budget[]>
  /**
   * Sets a budget and, unless undefined, whether own provider keys count against all of the
   * workspace. Throws 404 where the workspace is gone, and what `mustDecrease` throws.
   */
  upsert(
    budget: Budget,
    include_byok_in_budgets: boolean | undefined,
    entry: AuditEntry,
  ): Promise<void>
  remove(id: string, entry: AuditEntry): Promise<void>
}
