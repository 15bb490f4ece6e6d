import type { Json } from '../../../kernel/json.ts'
import type { AuditEntry } from '../../audit.ts'
import type { Disabling } from '../../keys/store.ts'
import type { Member } from '../../members/store.ts'
import type { Mover } from '../memberships.ts'
import type { Known } from '../query.ts'

/** A member as the identity provider knows him. Times in ISO 8601. */
export interface ScimUser {
  id: string
  /** The member that he is. */
  user_id: string
  /** Under the names of the schema, without what is computed. `active` is always there. */
  resource: Json
  /** Grows with every change. */
  version: number
  created_at: string
  updated_at: string
}

/** A group that a user is in. */
export interface GroupOfUser {
  scim_user_id: string
  group_id: string
  display_name: string
}

/**
 * What becomes of a member with his user: how he was, how he is, the keys that go out with him, and
 * what is told of it.
 */
export interface MemberChange {
  before: Member | null
  after: Member
  keys: Disabling | null
  entries: AuditEntry[]
}

/**
 * What becomes of a user, null when he goes, and of the member that he is. Where nothing is told,
 * nothing changes.
 */
export interface UserChange<User extends ScimUser | null = ScimUser | null> {
  user: User
  member: MemberChange
}

/** A member with this address, and whether the identity provider knows him already. */
export interface Namesake {
  member: Member
  isKnown: boolean
}

/**
 * Remembers users. A change is one transaction with everything that follows from it. Those who
 * decide are asked within it: they throw to leave all as it was, and may be asked twice.
 */
export interface ScimUserStore {
  byId(id: string): Promise<ScimUser | undefined>
  /** Those that are so known, or all, the oldest first. */
  find(known?: Known): Promise<ScimUser[]>
  /** The groups of these users. */
  groupsOf(ids: string[]): Promise<GroupOfUser[]>
  /** A new one. Throws 409 `uniqueness` where another has his name or his address. */
  insert(
    address: string,
    decide: (namesakes: Namesake[]) => UserChange<ScimUser>,
  ): Promise<UserChange<ScimUser>>
  /**
   * Changes one, or takes him out of everything that groups have given him. Throws 404, and 409 as
   * above.
   */
  change<Change extends UserChange>(
    id: string,
    decide: (user: ScimUser, member: Member) => Change,
    move: Mover,
  ): Promise<Change>
}
