import {
  NewWorkspace,
  WorkspaceChange,
  WorkspaceDeletion,
  WorkspaceQuery,
} from '../../resources/workspaces/schema.ts'
import {
  createWorkspace,
  deleteWorkspace,
  getWorkspace,
  listWorkspaces,
  updateWorkspace,
} from '../../resources/workspaces.ts'
import { defineResource, defineRoute } from '../resource.ts'

const params = { id: 'The workspace’s id or slug' }

/** Creates the routes of workspaces (specification E13, wire reference J.1). */
export const createWorkspaceRoutes = defineResource(
  { tag: 'Workspaces', access: 'management', params },
  [
    defineRoute('GET /workspaces', 'listWorkspaces', 'List workspaces', listWorkspaces, {
      query: WorkspaceQuery,
    }),
    defineRoute('POST /workspaces', 'createWorkspace', 'Create a workspace', createWorkspace, {
      body: NewWorkspace,
      status: 201,
    }),
    defineRoute('GET /workspaces/:id', 'getWorkspace', 'Get a workspace', getWorkspace),
    defineRoute('PATCH /workspaces/:id', 'updateWorkspace', 'Change a workspace', updateWorkspace, {
      body: WorkspaceChange,
    }),
    defineRoute(
      'DELETE /workspaces/:id',
      'deleteWorkspace',
      'Delete a workspace',
      deleteWorkspace,
      {
        query: WorkspaceDeletion,
      },
    ),
  ],
)
