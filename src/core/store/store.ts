import type { ByokStore } from '../catalog/byok.ts'
import type { PresetStore } from '../catalog/presets.ts'
import type { AuditStore } from '../identity/audit.ts'
import type { KeyStore } from '../identity/keys.ts'
import type { MemberStore } from '../identity/members.ts'
import type { ScimStore } from '../identity/scim.ts'
import type { Owner, WorkspaceStore } from '../identity/workspaces.ts'
import type { CreditStore } from '../ledger/credits.ts'
import type { LedgerStore } from '../ledger/ledger.ts'
import type { AssignmentStore } from '../policy/assignments.ts'
import type { BudgetStore } from '../policy/budgets.ts'
import type { GuardrailStore } from '../policy/guardrails.ts'
import type { GenerationStore } from '../telemetry/generations.ts'
import type { OutboxStore } from '../telemetry/outbox.ts'

/**
 * Everything that is remembered, one property per noun. A method is one transaction: it sees the
 * store at one moment, and what it does is done whole or not at all. All of them give promises and
 * none throws at once, so that a database behind a connection can be one; `test/suites/store.ts`
 * says what every store must do.
 */
export interface Store {
  keys: KeyStore
  byok: ByokStore
  workspaces: WorkspaceStore
  members: MemberStore
  scim: ScimStore
  budgets: BudgetStore
  presets: PresetStore
  audit: AuditStore
  credits: CreditStore
  guardrails: GuardrailStore
  assignments: AssignmentStore
  ledger: LedgerStore
  generations: GenerationStore
  outbox: OutboxStore
  /** The owner of this memory; the candidate becomes it when there is none yet. */
  owner(candidate: Owner): Promise<Owner>
  /** Changes exactly when another process has written. */
  version(): Promise<number>
  close(): Promise<void>
}
