import type { Json } from '../../../base/json.ts'
import type { AuditEntry } from '../../audit.ts'
import type { KeyDisabling } from '../../keys/store.ts'
import type { Member } from '../../members/store.ts'
import type { DecideMembership } from '../memberships.ts'
import type { LookupKey } from '../query.ts'

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
  /** Lists the users with this key, or all, the oldest first. */
  find(known?: LookupKey): Promise<ScimUser[]>
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
