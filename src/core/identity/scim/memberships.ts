import type { Actor } from '../actor.ts'
import type { AuditEntry } from '../audit.ts'
import type { WorkspaceMember } from '../members/store.ts'
import { auditWorkspaceMember } from '../members/view.ts'
import { newWorkspaceMember } from '../workspace-members.ts'
import type { IdentityWorld } from '../world.ts'

/** Where what the groups of a member give differs from how he is in a workspace. */
export interface Difference {
  workspace_id: string
  user_id: string
  /** The highest role that a mapping of his groups gives; null where none does. */
  granted: WorkspaceMember['role'] | null
  /** How he is in it by a mapping; null where he is not. Who was put there by hand is in no difference. */
  current: WorkspaceMember | null
}

/** What becomes of a difference, and the entry that tells of it. */
export interface Move {
  /** How he is in the workspace from now on; null where he is no longer. */
  after: WorkspaceMember | null
  entry: AuditEntry
}

/** Says what becomes of a difference. */
export type Mover = (difference: Difference) => Move

/** What becomes of differences: who is granted a role has it, who is granted none is out. */
export const moverFor =
  (gateway: IdentityWorld, actor: Actor): Mover =>
  ({ workspace_id, user_id, granted, current }) => {
    const after = granted && {
      ...(current ?? newWorkspaceMember(gateway, workspace_id, user_id)),
      role: granted,
      source: 'scim' as const,
    }
    return { after, entry: auditWorkspaceMember(gateway, actor, current, after) }
  }

/** Who is left in a workspace by hand when a mapping goes, with the entry that tells of it. */
export const keeperFor =
  (gateway: IdentityWorld, actor: Actor) =>
  (current: WorkspaceMember): AuditEntry =>
    auditWorkspaceMember(gateway, actor, current, { ...current, source: 'manual' })
