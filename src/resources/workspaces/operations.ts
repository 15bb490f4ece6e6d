import { defineNoun, defineOperation } from '../operation.ts'
import {
  createWorkspace,
  deleteWorkspace,
  getWorkspace,
  listWorkspaces,
  updateWorkspace,
} from '../workspaces.ts'
import { NewWorkspace, WorkspaceChange, WorkspaceDeletion, WorkspaceQuery } from './schema.ts'

const params = { id: 'The workspace’s id or slug' }

/** What can be done with workspaces (specification E13, wire reference J.1). */
export const workspaces = defineNoun(
  { tag: 'Workspaces', access: 'management', params },
  {
    list: defineOperation('GET /workspaces', 'listWorkspaces', 'List workspaces', listWorkspaces, {
      query: WorkspaceQuery,
    }),
    create: defineOperation(
      'POST /workspaces',
      'createWorkspace',
      'Create a workspace',
      createWorkspace,
      {
        body: NewWorkspace,
        status: 201,
      },
    ),
    get: defineOperation('GET /workspaces/:id', 'getWorkspace', 'Get a workspace', getWorkspace),
    update: defineOperation(
      'PATCH /workspaces/:id',
      'updateWorkspace',
      'Change a workspace',
      updateWorkspace,
      {
        body: WorkspaceChange,
      },
    ),
    delete: defineOperation(
      'DELETE /workspaces/:id',
      'deleteWorkspace',
      'Delete a workspace',
      deleteWorkspace,
      {
        query: WorkspaceDeletion,
      },
    ),
  },
)
