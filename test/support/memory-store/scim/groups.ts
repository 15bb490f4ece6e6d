import { notFound } from '../../../../src/base/errors.ts'
import type { LookupKey } from '../../../../src/resources/scim/query.ts'
import { refused } from '../../../../src/resources/scim/refusal.ts'
import type {
  DecideMembership,
  GroupChange,
  ScimGroup,
  ScimGroupStore,
} from '../../../../src/resources/scim.ts'
import { addAudit } from '../audit.ts'
import type { Connection, Memory } from '../memory.ts'
import { compareByFields } from '../table.ts'
import { applyMoves } from './memberships.ts'

/** Groups in memory. */
export const createMemoryScimGroupStore = (connection: Connection): ScimGroupStore => ({
  byId: id => connection.read(({ scimGroups }) => scimGroups.get(id)),
  find: known =>
    connection.read(({ scimGroups }) =>
      scimGroups.all(group => matchesKnown(group, known)).sort(compareByFields('created_at', 'id')),
    ),
  listPage: (offset, limit) =>
    connection.read(({ scimGroups }) =>
      scimGroups
        .all()
        .sort(compareByFields('created_at', 'id'))
        .slice(offset, offset + limit),
    ),
  count: () => connection.read(({ scimGroups }) => scimGroups.all().length),
  listMembers: ids =>
    connection.read(({ scimGroupMembers, scimUsers }) =>
      scimGroupMembers
        .all(({ group_id }) => ids.includes(group_id))
        .sort(compareByFields('scim_user_id'))
        .map(one => ({ ...one, resource: scimUsers.get(one.scim_user_id)?.resource ?? {} })),
    ),
  insert: (group, members, entry) =>
    connection.write(memory => {
      mustBeUsers(memory, members)
      memory.scimGroups.insert(group.id, group)
      addMembers(memory, group.id, members)
      addAudit(memory, entry)
    }),
  change: (id, decide, move) =>
    connection.write(memory => {
      const group = memory.scimGroups.get(id)
      if (!group) throw notFound('Group not found')
      const members = memory.scimGroupMembers
        .all(({ group_id }) => group_id === id)
        .map(({ scim_user_id }) => scim_user_id)
      const change = decide(group, members)
      applyChange(memory, id, members, change, move)
      return change
    }),
})

function matchesKnown(
  { id, external_id, display_name }: ScimGroup,
  known: LookupKey | undefined,
): boolean {
  if (!known) return true
  const names = { id, externalId: external_id, name: display_name.toLowerCase() }
  return names[known.by] === known.value
}

function mustBeUsers({ scimUsers }: Memory, ids: string[]): void {
  if (new Set(ids.filter(id => scimUsers.has(id))).size < ids.length)
    throw refused('invalidValue', 'members: expected users that exist')
}

const renderMemberKey = (group_id: string, scim_user_id: string) =>
  JSON.stringify([group_id, scim_user_id])

function addMembers({ scimGroupMembers }: Memory, group_id: string, ids: string[]): void {
  for (const scim_user_id of ids)
    scimGroupMembers.insert(renderMemberKey(group_id, scim_user_id), { group_id, scim_user_id })
}

function applyChange(
  memory: Memory,
  id: string,
  before: string[],
  { group, members, entry }: GroupChange,
  move: DecideMembership,
): void {
  if (!entry) return
  const came = [...new Set(members).difference(new Set(before))]
  const went = [...new Set(before).difference(new Set(members))]
  mustBeUsers(memory, came)
  for (const one of went) memory.scimGroupMembers.remove(renderMemberKey(id, one))
  addMembers(memory, id, came)
  if (group) memory.scimGroups.update(id, group)
  else removeGroup(memory, id)
  addAudit(memory, entry)
  const user_ids = [...came, ...went].flatMap(one => memory.scimUsers.get(one)?.user_id ?? [])
  applyMoves(memory, { user_ids }, move)
}

function removeGroup({ scimMappings, scimGroupMembers, scimGroups }: Memory, id: string): void {
  for (const one of scimMappings.all(({ scim_group_id }) => scim_group_id === id))
    scimMappings.remove(one.id)
  for (const { scim_user_id } of scimGroupMembers.all(({ group_id }) => group_id === id))
    scimGroupMembers.remove(renderMemberKey(id, scim_user_id))
  scimGroups.remove(id)
}
