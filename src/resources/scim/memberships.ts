import type { Actor } from '../actor.ts'
import type { AuditEntry } from '../audit.ts'
import type { WorkspaceMember } from '../members/store.ts'
import { auditWorkspaceMember } from '../members/view.ts'
import { buildWorkspaceMember } from '../workspace-members.ts'
import type { IdentityWorld } from '../world.ts'

/** A difference between the role that a member's groups grant and their role in a workspace. */
export interface MembershipDifference {
  workspace_id: string
  user_id: string
  /** The highest role that a mapping of their groups grants; null if none does. */
  granted: WorkspaceMember['role'] | null
  /** The membership by a mapping, or null. Members who were added by hand have no difference. */
  current: WorkspaceMember | null
}

/** How a difference is resolved, with the audit entry. */
interface MembershipDecision {
  /** The new membership; null if the member is removed. */
  after: WorkspaceMember | null
  entry: AuditEntry
}

/** Decides how a difference is resolved. */
export type DecideMembership = (difference: MembershipDifference) => MembershipDecision

/** Creates a function that gives members their granted role and removes those without one. */
export const createMembershipDecider =
  (world: IdentityWorld, actor: Actor): DecideMembership =>
  ({ workspace_id, user_id, granted, current }) => {
    const after = granted && {
      ...(current ?? buildWorkspaceMember(world, workspace_id, user_id)),
      role: granted,
      source: 'scim' as const,
    }
    return { after, entry: auditWorkspaceMember(world, actor, current, after) }
  }

/**
 * Creates a function for the audit entry of a member who stays in a workspace, as if added by hand,
 * when a mapping is deleted.
 */
export const createMembershipKeeper =
  (world: IdentityWorld, actor: Actor) =>
  (current: WorkspaceMember): AuditEntry =>
    auditWorkspaceMember(world, actor, current, { ...current, source: 'manual' })
