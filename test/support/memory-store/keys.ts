import { invalid } from '../../../src/base/errors.ts'
import type { Key, KeyStore } from '../../../src/resources/keys/store.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import type { Connection, Memory } from './memory.ts'
import { changedConcurrently } from './table.ts'

/** Keys in memory. */
export const createMemoryKeyStore = (connection: Connection): KeyStore => ({
  all: () => connection.read(({ keys }) => keys.all()),
  insert: (key, entry) =>
    connection.write(memory => {
      mustHavePlaceAndCreator(memory, key)
      memory.keys.insert(key.hash, key)
      addAudit(memory, entry)
    }),
  update: (hash, change, entry) =>
    connection.write(memory => {
      if (change.disabled === false) mustMayOpen(memory, memory.keys.get(hash))
      memory.keys.update(hash, change)
      addAudit(memory, entry)
    }),
  remove: (hash, entry) =>
    connection.write(memory => {
      memory.keys.remove(hash)
      const { key: assignments } = memory.assignments
      for (const { id } of assignments.all(one => one.assignee === hash)) assignments.remove(id)
      addAudit(memory, entry)
    }),
})

function mustHavePlaceAndCreator(memory: Memory, key: Key): void {
  if (memory.members.get(key.creator_user_id ?? '')?.active === false)
    throw invalid('creator_user_id: expected a member who has not left', 'creator_user_id')
  if (key.kind !== 'management' || !key.isUnscoped) mustBeLive(memory, key.workspace_id)
  if (!memory.workspaces.has(key.workspace_id)) throw changedConcurrently()
}

function mustMayOpen({ workspaces, members }: Memory, key: Key | undefined): void {
  const workspace = workspaces.get(key?.workspace_id ?? '')
  if (!key || !workspace) return
  const stays = key.kind === 'management' && workspace.is_default
  const hasLeft = members.get(key.creator_user_id ?? '')?.active === false
  if ((workspace.deleted_at !== null && !stays) || hasLeft)
    throw invalid(
      'disabled: expected true, since the key’s workspace was deleted or its creator has left',
      'disabled',
    )
}
