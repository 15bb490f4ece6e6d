import type { AuditEntry } from '../resources/audit/store.ts'
import type { IdentityWorld } from '../resources/world.ts'
import type { Ledger, Opening } from './ledger.ts'

/** What the ledger needs from the gateway. */
export interface LedgerWorld extends IdentityWorld {
  store: IdentityWorld['store'] & { credits: CreditStore }
  memory: IdentityWorld['memory'] & { policies: Map<string, unknown> }
  ledger: Ledger
  instance: { siteUrl: string }
}

/** Stores credits. They are only added, never changed or removed. */
export interface CreditStore {
  /**
   * Adds a credit. With an opening, it pays for what that opens an account with, in one transaction;
   * both are left out where an opening of that id is there.
   */
  insert(credit: Credit, entry: AuditEntry, opening?: Opening): Promise<void>
  /** Returns the sum of all credits. */
  computeTotal(): Promise<bigint>
  /** Returns one page, newest first, and the total count. */
  listPage(offset: number, limit: number): Promise<{ credits: Credit[]; count: number }>
}

/**
 * An amount paid in. A correction is another credit with a negative amount. Money in nano-dollars,
 * times in ISO 8601.
 */
export interface Credit {
  id: string
  created_at: string
  amount: bigint
  note: string | null
  user_id: string
}
