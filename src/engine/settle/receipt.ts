import type { ServerToolCounts } from '../../language/usage.ts'
import {
  createFreeReceipt,
  createTextUsage,
  type Receipt,
  sumReceipts,
} from '../../language/usage.ts'
import type { RecordedUse, Run } from '../run.ts'

/** Sums what all steps of a run and the uses of its tools cost, with the calls that those made. */
export function sumRunReceipts(run: Run): Receipt {
  const { steps, toolMoney, toolLoop, openingUses } = run
  const [first] = steps
  const hasTools = toolLoop !== null || openingUses.length > 0
  const isOne = steps.length === 1 && !toolMoney && !hasTools
  if (isOne && first?.receipt && !first.outrun) return first.receipt
  const sum = sumReceipts(listReceipts(run)) ?? createFreeReceipt(createTextUsage(0, 0))
  if (!hasTools) return sum
  const endedBy = run.tree?.endedBy ?? null
  const serverTools = countUses(listUses(run))
  return { ...sum, serverTools: endedBy === null ? serverTools : { ...serverTools, endedBy } }
}

/** Lists what a run paid: the turns that its client sees come last. */
const listReceipts = ({ steps, toolMoney, inner }: Run): Receipt[] => [
  ...inner.flatMap(listReceipts),
  ...(toolMoney ?? []).flatMap(({ receipt }) => receipt ?? []),
  ...steps.flatMap(({ receipt, outrun }) => [
    ...(outrun?.receipt ? [outrun.receipt] : []),
    ...(receipt ? [receipt] : []),
  ]),
]

const listUses = ({ openingUses, toolLoop, inner }: Run): RecordedUse[] => [
  ...openingUses,
  ...(toolLoop?.uses ?? []),
  ...inner.flatMap(listUses),
]

/** Counts the uses of tools, and those that ran. */
function countUses(uses: RecordedUse[]): ServerToolCounts {
  const ran = uses.filter(({ invocation }) => invocation !== null)
  const countOf = (name: string) => ran.filter(use => use.offered?.tool.name === name).length
  return {
    requested: uses.length,
    executed: ran.length,
    searches: countOf('web_search'),
    fetches: countOf('web_fetch'),
  }
}
