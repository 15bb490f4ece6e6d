import {
  isObject,
  type Json,
  parseCount,
  parsePartCount,
  readObject,
  readObjects,
} from '../../../base/json.ts'
import { readUnits, type Usage } from '../../../language/usage.ts'
import { refuseImpossibleCounts } from '../reader.ts'

/**
 * Returns an Anthropic usage object in disjoint classes. `input_tokens` includes neither cache
 * reads nor cache writes, and `output_tokens` includes thinking. Undefined if nothing was counted,
 * as relays report it, or if the counts are impossible.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(usage: Json): Usage | undefined {
  const input = readInput(usage)
  const total = parseCount(readOutputTotal(usage))
  if (total === undefined || (total === 0 && Object.values(input).every(tokens => tokens === 0)))
    return undefined
  const reasoning = parsePartCount(
    total,
    readObject(usage, 'output_tokens_details').thinking_tokens,
  )
  return {
    input,
    output: { text: total - reasoning, reasoning, audio: 0, image: 0 },
    prediction: null,
    ...readUnits({ search: readObject(usage, 'server_tool_use').web_search_requests }),
  }
}

function readInput(usage: Json): Usage['input'] {
  const written = parseCount(usage.cache_creation_input_tokens) ?? 0
  // The one-hour share is reported once, at the start. The sum may still grow.
  const cache_write_1h = parsePartCount(
    written,
    readObject(usage, 'cache_creation').ephemeral_1h_input_tokens,
  )
  return {
    text: readInputTotal(usage),
    cache_read: parseCount(usage.cache_read_input_tokens) ?? 0,
    cache_write: written - cache_write_1h,
    cache_write_1h,
    audio: 0,
    video: 0,
  }
}

const readInputTotal = (usage: Json): number =>
  parseCount(sumRuns(listRuns(usage), 'input_tokens')) ?? parseCount(usage.input_tokens) ?? 0
const readOutputTotal = (usage: Json): number | undefined =>
  parseCount(sumRuns(listRuns(usage), 'output_tokens')) ?? parseCount(usage.output_tokens)

/**
 * Returns the model runs that the totals leave out. After a compaction, the totals describe only
 * the last run. An advisor model is billed apart, and after a fallback to another model, the totals
 * are that model's.
 */
function listRuns({ iterations }: Json): Json[] {
  const runs = readObjects(iterations)
  if (runs.some(run => run.type === 'fallback_message')) return []
  return runs.filter(run => run.type === 'message' || run.type === 'compaction')
}

const sumRuns = (runs: Json[], name: string): number | undefined =>
  runs.length === 0 ? undefined : runs.reduce((sum, run) => sum + (parseCount(run[name]) ?? 0), 0)

/**
 * Merges a later report into the counts so far. Counts are cumulative, and one that is left out has
 * not changed.
 */
export function mergeUsage(known: Json, update: unknown): Json {
  if (!isObject(update)) return known
  return {
    ...known,
    ...Object.fromEntries(
      Object.entries(update).filter(([name, value]) => value != null && USAGE_FIELDS.has(name)),
    ),
  }
}

const USAGE_FIELDS = new Set([
  'input_tokens',
  'output_tokens',
  'output_tokens_details',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
  'cache_creation',
  'server_tool_use',
  'iterations',
])
