import { conflict, invalid } from '../../../src/base/errors.ts'
import type { Key, KeyDisabling } from '../../../src/resources/keys/store.ts'
import type { Workspace, WorkspaceStore } from '../../../src/resources/workspaces/store.ts'
import { removeAlerts } from './alerts.ts'
import { addAudit } from './audit.ts'
import { removeBatch } from './batches.ts'
import { mustBeThere } from './checks.ts'
import { removeContainers } from './containers.ts'
import { removeDestinations } from './destinations.ts'
import { removeGuardrail } from './guardrails.ts'
import type { Connection, Memory } from './memory.ts'

/** Workspaces in memory. */
export const createMemoryWorkspaceStore = (connection: Connection): WorkspaceStore => ({
  all: () =>
    connection.read(({ workspaces }) =>
      workspaces.all(row => row.deleted_at === null).map(({ deleted_at: _, ...row }) => row),
    ),
  insertIfAbsent: workspace =>
    connection.write(({ workspaces }) => {
      const isThere = workspaces.has(workspace.id)
      if (isThere || workspaces.all(({ slug }) => slug === workspace.slug).length > 0) return
      workspaces.insert(workspace.id, { ...workspace, deleted_at: null })
    }),
  insert: (workspace, entry) =>
    connection.write(memory => {
      mustHaveFreeSlug(memory, workspace)
      memory.workspaces.insert(workspace.id, { ...workspace, deleted_at: null })
      addAudit(memory, entry)
    }),
  update: (id, change, entry) =>
    connection.write(memory => {
      mustBeThere(memory, id)
      mustHaveFreeSlug(memory, { id, ...change })
      memory.workspaces.update(id, change)
      addAudit(memory, entry)
    }),
  remove: (workspace, keys, entry) =>
    connection.write(memory => {
      mustBeThere(memory, workspace.id)
      if (workspace.is_default) disableUnscoped(memory, workspace, keys)
      mustHaveNoActiveKeys(memory, workspace, new Date(entry.created_at))
      removeBelongings(memory, workspace.id, entry.created_at)
      const slug = `deleted ${workspace.id}`
      memory.workspaces.update(workspace.id, { slug, deleted_at: entry.created_at })
      addAudit(memory, entry)
    }),
})

type Named = Partial<Workspace> & { id: string }

function mustHaveFreeSlug({ workspaces }: Memory, { id, slug }: Named): void {
  if (workspaces.all(other => other.slug === slug && other.id !== id).length > 0)
    throw invalid('slug: expected one that no other workspace has', 'slug')
}

function disableUnscoped(memory: Memory, { id }: Workspace, keys: KeyDisabling): void {
  const unscoped = memory.keys.all(
    key => key.workspace_id === id && key.kind === 'inference' && key.isUnscoped && !key.disabled,
  )
  disable(memory, unscoped, keys, conflict)
}

/** Disables these keys if they are those that were passed; otherwise throws `refuse()`. */
export function disable(
  memory: Memory,
  found: Key[],
  keys: KeyDisabling,
  refuse: () => Error,
): void {
  const hashes = new Set(found.map(({ hash }) => hash))
  if (hashes.symmetricDifference(new Set(keys.hashes)).size > 0) throw refuse()
  for (const hash of hashes)
    memory.keys.update(hash, { disabled: true, updated_at: keys.updated_at })
  for (const entry of keys.entries) addAudit(memory, entry)
}

function mustHaveNoActiveKeys({ keys }: Memory, { id, is_default }: Workspace, now: Date): void {
  const { length } = keys.all(
    key =>
      key.workspace_id === id &&
      !(is_default && key.kind === 'management') &&
      !key.disabled &&
      (key.expires_at === null || new Date(key.expires_at) > now),
  )
  if (length === 0) return
  const active = `${length} active API ${length === 1 ? 'key' : 'keys'}`
  throw invalid(`This workspace has ${active}: delete or disable them first`)
}

function removeBelongings(memory: Memory, workspace_id: string, deleted_at: string): void {
  const isInside = (row: { workspace_id: string }) => row.workspace_id === workspace_id
  for (const { id } of memory.guardrails.all(isInside)) removeGuardrail(memory, id)
  removeAlerts(memory, isInside)
  removeDestinations(memory, deleted_at, isInside)
  for (const { id } of memory.budgets.all(isInside)) memory.budgets.remove(id)
  for (const { hash } of memory.authCodes.all(isInside)) memory.authCodes.remove(hash)
  for (const { generation_id } of memory.transcripts.all(isInside))
    memory.transcripts.remove(generation_id)
  for (const { id } of memory.files.all(isInside)) memory.files.remove(id)
  for (const { id } of memory.batches.all(isInside)) removeBatch(memory, id)
  removeContainers(memory, workspace_id)
  for (const { id } of memory.scimMappings.all(isInside)) memory.scimMappings.remove(id)
  for (const { id } of memory.workspaceMembers.all(isInside)) memory.workspaceMembers.remove(id)
  for (const { id } of memory.presets.all(isInside)) {
    for (const version of memory.presetVersions.all(one => one.preset_id === id))
      memory.presetVersions.remove(version.id)
    memory.presets.remove(id)
  }
  for (const { id } of memory.byok.all(row => isInside(row) && row.deleted_at === null))
    memory.byok.update(id, { sealed: '', deleted_at })
}
