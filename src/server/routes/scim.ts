import { Elysia } from 'elysia'
import type { Gateway } from '../../core/gateway.ts'
import {
  createGroupMapping,
  deleteGroupMapping,
  GroupMappingChange,
  GroupMappingDeletion,
  getGroupMapping,
  listGroupMappings,
  NewGroupMapping,
  updateGroupMapping,
} from '../../core/identity/scim/group-mappings.ts'
import { listScimGroups } from '../../core/identity/scim/groups.ts'
import { createSyncJob, getSyncJob } from '../../core/identity/scim/sync-jobs.ts'
import { ScimPage } from '../../core/identity/scim.ts'
import { managementKey } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { type Operation, operation } from '../operation.ts'

const scimOperation = (described: Omit<Operation, 'tag'>) => operation({ tag: 'SCIM', ...described })
const id = { id: 'The mapping’s id' }

/** Which groups of the identity provider are in which workspace: specification E1 and wire reference J.4. */
export const scim = (gateway: Gateway) =>
  new Elysia({ prefix: '/scim' })
    .use(managementKey(gateway))
    .get(
      '/group-mappings',
      ({ actor, request }) => listGroupMappings(gateway, actor, readQuery(request.url, ScimPage)),
      scimOperation({
        id: 'listScimGroupMappings',
        summary: 'List SCIM group mappings',
        query: ScimPage,
        statuses: [200, 400, 401, 403, 500],
      }),
    )
    .post(
      '/group-mappings',
      async ({ actor, request, set }) => {
        const created = await createGroupMapping(gateway, actor, await readBody(request, NewGroupMapping))
        set.status = 201
        return created
      },
      scimOperation({
        id: 'createScimGroupMapping',
        summary: 'Put a SCIM group into a workspace',
        body: NewGroupMapping,
        statuses: [201, 400, 401, 403, 404, 409, 500],
      }),
    )
    .get(
      '/group-mappings/:id',
      ({ actor, params }) => getGroupMapping(gateway, actor, params.id),
      scimOperation({ id: 'getScimGroupMapping', summary: 'Get a SCIM group mapping', params: id, statuses: [200, 401, 403, 404, 500] }),
    )
    .patch(
      '/group-mappings/:id',
      async ({ actor, params, request }) => updateGroupMapping(gateway, actor, params.id, await readBody(request, GroupMappingChange)),
      scimOperation({
        id: 'updateScimGroupMapping',
        summary: 'Change the role of a SCIM group mapping',
        params: id,
        body: GroupMappingChange,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
    .delete(
      '/group-mappings/:id',
      ({ actor, params, request }) => deleteGroupMapping(gateway, actor, params.id, readQuery(request.url, GroupMappingDeletion)),
      scimOperation({
        id: 'deleteScimGroupMapping',
        summary: 'Delete a SCIM group mapping',
        params: id,
        query: GroupMappingDeletion,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
    .get(
      '/groups',
      ({ actor, request }) => listScimGroups(gateway, actor, readQuery(request.url, ScimPage)),
      scimOperation({ id: 'listScimGroups', summary: 'List SCIM groups', query: ScimPage, statuses: [200, 400, 401, 403, 500] }),
    )
    .post(
      '/sync-jobs',
      async ({ actor, set }) => {
        const begun = await createSyncJob(gateway, actor)
        set.status = 202
        set.headers.location = `/api/v1/scim/sync-jobs/${begun.data.id}`
        return begun
      },
      scimOperation({ id: 'createScimSyncJob', summary: 'Apply every SCIM group mapping again', statuses: [202, 401, 403, 500] }),
    )
    .get(
      '/sync-jobs/:id',
      ({ actor, params }) => getSyncJob(gateway, actor, params.id),
      scimOperation({
        id: 'getScimSyncJob',
        summary: 'Get a SCIM sync job',
        params: { id: 'The job’s id' },
        statuses: [200, 401, 403, 404, 500],
      }),
    )
