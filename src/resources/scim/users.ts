import { getIsoTime } from '../../base/clock.ts'
import { assertCurrent, type Precondition } from '../../base/entity-tag.ts'
import { requireFound } from '../../base/errors.ts'
import { type Json, readObject, readObjects, readString } from '../../base/json.ts'
import type { Actor } from '../actor.ts'
import { defineAudit, identifyById } from '../audit/entry.ts'
import type { AuditEntry } from '../audit/store.ts'
import { disableKeys, prepareKeyDisabling, tryKeyDisabling } from '../keys/disabling.ts'
import type { Member } from '../members/store.ts'
import { auditMember } from '../members/view.ts'
import type { AddressHolder, MemberTransition, ScimUser, UserChange } from '../scim.ts'
import type { IdentityWorld } from '../world.ts'
import { createMembershipDecider } from './memberships.ts'
import { applyPatch, parseOperations } from './patch.ts'
import { refused, taken } from './refusal.ts'
import { parseResource } from './resource.ts'
import { USER } from './schemas.data.ts'

/**
 * Creates a user, who is a member of the organization. A former member with the same address
 * returns, and an active member becomes managed by the identity provider. Throws 400 for an invalid
 * resource, and 409 for a name or an address that another user has.
 */
export async function createScimUser(
  world: IdentityWorld,
  actor: Actor,
  body: unknown,
): Promise<ScimUser> {
  const resource = setActive(parseResource(USER, body), true)
  const decide = (holders: AddressHolder[]) => decideArrival(world, actor, resource, holders)
  return (
    await runUserChange(world, () => world.store.scim.users.insert(readAddress(resource), decide))
  ).user
}

function decideArrival(
  world: IdentityWorld,
  actor: Actor,
  resource: Json,
  holders: AddressHolder[],
): UserChange<ScimUser> {
  const provisioned = holders.find(({ isProvisioned, member }) => isProvisioned && member.active)
  if (provisioned) throw taken('emails: expected an address that no other user has')
  const before = holders.find(({ isProvisioned }) => !isProvisioned)?.member ?? null
  const now = getIsoTime(world)
  const change = buildMemberTransition(world, actor, before, resource)
  const user: ScimUser = {
    id: world.ids.uuid(),
    user_id: change.after.id,
    resource,
    version: 1,
    created_at: now,
    updated_at: now,
  }
  return { user, member: addEntry(change, auditUser(world, actor, null, user)) }
}

/** Gets a user. Throws 404. */
export async function getScimUser({ store }: IdentityWorld, id: string): Promise<ScimUser> {
  return requireFound(await store.scim.users.byId(id), 'User')
}

/**
 * Replaces the resource of a user. Without `active`, that attribute stays as it is. Throws 400,
 * 404, 409 and 412.
 */
export function replaceScimUser(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  body: unknown,
  precondition: Precondition,
): Promise<ScimUser> {
  const resource = parseResource(USER, body)
  return changeUser(world, actor, { id, when: precondition }, before =>
    setActive(resource, before.active !== false),
  )
}

/**
 * Applies operations to a user, all or none. `active` can be changed but not removed. Throws 400,
 * 404, 409 and 412.
 */
export function patchScimUser(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  body: unknown,
  precondition: Precondition,
): Promise<ScimUser> {
  const operations = parseOperations(body)
  return changeUser(world, actor, { id, when: precondition }, before =>
    setActive(applyPatch(USER, before, operations), before.active !== false),
  )
}

async function changeUser(
  world: IdentityWorld,
  actor: Actor,
  { id, when }: { id: string; when: Precondition },
  next: (before: Json) => Json,
): Promise<ScimUser> {
  const decide = (before: ScimUser, member: Member): UserChange<ScimUser> => {
    assertCurrent(when, before)
    const resource = next(before.resource)
    if (Bun.deepEquals(resource, before.resource))
      return { user: before, member: keepMember(member) }
    const user = {
      ...before,
      resource,
      version: before.version + 1,
      updated_at: getIsoTime(world),
    }
    const change = buildMemberTransition(world, actor, member, resource)
    return { user, member: addEntry(change, auditUser(world, actor, before, user)) }
  }
  return (
    await runUserChange(world, () =>
      world.store.scim.users.change(id, decide, createMembershipDecider(world, actor)),
    )
  ).user
}

/**
 * Deletes a user: deactivates the member, disables their keys and removes what groups granted. The
 * owner of the data directory stays a member. Throws 404 and 412.
 */
export async function deleteScimUser(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  precondition: Precondition,
): Promise<void> {
  const decide = (before: ScimUser, member: Member): UserChange<null> => {
    assertCurrent(precondition, before)
    const isOwner = member.id === world.memory.owner.user_id
    const change = isOwner
      ? keepMember(member)
      : buildMemberTransition(world, actor, member, { ...before.resource, active: false })
    return { user: null, member: addEntry(change, auditUser(world, actor, before, null)) }
  }
  await runUserChange(world, () =>
    world.store.scim.users.change(id, decide, createMembershipDecider(world, actor)),
  )
}

/** Runs a change and applies its effect on keys to memory. */
const runUserChange = <Change extends UserChange>(
  world: IdentityWorld,
  run: () => Promise<Change>,
): Promise<Change> =>
  tryKeyDisabling(world, async () => {
    const change = await run()
    if (change.member.keys) disableKeys(world, change.member.keys)
    return change
  })

const addEntry = (change: MemberTransition, entry: AuditEntry): MemberTransition => ({
  ...change,
  entries: [entry, ...change.entries],
})

const keepMember = (member: Member): MemberTransition => ({
  before: member,
  after: member,
  keys: null,
  entries: [],
})

/** Builds the change of the member that follows from the user's resource. */
function buildMemberTransition(
  world: IdentityWorld,
  actor: Actor,
  before: Member | null,
  resource: Json,
): MemberTransition {
  const now = getIsoTime(world)
  const after = updateMemberFields(before ?? buildNewMember(world, now), resource)
  if (!before)
    return { before, after, keys: null, entries: [auditMember(world, actor, null, after)] }
  if (Bun.deepEquals(before, after)) return keepMember(before)
  const leaves = before.active && !after.active
  if (leaves && before.id === world.memory.owner.user_id)
    throw refused(
      'mutability',
      'active: expected true, since the owner of the data directory cannot be deactivated',
    )
  const changed = { ...after, updated_at: now }
  const entry = auditMember(world, actor, before, changed, leaves ? 'deactivate' : 'update')
  return {
    before,
    after: changed,
    keys: leaves ? prepareMemberKeyDisabling(world, actor, before) : null,
    entries: [entry],
  }
}

const prepareMemberKeyDisabling = (world: IdentityWorld, actor: Actor, { id }: Member) =>
  prepareKeyDisabling(world, actor, id, key => key.creator_user_id === id)

const buildNewMember = ({ ids }: IdentityWorld, now: string): Member => ({
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

// Parts of the name that the identity provider does not send stay as they are.
function updateMemberFields(before: Member, resource: Json): Member {
  const { givenName, familyName } = readObject(resource, 'name')
  return {
    ...before,
    email: readAddress(resource),
    first_name: readString(givenName)?.slice(0, LONGEST_NAME) ?? before.first_name,
    last_name: readString(familyName)?.slice(0, LONGEST_NAME) ?? before.last_name,
    active: resource.active !== false,
  }
}

const LONGEST_ADDRESS = 320

/** Returns the primary address, else the first one, else the user name. */
function readAddress({ emails, userName }: Json): string {
  const addresses = readObjects(emails).filter(({ value }) => readString(value))
  const address =
    readString((addresses.find(({ primary }) => primary === true) ?? addresses[0])?.value) ??
    readString(userName) ??
    ''
  if (address.length > LONGEST_ADDRESS)
    throw refused(
      'invalidValue',
      `emails: expected an address of at most ${LONGEST_ADDRESS} characters`,
    )
  return address
}

const setActive = (resource: Json, fallback: boolean): Json => ({
  ...resource,
  active: resource.active ?? fallback,
})

const auditUser = defineAudit<ScimUser>('scim_users', {
  identify: identifyById,
  show: ({ user_id, version, resource }) => ({ user_id, version, ...resource }),
})
