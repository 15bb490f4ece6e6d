import {
  NewWorkspace,
  WorkspaceChange,
  WorkspaceDeletion,
  WorkspaceQuery,
} from '../../core/identity/workspaces/schema.ts'
import {
  createWorkspace,
  deleteWorkspace,
  getWorkspace,
  listWorkspaces,
  updateWorkspace,
} from '../../core/identity/workspaces.ts'
import { defineResource, route } from '../resource.ts'

const params = { id: 'The workspace’s id or slug' }

/** Creates the routes of workspaces (specification E13, wire reference J.1). */
export const workspaces = defineResource({ tag: 'Workspaces', access: 'management', params }, [
  route('GET /workspaces', 'listWorkspaces', 'List workspaces', listWorkspaces, {
    query: WorkspaceQuery,
  }),
  route('POST /workspaces', 'createWorkspace', 'Create a workspace', createWorkspace, {
    body: NewWorkspace,
    status: 201,
  }),
  route('GET /workspaces/:id', 'getWorkspace', 'Get a workspace', getWorkspace),
  route('PATCH /workspaces/:id', 'updateWorkspace', 'Change a workspace', updateWorkspace, {
    body: WorkspaceChange,
  }),
  route('DELETE /workspaces/:id', 'deleteWorkspace', 'Delete a workspace', deleteWorkspace, {
    query: WorkspaceDeletion,
  }),
])
