import { type Contender, type Home, PRICE, runVerb } from './contenders.ts'
import type { Sample } from './rounds.ts'
import { USAGE } from './wire.ts'

/**
 * What the ledger and the records hold after the gateway was killed, beside the calls that were
 * answered. Streams whose clients left are on record and cost something too, so that there may be
 * more where there were some.
 */
export interface Ledger {
  contender: string
  calls: number
  expected_usd: number
  spent_usd: number
  /** The calls on record. */
  rows: number
  holds: boolean
}

const COST_OF_A_CALL =
  (USAGE.prompt_tokens * PRICE.prompt + USAGE.completion_tokens * PRICE.completion) / 1e6

/**
 * Kills the gateway without warning, and compares what its keys have spent, and the calls on record,
 * with the calls that were answered, those of the warm-up included.
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
  const rows = await countRecords(home)
  // In calls: half of one is more than the sum of what floats lose.
  const more = [(spent - expected) / COST_OF_A_CALL, rows - calls]
  const holds = more.every(calls => calls > -0.5 && (!isExact || calls < 0.5))
  return { contender: gateway.name, calls, expected_usd: expected, spent_usd: spent, rows, holds }
}

async function countRecords(home: Home): Promise<number> {
  const { total }: { total: { calls: number } } = JSON.parse(
    await runVerb(home, ['usage', '--json']),
  )
  return total.calls
}

async function readSpending(home: Home): Promise<number> {
  const printed = await runVerb(home, ['keys', 'list', '--json'])
  const { data } = JSON.parse(printed) as { data: { usage: number }[] }
  return data.reduce((sum, { usage }) => sum + usage, 0)
}
