import { recheckRun } from '../../engine/admit.ts'
import { requireService } from '../../engine/plan/constraints.ts'
import { Run, Step } from '../../engine/run.ts'
import { listStagesBeforeSending, runStages } from '../../engine/stages.ts'
import type { ToolWorld } from '../server-tool.ts'
import { chargeUses, releaseUses, reserveUses, type UsesMoney } from './money.ts'
import { runUse, type ToolUse } from './use.ts'

/**
 * Runs a tool once before the first turn of a model, because a plugin asks for that. What it may
 * cost is held before and charged after, and the turn must be possible beside it: nothing is paid
 * for a call that cannot be made. Resolves when the charge is on disk. Throws 401 for a key that is
 * no longer valid, 402 if a limit has not enough left, 403 where rules keep the call from who is
 * asked, what the plan of the call throws, and the reason of a run that is cancelled.
 */
export async function runOpeningUse(world: ToolWorld, run: Run, use: ToolUse): Promise<void> {
  recheckRun(world, run)
  const money = await reserveUses(world, run, [use])
  await rehearseTurn(world, run, use, money)
  await runHeldUse(world, run, use, money)
}

/** Runs a use for which money is held until the run ends it, and charges it. */
export async function runHeldUse(
  world: ToolWorld,
  run: Run,
  use: ToolUse,
  money: UsesMoney | null,
): Promise<void> {
  run.openingUses.push(use)
  run.cancellation.listen(reason => use.limit.cancel(reason))
  try {
    await runUse(world, use)
  } finally {
    run.cancellation.listen(null)
    if (money) await chargeUses(world, money)
  }
}

/** Lists the uses of tools before the first turn. */
export const listOpeningUses = ({ openingUses }: Run): ToolUse[] => openingUses as ToolUse[]

/** Plans the first turn as it would be without the use. Releases the money if it cannot be made. */
async function rehearseTurn(
  world: ToolWorld,
  run: Run,
  { offered }: ToolUse,
  money: UsesMoney | null,
): Promise<void> {
  const { actor, kind, call, policy, created, startedAt } = run
  const rehearsal = new Run({ actor, kind, call, policy, created, startedAt, isDry: true })
  try {
    if (run.cancellation.reason) throw run.cancellation.reason
    await runStages(world, listStagesBeforeSending(world.stages.step), new Step(rehearsal, call))
    const service = offered?.tool.findService?.(world, offered.request.options)
    if (service) requireService(world, run, service)
  } catch (thrown) {
    if (money) releaseUses(world, money)
    throw thrown
  }
}
