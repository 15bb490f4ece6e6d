import { Elysia } from 'elysia'
import type { Gateway } from '../../core/gateway.ts'
import { MemberIds, MemberQuery } from '../../core/identity/members/schema.ts'
import { addWorkspaceMembers, listMembers, listWorkspaceMembers, removeWorkspaceMembers } from '../../core/identity/workspace-members.ts'
import { managementKey } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { type Operation, operation } from '../operation.ts'

const membersOperation = (described: Omit<Operation, 'tag'>) => operation({ tag: 'Workspaces', ...described })
const id = { id: 'The workspace’s id or slug' }

/** Members of the organization and of workspaces (wire reference B.2 and J.2). */
export const members = (gateway: Gateway) =>
  new Elysia()
    .use(managementKey(gateway))
    .get(
      '/organization/members',
      ({ actor, request }) => listMembers(gateway, actor, readQuery(request.url, MemberQuery)),
      operation({
        tag: 'Organization',
        id: 'listOrganizationMembers',
        summary: 'List the organization’s members',
        query: MemberQuery,
        statuses: [200, 400, 401, 403, 500],
      }),
    )
    .get(
      '/workspaces/:id/members',
      ({ actor, params, request }) => listWorkspaceMembers(gateway, actor, params.id, readQuery(request.url, MemberQuery)),
      membersOperation({
        id: 'listWorkspaceMembers',
        summary: 'List a workspace’s members',
        params: id,
        query: MemberQuery,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
    .post(
      '/workspaces/:id/members/add',
      async ({ actor, params, request }) => addWorkspaceMembers(gateway, actor, params.id, await readBody(request, MemberIds)),
      membersOperation({
        id: 'bulkAddWorkspaceMembers',
        summary: 'Put members into a workspace',
        params: id,
        body: MemberIds,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
    .post(
      '/workspaces/:id/members/remove',
      async ({ actor, params, request }) => removeWorkspaceMembers(gateway, actor, params.id, await readBody(request, MemberIds)),
      membersOperation({
        id: 'bulkRemoveWorkspaceMembers',
        summary: 'Take members out of a workspace',
        params: id,
        body: MemberIds,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
