import type { Reasoning } from '../language/params.ts'
import type { ReasoningDetail } from '../language/reasoning.ts'

/** The efforts, from the least, and the share of the output that each stands for (wire reference C.1). */
const SHARES = [
  ['minimal', 0.1],
  ['low', 0.2],
  ['medium', 0.5],
  ['high', 0.8],
  ['xhigh', 0.95],
] as const

const LEAST_BUDGET = 1_024
const LARGEST_BUDGET = 128_000

/** The wish as an effort, for providers that take one: `none` for no reasoning, undefined where the provider shall decide. */
export function effortOf(
  { effort, max_tokens, enabled }: Reasoning,
  bound: number | undefined,
): string | undefined {
  if (effort !== undefined) return effort
  if (enabled === false) return 'none'
  if (max_tokens === undefined) return enabled ? 'medium' : undefined
  const share = bound === undefined ? 0.5 : max_tokens / bound
  return SHARES.find(([, limit]) => share <= limit)?.[0] ?? 'xhigh'
}

/**
 * The wish as a number of tokens, for providers that take a budget: what was asked for, or the effort's share of the output
 * bound, from 1,024 to 128,000. 0 for no reasoning, undefined where nothing was wished.
 */
export function budgetOf(reasoning: Reasoning, bound: number): number | undefined {
  if (reasoning.max_tokens !== undefined)
    return reasoning.enabled === false ? 0 : reasoning.max_tokens
  const effort = effortOf(reasoning, bound)
  if (effort === undefined) return undefined
  if (effort === 'none') return 0
  const share = SHARES.find(([name]) => name === effort)?.[1] ?? 0.95
  return Math.max(Math.min(Math.floor(bound * share), LARGEST_BUDGET), LEAST_BUDGET)
}

/**
 * The entries that a provider family made itself, which are all that it takes back: signatures and encrypted data are bound
 * to who made them, and another provider's would be refused (translation traps 93–97).
 */
export const ownDetails = (
  details: ReasoningDetail[] | null,
  formats: readonly string[],
): ReasoningDetail[] =>
  (details ?? []).filter(
    detail => typeof detail.format === 'string' && formats.includes(detail.format),
  )
