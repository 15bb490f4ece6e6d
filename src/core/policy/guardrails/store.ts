import type { AuditEntry } from '../../identity/audit.ts'
import type { Period } from '../../kernel/clock.ts'
import type { Region } from '../../language/region.ts'
import type { LABELS } from '../filters/labels.data.ts'

/** What happens to what a content filter finds. */
export type FilterAction = 'redact' | 'block' | 'flag'

/**
 * Rules for calls, which hold for whom they are assigned to (specification, Guardrail record). Null
 * says nothing. Times in ISO 8601.
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
  /** Providers as they were called. */
  allowed_providers: string[] | null
  ignored_providers: string[] | null
  content_filter_builtins:
    | {
        slug: keyof typeof LABELS
        action: FilterAction
        scan_scope?: 'user_only' | 'all_messages'
      }[]
    | null
  content_filters: { pattern: string; action: FilterAction; label: string | null }[] | null
  /** Whether they scan what models say as well. */
  filterOutput: boolean
  enable_free_model_publication: boolean | null
  enable_free_model_training: boolean | null
  enable_paid_model_training: boolean | null
  /** Deprecated: what the groups were last given at once. It rules nothing itself. */
  enforce_zdr: boolean | null
  enforce_zdr_anthropic: boolean | null
  enforce_zdr_google: boolean | null
  enforce_zdr_openai: boolean | null
  enforce_zdr_other: boolean | null
  enforce_zdr_xai: boolean | null
  /** Nano-dollars; with an interval, or neither. */
  limit_usd: bigint | null
  reset_interval: Period | null
  include_byok_in_budgets: boolean
  /** Counts its changes, so that none is made over one that was not seen. */
  revision: number
  created_at: string
  updated_at: string | null
}

/** Remembers guardrails. An id is unique: 409 for a second one. */
export interface GuardrailStore {
  all(): Promise<Guardrail[]>
  insert(guardrail: Guardrail, entry: AuditEntry): Promise<void>
  /** Puts this in the place of the revision before it. Throws 409 when that is no longer there. */
  replace(guardrail: Guardrail, entry: AuditEntry): Promise<void>
  /** Forgets a guardrail and who had it. */
  remove(id: string, entry: AuditEntry): Promise<void>
}
