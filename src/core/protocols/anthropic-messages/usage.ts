import { count, countWithin, isObject, type Json, member, objects } from '../../kernel/json.ts'
import { readUnits } from '../../language/units.ts'
import type { Usage } from '../../language/usage.ts'

/**
 * An Anthropic usage object in disjoint classes. There `input_tokens` counts neither what was read from the cache nor what was
 * written to it, and `output_tokens` includes thinking. Undefined where nothing was counted, as relays say it, or where the
 * counts are such that no answer can have them.
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
  // The hour's share is told once, at the start; the sum may still grow.
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
 * The runs of the model that the totals leave out: they name the last one only where a conversation was summed up on the way.
 * Another model's advice is billed apart, and where another model stepped in, the totals are its own.
 */
function runsOf({ iterations }: Json): Json[] {
  const runs = objects(iterations)
  if (runs.some(run => run.type === 'fallback_message')) return []
  return runs.filter(run => run.type === 'message' || run.type === 'compaction')
}

const summed = (runs: Json[], name: string): number | undefined =>
  runs.length === 0 ? undefined : runs.reduce((sum, run) => sum + (count(run[name]) ?? 0), 0)

/** The counts so far with those that are told anew: they are sums, and what is left out has not changed. */
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
