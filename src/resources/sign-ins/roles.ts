import type { JWTPayload } from 'jose'
import { getIsoTime } from '../../base/clock.ts'
import type { RolesConfig, SignInConfig } from '../../config/sign-in.ts'
import type { Member } from '../members/store.ts'
import { auditMember } from '../members/view.ts'
import type { SignInWorld } from '../sign-ins.ts'

/**
 * Gives a member who signs in the role that their groups have by the config, if it has any: the
 * groups that SCIM lists of those whom it provides, and of others those of their ID token. Who loses
 * a role loses the sessions that had it. The owner of the data directory keeps theirs.
 */
export async function applyGroups(
  world: SignInWorld,
  { roles }: SignInConfig,
  member: Member,
  claims: JWTPayload,
): Promise<void> {
  const { id } = member
  if (!roles || id === world.memory.owner.user_id) return
  const groups = await listScimGroups(world, id)
  const role = findHighestRole(roles, groups ?? readGroups(claims[roles.claim ?? 'groups']))
  if (role === member.role) return
  const change = { role, updated_at: getIsoTime(world) }
  const actor = {
    ...{ kind: 'member' as const, user_id: id, key_hash: null },
    workspace_id: world.memory.owner.workspace_id,
  }
  const entry = auditMember(world, actor, member, { ...member, ...change })
  await world.store.members.update(id, change, entry)
  // What a session may do follows the role, so none may more in between.
  if (role === 'org:member')
    await world.store.signIns.endSessions({ user_id: id }, change.updated_at)
}

/** Lists the groups of a member whom SCIM provides; undefined for any other. */
async function listScimGroups(
  { store: { scim } }: SignInWorld,
  id: string,
): Promise<string[] | undefined> {
  const user = await scim.users.byMember(id)
  return user && (await scim.users.listGroups([user.id])).map(({ display_name }) => display_name)
}

const findHighestRole = ({ groups }: RolesConfig, held: string[]): Member['role'] =>
  held.some(group => Object.hasOwn(groups, group) && groups[group] === 'org:admin')
    ? 'org:admin'
    : 'org:member'

// Providers write a single group as a text. Whatever is no list of groups gives none.
const readGroups = (claim: unknown): string[] =>
  [claim].flat().filter(group => typeof group === 'string')
