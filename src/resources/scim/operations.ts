import { defineNoun, defineOperation, defineTerminalOperation } from '../operation.ts'
import { ScimPageQuery } from '../scim.ts'
import {
  createGroupMapping,
  deleteGroupMapping,
  GroupMappingChange,
  GroupMappingDeletion,
  getGroupMapping,
  listGroupMappings,
  NewGroupMapping,
  updateGroupMapping,
} from './group-mappings.ts'
import { listScimGroups } from './groups.ts'
import { createSyncJob, finishSyncJob, getSyncJob } from './sync-jobs.ts'

const resource = { tag: 'SCIM', access: 'management' } as const

/** What can be done with mappings of groups to workspaces: specification E1, wire reference J.4. */
export const mappings = defineNoun(
  { ...resource, params: { id: 'The mapping’s id' } },
  {
    list: defineOperation(
      'GET /scim/group-mappings',
      'listScimGroupMappings',
      'List SCIM group mappings',
      listGroupMappings,
      { query: ScimPageQuery },
    ),
    create: defineOperation(
      'POST /scim/group-mappings',
      'createScimGroupMapping',
      'Map a SCIM group to a workspace',
      createGroupMapping,
      { body: NewGroupMapping, status: 201, refusals: [404, 409] },
    ),
    get: defineOperation(
      'GET /scim/group-mappings/:id',
      'getScimGroupMapping',
      'Get a SCIM group mapping',
      getGroupMapping,
    ),
    update: defineOperation(
      'PATCH /scim/group-mappings/:id',
      'updateScimGroupMapping',
      'Change the role of a SCIM group mapping',
      updateGroupMapping,
      { body: GroupMappingChange },
    ),
    delete: defineOperation(
      'DELETE /scim/group-mappings/:id',
      'deleteScimGroupMapping',
      'Delete a SCIM group mapping',
      deleteGroupMapping,
      { query: GroupMappingDeletion },
    ),
  },
)

/** What can be done with the groups of an identity provider. */
export const groups = defineNoun(resource, {
  list: defineOperation('GET /scim/groups', 'listScimGroups', 'List SCIM groups', listScimGroups, {
    query: ScimPageQuery,
  }),
})

/** What can be done with jobs that apply every mapping again. */
export const syncJobs = defineNoun(
  { ...resource, params: { id: 'The job’s id' } },
  {
    create: defineOperation(
      'POST /scim/sync-jobs',
      'createScimSyncJob',
      'Apply every SCIM group mapping again',
      createSyncJob,
      { status: 202, location: started => `/api/v1/scim/sync-jobs/${started.data.id}` },
    ),
    get: defineOperation(
      'GET /scim/sync-jobs/:id',
      'getScimSyncJob',
      'Get a SCIM sync job',
      getSyncJob,
    ),
    finish: defineTerminalOperation(finishSyncJob),
  },
)
