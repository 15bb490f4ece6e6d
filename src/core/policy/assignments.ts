import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { type AuditEntry, auditEntry } from '../identity/audit.ts'
import { mustManageAll, reaches } from '../identity/management.ts'
import { organizationId } from '../identity/organization.ts'
import { byAge, type Guardrail, type GuardrailPage, managedGuardrail, PAGE } from './guardrails.ts'
import type { PolicyWorld } from './world.ts'

/** A guardrail of a key's own, or of a member's: for all keys that he made. Times in ISO 8601. */
export interface Assignment {
  id: string
  guardrail_id: string
  kind: 'key' | 'member'
  /** The key's hash, or the member's user id. */
  assignee: string
  assigned_by: string | null
  created_at: string
}

/** Remembers who has which guardrail: at most one each. */
export interface AssignmentStore {
  all(): Promise<Assignment[]>
  /** Gives these, each in the place of the one that its assignee had. Throws 409 when a key or a guardrail has gone. */
  assign(assignments: Assignment[], entry: AuditEntry): Promise<void>
  unassign(assignments: Assignment[], entry: AuditEntry): Promise<void>
}

/** At once, in one transaction. */
const MOST = 1_000
const Names = Type.Array(Type.String({ minLength: 1, maxLength: 200 }), { minItems: 1, maxItems: MOST })

/** The body of `POST /guardrails/{id}/assignments/keys` and of `…/keys/remove`. */
export const KeyNames = Type.Object({ key_hashes: Names })
export type KeyNames = Static<typeof KeyNames>

/** The body of `POST /guardrails/{id}/assignments/members` and of `…/members/remove`. */
export const MemberNames = Type.Object({ member_user_ids: Names })
export type MemberNames = Static<typeof MemberNames>

/**
 * Gives keys this guardrail, in the place of the one that each had, and says how many have another one now. They must be of its workspace:
 * throws 400 with how many are not, and gives it to none; 404 for the guardrail.
 */
export async function assignKeys(gateway: PolicyWorld, actor: Actor, id: string, { key_hashes }: KeyNames) {
  await gateway.catchUp()
  const guardrail = managedGuardrail(gateway, actor, id)
  const others = distinct(key_hashes).filter(hash => gateway.memory.keys.get(hash)?.workspace_id !== guardrail.workspace_id)
  if (others.length > 0) throw unknown('key_hashes', 'API keys of the guardrail’s workspace', others.length, key_hashes)
  return { assigned_count: await assign(gateway, actor, guardrail, 'key', key_hashes) }
}

/**
 * Gives members this guardrail, for all keys that they made, wherever those are. Throws 400 with how many are no members, and gives it
 * to none; 403 for an actor who manages one workspace only, and 404 for the guardrail.
 */
export async function assignMembers(gateway: PolicyWorld, actor: Actor, id: string, { member_user_ids }: MemberNames) {
  await gateway.catchUp()
  const guardrail = managedGuardrail(gateway, actor, id)
  mustManageAll(gateway, actor)
  const members = await gateway.store.members.byIds(distinct(member_user_ids))
  const others = new Set(member_user_ids).difference(new Set(members.flatMap(({ id, active }) => (active ? id : []))))
  if (others.size > 0) throw unknown('member_user_ids', 'members of the organization', others.size, member_user_ids)
  return { assigned_count: await assign(gateway, actor, guardrail, 'member', member_user_ids) }
}

/** Takes this guardrail from the keys that have it, and says how many had. Throws 404. */
export async function unassignKeys(gateway: PolicyWorld, actor: Actor, id: string, { key_hashes }: KeyNames) {
  await gateway.catchUp()
  return { unassigned_count: await unassign(gateway, actor, managedGuardrail(gateway, actor, id), 'key', key_hashes) }
}

/** Takes this guardrail from the members that have it, and says how many had. Throws 404, and 403 as `assignMembers` does. */
export async function unassignMembers(gateway: PolicyWorld, actor: Actor, id: string, { member_user_ids }: MemberNames) {
  await gateway.catchUp()
  const guardrail = managedGuardrail(gateway, actor, id)
  mustManageAll(gateway, actor)
  return { unassigned_count: await unassign(gateway, actor, guardrail, 'member', member_user_ids) }
}

/** One page of the keys that have a guardrail of their own: this one, or any that the actor manages. The oldest first. Throws 404. */
export function listKeyAssignments(gateway: PolicyWorld, actor: Actor, page: GuardrailPage, id?: string) {
  const own = assignmentsOf(gateway, actor, 'key', id).flatMap(one => {
    const key = gateway.memory.keys.get(one.assignee)
    const { kind: _, assignee: key_hash, ...shown } = one
    return key ? { ...shown, key_hash, key_name: key.name, key_label: key.label } : []
  })
  return pageOf(own, page)
}

/** The same of the members that have one. Throws 404. */
export function listMemberAssignments(gateway: PolicyWorld, actor: Actor, page: GuardrailPage, id?: string) {
  const organization_id = organizationId(gateway)
  const own = assignmentsOf(gateway, actor, 'member', id).map(({ kind: _, assignee: user_id, ...shown }) => ({
    ...shown,
    user_id,
    organization_id,
  }))
  return pageOf(own, page)
}

const pageOf = <T>(all: T[], { offset = 0, limit = PAGE }: GuardrailPage) => ({
  data: all.slice(offset, offset + limit),
  total_count: all.length,
})

function assignmentsOf(gateway: PolicyWorld, actor: Actor, kind: Assignment['kind'], id: string | undefined): Assignment[] {
  if (id !== undefined) managedGuardrail(gateway, actor, id)
  const isOwn = ({ guardrail_id }: Assignment) => {
    const guardrail = gateway.memory.guardrails.get(guardrail_id)
    return guardrail !== undefined && (id === undefined ? reaches(gateway, actor, guardrail.workspace_id) : id === guardrail_id)
  }
  return [...gateway.memory.assignments.values()].filter(one => one.kind === kind && isOwn(one)).sort(byAge)
}

async function assign(
  gateway: PolicyWorld,
  actor: Actor,
  guardrail: Guardrail,
  kind: Assignment['kind'],
  names: string[],
): Promise<number> {
  const others = distinct(names).filter(name => assignedTo(gateway, kind, name)?.guardrail_id !== guardrail.id)
  if (others.length === 0) return 0
  const before = others.map(name => [name, assignedTo(gateway, kind, name)?.guardrail_id ?? null] as const)
  const created_at = gateway.clock.now().toISOString()
  const made = others.map(assignee => {
    return { id: gateway.ids.uuid(), guardrail_id: guardrail.id, kind, assignee, assigned_by: actor.user_id, created_at }
  })
  await gateway.store.assignments.assign(made, entryOf(gateway, actor, 'guardrails.assign', guardrail, kind, before, guardrail.id))
  for (const one of made) gateway.memory.assignments.set(accountOf(one), one)
  return made.length
}

async function unassign(
  gateway: PolicyWorld,
  actor: Actor,
  guardrail: Guardrail,
  kind: Assignment['kind'],
  names: string[],
): Promise<number> {
  const had = distinct(names)
    .flatMap(name => assignedTo(gateway, kind, name) ?? [])
    .filter(one => one.guardrail_id === guardrail.id)
  if (had.length === 0) return 0
  const before = had.map(one => [one.assignee, guardrail.id] as const)
  await gateway.store.assignments.unassign(had, entryOf(gateway, actor, 'guardrails.unassign', guardrail, kind, before, null))
  for (const one of had) if (gateway.memory.assignments.get(accountOf(one)) === one) gateway.memory.assignments.delete(accountOf(one))
  return had.length
}

/**
 * Tells who had which guardrail before, by key or member, and who has which after. A member may have had another workspace's, so what is
 * changed of members is of no workspace: only who manages all reads it.
 */
function entryOf(
  gateway: PolicyWorld,
  actor: Actor,
  action: string,
  { id, workspace_id }: Guardrail,
  kind: Assignment['kind'],
  before: (readonly [assignee: string, guardrail_id: string | null])[],
  after: string | null,
): AuditEntry {
  const now = before.map(([assignee]) => [assignee, after])
  const audited = { id, workspace_id: kind === 'member' ? null : workspace_id }
  return auditEntry(gateway, actor, action, audited, Object.fromEntries(before), Object.fromEntries(now))
}

/** The guardrail of this key's or this member's own, if it has one. */
export const assignedTo = ({ memory: { assignments } }: PolicyWorld, kind: Assignment['kind'], assignee: string): Assignment | undefined =>
  assignments.get(accountOf({ kind, assignee }))

const accountOf = ({ kind, assignee }: Pick<Assignment, 'kind' | 'assignee'>): string => `${kind} ${assignee}`

const distinct = (names: string[]) => [...new Set(names)]

const unknown = (field: string, expected: string, count: number, names: string[]) =>
  invalid(`${field}: expected ${expected}; ${count} of ${distinct(names).length} are none`, field)

/** Reads who has which guardrail, by the account. */
export async function readAssignments(store: AssignmentStore): Promise<Map<string, Assignment>> {
  return new Map((await store.all()).map(one => [accountOf(one), one]))
}
