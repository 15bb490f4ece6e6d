import { requireFound } from '../../errors.ts'
import { isoNow } from '../../kernel/clock.ts'
import { type Json, member, objects, text } from '../../kernel/json.ts'
import type { Actor } from '../actor.ts'
import { byId, defineAudit } from '../audit/entry.ts'
import type { AuditEntry } from '../audit.ts'
import { disableKeys, disablingOf } from '../keys/disabling.ts'
import type { Member } from '../members/store.ts'
import { auditMember } from '../members/view.ts'
import type { IdentityWorld } from '../world.ts'
import { moverFor } from './memberships.ts'
import { operationsOf, patched } from './patch.ts'
import { isConflict, refused, taken } from './refusal.ts'
import { resourceOf } from './resource.ts'
import { USER } from './schemas.data.ts'
import type { MemberChange, Namesake, ScimUser, UserChange } from './users/store.ts'
import { mustBeCurrent, type Precondition } from './version.ts'

/**
 * Creates a user, who is a member of the organization. A former member with the same address
 * returns, and an active member becomes managed by the identity provider. Throws 400 for an invalid
 * resource, and 409 for a name or an address that another user has.
 */
export async function createScimUser(
  gateway: IdentityWorld,
  actor: Actor,
  body: unknown,
): Promise<ScimUser> {
  const resource = active(resourceOf(USER, body), true)
  const decide = (namesakes: Namesake[]) => arrival(gateway, actor, resource, namesakes)
  return (
    await settled(gateway, () => gateway.store.scim.users.insert(addressOf(resource), decide))
  ).user
}

function arrival(
  gateway: IdentityWorld,
  actor: Actor,
  resource: Json,
  namesakes: Namesake[],
): UserChange<ScimUser> {
  const known = namesakes.find(({ isKnown, member }) => isKnown && member.active)
  if (known) throw taken('emails: expected an address that no other user has')
  const before = namesakes.find(({ isKnown }) => !isKnown)?.member ?? null
  const now = isoNow(gateway)
  const change = memberChange(gateway, actor, before, resource)
  const user: ScimUser = {
    id: gateway.ids.uuid(),
    user_id: change.after.id,
    resource,
    version: 1,
    created_at: now,
    updated_at: now,
  }
  return { user, member: withEntry(change, auditUser(gateway, actor, null, user)) }
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
  gateway: IdentityWorld,
  actor: Actor,
  id: string,
  body: unknown,
  when: Precondition,
): Promise<ScimUser> {
  const resource = resourceOf(USER, body)
  return changeUser(gateway, actor, { id, when }, before =>
    active(resource, before.active !== false),
  )
}

/**
 * Applies operations to a user, all or none. `active` can be changed but not removed. Throws 400,
 * 404, 409 and 412.
 */
export function patchScimUser(
  gateway: IdentityWorld,
  actor: Actor,
  id: string,
  body: unknown,
  when: Precondition,
): Promise<ScimUser> {
  const operations = operationsOf(body)
  return changeUser(gateway, actor, { id, when }, before =>
    active(patched(USER, before, operations), before.active !== false),
  )
}

async function changeUser(
  gateway: IdentityWorld,
  actor: Actor,
  { id, when }: { id: string; when: Precondition },
  next: (before: Json) => Json,
): Promise<ScimUser> {
  const decide = (before: ScimUser, member: Member): UserChange<ScimUser> => {
    mustBeCurrent(when, before)
    const resource = next(before.resource)
    if (Bun.deepEquals(resource, before.resource))
      return { user: before, member: unchanged(member) }
    const user = { ...before, resource, version: before.version + 1, updated_at: isoNow(gateway) }
    const change = memberChange(gateway, actor, member, resource)
    return { user, member: withEntry(change, auditUser(gateway, actor, before, user)) }
  }
  return (
    await settled(gateway, () =>
      gateway.store.scim.users.change(id, decide, moverFor(gateway, actor)),
    )
  ).user
}

/**
 * Deletes a user: deactivates the member, disables their keys and removes what groups granted. The
 * owner of the data directory stays a member. Throws 404 and 412.
 */
export async function deleteScimUser(
  gateway: IdentityWorld,
  actor: Actor,
  id: string,
  when: Precondition,
): Promise<void> {
  const decide = (before: ScimUser, member: Member): UserChange<null> => {
    mustBeCurrent(when, before)
    const stays = member.id === gateway.memory.owner.user_id
    const change = stays
      ? unchanged(member)
      : memberChange(gateway, actor, member, { ...before.resource, active: false })
    return { user: null, member: withEntry(change, auditUser(gateway, actor, before, null)) }
  }
  await settled(gateway, () =>
    gateway.store.scim.users.change(id, decide, moverFor(gateway, actor)),
  )
}

/**
 * Runs a change and applies its effect on keys to memory. Retries once if another process created
 * or disabled a key at the same moment.
 */
async function settled<Change extends UserChange>(
  gateway: IdentityWorld,
  run: () => Promise<Change>,
): Promise<Change> {
  await gateway.catchUp()
  const change = await run().catch(async thrown => {
    if (!isConflict(thrown) || thrown.metadata.scimType) throw thrown
    await gateway.catchUp()
    return run()
  })
  if (change.member.keys) disableKeys(gateway, change.member.keys)
  return change
}

const withEntry = (change: MemberChange, entry: AuditEntry): MemberChange => ({
  ...change,
  entries: [entry, ...change.entries],
})

const unchanged = (member: Member): MemberChange => ({
  before: member,
  after: member,
  keys: null,
  entries: [],
})

/** Builds the change of the member that follows from the user's resource. */
function memberChange(
  gateway: IdentityWorld,
  actor: Actor,
  before: Member | null,
  resource: Json,
): MemberChange {
  const now = isoNow(gateway)
  const after = memberAfter(before ?? newMember(gateway, now), resource)
  if (!before)
    return { before, after, keys: null, entries: [auditMember(gateway, actor, null, after)] }
  if (Bun.deepEquals(before, after)) return unchanged(before)
  const leaves = before.active && !after.active
  if (leaves && before.id === gateway.memory.owner.user_id)
    throw refused(
      'mutability',
      'active: expected true, since the owner of the data directory cannot be deactivated',
    )
  const changed = { ...after, updated_at: now }
  const entry = auditMember(gateway, actor, before, changed, leaves ? 'deactivate' : 'update')
  return {
    before,
    after: changed,
    keys: leaves ? keysOf(gateway, actor, before) : null,
    entries: [entry],
  }
}

const keysOf = (gateway: IdentityWorld, actor: Actor, { id }: Member) =>
  disablingOf(gateway, actor, key => key.creator_user_id === id)

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

// Parts of the name that the identity provider does not send stay as they are.
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

/** Returns the primary address, else the first one, else the user name. */
function addressOf({ emails, userName }: Json): string {
  const given = objects(emails).filter(({ value }) => text(value))
  const address =
    text((given.find(({ primary }) => primary === true) ?? given[0])?.value) ?? text(userName) ?? ''
  if (address.length > LONGEST_ADDRESS)
    throw refused(
      'invalidValue',
      `emails: expected an address of at most ${LONGEST_ADDRESS} characters`,
    )
  return address
}

const active = (resource: Json, usual: boolean): Json => ({
  ...resource,
  active: resource.active ?? usual,
})

const auditUser = defineAudit<ScimUser>('scim_users', {
  identify: byId,
  show: ({ user_id, version, resource }) => ({ user_id, version, ...resource }),
})
