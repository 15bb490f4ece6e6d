import type { AuditEntry } from '../audit/store.ts'
import type { KeyDisabling } from '../keys/store.ts'

/** A person in the organization. Records name them by id as `user_id`. Times in ISO 8601. */
export interface Member {
  id: string
  email: string
  first_name: string | null
  last_name: string | null
  role: 'org:admin' | 'org:member'
  /** Whether they are still a member. Members who left stay on record. */
  active: boolean
  created_at: string
  updated_at: string | null
}

/** The membership of a member in a workspace. */
export interface WorkspaceMember {
  id: string
  workspace_id: string
  user_id: string
  role: 'admin' | 'member'
  created_at: string
  /** Added by an administrator, or by a mapping of the identity provider's groups. Never shown. */
  source: 'manual' | 'scim'
}

/**
 * Stores the organization's members and their workspaces. Each change is one transaction with its
 * audit entries.
 */
export interface MemberStore {
  /** Inserts a member, unless one with this id exists. */
  insertIfAbsent(member: Member): Promise<void>
  /** Lists active members, the oldest first. */
  list(offset: number, limit: number): Promise<Member[]>
  /** Counts active members. */
  count(): Promise<number>
  /** Lists deactivated members, the oldest first. */
  listInactive(): Promise<Member[]>
  /** Returns the members with these ids that exist, active or not. */
  byIds(ids: string[]): Promise<Member[]>
  /** Finds the active member with an e-mail address, in any case. */
  findActive(email: string): Promise<Member | undefined>
  /** Inserts a new member. Throws 409 when an active member has the e-mail address. */
  insert(member: Member, entry: AuditEntry): Promise<void>
  /**
   * Changes only these fields of a member. Throws 409 when an active member has the e-mail address.
   */
  update(id: string, change: Partial<Member>, entry: AuditEntry): Promise<void>
  /**
   * Deactivates a member, disables every key that they created, and ends their sessions, links and
   * codes. Throws 409 when one of their keys was created or deleted at the same moment.
   */
  deactivate(id: string, keys: KeyDisabling, entry: AuditEntry): Promise<void>
  /** Lists the active members of a workspace, the oldest membership first. */
  listInWorkspace(workspace_id: string): Promise<WorkspaceMember[]>
  /** Lists the ids of the workspaces that a member was added to, whether they are active or not. */
  listWorkspacesOf(user_id: string): Promise<string[]>
  /** Finds one membership, whether the member is active or not. */
  findWorkspaceMember(workspace_id: string, user_id: string): Promise<WorkspaceMember | undefined>
  /**
   * Adds, removes or changes memberships of a workspace, all or none. Throws 409 when a membership
   * no longer equals its `before`, and 400 when the workspace was deleted.
   */
  changeWorkspaceMembers(changes: MembershipChange[]): Promise<void>
}

/** The change of one membership. Null means that there is none. */
export interface MembershipChange {
  before: WorkspaceMember | null
  after: WorkspaceMember | null
  entry: AuditEntry
}
