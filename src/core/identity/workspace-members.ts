import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../errors.ts'
import type { Actor } from './actor.ts'
import { isUsable } from './keys.ts'
import { mustManageAll } from './management.ts'
import { isKept, type Member, membership, newWorkspaceMember, type WorkspaceMember } from './members.ts'
import { reachedWorkspace, type Workspace } from './workspaces.ts'
import type { IdentityWorld } from './world.ts'

/** The query of `GET /organization/members` and of `GET /workspaces/{id}/members`. */
export const MemberQuery = Type.Object({
  offset: Type.Optional(Type.Integer({ minimum: 0 })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
})
export type MemberQuery = Static<typeof MemberQuery>

/** The body of `POST /workspaces/{id}/members/add` and `…/remove`. */
export const MemberIds = Type.Object({ user_ids: Type.Array(Type.String(), { minItems: 1, maxItems: 100 }) })
export type MemberIds = Static<typeof MemberIds>

const PAGE = 50

/** One page of the organization's members, the oldest first. Throws 403 for who manages one workspace only. */
export async function listMembers(gateway: IdentityWorld, actor: Actor, { offset = 0, limit = PAGE }: MemberQuery) {
  mustManageAll(gateway, actor)
  const { members } = gateway.store
  return { data: (await members.list(offset, limit)).map(shownMember), total_count: await members.count() }
}

/** One page of who is in a workspace. In the default one are all of the organization, in the role that they have there. Throws 404. */
export async function listWorkspaceMembers(
  gateway: IdentityWorld,
  actor: Actor,
  idOrSlug: string,
  { offset = 0, limit = PAGE }: MemberQuery,
) {
  const workspace = reachedWorkspace(gateway, actor, idOrSlug)
  const { members } = gateway.store
  const given = await members.inWorkspace(workspace.id)
  if (!workspace.is_default) return { data: given.slice(offset, offset + limit).map(shownWorkspaceMember), total_count: given.length }
  const byUser = new Map(given.map(one => [one.user_id, one]))
  const page = (await members.list(offset, limit)).map(member => byUser.get(member.id) ?? implicitIn(workspace, member))
  return { data: page.map(shownWorkspaceMember), total_count: await members.count() }
}

// Nobody put him there, so the id is made of what it stands for.
const implicitIn = ({ id: workspace_id }: Workspace, member: Member): WorkspaceMember => ({
  id: Bun.randomUUIDv5(`${workspace_id} ${member.id}`, IMPLICIT),
  workspace_id,
  user_id: member.id,
  role: roleOf(member),
  created_at: member.created_at,
  source: 'manual',
})

const IMPLICIT = '5b1a6f1c-8d0e-5f2b-9c35-7a40d1e8b6f3'

const roleOf = ({ role }: Member): WorkspaceMember['role'] => (role === 'org:admin' ? 'admin' : 'member')

/**
 * Puts members of the organization into a workspace, in the role that they have in the organization, all or none. Who is there so already
 * is not counted, and who is there by a mapping of groups stays as he is. Throws 404, and 400 for who is no member.
 */
export async function addWorkspaceMembers(gateway: IdentityWorld, actor: Actor, idOrSlug: string, { user_ids }: MemberIds) {
  const workspace = reachedWorkspace(gateway, actor, idOrSlug)
  const members = await activeMembers(gateway, user_ids)
  if (workspace.is_default) return { added_count: 0, data: [] }
  const present = await membersIn(gateway, workspace)
  const changes = members.flatMap(member => {
    const before = present.get(member.id) ?? null
    const role = roleOf(member)
    if (before && (before.source === 'scim' || isKept(before, role, 'manual'))) return []
    const after = { ...(before ?? newWorkspaceMember(gateway, workspace.id, member.id)), role, source: 'manual' as const }
    return { ...membership(gateway, actor, before, after), after }
  })
  await gateway.store.members.changeWorkspaceMembers(changes)
  return { added_count: changes.length, data: changes.map(({ after }) => shownWorkspaceMember(after)) }
}

async function activeMembers(gateway: IdentityWorld, user_ids: string[]): Promise<Member[]> {
  const ids = [...new Set(user_ids)]
  const found = new Map((await gateway.store.members.byIds(ids)).map(member => [member.id, member]))
  const active = ids.flatMap(id => found.get(id) ?? []).filter(member => member.active)
  const missing = ids.length - active.length
  if (missing > 0) throw refused(`expected members of the organization, found ${missing} who ${missing === 1 ? 'is' : 'are'} not`)
  return active
}

/**
 * Takes members out of a workspace, all or none. Who is not in it is not counted. Throws 404, and 400 for the default workspace, for who
 * has active keys in it, for who is in it by a mapping of groups, and for who never was a member of the organization.
 */
export async function removeWorkspaceMembers(gateway: IdentityWorld, actor: Actor, idOrSlug: string, { user_ids }: MemberIds) {
  const workspace = reachedWorkspace(gateway, actor, idOrSlug)
  if (workspace.is_default) throw invalid('The members of the default workspace are the organization’s, and cannot be removed from it')
  await gateway.catchUp()
  const leaving = await leavingOf(gateway, workspace, user_ids)
  mayLeave(gateway, workspace, leaving)
  await gateway.store.members.changeWorkspaceMembers(leaving.map(before => membership(gateway, actor, before, null)))
  return { removed_count: leaving.length }
}

async function leavingOf(gateway: IdentityWorld, workspace: Workspace, user_ids: string[]): Promise<WorkspaceMember[]> {
  const ids = [...new Set(user_ids)]
  const strangers = ids.length - (await gateway.store.members.byIds(ids)).length
  if (strangers > 0) throw refused(`expected members of the organization, found ${strangers} who ${strangers === 1 ? 'is' : 'are'} not`)
  const present = await membersIn(gateway, workspace)
  return ids.flatMap(id => present.get(id) ?? [])
}

function mayLeave(gateway: IdentityWorld, { id }: Workspace, leaving: WorkspaceMember[]): void {
  const now = gateway.clock.now()
  const keys = [...gateway.memory.keys.values()].filter(key => key.workspace_id === id && isUsable(key, now))
  const holding = leaving.filter(({ user_id }) => keys.some(key => key.creator_user_id === user_id)).length
  if (holding > 0)
    throw refused(`expected members without active API keys in this workspace, found ${holding} who ${holding === 1 ? 'has' : 'have'} some`)
  const managed = leaving.filter(({ source }) => source === 'scim').length
  if (managed > 0)
    throw refused(`expected members who were added by hand, found ${managed} whom your identity provider manages: change that there`)
}

const membersIn = async ({ store }: IdentityWorld, { id }: Workspace): Promise<Map<string, WorkspaceMember>> =>
  new Map((await store.members.inWorkspace(id)).map(member => [member.user_id, member]))

const refused = (message: string) => invalid(`user_ids: ${message}`, 'user_ids')

/** A member as `GET /organization/members` shows him. */
export const shownMember = ({ id, email, first_name, last_name, role }: Member) => ({ id, email, first_name, last_name, role })

const shownWorkspaceMember = ({ id, workspace_id, user_id, role, created_at }: WorkspaceMember) => ({
  id,
  workspace_id,
  user_id,
  role,
  created_at,
})
