import { count, isObject, type Json, objects } from '../../kernel/json.ts'
import type { Usage } from '../../language/usage.ts'

/**
 * Returns a Converse `TokenUsage` in disjoint classes. `inputTokens` includes neither cache reads
 * nor cache writes. Undefined if the counts are impossible.
 */
export function usageOf(given: unknown): Usage | undefined {
  if (!isObject(given)) return undefined
  const text = count(given.inputTokens)
  const output = count(given.outputTokens)
  if (text === undefined || output === undefined) return undefined
  return {
    input: {
      text,
      cache_read: count(given.cacheReadInputTokens) ?? 0,
      ...writtenOf(given),
      audio: 0,
      video: 0,
    },
    output: { text: output, reasoning: 0, audio: 0, image: 0 },
    prediction: null,
  }
}

/**
 * Returns the tokens written to the cache. `cacheDetails` breaks them down by time to live (API
 * reference, CacheDetail).
 */
function writtenOf({
  cacheWriteInputTokens,
  cacheDetails,
}: Json): Pick<Usage['input'], 'cache_write' | 'cache_write_1h'> {
  const written = count(cacheWriteInputTokens) ?? 0
  const hours = objects(cacheDetails).filter(detail => detail.ttl === '1h')
  const told = hours.reduce((sum, detail) => sum + (count(detail.inputTokens) ?? 0), 0)
  const cache_write_1h = Math.min(told, written)
  return { cache_write: written - cache_write_1h, cache_write_1h }
}
