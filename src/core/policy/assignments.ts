import { invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { assertCanManageAll, canManage } from '../identity/management.ts'
import { getOrganizationId } from '../identity/organization.ts'
import { getIsoTime } from '../kernel/clock.ts'
import { toPage } from '../kernel/pages.ts'
import { compareOldestFirst } from '../kernel/sorting.ts'
import type { KeyNames, MemberNames } from './assignments/schema.ts'
import type { Assignment } from './assignments/store.ts'
import { auditAssignment, showKeyAssignment, showMemberAssignment } from './assignments/view.ts'
import type { AssignmentQuery } from './guardrails/schema.ts'
import type { Guardrail } from './guardrails/store.ts'
import { requireManagedGuardrail } from './guardrails.ts'
import type { PolicyWorld } from './world.ts'

/**
 * Assigns this guardrail to keys, replacing the one that each had, and returns how many changed.
 * Throws 404 for the guardrail. Throws 400 with the number of keys outside its workspace, if any,
 * and then assigns none.
 */
export async function assignKeys(
  gateway: PolicyWorld,
  actor: Actor,
  id: string,
  { key_hashes }: KeyNames,
) {
  await gateway.catchUp()
  const guardrail = requireManagedGuardrail(gateway, actor, id)
  const others = removeDuplicates(key_hashes).filter(
    hash => gateway.memory.keys.get(hash)?.workspace_id !== guardrail.workspace_id,
  )
  if (others.length > 0)
    throw unknownAssignees(
      'key_hashes',
      'API keys of the guardrail’s workspace',
      others.length,
      key_hashes,
    )
  return {
    assigned_count: await assignGuardrail(gateway, actor, guardrail, {
      kind: 'key',
      names: key_hashes,
    }),
  }
}

/**
 * Assigns this guardrail to members, for all keys that they made in any workspace. Throws 404 for
 * the guardrail and 403 for an actor who manages only one workspace. Throws 400 with the number of
 * user ids that are no members, if any, and then assigns none.
 */
export async function assignMembers(
  gateway: PolicyWorld,
  actor: Actor,
  id: string,
  { member_user_ids }: MemberNames,
) {
  await gateway.catchUp()
  const guardrail = requireManagedGuardrail(gateway, actor, id)
  assertCanManageAll(gateway, actor)
  const members = await gateway.store.members.byIds(removeDuplicates(member_user_ids))
  const others = new Set(member_user_ids).difference(
    new Set(members.flatMap(({ id, active }) => (active ? id : []))),
  )
  if (others.size > 0)
    throw unknownAssignees(
      'member_user_ids',
      'members of the organization',
      others.size,
      member_user_ids,
    )
  return {
    assigned_count: await assignGuardrail(gateway, actor, guardrail, {
      kind: 'member',
      names: member_user_ids,
    }),
  }
}

/** Removes this guardrail from the keys that have it, and returns how many had it. Throws 404. */
export async function unassignKeys(
  gateway: PolicyWorld,
  actor: Actor,
  id: string,
  { key_hashes }: KeyNames,
) {
  await gateway.catchUp()
  const guardrail = requireManagedGuardrail(gateway, actor, id)
  return {
    unassigned_count: await unassignGuardrail(gateway, actor, guardrail, {
      kind: 'key',
      names: key_hashes,
    }),
  }
}

/**
 * Removes this guardrail from the members that have it, and returns how many had it. Throws 404,
 * and 403 as `assignMembers` does.
 */
export async function unassignMembers(
  gateway: PolicyWorld,
  actor: Actor,
  id: string,
  { member_user_ids }: MemberNames,
) {
  await gateway.catchUp()
  const guardrail = requireManagedGuardrail(gateway, actor, id)
  assertCanManageAll(gateway, actor)
  return {
    unassigned_count: await unassignGuardrail(gateway, actor, guardrail, {
      kind: 'member',
      names: member_user_ids,
    }),
  }
}

/**
 * Lists one page of the keys that have a guardrail of their own, oldest first: this guardrail, or
 * any that the actor manages. Throws 404.
 */
export function listKeyAssignments(
  gateway: PolicyWorld,
  actor: Actor,
  page: AssignmentQuery,
  id?: string,
) {
  const own = listAssignments(gateway, actor, 'key', id).flatMap(assignment => {
    const key = gateway.memory.keys.get(assignment.assignee)
    return key ? showKeyAssignment(assignment, key) : []
  })
  return toPage(own, page, shown => shown)
}

/** Lists the same for members. Throws 404. */
export function listMemberAssignments(
  gateway: PolicyWorld,
  actor: Actor,
  page: AssignmentQuery,
  id?: string,
) {
  const organization_id = getOrganizationId(gateway)
  const own = listAssignments(gateway, actor, 'member', id)
  return toPage(own, page, assignment => showMemberAssignment(assignment, organization_id))
}

function listAssignments(
  gateway: PolicyWorld,
  actor: Actor,
  kind: Assignment['kind'],
  id: string | undefined,
): Assignment[] {
  if (id !== undefined) requireManagedGuardrail(gateway, actor, id)
  const isRequested = ({ guardrail_id }: Assignment) => {
    const guardrail = gateway.memory.guardrails.get(guardrail_id)
    return (
      guardrail !== undefined &&
      (id === undefined ? canManage(gateway, actor, guardrail.workspace_id) : id === guardrail_id)
    )
  }
  return gateway.memory.assignments
    .filter(assignment => assignment.kind === kind && isRequested(assignment))
    .sort(compareOldestFirst)
}

/** Keys by their hashes, or members by their user ids. */
interface Assignees {
  kind: Assignment['kind']
  names: string[]
}

async function assignGuardrail(
  gateway: PolicyWorld,
  actor: Actor,
  guardrail: Guardrail,
  { kind, names }: Assignees,
): Promise<number> {
  const others = removeDuplicates(names).filter(
    name => findAssignment(gateway, kind, name)?.guardrail_id !== guardrail.id,
  )
  if (others.length === 0) return 0
  const before = others.map(
    name => [name, findAssignment(gateway, kind, name)?.guardrail_id ?? null] as const,
  )
  const common = {
    guardrail_id: guardrail.id,
    kind,
    assigned_by: actor.user_id,
    created_at: getIsoTime(gateway),
  }
  const assignments = others.map(assignee => ({ id: gateway.ids.uuid(), ...common, assignee }))
  const entry = auditAssignment(gateway, actor, guardrail, { kind, before, after: guardrail.id })
  await gateway.store.assignments.assign(assignments, entry)
  for (const assignment of assignments) gateway.memory.assignments.set(assignment)
  return assignments.length
}

async function unassignGuardrail(
  gateway: PolicyWorld,
  actor: Actor,
  guardrail: Guardrail,
  { kind, names }: Assignees,
): Promise<number> {
  const { assignments } = gateway.memory
  const assigned = removeDuplicates(names).flatMap(
    name => findAssignment(gateway, kind, name) ?? [],
  )
  const own = assigned.filter(({ guardrail_id }) => guardrail_id === guardrail.id)
  if (own.length === 0) return 0
  const before = own.map(({ assignee }) => [assignee, guardrail.id] as const)
  await gateway.store.assignments.unassign(
    own,
    auditAssignment(gateway, actor, guardrail, { kind, before, after: null }),
  )
  for (const assignment of own)
    if (assignments.get(buildAssigneeName(assignment)) === assignment)
      assignments.delete(buildAssigneeName(assignment))
  return own.length
}

/** Finds the guardrail assigned to this key or this member itself. */
export const findAssignment = (
  { memory: { assignments } }: PolicyWorld,
  kind: Assignment['kind'],
  assignee: string,
): Assignment | undefined => assignments.get(buildAssigneeName({ kind, assignee }))

/** Builds the name that the assignment of a key or a member is kept under. */
export const buildAssigneeName = ({
  kind,
  assignee,
}: Pick<Assignment, 'kind' | 'assignee'>): string => `${kind} ${assignee}`

const removeDuplicates = (names: string[]) => [...new Set(names)]

const unknownAssignees = (field: string, expected: string, count: number, names: string[]) =>
  invalid(
    `${field}: expected ${expected}; ${count} of ${removeDuplicates(names).length} are not`,
    field,
  )
