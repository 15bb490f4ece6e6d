import {
  countInputTokens,
  countOutputTokens,
  createFreeReceipt,
  createTextUsage,
  type Receipt,
  type ServerToolCounts,
  sumCosts,
  sumReceipts,
  type Usage,
} from '../../language/usage.ts'
import type { GenerationStep } from '../../observability/generations/store.ts'
import type { RecordedUse, Run, Step } from '../run.ts'

/** Sums what all steps of a run and the uses of its tools cost, with the calls that those made. */
export function sumRunReceipts(run: Run): Receipt {
  const { toolLoop, openingUses } = run
  const hasTools = toolLoop !== null || openingUses.length > 0
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

/** Returns a receipt that costs what was sent, where that is no text: characters, a recording. */
export const raiseToInput = (receipt: Receipt, prompt: bigint): Receipt =>
  receipt.cost_details && sumCosts(receipt.cost_details) === 0n
    ? {
        ...receipt,
        cost: receipt.is_byok ? 0n : prompt,
        cost_details: { prompt, completion: 0n },
      }
    : receipt

/** Returns a receipt that costs no more than this: what nobody has counted exceeds no limit. */
export function capCost(receipt: Receipt, most: bigint): Receipt {
  const { cost_details, is_byok } = receipt
  if (!cost_details || sumCosts(cost_details) <= most) return receipt
  const prompt = cost_details.prompt < most ? cost_details.prompt : most
  return {
    ...receipt,
    cost: is_byok ? 0n : most,
    cost_details: { prompt, completion: most - prompt },
  }
}

/** A provider that counts the prompt at the start has not yet counted an answer that breaks off. */
export const takeLargerOutput = (counted: Usage, estimated: Usage): Usage =>
  countOutputTokens(estimated) > countOutputTokens(counted)
    ? { ...counted, output: estimated.output }
    : counted
