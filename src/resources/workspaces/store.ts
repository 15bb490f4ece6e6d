import type { AuditEntry } from '../audit/store.ts'
import type { KeyDisabling } from '../keys/store.ts'

/** A workspace groups keys and rules. A new gateway has a default one. Times in ISO 8601. */
export interface Workspace {
  id: string
  name: string
  slug: string
  description: string | null
  is_default: boolean
  /** The model of calls that name none. Null means the gateway's own default. */
  default_text_model: string | null
  default_image_model: string | null
  default_provider_sort: 'price' | 'throughput' | 'latency' | 'exacto' | null
  /** Whether spending through the caller's own provider keys counts against the budgets. */
  include_byok_in_budgets: boolean
  is_observability_io_logging_enabled: boolean
  is_observability_broadcast_enabled: boolean
  is_data_discount_logging_enabled: boolean
  io_logging_sampling_rate: number
  io_logging_api_key_ids: number[] | null
  disabled_server_tools: string[] | null
  created_by: string
  created_at: string
  updated_at: string | null
}

/** Stores workspaces. Each change is one transaction with its audit entries. */
export interface WorkspaceStore {
  /** Lists the workspaces that are not deleted: all, or those that have these ids. */
  all(ids?: string[]): Promise<Workspace[]>
  /** Inserts a workspace, unless one with this id exists or existed. */
  insertIfAbsent(workspace: Workspace): Promise<void>
  /** Inserts a new workspace. Throws 400 when another has its slug. */
  insert(workspace: Workspace, entry: AuditEntry): Promise<void>
  /**
   * Changes only these fields of a workspace. Throws 400 when another has its slug, and 404 when it
   * was deleted.
   */
  update(id: string, change: Partial<Workspace>, entry: AuditEntry): Promise<void>
  /**
   * Deletes a workspace with everything in it, and disables these keys. References to it stay.
   * Throws 404 when it was deleted before, and 400 when another key is active in it. Throws 409
   * when one of its unscoped keys was created or deleted at the same moment.
   */
  remove(workspace: Workspace, keys: KeyDisabling, entry: AuditEntry): Promise<void>
}

/** The owner of this data directory, and the workspace of everything that names none. */
export interface Owner {
  user_id: string
  workspace_id: string
}
