import type { Region } from '../../language/call.ts'
import type { AuditEntry } from '../../resources/audit/store.ts'
import type { DestinationType } from './kind.ts'
import type { FilterRules } from './schema.ts'

/**
 * Where a workspace's calls are told. The config is sealed, as it holds credentials. Times are ISO
 * 8601.
 */
export interface Destination {
  id: string
  workspace_id: string
  type: DestinationType
  name: string
  /** The config as JSON, sealed for this id. */
  sealed: string
  enabled: boolean
  /** Since when nothing is sent though calls are still kept for it; null if it is sent. */
  paused_at: string | null
  /** The API keys whose calls are told. Null means all. */
  api_key_hashes: string[] | null
  /** The regions of the calls that are told. */
  regions: Region[]
  broadcast_generation_cost: boolean
  broadcast_generation_identity: boolean
  broadcast_generation_request_context: boolean
  filter_rules: FilterRules | null
  privacy_mode: boolean
  sampling_rate: number
  created_at: string
  updated_at: string
}

/** Stores destinations. Each change is one transaction with its audit entry. */
export interface DestinationStore {
  /** Returns the destinations that were not deleted: all, or those that have these ids. */
  all(ids?: string[]): Promise<Destination[]>
  /**
   * Inserts a destination. Throws 400 where the workspace no longer exists, and 409 where it has
   * `most` of this type.
   */
  insert(destination: Destination, most: number, entry: AuditEntry): Promise<void>
  /** Changes only these fields: another process may have changed the others. */
  update(id: string, change: Partial<Destination>, entry: AuditEntry): Promise<void>
  /**
   * Erases the config and everything that waits or has failed, and keeps the record that there was
   * a destination.
   */
  remove(id: string, at: string, entry: AuditEntry): Promise<void>
}
