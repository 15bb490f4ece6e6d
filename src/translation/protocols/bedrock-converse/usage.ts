import { type Json, parseCount, readObjects } from '../../../base/json.ts'
import type { Usage } from '../../../language/usage.ts'
import { refuseImpossibleCounts } from '../reader.ts'

/**
 * Returns a Converse `TokenUsage` in disjoint classes. `inputTokens` includes neither cache reads
 * nor cache writes. Undefined without counts.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(usage: Json): Usage | undefined {
  const text = parseCount(usage.inputTokens)
  const output = parseCount(usage.outputTokens)
  if (text === undefined || output === undefined) return undefined
  return {
    input: {
      text,
      cache_read: parseCount(usage.cacheReadInputTokens) ?? 0,
      ...readCacheWrites(usage),
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
function readCacheWrites({
  cacheWriteInputTokens,
  cacheDetails,
}: Json): Pick<Usage['input'], 'cache_write' | 'cache_write_1h'> {
  const written = parseCount(cacheWriteInputTokens) ?? 0
  const hours = readObjects(cacheDetails).filter(detail => detail.ttl === '1h')
  const hourTokens = hours.reduce((sum, detail) => sum + (parseCount(detail.inputTokens) ?? 0), 0)
  const cache_write_1h = Math.min(hourTokens, written)
  return { cache_write: written - cache_write_1h, cache_write_1h }
}
