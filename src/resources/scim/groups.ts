import { getIsoTime } from '../../base/clock.ts'
import { assertCurrent, type Precondition } from '../../base/entity-tag.ts'
import { requireFound } from '../../base/errors.ts'
import { type Json, readObjects, readString } from '../../base/json.ts'
import { PAGE_SIZE } from '../../base/pages.ts'
import { type Actor, assertCanManageAll } from '../actor.ts'
import { defineAudit, identifyById } from '../audit/entry.ts'
import { getOrganizationId } from '../organization.ts'
import type { GroupChange, ScimGroup, ScimPageQuery } from '../scim.ts'
import type { IdentityWorld } from '../world.ts'
import { createMembershipDecider } from './memberships.ts'
import { applyPatch, parseOperations } from './patch.ts'
import { refused } from './refusal.ts'
import { parseResource } from './resource.ts'
import { GROUP } from './schemas.data.ts'

/** Creates a group. Names need not be unique. Throws 400 for an invalid resource. */
export async function createScimGroup(
  world: IdentityWorld,
  actor: Actor,
  body: unknown,
): Promise<ScimGroup> {
  const resource = parseResource(GROUP, body)
  const now = getIsoTime(world)
  const group = {
    id: world.ids.uuid(),
    ...readNames(resource),
    version: 1,
    created_at: now,
    updated_at: now,
  }
  const members = readMemberIds(resource)
  await world.store.scim.groups.insert(
    group,
    members,
    auditGroup(world, actor, null, showAuditedGroup(group, [], members)),
  )
  return group
}

/** Gets a group. Throws 404. */
export async function getScimGroup({ store }: IdentityWorld, id: string): Promise<ScimGroup> {
  return requireFound(await store.scim.groups.byId(id), 'Group')
}

/** Replaces the resource of a group, including its members. Throws 400, 404 and 412. */
export function replaceScimGroup(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  body: unknown,
  precondition: Precondition,
): Promise<ScimGroup> {
  const resource = parseResource(GROUP, body)
  return changeGroup(world, actor, { id, when: precondition }, () => resource)
}

/**
 * Applies operations to a group, all or none. Users who join or leave it are added to or removed
 * from its workspaces. Throws 400, 404 and 412.
 */
export function patchScimGroup(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  body: unknown,
  precondition: Precondition,
): Promise<ScimGroup> {
  const operations = parseOperations(body)
  return changeGroup(world, actor, { id, when: precondition }, before =>
    applyPatch(GROUP, before, operations),
  )
}

async function changeGroup(
  world: IdentityWorld,
  actor: Actor,
  { id, when }: { id: string; when: Precondition },
  next: (before: Json) => Json,
): Promise<ScimGroup> {
  const decide = (before: ScimGroup, members: string[]): GroupChange<ScimGroup> => {
    assertCurrent(when, before)
    const resource = next(toGroupResource(before, members))
    const after = readMemberIds(resource)
    if (isSameGroup(before, members, resource, after))
      return { group: before, members, entry: null }
    const group = {
      ...before,
      ...readNames(resource),
      version: before.version + 1,
      updated_at: getIsoTime(world),
    }
    return {
      group,
      members: after,
      entry: auditGroup(world, actor, before, showAuditedGroup(group, members, after)),
    }
  }
  return (await world.store.scim.groups.change(id, decide, createMembershipDecider(world, actor)))
    .group
}

const isSameGroup = (
  before: ScimGroup,
  members: string[],
  resource: Json,
  after: string[],
): boolean => {
  const { display_name, external_id } = readNames(resource)
  return (
    display_name === before.display_name &&
    external_id === before.external_id &&
    new Set(members).symmetricDifference(new Set(after)).size === 0
  )
}

/** Deletes a group with its mappings and the memberships they granted. Throws 404 and 412. */
export async function deleteScimGroup(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  precondition: Precondition,
): Promise<void> {
  const decide = (before: ScimGroup, members: string[]): GroupChange<null> => {
    assertCurrent(precondition, before)
    return {
      group: null,
      members: [],
      entry: auditGroup(world, actor, showAuditedGroup(before, members, []), null),
    }
  }
  await world.store.scim.groups.change(id, decide, createMembershipDecider(world, actor))
}

/** Lists one page of the groups for the management API, the oldest first. Throws 403. */
export async function listScimGroups(
  world: IdentityWorld,
  actor: Actor,
  { offset = 0, limit = PAGE_SIZE }: ScimPageQuery,
) {
  assertCanManageAll(world, actor)
  const { groups } = world.store.scim
  const organization_id = getOrganizationId(world)
  const data = (await groups.listPage(offset, limit)).map(({ version: _, ...group }) => ({
    ...group,
    organization_id,
  }))
  return { data, total_count: await groups.count() }
}

/** Converts a group to a resource with the names of the schema, to which patches apply. */
export const toGroupResource = (
  { display_name, external_id }: ScimGroup,
  members: string[],
): Json => ({
  displayName: display_name,
  ...(external_id === null ? {} : { externalId: external_id }),
  ...(members.length === 0 ? {} : { members: members.map(value => ({ value })) }),
})

const readNames = ({ displayName, externalId }: Json) => ({
  display_name: readString(displayName) ?? '',
  external_id: readString(externalId),
})

/** Reads the ids of the members, each once. */
function readMemberIds({ members }: Json): string[] {
  const ids = readObjects(members).flatMap(({ value }) => readString(value) ?? [])
  if (ids.length > MAX_MEMBERS)
    throw refused('invalidValue', `members: expected at most ${MAX_MEMBERS}`)
  return [...new Set(ids)]
}

const MAX_MEMBERS = 100_000

// Shows only who joined and who left: a group of ten thousand is not copied for each of them.
const showAuditedGroup = (group: ScimGroup, before: string[], after: string[]) => ({
  ...group,
  members_added: after.filter(createMissingFilter(before)),
  members_removed: before.filter(createMissingFilter(after)),
})

const createMissingFilter = (ids: string[]) => {
  const present = new Set(ids)
  return (id: string) => !present.has(id)
}

const auditGroup = defineAudit<ScimGroup>('scim_groups', { identify: identifyById })
