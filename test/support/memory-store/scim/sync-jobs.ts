import type { SyncJobStore } from '../../../../src/resources/scim.ts'
import { addAudit } from '../audit.ts'
import type { Connection } from '../memory.ts'
import { applyMoves } from './memberships.ts'

/** Sync jobs in memory. */
export const createMemorySyncJobStore = (connection: Connection): SyncJobStore => ({
  byId: id => connection.read(({ scimJobs }) => scimJobs.get(id)),
  insert: (job, entry) =>
    connection.write(memory => {
      memory.scimJobs.insert(job.id, job)
      addAudit(memory, entry)
    }),
  update: (id, change) =>
    connection.write(({ scimJobs }) => {
      const status = scimJobs.get(id)?.status
      if (status === 'queued' || status === 'running') scimJobs.update(id, change)
    }),
  listWorkspaces: () =>
    connection.read(({ scimMappings, workspaceMembers }) => {
      const left = workspaceMembers.all(({ source }) => source === 'scim')
      const mapped = [...scimMappings.all(), ...left].map(({ workspace_id }) => workspace_id)
      return [...new Set(mapped)].sort()
    }),
  apply: (workspace_id, move) =>
    connection.write(memory => applyMoves(memory, { workspace_id }, move)),
})
