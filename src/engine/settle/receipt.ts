import {
  countInputTokens,
  countOutputTokens,
  createFreeReceipt,
  createTextUsage,
  listUnits,
  type Receipt,
  type ServerToolCounts,
  sumReceipts,
  UNITS,
  type Unit,
  type Usage,
} from '../../language/usage.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { GenerationStep } from '../../observability/generations/store.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { Metering } from '../kind.ts'
import { kinds } from '../kinds.ts'
import type { RecordedUse, Run, Step } from '../run.ts'

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

/**
 * How often a provider may read or write a whole context for one answer: it searches and runs tools
 * of its own, and counts each turn.
 */
const MOST_CONTEXTS = 4

/** The context of a model whose own is unknown, in tokens: no model has a larger one. */
const LARGEST_CONTEXT = 10_000_000

/** Units that a provider may count although the call asked for none. */
const UNASKED_UNITS = 100

/**
 * Tells whether an answer to the call can have these counts: at most four times the endpoint's
 * context for each answer or input, and four times the units that were set aside.
 */
export function isPlausible<K extends Kind>(
  usage: Usage,
  kind: K,
  call: Work[K]['call'],
  endpoint: Endpoint,
): boolean {
  if (usage.isImpossible) return false
  const { countShares }: Metering<K> = kinds[kind].metering
  const shares = Math.max(1, countShares(call))
  const most = MOST_CONTEXTS * (endpoint.context_length ?? LARGEST_CONTEXT) * shares
  return (
    countAllTokens(usage) <= most &&
    (!usage.billed || countAllTokens({ ...usage, ...usage.billed }) <= most) &&
    hasPlausibleUnits(usage, kind, call, endpoint)
  )
}

const countAllTokens = (usage: Usage): number => countInputTokens(usage) + countOutputTokens(usage)

function hasPlausibleUnits<K extends Kind>(
  { units = {} }: Usage,
  kind: K,
  call: Work[K]['call'],
  endpoint: Endpoint,
): boolean {
  const bounds = kinds[kind].costing.boundUnits(call, endpoint)
  const countMost = (unit: Unit) =>
    MOST_CONTEXTS * Math.max(bounds[unit] ?? 0, UNASKED_UNITS * UNITS[unit].partsPerUnit)
  return listUnits(units).every(unit => (units[unit] ?? 0) <= countMost(unit))
}

/**
 * Lists what a run did, in order, if that was more than one turn of a model: the uses of tools before
 * the first turn, its turns, and the uses after each, with the turns that those took.
 */
export function listGenerationSteps(run: Run): GenerationStep[] {
  const { steps, toolLoop, openingUses } = run
  const hasUses = openingUses.length > 0 || (toolLoop?.uses.length ?? 0) > 0
  if (steps.length < 2 && !hasUses) return []
  const listed = listSteps(run)
  const ended_by = run.tree?.endedBy ?? null
  const last = listed.pop()
  if (last) listed.push(ended_by === null ? last : { ...last, ended_by })
  return listed
}

function listSteps(run: Run): GenerationStep[] {
  const { steps, toolLoop, openingUses, ending, depth } = run
  const listUses = (after: number) =>
    (toolLoop?.uses ?? [])
      .filter(({ turn }) => turn === after)
      .flatMap(use => [toToolStep(use), ...listInnerSteps(run, use)])
  const listed = [
    ...openingUses.map(toToolStep),
    ...listUses(0),
    ...steps.flatMap((step, i) => [
      toModelStep(step, ending?.endedAt ?? step.startedAt),
      ...listUses(i + 1),
    ]),
  ]
  return depth === 0 ? listed : listed.map(step => ({ depth, ...step }))
}

const listInnerSteps = ({ inner }: Run, { invocation }: RecordedUse): GenerationStep[] =>
  inner.filter(({ within }) => within === invocation).flatMap(listSteps)

function toModelStep(step: Step, runEndedAt: number): GenerationStep {
  const { call, answer, meter, receipt, outrun, attempts, startedAt, endedAt } = step
  const usage = receipt?.usage ?? createTextUsage(0, 0)
  return {
    type: 'model',
    name: answer?.endpoint.model ?? call.models[0] ?? '',
    function: null,
    provider_name: answer?.endpoint.provider.name ?? null,
    native_tokens_prompt: countInputTokens(usage),
    native_tokens_completion: countOutputTokens(usage),
    cost: receipt?.cost == null ? null : receipt.cost + (outrun?.receipt?.cost ?? 0n),
    latency: Math.round((endedAt ?? runEndedAt) - startedAt),
    finish_reason: meter?.finish?.reason ?? null,
    error_type: answer ? null : (attempts.at(-1)?.error?.type ?? null),
    is_error: answer === null,
  }
}

const toToolStep = ({ offered, call, result, latency, error }: RecordedUse): GenerationStep => ({
  type: 'tool',
  name: offered?.request.type ?? '',
  function: call.name.slice(0, LONGEST_NAME),
  provider_name: null,
  native_tokens_prompt: 0,
  native_tokens_completion: 0,
  cost: result?.cost ?? 0n,
  latency,
  finish_reason: null,
  error_type: error?.type ?? null,
  is_error: result?.isError ?? true,
})

/** A model may call a function by any name. */
const LONGEST_NAME = 128
