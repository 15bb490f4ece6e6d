import type { Static } from '@sinclair/typebox'
import type { Json } from '../base/json.ts'
import { PageQuery } from '../base/pages.ts'
import type { AuditEntry } from './audit/store.ts'
import type { KeyDisabling } from './keys/store.ts'
import type { Member, WorkspaceMember } from './members/store.ts'
import type { LookupKey } from './scim/query.ts'

/** Stores everything that an identity provider manages. */
export interface ScimStore {
  tokens: ScimTokenStore
  users: ScimUserStore
  groups: ScimGroupStore
  mappings: GroupMappingStore
  jobs: SyncJobStore
}

/** The query of `GET /scim/groups` and `GET /scim/group-mappings`. */
export const ScimPageQuery = PageQuery
export type ScimPageQuery = Static<typeof ScimPageQuery>

/** A member as the identity provider manages them. Times in ISO 8601. */
export interface ScimUser {
  id: string
  /** The id of the member. */
  user_id: string
  /** Uses the names of the schema and has no computed attributes. `active` is always present. */
  resource: Json
  /** Grows with every change. */
  version: number
  created_at: string
  updated_at: string
}

/** A group of a user. */
export interface UserGroup {
  scim_user_id: string
  group_id: string
  display_name: string
}

/**
 * The change of a member that follows from a change of their user: the member before and after, the
 * keys that are disabled, and the audit entries.
 */
export interface MemberTransition {
  before: Member | null
  after: Member
  keys: KeyDisabling | null
  entries: AuditEntry[]
}

/**
 * The new state of a user, null for a deletion, and the change of the member. Without an audit
 * entry nothing changes.
 */
export interface UserChange<User extends ScimUser | null = ScimUser | null> {
  user: User
  member: MemberTransition
}

/** A member with a given address, and whether the identity provider already manages them. */
export interface AddressHolder {
  member: Member
  isProvisioned: boolean
}

/**
 * Stores users. A change is one transaction with everything that follows from it. `decide` is
 * called within it: it throws to roll back, and may be called twice.
 */
export interface ScimUserStore {
  byId(id: string): Promise<ScimUser | undefined>
  /** Finds the user of a member, if the identity provider manages them. */
  byMember(user_id: string): Promise<ScimUser | undefined>
  /** Lists the users with this key, or all, the oldest first. */
  find(known?: LookupKey): Promise<ScimUser[]>
  /** Returns one page, the oldest first. */
  listPage(offset: number, limit: number): Promise<ScimUser[]>
  count(): Promise<number>
  /** Lists the groups of these users. */
  listGroups(ids: string[]): Promise<UserGroup[]>
  /** Inserts a new user. Throws 409 `uniqueness` when another has the name or the address. */
  insert(
    address: string,
    decide: (namesakes: AddressHolder[]) => UserChange<ScimUser>,
  ): Promise<UserChange<ScimUser>>
  /**
   * Changes a user, or deletes them with everything that groups granted. Throws 404, and 409 as
   * above.
   */
  change<Change extends UserChange>(
    id: string,
    decide: (user: ScimUser, member: Member) => Change,
    move: DecideMembership,
  ): Promise<Change>
}

/** A group of the identity provider. Times in ISO 8601. */
export interface ScimGroup {
  id: string
  display_name: string
  external_id: string | null
  /** Grows with every change, also of its members. */
  version: number
  created_at: string
  updated_at: string
}

/** A member of a group, with the user's resource. */
export interface GroupMember {
  group_id: string
  scim_user_id: string
  resource: Json
}

/** The new state of a group, null for a deletion. Without an audit entry nothing changes. */
export interface GroupChange<Group extends ScimGroup | null = ScimGroup | null> {
  group: Group
  /** Ids of users. */
  members: string[]
  entry: AuditEntry | null
}

/** Stores groups and their members. A change is one transaction with its effect on memberships. */
export interface ScimGroupStore {
  byId(id: string): Promise<ScimGroup | undefined>
  /** Lists the groups with this key, or all, the oldest first. */
  find(known?: LookupKey): Promise<ScimGroup[]>
  /** Returns one page, the oldest first. */
  listPage(offset: number, limit: number): Promise<ScimGroup[]>
  count(): Promise<number>
  /** Lists the members of these groups. */
  listMembers(ids: string[]): Promise<GroupMember[]>
  /** Inserts a new group. Throws 400 when one of its members does not exist. */
  insert(group: ScimGroup, members: string[], entry: AuditEntry): Promise<void>
  /** Changes or deletes a group. Throws 404, and 400 as above. */
  change<Change extends GroupChange>(
    id: string,
    decide: (group: ScimGroup, members: string[]) => Change,
    move: DecideMembership,
  ): Promise<Change>
}

/** Puts the members of a group into a workspace with a role. Times in ISO 8601. */
export interface GroupMapping {
  id: string
  scim_group_id: string
  workspace_id: string
  role: WorkspaceMember['role']
  created_at: string
  updated_at: string
}

/**
 * Stores mappings, one per group and workspace. Each change is one transaction with its effect on
 * memberships.
 */
export interface GroupMappingStore {
  byId(id: string): Promise<GroupMapping | undefined>
  /** Returns one page, the oldest first. */
  listPage(offset: number, limit: number): Promise<GroupMapping[]>
  count(): Promise<number>
  /**
   * Inserts a new mapping, or applies the existing one again. `decide` chooses; its entry is null
   * for an existing one. Throws what `decide` throws, and 404 when the group or the workspace does
   * not exist.
   */
  insert(
    mapping: GroupMapping,
    decide: (existing: GroupMapping | undefined) => MappingResult,
    move: DecideMembership,
  ): Promise<MappingResult>
  /** Changes the role of a mapping. Throws 404. */
  update(mapping: GroupMapping, entry: AuditEntry, move: DecideMembership): Promise<void>
  /**
   * Deletes a mapping. With `keep`, members that this group added stay as if added by hand. Without
   * it, they stay only if another mapping adds them.
   */
  remove(
    mapping: GroupMapping,
    entry: AuditEntry,
    move: DecideMembership,
    keep: ((current: WorkspaceMember) => AuditEntry) | null,
  ): Promise<void>
}

/** A job that applies every mapping again. Times in ISO 8601. */
export interface SyncJob {
  id: string
  status: 'queued' | 'running' | 'succeeded' | 'failed'
  synced_groups: number | null
  deleted_groups: number | null
  error_message: string | null
  created_at: string
  started_at: string | null
  finished_at: string | null
}

/** Stores jobs and applies mappings, one workspace at a time. */
export interface SyncJobStore {
  byId(id: string): Promise<SyncJob | undefined>
  insert(job: SyncJob, entry: AuditEntry): Promise<void>
  /** Changes a job that has not ended. */
  update(id: string, change: Partial<SyncJob>): Promise<void>
  /** Lists the workspaces that groups are or were mapped to. */
  listWorkspaces(): Promise<string[]>
  /** Brings all memberships of this workspace in line with the members' groups. */
  apply(workspace_id: string, move: DecideMembership): Promise<void>
}

/**
 * A token of an identity provider as it is stored: never the secret, only its hash. Times in ISO
 * 8601.
 */
export interface ScimToken {
  id: string
  name: string
  label: string
  /** Lowercase hex SHA-256 of the plaintext. */
  hash: string
  created_by: string
  created_at: string
}

/** Stores tokens. */
export interface ScimTokenStore {
  /** Lists all tokens, the oldest first. */
  all(): Promise<ScimToken[]>
  byHash(hash: string): Promise<ScimToken | undefined>
  insert(token: ScimToken, entry: AuditEntry): Promise<void>
  /** Removes a token. Throws 404 when it was revoked before. */
  remove(id: string, entry: AuditEntry): Promise<void>
}

/** A difference between the role that a member's groups grant and their role in a workspace. */
export interface MembershipDifference {
  workspace_id: string
  user_id: string
  /** The highest role that a mapping of their groups grants; null if none does. */
  granted: WorkspaceMember['role'] | null
  /** The membership by a mapping, or null. Members who were added by hand have no difference. */
  current: WorkspaceMember | null
}

/** How a difference is resolved, with the audit entry. */
interface MembershipDecision {
  /** The new membership; null if the member is removed. */
  after: WorkspaceMember | null
  entry: AuditEntry
}

/** Decides how a difference is resolved. */
export type DecideMembership = (difference: MembershipDifference) => MembershipDecision

/** The mapping that results from creating one, and the audit entry if it is new. */
export interface MappingResult {
  mapping: GroupMapping
  entry: AuditEntry | null
}
