import { getIsoTime } from '../base/clock.ts'
import { invalid, requireFound } from '../base/errors.ts'
import { pickDefined } from '../base/json.ts'
import { type Actor, assertCanManageAll } from './actor.ts'
import { disableKeys, prepareKeyDisabling, tryKeyDisabling } from './keys/disabling.ts'
import { MemberChange, type NewMember } from './members/schema.ts'
import type { Member } from './members/store.ts'
import { auditMember } from './members/view.ts'
import type { Owner } from './workspaces/store.ts'
import type { IdentityWorld } from './world.ts'

/** Builds the member for the owner of the data directory, who is a member from the start. */
export const buildOwnerMember = ({ user_id }: Owner, now: Date): Member => ({
  id: user_id,
  email: 'owner@localhost',
  first_name: null,
  last_name: null,
  role: 'org:admin',
  active: true,
  created_at: now.toISOString(),
  updated_at: null,
})

/**
 * Adds a member to the organization. Throws 403 for actors who manage one workspace only, and 409
 * when an active member has the address.
 */
export async function addMember(
  world: IdentityWorld,
  actor: Actor,
  input: NewMember,
): Promise<Member> {
  assertCanManageAll(world, actor)
  const member: Member = {
    id: `user_${world.ids.uuid().replaceAll('-', '')}`,
    email: input.email,
    first_name: input.first_name ?? null,
    last_name: input.last_name ?? null,
    role: input.role ?? 'org:member',
    active: true,
    created_at: getIsoTime(world),
    updated_at: null,
  }
  await world.store.members.insert(member, auditMember(world, actor, null, member))
  return member
}

/** Gets a member, active or not. Throws 404. */
export async function getMember({ store }: IdentityWorld, id: string): Promise<Member> {
  const [member] = await store.members.byIds([id])
  return requireFound(member, 'Member')
}

/** Changes a member. Throws as `addMember` does, and 404. */
export async function updateMember(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  change: MemberChange,
): Promise<Member> {
  assertCanManageAll(world, actor)
  const member = await getMember(world, id)
  const changes = {
    ...pickDefined(change, MemberChange.properties),
    updated_at: getIsoTime(world),
  }
  const changed = { ...member, ...changes }
  await world.store.members.update(id, changes, auditMember(world, actor, member, changed))
  return changed
}

/**
 * Removes a member from the organization and all workspaces. Every key that they created is
 * disabled in the same transaction, and stays disabled if they return. Does nothing for a member
 * who has already left. Throws 400 for the owner, 403, and 404.
 */
export async function deactivateMember(
  world: IdentityWorld,
  actor: Actor,
  id: string,
): Promise<Member> {
  assertCanManageAll(world, actor)
  const member = await getMember(world, id)
  if (id === world.memory.owner.user_id)
    throw invalid('The owner of the data directory cannot be deactivated')
  if (!member.active) return member
  return tryKeyDisabling(world, async () => {
    const keys = prepareKeyDisabling(world, actor, id, key => key.creator_user_id === id)
    const changed = { ...member, active: false, updated_at: keys.updated_at }
    const entry = auditMember(world, actor, member, changed, 'deactivate')
    await world.store.members.deactivate(id, keys, entry)
    disableKeys(world, keys)
    return changed
  })
}
