import type { Kysely } from 'kysely'
import type { SyncJobStore } from '../../../identity/scim/sync-jobs.ts'
import { buildAuditInsert } from '../audit.ts'
import type { Tables } from '../tables.ts'
import type { Write } from '../write.ts'
import { reconcileMemberships } from './memberships.ts'

/** Creates the store of sync jobs in SQL. */
export const createSyncJobStore = (kysely: Kysely<Tables>, write: Write): SyncJobStore => ({
  byId: id =>
    kysely.selectFrom('scim_sync_jobs').selectAll().where('id', '=', id).executeTakeFirst(),
  insert: (job, entry) =>
    write(kysely.insertInto('scim_sync_jobs').values(job), buildAuditInsert(kysely, entry)),
  update: (id, change) =>
    write(
      kysely
        .updateTable('scim_sync_jobs')
        .set(change)
        .where('id', '=', id)
        .where('status', 'in', ['queued', 'running']),
    ),
  async listWorkspaces() {
    const current = kysely
      .selectFrom('workspace_members')
      .select('workspace_id')
      .where('source', '=', 'scim')
    const mapped = kysely.selectFrom('scim_group_mappings').select('workspace_id')
    return (await mapped.union(current).execute()).map(row => row.workspace_id)
  },
  apply: (workspace_id, move) => write(reconcileMemberships(kysely, { workspace_id }, move)),
})
