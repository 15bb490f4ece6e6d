import { type Contender, PRICE, readSpending } from './contenders.ts'
import type { Samples } from './rounds.ts'
import { USAGE } from './wire.ts'

/**
 * What the ledger holds after the gateway was killed and restarted, compared with the calls that
 * were made.
 */
export type Ledger = { calls: number; expectedUsd: number; spentUsd: number; matches: boolean }

const COST_OF_A_CALL =
  (USAGE.prompt_tokens * PRICE.prompt + USAGE.completion_tokens * PRICE.completion) / 1e6

/**
 * Kills the gateway without warning, restarts it on the same data, and compares what its key has
 * spent with the calls that were answered. Passes only if the ledger was written within the
 * measured time.
 */
export async function checkLedger(
  gateway: Contender,
  restart: () => Promise<Contender>,
  { answered }: Samples,
): Promise<Ledger> {
  await gateway.stop('SIGKILL')
  const again = await restart()
  const spentUsd = await readSpending(again.target).finally(() => again.stop())
  const expectedUsd = answered * COST_OF_A_CALL
  return {
    calls: answered,
    expectedUsd,
    spentUsd,
    matches: Math.abs(spentUsd - expectedUsd) < COST_OF_A_CALL / 2,
  }
}
