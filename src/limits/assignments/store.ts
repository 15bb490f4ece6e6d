import type { AuditEntry } from '../../resources/audit/store.ts'

/** A guardrail assigned to a key, or to a member for all keys that they made. Times in ISO 8601. */
export interface Assignment {
  id: string
  guardrail_id: string
  kind: 'key' | 'member'
  /** The key's hash, or the member's user id. */
  assignee: string
  assigned_by: string | null
  created_at: string
}

/** Stores assignments: at most one for each key and each member. */
export interface AssignmentStore {
  /** Lists all assignments, or those that memory has under these names. */
  all(names?: string[]): Promise<Iterable<Assignment>>
  /**
   * Adds these, each replacing the one that its assignee had. Throws 409 when a key or a guardrail
   * no longer exists.
   */
  assign(assignments: Assignment[], entry: AuditEntry): Promise<void>
  unassign(assignments: Assignment[], entry: AuditEntry): Promise<void>
}
