import { textUsage, type Usage } from '../../inference/call.ts'
import { count, isObject, type Json, member } from '../../kernel/json.ts'

/**
 * Cohere's count of the tokens that the model read and wrote; `billed_units`, which leaves out what Cohere itself adds to a
 * prompt, only where there is no other. `cached_tokens` is a part of the input. Undefined for counts that no answer can have.
 */
export function usageOf(given: unknown): Usage | undefined {
  if (!isObject(given)) return undefined
  const counted = countsOf(member(given, 'tokens')) ?? countsOf(member(given, 'billed_units'))
  if (!counted) return undefined
  const cache_read = Math.min(count(given.cached_tokens) ?? 0, counted.input)
  const usage = textUsage(counted.input - cache_read, counted.output)
  return { ...usage, input: { ...usage.input, cache_read } }
}

function countsOf({ input_tokens, output_tokens }: Json): { input: number; output: number } | undefined {
  const input = count(input_tokens)
  const output = count(output_tokens)
  return input === undefined || output === undefined ? undefined : { input, output }
}
