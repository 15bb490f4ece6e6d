import { Elysia } from 'elysia'
import type { Gateway } from '../../core/gateway.ts'
import { NewWorkspace, WorkspaceChange, WorkspaceDeletion, WorkspaceQuery } from '../../core/identity/workspaces/schema.ts'
import { createWorkspace, deleteWorkspace, getWorkspace, listWorkspaces, updateWorkspace } from '../../core/identity/workspaces.ts'
import { managementKey } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { type Operation, operation } from '../operation.ts'

const workspacesOperation = (described: Omit<Operation, 'tag'>) => operation({ tag: 'Workspaces', ...described })
const id = { id: 'The workspace’s id or slug' }

/** Workspaces (specification E13, wire reference J.1). */
export const workspaces = (gateway: Gateway) =>
  new Elysia({ prefix: '/workspaces' })
    .use(managementKey(gateway))
    .get(
      '/',
      ({ actor, request }) => listWorkspaces(gateway, actor, readQuery(request.url, WorkspaceQuery)),
      workspacesOperation({ id: 'listWorkspaces', summary: 'List workspaces', query: WorkspaceQuery, statuses: [200, 400, 401, 403, 500] }),
    )
    .post(
      '/',
      async ({ actor, request, set }) => {
        const created = await createWorkspace(gateway, actor, await readBody(request, NewWorkspace))
        set.status = 201
        return created
      },
      workspacesOperation({
        id: 'createWorkspace',
        summary: 'Create a workspace',
        body: NewWorkspace,
        statuses: [201, 400, 401, 403, 500],
      }),
    )
    .get(
      '/:id',
      ({ actor, params }) => getWorkspace(gateway, actor, params.id),
      workspacesOperation({ id: 'getWorkspace', summary: 'Get a workspace', params: id, statuses: [200, 401, 403, 404, 500] }),
    )
    .patch(
      '/:id',
      async ({ actor, params, request }) => updateWorkspace(gateway, actor, params.id, await readBody(request, WorkspaceChange)),
      workspacesOperation({
        id: 'updateWorkspace',
        summary: 'Change a workspace',
        params: id,
        body: WorkspaceChange,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
    .delete(
      '/:id',
      ({ actor, params, request }) => deleteWorkspace(gateway, actor, params.id, readQuery(request.url, WorkspaceDeletion)),
      workspacesOperation({
        id: 'deleteWorkspace',
        summary: 'Delete a workspace',
        params: id,
        query: WorkspaceDeletion,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
