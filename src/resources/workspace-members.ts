import { getIsoTime } from '../base/clock.ts'
import { invalid } from '../base/errors.ts'
import { PAGE_SIZE, toPage } from '../base/pages.ts'
import { type Actor, assertCanManageAll } from './actor.ts'
import { isUsable } from './keys/mirror.ts'
import type { MemberIds, MemberQuery } from './members/schema.ts'
import type { Member, MembershipChange, WorkspaceMember } from './members/store.ts'
import { auditWorkspaceMember, showMember, showWorkspaceMember } from './members/view.ts'
import type { Workspace } from './workspaces/store.ts'
import { requireManagedWorkspace } from './workspaces.ts'
import type { IdentityWorld } from './world.ts'

/**
 * Lists one page of the organization's members, the oldest first. Throws 403 for actors who manage
 * one workspace only.
 */
export async function listMembers(world: IdentityWorld, actor: Actor, query: MemberQuery) {
  assertCanManageAll(world, actor)
  return listMemberPage(world, query, showMember)
}

/** Lists the deactivated members of the organization. For the operator: the API has no such list. */
export async function listInactiveMembers({ store: { members } }: IdentityWorld) {
  const inactive = await members.listInactive()
  return { data: inactive.map(showMember), total_count: inactive.length }
}

/**
 * Lists one page of a workspace's members. The default workspace contains every member of the
 * organization, with their role there. Throws 404.
 */
export async function listWorkspaceMembers(
  world: IdentityWorld,
  actor: Actor,
  idOrSlug: string,
  query: MemberQuery,
) {
  const workspace = requireManagedWorkspace(world, actor, idOrSlug)
  const present = await findWorkspaceMembers(world, workspace)
  if (!workspace.is_default) return toPage([...present.values()], query, showWorkspaceMember)
  return listMemberPage(world, query, member =>
    showWorkspaceMember(present.get(member.id) ?? buildImplicitMember(workspace, member)),
  )
}

async function listMemberPage<Shown>(
  { store: { members } }: IdentityWorld,
  { offset = 0, limit = PAGE_SIZE }: MemberQuery,
  show: (member: Member) => Shown,
) {
  return { data: (await members.list(offset, limit)).map(show), total_count: await members.count() }
}

// No record exists for such a membership, so its id is derived from the workspace and the member.
const buildImplicitMember = ({ id: workspace_id }: Workspace, member: Member): WorkspaceMember => ({
  id: Bun.randomUUIDv5(`${workspace_id} ${member.id}`, IMPLICIT),
  workspace_id,
  user_id: member.id,
  role: toWorkspaceRole(member),
  created_at: member.created_at,
  source: 'manual',
})

const IMPLICIT = '5b1a6f1c-8d0e-5f2b-9c35-7a40d1e8b6f3'

const toWorkspaceRole = ({ role }: Member): WorkspaceMember['role'] =>
  role === 'org:admin' ? 'admin' : 'member'

/**
 * Adds members of the organization to a workspace, with their role in the organization, all or
 * none. Does not count those who already have that membership. Memberships that a group mapping
 * grants stay as they are. Throws 404, and 400 for ids that are not active members.
 */
export async function addWorkspaceMembers(
  world: IdentityWorld,
  actor: Actor,
  idOrSlug: string,
  { user_ids }: MemberIds,
) {
  const workspace = requireManagedWorkspace(world, actor, idOrSlug)
  const members = await requireActiveMembers(world, user_ids)
  if (workspace.is_default) return { added_count: 0, data: [] }
  const present = await findWorkspaceMembers(world, workspace)
  const changes = members.flatMap(member => {
    const before = present.get(member.id) ?? null
    const role = toWorkspaceRole(member)
    if (before && (before.source === 'scim' || isMembershipKept(before, role, 'manual'))) return []
    const after = {
      ...(before ?? buildWorkspaceMember(world, workspace.id, member.id)),
      role,
      source: 'manual' as const,
    }
    return { ...buildMembershipChange(world, actor, before, after), after }
  })
  await world.store.members.changeWorkspaceMembers(changes)
  return {
    added_count: changes.length,
    data: changes.map(({ after }) => showWorkspaceMember(after)),
  }
}

async function requireActiveMembers(world: IdentityWorld, user_ids: string[]): Promise<Member[]> {
  const ids = [...new Set(user_ids)]
  const found = new Map((await world.store.members.byIds(ids)).map(member => [member.id, member]))
  const active = ids.flatMap(id => found.get(id) ?? []).filter(member => member.active)
  const missing = ids.length - active.length
  refuseNonMembers(missing)
  return active
}

/**
 * Removes members from a workspace, all or none. Does not count ids that are not in it. Throws 404,
 * and 400 for the default workspace. Throws 400 for members with active keys in the workspace, for
 * members that a group mapping added, and for ids that never were members of the organization.
 */
export async function removeWorkspaceMembers(
  world: IdentityWorld,
  actor: Actor,
  idOrSlug: string,
  { user_ids }: MemberIds,
) {
  const workspace = requireManagedWorkspace(world, actor, idOrSlug)
  if (workspace.is_default)
    throw invalid(
      'The default workspace has all members of the organization. None can be removed from it.',
    )
  await world.catchUp()
  const leaving = await findLeavingMembers(world, workspace, user_ids)
  assertCanLeave(world, workspace, leaving)
  await world.store.members.changeWorkspaceMembers(
    leaving.map(before => buildMembershipChange(world, actor, before, null)),
  )
  return { removed_count: leaving.length }
}

async function findLeavingMembers(
  world: IdentityWorld,
  workspace: Workspace,
  user_ids: string[],
): Promise<WorkspaceMember[]> {
  const ids = [...new Set(user_ids)]
  const missing = ids.length - (await world.store.members.byIds(ids)).length
  refuseNonMembers(missing)
  const present = await findWorkspaceMembers(world, workspace)
  return ids.flatMap(id => present.get(id) ?? [])
}

function assertCanLeave(world: IdentityWorld, { id }: Workspace, leaving: WorkspaceMember[]): void {
  const now = world.clock.now()
  const keys = world.memory.keys.filterMentioning(
    id,
    key => key.workspace_id === id && isUsable(key, now),
  )
  const keyHolders = leaving.filter(({ user_id }) =>
    keys.some(key => key.creator_user_id === user_id),
  ).length
  if (keyHolders > 0)
    throw invalidUserIds(
      `expected members without active API keys in this workspace, found ${keyHolders} with some`,
    )
  const managed = leaving.filter(({ source }) => source === 'scim').length
  if (managed > 0)
    throw invalidUserIds(
      `expected members who were added by hand, found ${managed} that your identity provider ` +
        'manages: change them there',
    )
}

function refuseNonMembers(count: number): void {
  if (count === 0) return
  const found = `${count} who ${count === 1 ? 'is' : 'are'} not`
  throw invalidUserIds(`expected members of the organization, found ${found}`)
}

const findWorkspaceMembers = async (
  { store }: IdentityWorld,
  { id }: Workspace,
): Promise<Map<string, WorkspaceMember>> =>
  new Map((await store.members.listInWorkspace(id)).map(member => [member.user_id, member]))

const invalidUserIds = (message: string) => invalid(`user_ids: ${message}`, 'user_ids')

/** Whether a membership stays as it is when this role is granted from this source. */
export const isMembershipKept = (
  before: WorkspaceMember,
  role: WorkspaceMember['role'],
  source: WorkspaceMember['source'],
) =>
  (before.source === 'manual' && source === 'scim') ||
  (before.source === source && before.role === role)

/** Builds a new membership, without its role and source. */
export const buildWorkspaceMember = (
  world: IdentityWorld,
  workspace_id: string,
  user_id: string,
) => ({
  id: world.ids.uuid(),
  workspace_id,
  user_id,
  created_at: getIsoTime(world),
})

/** Builds the change of one membership with its audit entry. */
export const buildMembershipChange = (
  world: IdentityWorld,
  actor: Actor,
  before: WorkspaceMember | null,
  after: WorkspaceMember | null,
): MembershipChange => ({
  before,
  after,
  entry: auditWorkspaceMember(world, actor, before, after),
})
