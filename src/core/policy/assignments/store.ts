import type { AuditEntry } from '../../identity/audit.ts'

/** A guardrail of a key's own, or of a member's: for all keys that he made. Times in ISO 8601. */
export interface Assignment {
  id: string
  guardrail_id: string
  kind: 'key' | 'member'
  /** The key's hash, or the member's user id. */
  assignee: string
  assigned_by: string | null
  created_at: string
}

/** Remembers who has which guardrail: at most one each. */
export interface AssignmentStore {
  all(): Promise<Assignment[]>
  /**
   * Gives these, each in the place of the one that its assignee had. Throws 409 when a key or a
   * guardrail has gone.
   */
  assign(assignments: Assignment[], entry: AuditEntry): Promise<void>
  unassign(assignments: Assignment[], entry: AuditEntry): Promise<void>
}
