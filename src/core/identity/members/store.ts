import type { AuditEntry } from '../audit.ts'
import type { Disabling } from '../keys/store.ts'

/** A person of the organization. His id is the `user_id` of what he makes. Times in ISO 8601. */
export interface Member {
  id: string
  email: string
  first_name: string | null
  last_name: string | null
  role: 'org:admin' | 'org:member'
  /** Whether he is still one. Who left stays on record. */
  active: boolean
  created_at: string
  updated_at: string | null
}

/** That a member was put into a workspace. */
export interface WorkspaceMember {
  id: string
  workspace_id: string
  user_id: string
  role: 'admin' | 'member'
  created_at: string
  /**
   * Who put him there: an administrator, or a mapping of the identity provider's groups. Never
   * shown.
   */
  source: 'manual' | 'scim'
}

/**
 * Remembers the organization's members and who is in which workspace. What changes one is one
 * transaction with the entries that tell of it.
 */
export interface MemberStore {
  /** A member, unless there is one with this id. */
  first(member: Member): Promise<void>
  /** The active ones, the oldest first. */
  list(offset: number, limit: number): Promise<Member[]>
  /** How many are active. */
  count(): Promise<number>
  /** Those of these ids that there are, active or not. */
  byIds(ids: string[]): Promise<Member[]>
  /** A new one. Throws 409 where an active member has the e-mail address. */
  insert(member: Member, entry: AuditEntry): Promise<void>
  /**
   * Changes these fields of a member and no others. Throws 409 where an active member has the
   * e-mail address.
   */
  update(id: string, change: Partial<Member>, entry: AuditEntry): Promise<void>
  /**
   * Takes the membership and disables every key that he made. Throws 409 where he has made or lost
   * one at the same moment.
   */
  deactivate(id: string, keys: Disabling, entry: AuditEntry): Promise<void>
  /** Who was put into a workspace and is active, the first first. */
  inWorkspace(workspace_id: string): Promise<WorkspaceMember[]>
  /** The membership of one, whether he is active or not. */
  workspaceMember(workspace_id: string, user_id: string): Promise<WorkspaceMember | undefined>
  /**
   * Puts people into a workspace, takes them out of it or changes how they are in it, all or none.
   * Throws 409 where one is no longer in it as he was `before`, and 400 where it is gone.
   */
  changeWorkspaceMembers(changes: Membership[]): Promise<void>
}

/** A change of how somebody is in a workspace; null: not at all. */
export interface Membership {
  before: WorkspaceMember | null
  after: WorkspaceMember | null
  entry: AuditEntry
}
