import { Elysia } from 'elysia'
import type { Gateway } from '../../app/gateway.ts'
import { defineOperation } from '../../resources/operation.ts'
import {
  createGroupMapping,
  deleteGroupMapping,
  GroupMappingChange,
  GroupMappingDeletion,
  getGroupMapping,
  listGroupMappings,
  NewGroupMapping,
  updateGroupMapping,
} from '../../resources/scim/group-mappings.ts'
import { listScimGroups } from '../../resources/scim/groups.ts'
import { createSyncJob, getSyncJob } from '../../resources/scim/sync-jobs.ts'
import { ScimPageQuery } from '../../resources/scim.ts'
import { defineResource } from '../resource.ts'

const noun = { tag: 'SCIM', access: 'management' } as const
const mapping = { id: 'The mapping’s id' }
const job = { id: 'The job’s id' }

const createMappingRoutes = defineResource({ ...noun, params: mapping }, [
  defineOperation(
    'GET /scim/group-mappings',
    'listScimGroupMappings',
    'List SCIM group mappings',
    listGroupMappings,
    { query: ScimPageQuery },
  ),
  defineOperation(
    'POST /scim/group-mappings',
    'createScimGroupMapping',
    'Map a SCIM group to a workspace',
    createGroupMapping,
    { body: NewGroupMapping, status: 201, refusals: [404, 409] },
  ),
  defineOperation(
    'GET /scim/group-mappings/:id',
    'getScimGroupMapping',
    'Get a SCIM group mapping',
    getGroupMapping,
  ),
  defineOperation(
    'PATCH /scim/group-mappings/:id',
    'updateScimGroupMapping',
    'Change the role of a SCIM group mapping',
    updateGroupMapping,
    { body: GroupMappingChange },
  ),
  defineOperation(
    'DELETE /scim/group-mappings/:id',
    'deleteScimGroupMapping',
    'Delete a SCIM group mapping',
    deleteGroupMapping,
    { query: GroupMappingDeletion },
  ),
  defineOperation('GET /scim/groups', 'listScimGroups', 'List SCIM groups', listScimGroups, {
    query: ScimPageQuery,
  }),
])

const createJobRoutes = defineResource({ ...noun, params: job }, [
  defineOperation(
    'POST /scim/sync-jobs',
    'createScimSyncJob',
    'Apply every SCIM group mapping again',
    createSyncJob,
    { status: 202, location: started => `/api/v1/scim/sync-jobs/${started.data.id}` },
  ),
  defineOperation('GET /scim/sync-jobs/:id', 'getScimSyncJob', 'Get a SCIM sync job', getSyncJob),
])

/**
 * Creates the routes that map the identity provider's groups to workspaces: specification E1 and
 * wire reference J.4.
 */
export const createScimRoutes = (gateway: Gateway) =>
  new Elysia().use(createMappingRoutes(gateway)).use(createJobRoutes(gateway))
