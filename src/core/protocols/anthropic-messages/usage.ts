import { count, countWithin, isObject, type Json, member, objects } from '../../kernel/json.ts'
import { readUnits } from '../../language/units.ts'
import type { Usage } from '../../language/usage.ts'

/**
 * Returns an Anthropic usage object in disjoint classes. `input_tokens` includes neither cache
 * reads nor cache writes, and `output_tokens` includes thinking. Undefined if nothing was counted,
 * as relays report it, or if the counts are impossible.
 */
export function usageOf(given: unknown): Usage | undefined {
  if (!isObject(given)) return undefined
  const input = inputOf(given)
  const whole = count(outputTotal(given))
  if (whole === undefined || (whole === 0 && Object.values(input).every(tokens => tokens === 0)))
    return undefined
  const reasoning = countWithin(whole, member(given, 'output_tokens_details').thinking_tokens)
  return {
    input,
    output: { text: whole - reasoning, reasoning, audio: 0, image: 0 },
    prediction: null,
    ...readUnits({ search: member(given, 'server_tool_use').web_search_requests }),
  }
}

function inputOf(given: Json): Usage['input'] {
  const written = count(given.cache_creation_input_tokens) ?? 0
  // The one-hour share is reported once, at the start. The sum may still grow.
  const cache_write_1h = countWithin(
    written,
    member(given, 'cache_creation').ephemeral_1h_input_tokens,
  )
  return {
    text: inputTotal(given),
    cache_read: count(given.cache_read_input_tokens) ?? 0,
    cache_write: written - cache_write_1h,
    cache_write_1h,
    audio: 0,
    video: 0,
  }
}

const inputTotal = (given: Json): number =>
  count(summed(runsOf(given), 'input_tokens')) ?? count(given.input_tokens) ?? 0
const outputTotal = (given: Json): number | undefined =>
  count(summed(runsOf(given), 'output_tokens')) ?? count(given.output_tokens)

/**
 * Returns the model runs that the totals leave out. After a compaction, the totals describe only
 * the last run. An advisor model is billed apart, and after a fallback to another model, the totals
 * are that model's.
 */
function runsOf({ iterations }: Json): Json[] {
  const runs = objects(iterations)
  if (runs.some(run => run.type === 'fallback_message')) return []
  return runs.filter(run => run.type === 'message' || run.type === 'compaction')
}

const summed = (runs: Json[], name: string): number | undefined =>
  runs.length === 0 ? undefined : runs.reduce((sum, run) => sum + (count(run[name]) ?? 0), 0)

/**
 * Merges a later report into the counts so far. Counts are cumulative, and one that is left out has
 * not changed.
 */
export function merged(known: Json, told: unknown): Json {
  if (!isObject(told)) return known
  return {
    ...known,
    ...Object.fromEntries(
      Object.entries(told).filter(([name, value]) => value != null && COUNTED.has(name)),
    ),
  }
}

const COUNTED = new Set([
  'input_tokens',
  'output_tokens',
  'output_tokens_details',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
  'cache_creation',
  'server_tool_use',
  'iterations',
])
