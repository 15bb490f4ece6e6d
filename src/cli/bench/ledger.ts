import { type Contender, type Home, PRICE, runVerb } from './contenders.ts'
import type { Sample } from './rounds.ts'
import { USAGE } from './wire.ts'

/**
 * What the ledger holds after the gateway was killed, beside the calls that were answered. Streams
 * whose clients left cost something too, so that it may hold more where there were some.
 */
export interface Ledger {
  contender: string
  calls: number
  expected_usd: number
  spent_usd: number
  holds: boolean
}

const COST_OF_A_CALL =
  (USAGE.prompt_tokens * PRICE.prompt + USAGE.completion_tokens * PRICE.completion) / 1e6

/**
 * Kills the gateway without warning, and compares what its keys have spent with the calls that were
 * answered, those of the warm-up included.
 */
export async function checkLedger(
  gateway: Contender,
  home: Home,
  samples: Sample[],
): Promise<Ledger> {
  await gateway.stop('SIGKILL')
  const own = samples.filter(({ contender }) => contender === gateway.name)
  const counted = own.filter(one => one.case !== 'aborts')
  const calls = counted.reduce((sum, one) => sum + one.calls, 0)
  const isExact = own.length === counted.length && own.every(({ errors }) => errors === 0)
  const spent = await readSpending(home)
  const expected = calls * COST_OF_A_CALL
  const difference = spent - expected
  const holds = difference > -COST_OF_A_CALL / 2 && (!isExact || difference < COST_OF_A_CALL / 2)
  return { contender: gateway.name, calls, expected_usd: expected, spent_usd: spent, holds }
}

async function readSpending(home: Home): Promise<number> {
  const printed = await runVerb(home, ['keys', 'list', '--json'])
  const { data } = JSON.parse(printed) as { data: { usage: number }[] }
  return data.reduce((sum, { usage }) => sum + usage, 0)
}
