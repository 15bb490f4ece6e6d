import type { Actor } from '../../resources/actor.ts'
import { defineNoun, defineOperation } from '../../resources/operation.ts'
import { KeyNames, MemberNames } from '../assignments/schema.ts'
import {
  assignKeys,
  assignMembers,
  listKeyAssignments,
  listMemberAssignments,
  unassignKeys,
  unassignMembers,
} from '../assignments.ts'
import {
  createGuardrail,
  deleteGuardrail,
  getGuardrail,
  listGuardrails,
  updateGuardrail,
} from '../guardrails.ts'
import type { PolicyWorld } from '../policy-world.ts'
import { AssignmentQuery, GuardrailChange, GuardrailQuery, NewGuardrail } from './schema.ts'

const params = { id: 'The guardrail’s id' }
const page = { query: AssignmentQuery }

/**
 * What can be done with guardrails and their assignments (specification E5 and E14, wire reference
 * B.2 and H).
 */
export const guardrails = defineNoun(
  { tag: 'Guardrails', access: 'management', params },
  {
    list: defineOperation('GET /guardrails', 'listGuardrails', 'List guardrails', listGuardrails, {
      query: GuardrailQuery,
    }),
    create: defineOperation(
      'POST /guardrails',
      'createGuardrail',
      'Create a guardrail',
      createGuardrail,
      {
        body: NewGuardrail,
        status: 201,
      },
    ),
    get: defineOperation('GET /guardrails/:id', 'getGuardrail', 'Get a guardrail', getGuardrail),
    update: defineOperation(
      'PATCH /guardrails/:id',
      'updateGuardrail',
      'Change a guardrail, or make a workspace’s default one',
      updateGuardrail,
      { body: GuardrailChange, refusals: [409] },
    ),
    delete: defineOperation(
      'DELETE /guardrails/:id',
      'deleteGuardrail',
      'Delete a guardrail',
      deleteGuardrail,
    ),
    listKeys: defineOperation(
      'GET /guardrails/assignments/keys',
      'listKeyAssignments',
      'List the keys that have a guardrail',
      listKeyAssignments,
      page,
    ),
    listItsKeys: defineOperation(
      'GET /guardrails/:id/assignments/keys',
      'listGuardrailKeyAssignments',
      'List the keys that have this guardrail',
      (world: PolicyWorld, actor: Actor, id, query) => listKeyAssignments(world, actor, query, id),
      page,
    ),
    assignKeys: defineOperation(
      'POST /guardrails/:id/assignments/keys',
      'bulkAssignKeysToGuardrail',
      'Assign this guardrail to keys',
      assignKeys,
      { body: KeyNames, refusals: [409] },
    ),
    unassignKeys: defineOperation(
      'POST /guardrails/:id/assignments/keys/remove',
      'bulkUnassignKeysFromGuardrail',
      'Unassign this guardrail from keys',
      unassignKeys,
      { body: KeyNames },
    ),
    listMembers: defineOperation(
      'GET /guardrails/assignments/members',
      'listMemberAssignments',
      'List the members that have a guardrail',
      listMemberAssignments,
      page,
    ),
    listItsMembers: defineOperation(
      'GET /guardrails/:id/assignments/members',
      'listGuardrailMemberAssignments',
      'List the members that have this guardrail',
      (world: PolicyWorld, actor: Actor, id, query) =>
        listMemberAssignments(world, actor, query, id),
      page,
    ),
    assignMembers: defineOperation(
      'POST /guardrails/:id/assignments/members',
      'bulkAssignMembersToGuardrail',
      'Assign this guardrail to members',
      assignMembers,
      { body: MemberNames, refusals: [409] },
    ),
    unassignMembers: defineOperation(
      'POST /guardrails/:id/assignments/members/remove',
      'bulkUnassignMembersFromGuardrail',
      'Unassign this guardrail from members',
      unassignMembers,
      { body: MemberNames },
    ),
  },
)
