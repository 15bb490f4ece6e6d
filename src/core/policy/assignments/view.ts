import type { Actor } from '../../identity/actor.ts'
import { createAuditEntry } from '../../identity/audit/entry.ts'
import type { AuditEntry } from '../../identity/audit.ts'
import type { Key } from '../../identity/keys/store.ts'
import type { Account } from '../../ledger/ledger.ts'
import type { Spending } from '../budgets/view.ts'
import type { Guardrail } from '../guardrails/store.ts'
import { showSpentOf } from '../guardrails/view.ts'
import type { PolicyWorld } from '../world.ts'
import type { Assignment } from './store.ts'

/** Shows the assignment of a key as the wire has it. */
export function showKeyAssignment(
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
export function showMemberAssignment(
  world: PolicyWorld,
  { kind: _, assignee: user_id, ...shown }: Assignment,
  organization_id: string,
) {
  return { ...shown, user_id, organization_id, ...showSpent(world, shown, `member ${user_id}`) }
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
