import type { Actor } from '../../identity/actor.ts'
import { createAuditEntry } from '../../identity/audit/entry.ts'
import type { AuditEntry } from '../../identity/audit.ts'
import type { Key } from '../../identity/keys/store.ts'
import type { Guardrail } from '../guardrails/store.ts'
import type { PolicyWorld } from '../world.ts'
import type { Assignment } from './store.ts'

/** Shows the assignment of a key as the wire has it. */
export function showKeyAssignment(
  { kind: _, assignee: key_hash, ...shown }: Assignment,
  { name, label }: Key,
) {
  return { ...shown, key_hash, key_name: name, key_label: label }
}

/** Shows the assignment of a member as the wire has it. */
export function showMemberAssignment(
  { kind: _, assignee: user_id, ...shown }: Assignment,
  organization_id: string,
) {
  return { ...shown, user_id, organization_id }
}

/**
 * The guardrail that each assignee had before, and the one that all of them have now. Null: none.
 */
export interface Reassignment {
  kind: Assignment['kind']
  before: (readonly [assignee: string, guardrail_id: string | null])[]
  after: string | null
}

/**
 * Creates the audit entry of a change of assignments. A member's earlier guardrail may be of
 * another workspace, so a change of members belongs to no workspace: only actors who manage all of
 * them can read it.
 */
export function auditAssignment(
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
