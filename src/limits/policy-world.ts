import type { Mirror } from '../base/mirror.ts'
import type { PackedMirror } from '../base/packed-mirror.ts'
import type { CatalogWorld } from '../resources/catalog-world.ts'
import type { Assignment, AssignmentStore } from './assignments/store.ts'
import type { Budget, BudgetStore } from './budgets/store.ts'
import type { Policy } from './effective.ts'
import type { Guardrail, GuardrailStore } from './guardrails/store.ts'
import type { LedgerWorld } from './world.ts'

/** What policies need from the gateway. */
export interface PolicyWorld extends CatalogWorld, LedgerWorld {
  catalog: CatalogWorld['catalog']
  store: CatalogWorld['store'] &
    LedgerWorld['store'] & {
      budgets: BudgetStore
      guardrails: GuardrailStore
      assignments: AssignmentStore
    }
  memory: CatalogWorld['memory'] & {
    budgets: Mirror<Budget>
    guardrails: Mirror<Guardrail>
    assignments: PackedMirror<Assignment>
    policies: Map<string, Policy>
    policyWatchers: Set<() => void>
  }
  ledger: LedgerWorld['ledger']
  secrets: CatalogWorld['secrets']
  traffic: CatalogWorld['traffic']
}
