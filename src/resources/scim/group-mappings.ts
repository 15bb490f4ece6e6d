import { type Static, Type } from '@sinclair/typebox'
import { getIsoTime } from '../../base/clock.ts'
import { conflict, requireFound } from '../../base/errors.ts'
import { PAGE_SIZE } from '../../base/pages.ts'
import { oneOf, TrueOrFalse, Uuid } from '../../base/schema-builders.ts'
import type { Actor } from '../actor.ts'
import { defineAudit, identifyById } from '../audit/entry.ts'
import { assertCanManageAll } from '../management.ts'
import { getOrganizationId } from '../organization.ts'
import type { GroupMapping, MappingResult, ScimPageQuery } from '../scim.ts'
import type { IdentityWorld } from '../world.ts'
import { createMembershipDecider, createMembershipKeeper } from './memberships.ts'

const Role = oneOf('admin', 'member')

/** The body of E1, `POST /scim/group-mappings`. */
export const NewGroupMapping = Type.Object({ scim_group_id: Uuid, workspace_id: Uuid, role: Role })

export type NewGroupMapping = Static<typeof NewGroupMapping>

/** The body of `PATCH /scim/group-mappings/{id}`. */
export const GroupMappingChange = Type.Object({ role: Role })

export type GroupMappingChange = Static<typeof GroupMappingChange>

/** The query of `DELETE /scim/group-mappings/{id}`. It must state what happens to the members. */
export const GroupMappingDeletion = Type.Object({ keep_members: TrueOrFalse })

export type GroupMappingDeletion = Static<typeof GroupMappingDeletion>

/**
 * E1: puts all members of a group into a workspace. An existing mapping with this role is applied
 * again. Throws 403 for actors who manage one workspace only, and 404 for a group or a workspace
 * that does not exist. Throws 409 when the group has another role there.
 */
export async function createGroupMapping(
  world: IdentityWorld,
  actor: Actor,
  input: NewGroupMapping,
) {
  assertCanManageAll(world, actor)
  const { scim_group_id, workspace_id, role } = input
  const now = getIsoTime(world)
  const mapping = {
    id: world.ids.uuid(),
    scim_group_id,
    workspace_id,
    role,
    created_at: now,
    updated_at: now,
  }
  const entry = auditMapping(world, actor, null, mapping)
  const decide = (existing: GroupMapping | undefined): MappingResult => {
    if (existing && existing.role !== role)
      throw conflict('This group already has another role in this workspace')
    return existing ? { mapping: existing, entry: null } : { mapping, entry }
  }
  const created = await world.store.scim.mappings.insert(
    mapping,
    decide,
    createMembershipDecider(world, actor),
  )
  return { data: showMapping(world, created.mapping) }
}

/** Lists one page of the mappings, the oldest first. Throws 403. */
export async function listGroupMappings(
  world: IdentityWorld,
  actor: Actor,
  { offset = 0, limit = PAGE_SIZE }: ScimPageQuery,
) {
  assertCanManageAll(world, actor)
  const { mappings } = world.store.scim
  const page = await mappings.listPage(offset, limit)
  return {
    data: page.map(mapping => showMapping(world, mapping)),
    total_count: await mappings.count(),
  }
}

/** Gets a mapping. Throws 403, and 404. */
export const getGroupMapping = async (world: IdentityWorld, actor: Actor, id: string) => ({
  data: showMapping(world, await requireMapping(world, actor, id)),
})

/** Changes the role of a group in its workspace. Throws 403, and 404. */
export async function updateGroupMapping(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  { role }: GroupMappingChange,
) {
  const mapping = await requireMapping(world, actor, id)
  const changed = { ...mapping, role, updated_at: getIsoTime(world) }
  const entry = auditMapping(world, actor, mapping, changed)
  await world.store.scim.mappings.update(changed, entry, createMembershipDecider(world, actor))
  return { data: showMapping(world, changed) }
}

/**
 * Deletes a mapping. With `keep_members`, the members that it added stay in the workspace as if
 * added by hand. Without it, they are removed unless another mapping adds them. Throws 403, and
 * 404.
 */
export async function deleteGroupMapping(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  { keep_members }: GroupMappingDeletion,
) {
  const mapping = await requireMapping(world, actor, id)
  const entry = auditMapping(world, actor, mapping, null)
  const keep = keep_members === 'true' ? createMembershipKeeper(world, actor) : null
  await world.store.scim.mappings.remove(
    mapping,
    entry,
    createMembershipDecider(world, actor),
    keep,
  )
  return { deleted: true as const }
}

async function requireMapping(
  world: IdentityWorld,
  actor: Actor,
  id: string,
): Promise<GroupMapping> {
  assertCanManageAll(world, actor)
  return requireFound(await world.store.scim.mappings.byId(id), 'SCIM group mapping')
}

const showMapping = (world: IdentityWorld, mapping: GroupMapping) => ({
  ...mapping,
  organization_id: getOrganizationId(world),
})

const auditMapping = defineAudit<GroupMapping>('scim_group_mappings', { identify: identifyById })
