import { isObject, type Json, parseCount } from '../kernel/json.ts'
import { createImpossibleUsage, type Usage } from '../language/usage.ts'

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
