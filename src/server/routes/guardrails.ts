import { Elysia } from 'elysia'
import type { Gateway } from '../../core/gateway.ts'
import { KeyNames, MemberNames } from '../../core/policy/assignments/schema.ts'
import {
  assignKeys,
  assignMembers,
  listKeyAssignments,
  listMemberAssignments,
  unassignKeys,
  unassignMembers,
} from '../../core/policy/assignments.ts'
import { GuardrailChange, GuardrailPage, GuardrailQuery, NewGuardrail } from '../../core/policy/guardrails/schema.ts'
import { createGuardrail, deleteGuardrail, getGuardrail, listGuardrails, updateGuardrail } from '../../core/policy/guardrails.ts'
import { managementKey } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { type Operation, operation } from '../operation.ts'

const guardrailsOperation = (described: Omit<Operation, 'tag'>) => operation({ tag: 'Guardrails', ...described })
const id = { id: 'The guardrail’s id' }
const FOUND = [200, 401, 403, 404, 500]
const LISTED = [200, 400, 401, 403, 404, 500]

/** Rules for calls, and who they hold for (specification E5 and E14, wire reference B.2 and H). */
export const guardrails = (gateway: Gateway) =>
  new Elysia({ prefix: '/guardrails' }).use(records(gateway)).use(keys(gateway)).use(members(gateway))

const records = (gateway: Gateway) =>
  new Elysia()
    .use(managementKey(gateway))
    .get(
      '/',
      ({ actor, request }) => listGuardrails(gateway, actor, readQuery(request.url, GuardrailQuery)),
      guardrailsOperation({ id: 'listGuardrails', summary: 'List guardrails', query: GuardrailQuery, statuses: [200, 400, 401, 403, 500] }),
    )
    .post(
      '/',
      async ({ actor, request, set }) => {
        const created = await createGuardrail(gateway, actor, await readBody(request, NewGuardrail))
        set.status = 201
        return created
      },
      guardrailsOperation({
        id: 'createGuardrail',
        summary: 'Create a guardrail',
        body: NewGuardrail,
        statuses: [201, 400, 401, 403, 500],
      }),
    )
    .get(
      '/:id',
      ({ actor, params }) => getGuardrail(gateway, actor, params.id),
      guardrailsOperation({ id: 'getGuardrail', summary: 'Get a guardrail', params: id, statuses: FOUND }),
    )
    .patch(
      '/:id',
      async ({ actor, params, request }) => updateGuardrail(gateway, actor, params.id, await readBody(request, GuardrailChange)),
      guardrailsOperation({
        id: 'updateGuardrail',
        summary: 'Change a guardrail, or make a workspace’s default one',
        params: id,
        body: GuardrailChange,
        statuses: [200, 400, 401, 403, 404, 409, 500],
      }),
    )
    .delete(
      '/:id',
      ({ actor, params }) => deleteGuardrail(gateway, actor, params.id),
      guardrailsOperation({ id: 'deleteGuardrail', summary: 'Delete a guardrail', params: id, statuses: FOUND }),
    )

const keys = (gateway: Gateway) =>
  new Elysia()
    .use(managementKey(gateway))
    .get(
      '/assignments/keys',
      ({ actor, request }) => listKeyAssignments(gateway, actor, readQuery(request.url, GuardrailPage)),
      guardrailsOperation({
        id: 'listKeyAssignments',
        summary: 'List the keys that have a guardrail',
        query: GuardrailPage,
        statuses: [200, 400, 401, 403, 500],
      }),
    )
    .get(
      '/:id/assignments/keys',
      ({ actor, params, request }) => listKeyAssignments(gateway, actor, readQuery(request.url, GuardrailPage), params.id),
      guardrailsOperation({
        id: 'listGuardrailKeyAssignments',
        summary: 'List the keys that have this guardrail',
        params: id,
        query: GuardrailPage,
        statuses: LISTED,
      }),
    )
    .post(
      '/:id/assignments/keys',
      async ({ actor, params, request }) => assignKeys(gateway, actor, params.id, await readBody(request, KeyNames)),
      guardrailsOperation({
        id: 'bulkAssignKeysToGuardrail',
        summary: 'Give keys this guardrail',
        params: id,
        body: KeyNames,
        statuses: [...LISTED, 409],
      }),
    )
    .post(
      '/:id/assignments/keys/remove',
      async ({ actor, params, request }) => unassignKeys(gateway, actor, params.id, await readBody(request, KeyNames)),
      guardrailsOperation({
        id: 'bulkUnassignKeysFromGuardrail',
        summary: 'Take this guardrail from keys',
        params: id,
        body: KeyNames,
        statuses: LISTED,
      }),
    )

const members = (gateway: Gateway) =>
  new Elysia()
    .use(managementKey(gateway))
    .get(
      '/assignments/members',
      ({ actor, request }) => listMemberAssignments(gateway, actor, readQuery(request.url, GuardrailPage)),
      guardrailsOperation({
        id: 'listMemberAssignments',
        summary: 'List the members that have a guardrail',
        query: GuardrailPage,
        statuses: [200, 400, 401, 403, 500],
      }),
    )
    .get(
      '/:id/assignments/members',
      ({ actor, params, request }) => listMemberAssignments(gateway, actor, readQuery(request.url, GuardrailPage), params.id),
      guardrailsOperation({
        id: 'listGuardrailMemberAssignments',
        summary: 'List the members that have this guardrail',
        params: id,
        query: GuardrailPage,
        statuses: LISTED,
      }),
    )
    .post(
      '/:id/assignments/members',
      async ({ actor, params, request }) => assignMembers(gateway, actor, params.id, await readBody(request, MemberNames)),
      guardrailsOperation({
        id: 'bulkAssignMembersToGuardrail',
        summary: 'Give members this guardrail',
        params: id,
        body: MemberNames,
        statuses: [...LISTED, 409],
      }),
    )
    .post(
      '/:id/assignments/members/remove',
      async ({ actor, params, request }) => unassignMembers(gateway, actor, params.id, await readBody(request, MemberNames)),
      guardrailsOperation({
        id: 'bulkUnassignMembersFromGuardrail',
        summary: 'Take this guardrail from members',
        params: id,
        body: MemberNames,
        statuses: LISTED,
      }),
    )
