import { notFound } from '../../errors.ts'
import { isObject, type Json, member, objects, text } from '../../kernel/json.ts'
import type { Actor } from '../actor.ts'
import { type AuditEntry, auditEntry } from '../audit.ts'
import { type Disabling, disableKeys, disablingOf } from '../keys.ts'
import { type Member, memberEntry } from '../members.ts'
import type { IdentityWorld } from '../world.ts'
import { type Mover, moverFor } from './memberships.ts'
import { operationsOf, patched } from './patch.ts'
import type { Known } from './query.ts'
import { isConflict, refused, taken } from './refusal.ts'
import { resourceOf } from './resource.ts'
import { USER } from './schemas.data.ts'
import { mustBeCurrent, type Precondition } from './version.ts'

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

/** What becomes of a member with his user: how he was, how he is, the keys that go out with him, and what is told of it. */
export interface MemberChange {
  before: Member | null
  after: Member
  keys: Disabling | null
  entries: AuditEntry[]
}

/** What becomes of a user, null when he goes, and of the member that he is. Where nothing is told, nothing changes. */
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
 * Remembers users. A change is one transaction with everything that follows from it. Those who decide are asked within it: they throw
 * to leave all as it was, and may be asked twice.
 */
export interface ScimUserStore {
  byId(id: string): Promise<ScimUser | undefined>
  /** Those that are so known, or all, the oldest first. */
  find(known?: Known): Promise<ScimUser[]>
  /** The groups of these users. */
  groupsOf(ids: string[]): Promise<GroupOfUser[]>
  /** A new one. Throws 409 `uniqueness` where another has his name or his address. */
  insert(address: string, decide: (namesakes: Namesake[]) => UserChange<ScimUser>): Promise<UserChange<ScimUser>>
  /** Changes one, or takes him out of everything that groups have given him. Throws 404, and 409 as above. */
  change<Change extends UserChange>(id: string, decide: (user: ScimUser, member: Member) => Change, move: Mover): Promise<Change>
}

/**
 * Makes a user: a member of the organization. Who has left and has the same address comes back, and a member who is here becomes known
 * to the identity provider. Throws 400 for what does not fit, and 409 for a name or an address that another user has.
 */
export async function createScimUser(gateway: IdentityWorld, actor: Actor, body: unknown): Promise<ScimUser> {
  const resource = active(resourceOf(USER, body), true)
  const decide = (namesakes: Namesake[]) => arrival(gateway, actor, resource, namesakes)
  return (await settled(gateway, () => gateway.store.scim.users.insert(addressOf(resource), decide))).user
}

function arrival(gateway: IdentityWorld, actor: Actor, resource: Json, namesakes: Namesake[]): UserChange<ScimUser> {
  const known = namesakes.find(({ isKnown, member }) => isKnown && member.active)
  if (known) throw taken('emails: expected an address that no other user has')
  const before = namesakes.find(({ isKnown }) => !isKnown)?.member ?? null
  const now = gateway.clock.now().toISOString()
  const change = memberChange(gateway, actor, before, resource)
  const user: ScimUser = { id: gateway.ids.uuid(), user_id: change.after.id, resource, version: 1, created_at: now, updated_at: now }
  return { user, member: withEntry(change, entryOf(gateway, actor, 'scim_users.create', null, user)) }
}

/** One user. Throws 404. */
export async function getScimUser({ store }: IdentityWorld, id: string): Promise<ScimUser> {
  const user = await store.scim.users.byId(id)
  if (!user) throw notFound('User not found')
  return user
}

/** Puts another resource in a user's place. One that does not say whether he is active leaves that. Throws 400, 404, 409 and 412. */
export function replaceScimUser(gateway: IdentityWorld, actor: Actor, id: string, body: unknown, when: Precondition): Promise<ScimUser> {
  const resource = resourceOf(USER, body)
  return changeUser(gateway, actor, id, when, before => active(resource, before.active !== false))
}

/** Changes a user step by step, all or none. Whether he is active can be changed and not taken away. Throws 400, 404, 409 and 412. */
export function patchScimUser(gateway: IdentityWorld, actor: Actor, id: string, body: unknown, when: Precondition): Promise<ScimUser> {
  const operations = operationsOf(body)
  return changeUser(gateway, actor, id, when, before => active(patched(USER, before, operations), before.active !== false))
}

async function changeUser(
  gateway: IdentityWorld,
  actor: Actor,
  id: string,
  when: Precondition,
  next: (before: Json) => Json,
): Promise<ScimUser> {
  const decide = (before: ScimUser, member: Member): UserChange<ScimUser> => {
    mustBeCurrent(when, before)
    const resource = next(before.resource)
    if (Bun.deepEquals(resource, before.resource)) return { user: before, member: unchanged(member) }
    const user = { ...before, resource, version: before.version + 1, updated_at: gateway.clock.now().toISOString() }
    const change = memberChange(gateway, actor, member, resource)
    return { user, member: withEntry(change, entryOf(gateway, actor, 'scim_users.update', before, user)) }
  }
  return (await settled(gateway, () => gateway.store.scim.users.change(id, decide, moverFor(gateway, actor)))).user
}

/**
 * Takes a user away: his membership and his keys are disabled, and what groups have given him is gone. The owner of the data directory
 * stays a member. Throws 404 and 412.
 */
export async function deleteScimUser(gateway: IdentityWorld, actor: Actor, id: string, when: Precondition): Promise<void> {
  const decide = (before: ScimUser, member: Member): UserChange<null> => {
    mustBeCurrent(when, before)
    const stays = member.id === gateway.memory.owner.user_id
    const change = stays ? unchanged(member) : memberChange(gateway, actor, member, { ...before.resource, active: false })
    return { user: null, member: withEntry(change, entryOf(gateway, actor, 'scim_users.delete', before, null)) }
  }
  await settled(gateway, () => gateway.store.scim.users.change(id, decide, moverFor(gateway, actor)))
}

/**
 * Does it, and takes over in memory what it did to keys. A key that another process makes or disables at the same moment stands in the
 * way once.
 */
async function settled<Change extends UserChange>(gateway: IdentityWorld, run: () => Promise<Change>): Promise<Change> {
  await gateway.catchUp()
  const change = await run().catch(async thrown => {
    if (!isConflict(thrown) || thrown.metadata.scimType) throw thrown
    await gateway.catchUp()
    return run()
  })
  if (change.member.keys) disableKeys(gateway, change.member.keys)
  return change
}

const withEntry = (change: MemberChange, entry: AuditEntry): MemberChange => ({ ...change, entries: [entry, ...change.entries] })

const unchanged = (member: Member): MemberChange => ({ before: member, after: member, keys: null, entries: [] })

/** What a user's resource makes of the member that he is. */
function memberChange(gateway: IdentityWorld, actor: Actor, before: Member | null, resource: Json): MemberChange {
  const now = gateway.clock.now().toISOString()
  const after = memberAfter(before ?? newMember(gateway, now), resource)
  if (!before) return { before, after, keys: null, entries: [memberEntry(gateway, actor, 'members.create', null, after)] }
  if (Bun.deepEquals(before, after)) return unchanged(before)
  const leaves = before.active && !after.active
  if (leaves && before.id === gateway.memory.owner.user_id)
    throw refused('mutability', 'active: expected true, since the owner of the data directory cannot be deactivated')
  const changed = { ...after, updated_at: now }
  const entry = memberEntry(gateway, actor, leaves ? 'members.deactivate' : 'members.update', before, changed)
  return { before, after: changed, keys: leaves ? keysOf(gateway, actor, before) : null, entries: [entry] }
}

const keysOf = (gateway: IdentityWorld, actor: Actor, { id }: Member) => disablingOf(gateway, actor, key => key.creator_user_id === id)

const newMember = ({ ids }: IdentityWorld, now: string): Member => ({
  id: `user_${ids.uuid().replaceAll('-', '')}`,
  email: '',
  first_name: null,
  last_name: null,
  role: 'org:member',
  active: true,
  created_at: now,
  updated_at: null,
})

const LONGEST_NAME = 255

// What the identity provider does not say of the name stays.
function memberAfter(before: Member, resource: Json): Member {
  const { givenName, familyName } = member(resource, 'name')
  return {
    ...before,
    email: addressOf(resource),
    first_name: text(givenName)?.slice(0, LONGEST_NAME) ?? before.first_name,
    last_name: text(familyName)?.slice(0, LONGEST_NAME) ?? before.last_name,
    active: resource.active !== false,
  }
}

const LONGEST_ADDRESS = 320

/** The address that is preferred, else the first, else the name to sign in with. */
function addressOf({ emails, userName }: Json): string {
  const given = objects(emails).filter(({ value }) => text(value))
  const address = text((given.find(({ primary }) => primary === true) ?? given[0])?.value) ?? text(userName) ?? ''
  if (address.length > LONGEST_ADDRESS)
    throw refused('invalidValue', `emails: expected an address of at most ${LONGEST_ADDRESS} characters`)
  return address
}

const active = (resource: Json, usual: boolean): Json => ({ ...resource, active: resource.active ?? usual })

const entryOf = (gateway: IdentityWorld, actor: Actor, action: string, before: ScimUser | null, after: ScimUser | null): AuditEntry =>
  auditEntry(gateway, actor, action, { id: (after ?? before)?.id ?? '', workspace_id: null }, told(before), told(after))

const told = (user: ScimUser | null) =>
  user && { user_id: user.user_id, version: user.version, ...(isObject(user.resource) ? user.resource : {}) }
