import type { Actor } from '../actor.ts'
import type { AuditEntry } from '../audit/store.ts'
import type { WorkspaceMember } from '../members/store.ts'
import { auditWorkspaceMember } from '../members/view.ts'
import type { DecideMembership } from '../scim.ts'
import { buildWorkspaceMember } from '../workspace-members.ts'
import type { IdentityWorld } from '../world.ts'

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
