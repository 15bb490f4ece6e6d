import type { Period } from '../../base/clock.ts'
import type { Region } from '../../language/call.ts'
import type { AuditEntry } from '../../resources/audit/store.ts'
import type { LABELS } from '../filters/labels.data.ts'
import type { McpRule } from './mcp-rule.ts'

/** What happens to what a content filter finds. */
type FilterAction = 'redact' | 'block' | 'flag'

/** What the calls of an account are told apart by. */
export type Dimension = 'end_user' | 'tag' | 'model'

/** What calls of one end user, tag or model may cost in one window. */
export interface StoredCallBudget {
  by: Dimension
  /** Null: each that no other one names, by itself. */
  name: string | null
  /** Nano-dollars. */
  limit_usd: bigint
  reset_interval: Period
}

/**
 * Rules for the calls of the keys and members that it is assigned to (specification, Guardrail
 * record). A null field sets no rule. Times in ISO 8601.
 */
export interface Guardrail {
  id: string
  workspace_id: string
  name: string
  description: string | null
  allowed_data_regions: Region[] | null
  /** Slugs of models. */
  allowed_models: string[] | null
  ignored_models: string[] | null
  /** Names of providers, as they were entered. */
  allowed_providers: string[] | null
  ignored_providers: string[] | null
  /** What may be used at `/mcp`. */
  mcp: McpRule | null
  content_filter_builtins:
    | {
        slug: keyof typeof LABELS
        action: FilterAction
        scan_scope?: 'user_only' | 'all_messages'
      }[]
    | null
  content_filters: { pattern: string; action: FilterAction; label: string | null }[] | null
  /** Whether the content filters scan answers too. */
  filterOutput: boolean
  enable_free_model_publication: boolean | null
  enable_free_model_training: boolean | null
  enable_paid_model_training: boolean | null
  /** Deprecated: the value last copied into all groups. It has no effect of its own. */
  enforce_zdr: boolean | null
  enforce_zdr_anthropic: boolean | null
  enforce_zdr_google: boolean | null
  enforce_zdr_openai: boolean | null
  enforce_zdr_other: boolean | null
  enforce_zdr_xai: boolean | null
  /** Nano-dollars. Set together with `reset_interval`, or both are null. */
  limit_usd: bigint | null
  reset_interval: Period | null
  budgets: StoredCallBudget[] | null
  include_byok_in_budgets: boolean
  requests_per_minute: number | null
  tokens_per_minute: number | null
  concurrent_requests: number | null
  /** Counts changes, so that none overwrites one that was not seen. */
  revision: number
  created_at: string
  updated_at: string | null
}

/** Stores guardrails. An id is unique: inserting a second one throws 409. */
export interface GuardrailStore {
  /** Lists all guardrails, or those that have these ids. */
  all(ids?: string[]): Promise<Guardrail[]>
  insert(guardrail: Guardrail, entry: AuditEntry): Promise<void>
  /** Replaces the revision before this one. Throws 409 when that is no longer current. */
  replace(guardrail: Guardrail, entry: AuditEntry): Promise<void>
  /** Removes a guardrail and its assignments. Throws 404 when it was deleted before. */
  remove(id: string, entry: AuditEntry): Promise<void>
}
