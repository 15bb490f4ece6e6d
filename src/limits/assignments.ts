import { getIsoTime } from '../base/clock.ts'
import { invalid } from '../base/errors.ts'
import { PAGE_SIZE } from '../base/pages.ts'
import { type Actor, assertCanManageAll, canManage } from '../resources/actor.ts'
import { createAuditEntry } from '../resources/audit/entry.ts'
import type { AuditEntry } from '../resources/audit/store.ts'
import type { Key } from '../resources/keys/store.ts'
import { getOrganizationId } from '../resources/organization.ts'
import { ASSIGNMENT_MARKS, buildAssigneeName } from './assignments/packing.ts'
import type { KeyNames, MemberNames } from './assignments/schema.ts'
import type { Assignment } from './assignments/store.ts'
import type { Spending } from './budgets/view.ts'
import type { AssignmentQuery } from './guardrails/schema.ts'
import type { Guardrail } from './guardrails/store.ts'
import { showSpentOf } from './guardrails/view.ts'
import { requireManagedGuardrail } from './guardrails.ts'
import type { Account } from './ledger.ts'
import type { PolicyWorld } from './policy-world.ts'

/**
 * Assigns this guardrail to keys, replacing the one that each had, and returns how many changed.
 * Throws 404 for the guardrail. Throws 400 with the number of keys outside its workspace, if any,
 * and then assigns none.
 */
export async function assignKeys(
  world: PolicyWorld,
  actor: Actor,
  id: string,
  { key_hashes }: KeyNames,
) {
  await world.catchUp()
  const guardrail = requireManagedGuardrail(world, actor, id)
  const others = removeDuplicates(key_hashes).filter(
    hash => world.memory.keys.get(hash)?.workspace_id !== guardrail.workspace_id,
  )
  if (others.length > 0)
    throw unknownAssignees(
      'key_hashes',
      'API keys of the guardrail’s workspace',
      others.length,
      key_hashes,
    )
  return {
    assigned_count: await assignGuardrail(world, actor, guardrail, {
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
  world: PolicyWorld,
  actor: Actor,
  id: string,
  { member_user_ids }: MemberNames,
) {
  await world.catchUp()
  const guardrail = requireManagedGuardrail(world, actor, id)
  assertCanManageAll(world, actor)
  const members = await world.store.members.byIds(removeDuplicates(member_user_ids))
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
    assigned_count: await assignGuardrail(world, actor, guardrail, {
      kind: 'member',
      names: member_user_ids,
    }),
  }
}

/** Removes this guardrail from the keys that have it, and returns how many had it. Throws 404. */
export async function unassignKeys(
  world: PolicyWorld,
  actor: Actor,
  id: string,
  { key_hashes }: KeyNames,
) {
  await world.catchUp()
  const guardrail = requireManagedGuardrail(world, actor, id)
  return {
    unassigned_count: await unassignGuardrail(world, actor, guardrail, {
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
  world: PolicyWorld,
  actor: Actor,
  id: string,
  { member_user_ids }: MemberNames,
) {
  await world.catchUp()
  const guardrail = requireManagedGuardrail(world, actor, id)
  assertCanManageAll(world, actor)
  return {
    unassigned_count: await unassignGuardrail(world, actor, guardrail, {
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
  world: PolicyWorld,
  actor: Actor,
  page: AssignmentQuery,
  id?: string,
) {
  const { keys } = world.memory
  return listAssignments(world, actor, { page, kind: 'key', id }, assignment => {
    const key = keys.get(assignment.assignee)
    return key && showKeyAssignment(world, assignment, key)
  })
}

/** Lists the same for members. Throws 404. */
export function listMemberAssignments(
  world: PolicyWorld,
  actor: Actor,
  page: AssignmentQuery,
  id?: string,
) {
  const organization_id = getOrganizationId(world)
  return listAssignments(world, actor, { page, kind: 'member', id }, assignment =>
    showMemberAssignment(world, assignment, organization_id),
  )
}

interface AssignmentList {
  page: AssignmentQuery
  kind: Assignment['kind']
  /** Of all guardrails that the actor manages where it is undefined. */
  id: string | undefined
}

function listAssignments<Shown>(
  world: PolicyWorld,
  actor: Actor,
  { page: { offset = 0, limit = PAGE_SIZE }, kind, id }: AssignmentList,
  show: (assignment: Assignment) => Shown | undefined,
) {
  if (id !== undefined) requireManagedGuardrail(world, actor, id)
  const managed = world.memory.guardrails.filter(guardrail =>
    id === undefined ? canManage(world, actor, guardrail.workspace_id) : id === guardrail.id,
  )
  const requested = new Set(managed.map(guardrail => guardrail.id))
  const { first, total } = world.memory.assignments.pick({
    isInGroup: guardrail => requested.has(guardrail),
    without: ASSIGNMENT_MARKS[kind === 'key' ? 'member' : 'key'],
    order: 'oldest',
    count: offset + limit,
  })
  const shown = first.slice(offset).map(show)
  return { data: shown.filter(one => one !== undefined), total_count: total }
}

/** Keys by their hashes, or members by their user ids. */
interface Assignees {
  kind: Assignment['kind']
  names: string[]
}

async function assignGuardrail(
  world: PolicyWorld,
  actor: Actor,
  guardrail: Guardrail,
  { kind, names }: Assignees,
): Promise<number> {
  const others = removeDuplicates(names).filter(
    name => findAssignment(world, kind, name)?.guardrail_id !== guardrail.id,
  )
  if (others.length === 0) return 0
  const before = others.map(
    name => [name, findAssignment(world, kind, name)?.guardrail_id ?? null] as const,
  )
  const common = {
    guardrail_id: guardrail.id,
    kind,
    assigned_by: actor.user_id,
    created_at: getIsoTime(world),
  }
  const assignments = others.map(assignee => ({ id: world.ids.uuid(), ...common, assignee }))
  const entry = auditAssignment(world, actor, guardrail, { kind, before, after: guardrail.id })
  await world.store.assignments.assign(assignments, entry)
  for (const assignment of assignments) world.memory.assignments.set(assignment)
  return assignments.length
}

async function unassignGuardrail(
  world: PolicyWorld,
  actor: Actor,
  guardrail: Guardrail,
  { kind, names }: Assignees,
): Promise<number> {
  const { assignments } = world.memory
  const assigned = removeDuplicates(names).flatMap(name => findAssignment(world, kind, name) ?? [])
  const own = assigned.filter(({ guardrail_id }) => guardrail_id === guardrail.id)
  if (own.length === 0) return 0
  const before = own.map(({ assignee }) => [assignee, guardrail.id] as const)
  await world.store.assignments.unassign(
    own,
    auditAssignment(world, actor, guardrail, { kind, before, after: null }),
  )
  for (const assignment of own)
    if (assignments.get(buildAssigneeName(assignment))?.id === assignment.id)
      assignments.delete(buildAssigneeName(assignment))
  return own.length
}

/** Finds the guardrail assigned to this key or this member itself. */
export const findAssignment = (
  { memory: { assignments } }: PolicyWorld,
  kind: Assignment['kind'],
  assignee: string,
): Assignment | undefined => assignments.get(buildAssigneeName({ kind, assignee }))

const removeDuplicates = (names: string[]) => [...new Set(names)]

const unknownAssignees = (field: string, expected: string, count: number, names: string[]) =>
  invalid(
    `${field}: expected ${expected}; ${count} of ${removeDuplicates(names).length} are not`,
    field,
  )

/** Shows the assignment of a key as the wire has it. */
function showKeyAssignment(
  world: PolicyWorld,
  { kind: _, assignee: key_hash, ...shown }: Assignment,
  { name, label }: Key,
) {
  const spent = showSpent(world, shown, `key ${key_hash}`)
  return { ...shown, key_hash, key_name: name, key_label: label, ...spent }
}

/** Shows what the assignee has spent of the guardrail's budget, if it has one. */
function showSpent(
  world: PolicyWorld,
  { guardrail_id }: Pick<Assignment, 'guardrail_id'>,
  account: Account,
): Partial<Spending> {
  const guardrail = world.memory.guardrails.get(guardrail_id)
  return guardrail ? showSpentOf(world, guardrail, account) : {}
}

/** Shows the assignment of a member as the wire has it. */
function showMemberAssignment(
  world: PolicyWorld,
  { kind: _, assignee: user_id, ...shown }: Assignment,
  organization_id: string,
) {
  return { ...shown, user_id, organization_id, ...showSpent(world, shown, `member ${user_id}`) }
}

/**
 * The guardrail that each assignee had before, and the one that all of them have now. Null: none.
 */
interface Reassignment {
  kind: Assignment['kind']
  before: (readonly [assignee: string, guardrail_id: string | null])[]
  after: string | null
}

/**
 * Creates the audit entry of a change of assignments. A member's earlier guardrail may be of
 * another workspace, so a change of members belongs to no workspace: only actors who manage all of
 * them can read it.
 */
function auditAssignment(
  world: PolicyWorld,
  actor: Actor,
  { id, workspace_id }: Guardrail,
  { kind, before, after }: Reassignment,
): AuditEntry {
  const action = after === null ? 'guardrails.unassign' : 'guardrails.assign'
  const changed = before.map(([assignee]) => [assignee, after])
  const audited = { id, workspace_id: kind === 'member' ? null : workspace_id }
  return createAuditEntry(
    world,
    actor,
    action,
    audited,
    Object.fromEntries(before),
    Object.fromEntries(changed),
  )
}
