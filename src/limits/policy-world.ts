import type { Mirror, PackedMirror } from '../base/mirror.ts'
import type { Region } from '../language/call.ts'
import type { CatalogWorld } from '../resources/catalog-world.ts'
import type { EndpointRule } from '../resources/models/catalog.ts'
import type { Assignment, AssignmentStore } from './assignments/store.ts'
import type { Budget, BudgetStore } from './budgets/store.ts'
import type { CallBudget } from './call-budgets.ts'
import type { Filters } from './filters.ts'
import type { Guardrail, GuardrailStore } from './guardrails/store.ts'
import type { Bound } from './ledger.ts'
import type { Rate } from './rates.ts'
import type { LedgerWorld } from './world.ts'
import type { ZdrGroup } from './zdr.ts'

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

/**
 * Everything that applies to an actor's calls, combined. Built once for a key, and dropped when
 * anything that it is built from changes.
 */
export interface Policy {
  /** What may be spent. Each bound is counted by itself. */
  bounds: Bound[]
  /** Where a call may go: to the endpoints that no rule excludes. */
  rules: Rule[]
  /** The regions of the gateway that a call may come in through. */
  regions: Region[]
  /** The groups of models whose calls are not kept; absent where there are none. */
  zdr?: ZdrGroup[]
  /** The share of calls whose content is kept, at most 1; absent where none is. */
  contentShare?: number
  /** How often calls may be made, by guardrail; absent where none says so. */
  rates?: Rate[]
  /** What calls of one end user, tag or model may cost; absent where no guardrail says so. */
  budgets?: CallBudget[]
  /** The content filters of its calls and their answers; absent where there are none. */
  filters?: Promise<Filters>
}

/** One field of a guardrail that excludes endpoints. */
export interface Rule extends EndpointRule {
  guardrail_id: string
  field: keyof Guardrail
  /** Its value in `error.availability.excluded_by` (wire reference L.3). */
  excludedBy: string
}
