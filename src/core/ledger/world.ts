import type { IdentityWorld } from '../identity/world.ts'
import type { CreditStore } from './credits.ts'
import type { Ledger, LedgerStore } from './ledger.ts'

/** What the ledger needs from the gateway. */
export interface LedgerWorld extends IdentityWorld {
  store: IdentityWorld['store'] & { credits: CreditStore; ledger: LedgerStore }
  memory: IdentityWorld['memory'] & { policies: Map<string, unknown> }
  ledger: Ledger
  instance: { siteUrl: string }
}
