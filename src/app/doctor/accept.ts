import { type Static, Type } from '@sinclair/typebox'
import { conflict } from '../../base/errors.ts'
import { listEndProblems, rewriteEnds } from '../../engine/recover.ts'
import type { InferenceWorld } from '../../engine/world.ts'
import type { Actor } from '../../resources/actor.ts'
import { createAuditEntry } from '../../resources/audit/entry.ts'

/** The input of `gateway doctor --accept`. */
export const Acceptance = Type.Object({
  reason: Type.String({ minLength: 1, maxLength: 1000 }),
})
export type Acceptance = Static<typeof Acceptance>

/** Who accepts, and how they agree to what was found. */
export interface Accepter {
  /** Their name at the operating system. */
  system_user: string
  approve(problems: string[]): boolean | Promise<boolean>
}

/**
 * Writes down where the ledger ends, although that contradicts what was written before or there is
 * nothing written, and goes on without logs that were found damaged. The audit trail says who
 * accepted what, and why. Throws 409 while a server runs, where there is nothing to accept, and where
 * it is not approved.
 */
export async function acceptEnd(
  world: InferenceWorld & { lock(): Promise<() => Promise<void>> },
  actor: Actor,
  { reason }: Acceptance,
  accepter: Accepter,
): Promise<void> {
  const unlock = await world.lock()
  try {
    const { damaged } = world.journal
    const accepted = [...(await listEndProblems(world)), ...damaged.list()]
    if (accepted.length === 0)
      throw conflict(
        'There is nothing to accept: the ledger ends where it did, and no log is damaged',
      )
    if (!(await accepter.approve(accepted))) throw conflict('Nothing was accepted')
    const after = { reason, system_user: accepter.system_user }
    const target = { id: 'ledger', workspace_id: null }
    const entry = createAuditEntry(world, actor, 'ledger.accept', target, { accepted }, after)
    await world.store.audit.append(entry)
    await rewriteEnds(world)
    damaged.accept()
  } finally {
    await unlock()
  }
}
