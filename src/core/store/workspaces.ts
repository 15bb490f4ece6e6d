import type { Kysely } from 'kysely'
import type { WorkspaceStore } from '../identity/workspaces.ts'
import type { Tables } from './tables.ts'

/** Workspaces in SQL. */
export function workspaceStore(kysely: Kysely<Tables>): WorkspaceStore {
  return {
    async all() {
      const rows = await kysely.selectFrom('workspaces').selectAll().execute()
      return rows.map(row => ({ ...row, is_default: row.is_default === 1 }))
    },
    // Two processes may start on an empty directory at once; the first one's workspace stays.
    async insert(workspace) {
      const row = { ...workspace, is_default: Number(workspace.is_default) }
      await kysely
        .insertInto('workspaces')
        .values(row)
        .onConflict(on => on.doNothing())
        .execute()
    },
  }
}
