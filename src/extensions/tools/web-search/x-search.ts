import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../../base/errors.ts'
import { closed, list, optional } from '../../../base/schema-builders.ts'
import { requireMatch } from '../parameters.ts'

const Handles = optional(
  list(Type.String({ pattern: '^@?[A-Za-z0-9_]{1,64}$', title: 'the name of an account' }), {
    maxItems: 20,
  }),
)
const Day = optional(
  Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', maxLength: 10, title: 'a day: 2026-03-04' }),
)

/** What a search of X is limited to (wire reference C.4, `XSearchOptions`). */
export const XSearchOptions = Type.Object(
  {
    allowed_x_handles: Handles,
    excluded_x_handles: Handles,
    from_date: Day,
    to_date: Day,
    enable_image_understanding: optional(Type.Boolean()),
    enable_video_understanding: optional(Type.Boolean()),
  },
  closed,
)
export type XSearchOptions = Static<typeof XSearchOptions>

/** Why the engines of the gateway do not search X. */
export const NO_X_SEARCH = 'only xAI searches X, over its Responses API'

/**
 * Reads what a search of X is limited to; null for no such search. Throws 400 naming the field, also
 * for limits that contradict each other.
 */
export function readXSearch(value: unknown, path: string): XSearchOptions | null {
  if (value == null) return null
  const options = requireMatch(XSearchOptions, value, path)
  const { allowed_x_handles, excluded_x_handles, from_date, to_date } = options
  if (allowed_x_handles?.length && excluded_x_handles?.length)
    throw invalid(
      `${path}.excluded_x_handles: expected none beside allowed_x_handles`,
      `${path}.excluded_x_handles`,
    )
  for (const name of ['from_date', 'to_date'] as const) {
    const day = options[name]
    if (day != null && !isDay(day))
      throw invalid(`${path}.${name}: expected a day, such as 2026-03-04`, `${path}.${name}`)
  }
  if (from_date != null && to_date != null && from_date > to_date)
    throw invalid(`${path}.to_date: expected no day before from_date`, `${path}.to_date`)
  return options
}

// 2026-02-31 is none.
function isDay(text: string): boolean {
  const day = new Date(`${text}T00:00:00Z`)
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text)
}
