import { MemberIds, MemberQuery } from '../../resources/members/schema.ts'
import {
  addWorkspaceMembers,
  listMembers,
  listWorkspaceMembers,
  removeWorkspaceMembers,
} from '../../resources/workspace-members.ts'
import { defineResource, defineRoute } from '../resource.ts'

const params = { id: 'The workspace’s id or slug' }

/** Creates the routes of members of the organization and workspaces (wire reference B.2, J.2). */
export const createMemberRoutes = defineResource(
  { tag: 'Workspaces', access: 'management', params },
  [
    defineRoute(
      'GET /organization/members',
      'listOrganizationMembers',
      'List the organization’s members',
      listMembers,
      { tag: 'Organization', query: MemberQuery },
    ),
    defineRoute(
      'GET /workspaces/:id/members',
      'listWorkspaceMembers',
      'List a workspace’s members',
      listWorkspaceMembers,
      { query: MemberQuery },
    ),
    defineRoute(
      'POST /workspaces/:id/members/add',
      'bulkAddWorkspaceMembers',
      'Add members to a workspace',
      addWorkspaceMembers,
      { body: MemberIds },
    ),
    defineRoute(
      'POST /workspaces/:id/members/remove',
      'bulkRemoveWorkspaceMembers',
      'Remove members from a workspace',
      removeWorkspaceMembers,
      { body: MemberIds },
    ),
  ],
)
