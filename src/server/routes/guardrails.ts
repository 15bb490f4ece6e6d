import { KeyNames, MemberNames } from '../../limits/assignments/schema.ts'
import {
  assignKeys,
  assignMembers,
  listKeyAssignments,
  listMemberAssignments,
  unassignKeys,
  unassignMembers,
} from '../../limits/assignments.ts'
import {
  AssignmentQuery,
  GuardrailChange,
  GuardrailQuery,
  NewGuardrail,
} from '../../limits/guardrails/schema.ts'
import {
  createGuardrail,
  deleteGuardrail,
  getGuardrail,
  listGuardrails,
  updateGuardrail,
} from '../../limits/guardrails.ts'
import { defineResource, defineRoute } from '../resource.ts'

const params = { id: 'The guardrail’s id' }
const page = { query: AssignmentQuery }

/**
 * Creates the routes of guardrails and their assignments (specification E5 and E14, wire reference
 * B.2 and H).
 */
export const createGuardrailRoutes = defineResource(
  { tag: 'Guardrails', access: 'management', params },
  [
    defineRoute('GET /guardrails', 'listGuardrails', 'List guardrails', listGuardrails, {
      query: GuardrailQuery,
    }),
    defineRoute('POST /guardrails', 'createGuardrail', 'Create a guardrail', createGuardrail, {
      body: NewGuardrail,
      status: 201,
    }),
    defineRoute('GET /guardrails/:id', 'getGuardrail', 'Get a guardrail', getGuardrail),
    defineRoute(
      'PATCH /guardrails/:id',
      'updateGuardrail',
      'Change a guardrail, or make a workspace’s default one',
      updateGuardrail,
      { body: GuardrailChange, refusals: [409] },
    ),
    defineRoute('DELETE /guardrails/:id', 'deleteGuardrail', 'Delete a guardrail', deleteGuardrail),
    defineRoute(
      'GET /guardrails/assignments/keys',
      'listKeyAssignments',
      'List the keys that have a guardrail',
      listKeyAssignments,
      page,
    ),
    defineRoute(
      'GET /guardrails/:id/assignments/keys',
      'listGuardrailKeyAssignments',
      'List the keys that have this guardrail',
      (gateway, actor, id, query) => listKeyAssignments(gateway, actor, query, id),
      page,
    ),
    defineRoute(
      'POST /guardrails/:id/assignments/keys',
      'bulkAssignKeysToGuardrail',
      'Assign this guardrail to keys',
      assignKeys,
      { body: KeyNames, refusals: [409] },
    ),
    defineRoute(
      'POST /guardrails/:id/assignments/keys/remove',
      'bulkUnassignKeysFromGuardrail',
      'Unassign this guardrail from keys',
      unassignKeys,
      { body: KeyNames },
    ),
    defineRoute(
      'GET /guardrails/assignments/members',
      'listMemberAssignments',
      'List the members that have a guardrail',
      listMemberAssignments,
      page,
    ),
    defineRoute(
      'GET /guardrails/:id/assignments/members',
      'listGuardrailMemberAssignments',
      'List the members that have this guardrail',
      (gateway, actor, id, query) => listMemberAssignments(gateway, actor, query, id),
      page,
    ),
    defineRoute(
      'POST /guardrails/:id/assignments/members',
      'bulkAssignMembersToGuardrail',
      'Assign this guardrail to members',
      assignMembers,
      { body: MemberNames, refusals: [409] },
    ),
    defineRoute(
      'POST /guardrails/:id/assignments/members/remove',
      'bulkUnassignMembersFromGuardrail',
      'Unassign this guardrail from members',
      unassignMembers,
      { body: MemberNames },
    ),
  ],
)
