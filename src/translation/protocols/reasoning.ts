import type { Reasoning } from '../../language/params.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'

/** The efforts in ascending order, each with its share of the output (wire reference C.1). */
const SHARES = [
  ['minimal', 0.1],
  ['low', 0.2],
  ['medium', 0.5],
  ['high', 0.8],
  ['xhigh', 0.95],
] as const

const MIN_BUDGET = 1_024
const LARGEST_BUDGET = 128_000

/**
 * Returns the requested effort, for providers that accept one: `none` for no reasoning, undefined
 * if the provider decides.
 */
export function toReasoningEffort(
  { effort, max_tokens, enabled }: Reasoning,
  outputBound: number | undefined,
): string | undefined {
  if (effort !== undefined) return effort
  if (enabled === false) return 'none'
  if (max_tokens === undefined) return enabled ? 'medium' : undefined
  const share = outputBound === undefined ? 0.5 : max_tokens / outputBound
  return SHARES.find(([, limit]) => share <= limit)?.[0] ?? 'xhigh'
}

/**
 * Returns the requested budget in tokens, for providers that accept one: the requested number, or
 * the effort's share of the output bound, from 1,024 to 128,000. Returns 0 for no reasoning, and
 * undefined if the call does not say.
 */
export function toReasoningBudget(reasoning: Reasoning, outputBound: number): number | undefined {
  if (reasoning.max_tokens !== undefined)
    return reasoning.enabled === false ? 0 : reasoning.max_tokens
  const effort = toReasoningEffort(reasoning, outputBound)
  if (effort === undefined) return undefined
  if (effort === 'none') return 0
  const share = SHARES.find(([name]) => name === effort)?.[1] ?? 0.95
  return Math.max(Math.min(Math.floor(outputBound * share), LARGEST_BUDGET), MIN_BUDGET)
}

/**
 * Returns the entries that a provider family made itself, the only ones that it takes back.
 * Signatures and encrypted data are bound to the provider that made them, and another provider
 * refuses them (translation traps 93–97).
 */
export const filterOwnDetails = (
  details: ReasoningDetail[] | null,
  formats: readonly string[],
): ReasoningDetail[] =>
  (details ?? []).filter(
    detail => typeof detail.format === 'string' && formats.includes(detail.format),
  )
