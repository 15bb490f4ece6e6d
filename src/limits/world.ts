import type { IdentityWorld } from '../resources/world.ts'
import type { CreditStore } from './credits.ts'
import type { Ledger } from './ledger.ts'

/** What the ledger needs from the gateway. */
export interface LedgerWorld extends IdentityWorld {
  store: IdentityWorld['store'] & { credits: CreditStore }
  memory: IdentityWorld['memory'] & { policies: Map<string, unknown> }
  ledger: Ledger
  instance: { siteUrl: string }
}
