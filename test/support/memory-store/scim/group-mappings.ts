import { notFound } from '../../../../src/base/errors.ts'
import type { GroupMappingStore } from '../../../../src/resources/scim.ts'
import { addAudit } from '../audit.ts'
import { mustBeThere } from '../checks.ts'
import type { Connection, Memory } from '../memory.ts'
import { compareByFields } from '../table.ts'
import { applyMoves, listGroupMembers } from './memberships.ts'

/** Mappings in memory. */
export const createMemoryGroupMappingStore = (connection: Connection): GroupMappingStore => ({
  byId: id => connection.read(({ scimMappings }) => scimMappings.get(id)),
  listPage: (offset, limit) =>
    connection.read(({ scimMappings }) =>
      scimMappings
        .all()
        .sort(compareByFields('created_at', 'id'))
        .slice(offset, offset + limit),
    ),
  count: () => connection.read(({ scimMappings }) => scimMappings.all().length),
  insert: (mapping, decide, move) =>
    connection.write(memory => {
      const { scim_group_id, workspace_id } = mapping
      if (!memory.scimGroups.has(scim_group_id)) throw notFound('SCIM group not found')
      mustBeThere(memory, workspace_id)
      const [there] = memory.scimMappings.all(
        one => one.scim_group_id === scim_group_id && one.workspace_id === workspace_id,
      )
      const created = decide(there)
      if (created.entry) {
        memory.scimMappings.insert(mapping.id, mapping)
        addAudit(memory, created.entry)
      }
      applyMoves(memory, { workspace_id }, move)
      return created
    }),
  update: (mapping, entry, move) =>
    connection.write(memory => {
      mustBeMapped(memory, mapping.id)
      memory.scimMappings.update(mapping.id, mapping)
      addAudit(memory, entry)
      applyMoves(memory, { workspace_id: mapping.workspace_id }, move)
    }),
  remove: ({ id, scim_group_id, workspace_id }, entry, move, keep) =>
    connection.write(memory => {
      mustBeMapped(memory, id)
      const users = listGroupMembers(memory, scim_group_id)
      const put = memory.workspaceMembers.all(
        one =>
          one.workspace_id === workspace_id && one.source === 'scim' && users.includes(one.user_id),
      )
      for (const current of keep ? put : []) {
        memory.workspaceMembers.update(current.id, { source: 'manual' })
        if (keep) addAudit(memory, keep(current))
      }
      memory.scimMappings.remove(id)
      addAudit(memory, entry)
      applyMoves(memory, { workspace_id }, move)
    }),
})

function mustBeMapped({ scimMappings }: Memory, id: string): void {
  if (!scimMappings.has(id)) throw notFound('SCIM group mapping not found')
}
