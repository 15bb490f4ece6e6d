import type { Actor } from '../actor.ts'
import { addMember, deactivateMember, updateMember } from '../members.ts'
import { defineNoun, defineOperation, defineTerminalOperation } from '../operation.ts'
import {
  addWorkspaceMembers,
  listMembers,
  listWorkspaceMembers,
  removeWorkspaceMembers,
} from '../workspace-members.ts'
import type { IdentityWorld } from '../world.ts'
import { MemberChange, MemberIds, MemberQuery, NewMember } from './schema.ts'
import { showMember } from './view.ts'

const params = { id: 'The workspace’s id or slug' }

/** What can be done with members of the organization and of workspaces (wire reference B.2, J.2). */
export const members = defineNoun(
  { tag: 'Workspaces', access: 'management', params },
  {
    list: defineOperation(
      'GET /organization/members',
      'listOrganizationMembers',
      'List the organization’s members',
      listMembers,
      { tag: 'Organization', query: MemberQuery },
    ),
    create: defineTerminalOperation(
      async (world: IdentityWorld, actor: Actor, input: NewMember) => ({
        data: showMember(await addMember(world, actor, input)),
      }),
      NewMember,
    ),
    update: defineTerminalOperation(
      async (world: IdentityWorld, actor: Actor, id: string, change: MemberChange) => ({
        data: showMember(await updateMember(world, actor, id, change)),
      }),
      MemberChange,
    ),
    deactivate: defineTerminalOperation(async (world: IdentityWorld, actor: Actor, id: string) => {
      await deactivateMember(world, actor, id)
      return { deactivated: true }
    }),
    listOfWorkspace: defineOperation(
      'GET /workspaces/:id/members',
      'listWorkspaceMembers',
      'List a workspace’s members',
      listWorkspaceMembers,
      { query: MemberQuery },
    ),
    add: defineOperation(
      'POST /workspaces/:id/members/add',
      'bulkAddWorkspaceMembers',
      'Add members to a workspace',
      addWorkspaceMembers,
      { body: MemberIds },
    ),
    remove: defineOperation(
      'POST /workspaces/:id/members/remove',
      'bulkRemoveWorkspaceMembers',
      'Remove members from a workspace',
      removeWorkspaceMembers,
      { body: MemberIds },
    ),
  },
)
