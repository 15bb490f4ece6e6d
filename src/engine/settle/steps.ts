import { countInputTokens, countOutputTokens, createTextUsage } from '../../language/usage.ts'
import type { GenerationStep } from '../../observability/generations/store.ts'
import type { RecordedUse, Run, Step } from '../run.ts'

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
