import { isObject, type Json, parseCount, readObject } from '../../base/json.ts'
import { readUnits } from '../../language/units.ts'
import { createImpossibleUsage, createTextUsage, type Usage } from '../../language/usage.ts'

/** The names of fields that count, whatever the provider: `prompt_tokens`, `promptTokenCount`, … */
const COUNT_NAME = /(?:tokens?|tokencount|requests|queries|search_units)$/i

/** The deepest object within a usage, and the most fields, that are looked at. */
const DEEPEST = 4
const MAX_FIELDS = 10_000

/**
 * Makes a reader of usages that returns an impossible one where any count is negative, a fraction,
 * absurdly large or no number at all. A count that is null or missing is only missing.
 */
export const refuseImpossibleCounts =
  <Rest extends unknown[]>(read: (usage: Json, ...rest: Rest) => Usage | undefined) =>
  (usage: unknown, ...rest: Rest): Usage | undefined => {
    if (!isObject(usage)) return undefined
    return hasImpossibleCount(usage) ? createImpossibleUsage() : read(usage, ...rest)
  }

function hasImpossibleCount(usage: Json): boolean {
  let open: unknown[] = [usage]
  let fields = 0
  for (let depth = 0; depth < DEEPEST && open.length > 0; depth++) {
    const deeper: unknown[] = []
    for (const holder of open as Json[])
      for (const name in holder) {
        const value = holder[name]
        if (++fields > MAX_FIELDS) return true
        if (typeof value === 'object' && value !== null) deeper.push(value)
        // In this order: most values are counts.
        else if (value != null && parseCount(value) === undefined && COUNT_NAME.test(name))
          return true
      }
    open = deeper
  }
  return false
}

/** Where servers of vectors and rankings count what they were given, the surest first. */
const TOKENS = [
  'usage.total_tokens',
  'usage.prompt_tokens',
  'usage.input_tokens',
  'usage.tokens',
  'meta.billed_units.input_tokens',
  'meta.tokens.input_tokens',
  'usageMetadata.promptTokenCount',
  'usageMetadata.totalTokenCount',
  'inputTextTokenCount',
  'inputTokenCount',
  'total_tokens',
  'prompt_tokens',
  'input_tokens',
  'prompt_eval_count',
].map(path => path.split('.'))

/** Counts that come on top of those tokens. */
const MORE_TOKENS = ['meta', 'billed_units', 'image_tokens']

const UNITS = [
  ['usage', 'search_units'],
  ['meta', 'billed_units', 'search_units'],
]

/** The fields of an answer that have counts, or are one. */
const HOLDERS = [...new Set([...TOKENS, ...UNITS].map(([name = '']) => name))]

/**
 * Finds every count of an answer of vectors or rankings, whatever its server calls it: tokens of
 * input, and ranking units. Undefined where there is none.
 */
export function findCounts(answer: Json): Usage | undefined {
  const counts: Json = {}
  for (const name of HOLDERS) if (answer[name] != null) counts[name] = answer[name]
  return readCounts(counts)
}

const readCounts = refuseImpossibleCounts(counts => {
  const units = findCount(counts, UNITS)
  const found = findCount(counts, TOKENS)
  const more = readPath(counts, MORE_TOKENS)
  if (units === undefined && found === undefined && more === undefined) return undefined
  const usage = createTextUsage((found ?? 0) + (more ?? 0), 0)
  return units === undefined ? usage : { ...usage, ...readUnits({ search_unit: units }) }
})

/** Returns the first count of these that is more than none, or else the first. */
function findCount(counts: Json, paths: string[][]): number | undefined {
  const found = paths.flatMap(path => readPath(counts, path) ?? [])
  return found.find(count => count > 0) ?? found[0]
}

function readPath(value: Json, path: string[]): number | undefined {
  const [name = '', ...rest] = path
  if (rest.length === 0) return parseCount(value[name])
  return isObject(value[name]) ? readPath(readObject(value, name), rest) : undefined
}
