import type { AuditEntry } from '../audit.ts'
import type { Disabling } from '../keys/store.ts'

/** A place for keys and rules. Every gateway has a default one at first. Times in ISO 8601. */
export interface Workspace {
  id: string
  name: string
  slug: string
  description: string | null
  is_default: boolean
  /** The model of a call that names none; null: the gateway's own default. */
  default_text_model: string | null
  default_image_model: string | null
  default_provider_sort: 'price' | 'throughput' | 'latency' | 'exacto' | null
  /** Whether spending through own provider keys counts against the workspace's budgets. */
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

/** Remembers workspaces. What changes one is one transaction with the entries that tell of it. */
export interface WorkspaceStore {
  /** Those that were not deleted. */
  all(): Promise<Workspace[]>
  /** A workspace, unless there is or was one with this id. */
  first(workspace: Workspace): Promise<void>
  /** A new one. Throws 400 where another has its slug. */
  insert(workspace: Workspace, entry: AuditEntry): Promise<void>
  /**
   * Changes these fields of a workspace and no others. Throws 400 where another has its slug, and
   * 404 where it is gone.
   */
  update(id: string, change: Partial<Workspace>, entry: AuditEntry): Promise<void>
  /**
   * Deletes a workspace with all that is in it, and disables these keys. What points to it stays.
   * Throws 404 where it is gone, 400 where another key is active in it, and 409 where one of its
   * unscoped keys came or went at the same moment.
   */
  remove(workspace: Workspace, keys: Disabling, entry: AuditEntry): Promise<void>
}

/** Who owns this data directory, and where what names no workspace belongs. */
export interface Owner {
  user_id: string
  workspace_id: string
}
