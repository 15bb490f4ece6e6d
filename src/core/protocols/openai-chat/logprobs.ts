import { isObject } from '../../kernel/json.ts'
import type { Logprobs } from '../../language/part.ts'

/** The logprobs of a choice, whose shape is that of our parts. Undefined where there are none. */
export function logprobsOf(given: unknown): Logprobs | undefined {
  if (!isObject(given)) return undefined
  const content = Array.isArray(given.content) ? given.content : null
  const refusal = Array.isArray(given.refusal) ? given.refusal : null
  return content || refusal ? { content, refusal } : undefined
}
