import { count, countWithin, isObject, type Json, member } from '../../kernel/json.ts'
import { textUsage, type Usage } from '../../language/usage.ts'

/**
 * Returns Cohere's count of the tokens that the model read and wrote. `cached_tokens` are part of
 * the input. What Cohere itself adds to a prompt is counted but not charged, so `billed_units`
 * leaves it out. Undefined if the counts are impossible.
 */
export function usageOf(given: unknown): Usage | undefined {
  if (!isObject(given)) return undefined
  const billed = countsOf(member(given, 'billed_units'))
  const counted = countsOf(member(given, 'tokens')) ?? billed
  if (!counted) return undefined
  const cache_read = countWithin(counted.input, given.cached_tokens)
  const usage = textUsage(counted.input - cache_read, counted.output)
  return {
    ...usage,
    input: { ...usage.input, cache_read },
    ...(billed ? { billed: textUsage(billed.input, billed.output) } : {}),
  }
}

function countsOf({
  input_tokens,
  output_tokens,
}: Json): { input: number; output: number } | undefined {
  const input = count(input_tokens)
  const output = count(output_tokens)
  return input === undefined || output === undefined ? undefined : { input, output }
}
