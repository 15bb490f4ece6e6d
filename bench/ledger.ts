import { type Contender, PRICE, spentBy } from './contenders.ts'
import type { Samples } from './rounds.ts'
import { USAGE } from './wire.ts'

/** What the gateway's books hold after it was killed and started again, beside what was called. */
export type Ledger = { calls: number; expectedUsd: number; spentUsd: number; matches: boolean }

const COST_OF_A_CALL =
  (USAGE.prompt_tokens * PRICE.prompt + USAGE.completion_tokens * PRICE.completion) / 1e6

/**
 * Kills the gateway without warning, starts it again on the same data and compares what its key has spent with the
 * calls that were answered: only books that were kept within the measured time pass.
 */
export async function checkLedger(
  gateway: Contender,
  restart: () => Promise<Contender>,
  { answered }: Samples,
): Promise<Ledger> {
  await gateway.stop('SIGKILL')
  const again = await restart()
  const spentUsd = await spentBy(again.target).finally(() => again.stop())
  const expectedUsd = answered * COST_OF_A_CALL
  return {
    calls: answered,
    expectedUsd,
    spentUsd,
    matches: Math.abs(spentUsd - expectedUsd) < COST_OF_A_CALL / 2,
  }
}
