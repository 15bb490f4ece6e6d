import { MAX_USD } from '../../base/money.ts'

/** Whether a field of another service's row says something: 0 of a limit does. */
export const hasValue = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  value !== false &&
  value !== '' &&
  !(typeof value === 'object' && Object.keys(value as object).length === 0)

/**
 * Lists the fields whose names say that they restrict, and of which nothing is known: what they hold
 * a key to is lost, so that it might do more here.
 */
export const listUnknown = (row: Record<string, unknown>, known: string[]): string[] =>
  Object.keys(row)
    .filter(field => RESTRICTS.test(field) && !known.includes(field) && hasValue(row[field]))
    .map(field => `${field.slice(0, 100)}: it is not known here, and may restrict`)

const RESTRICTS =
  /limit|max|min_|allow|block|deny|den[iy]ed|disable|budget|permi|restrict|enforce|guard|polic|quota|scope|only|require/i

/** Reads what was spent, in USD: never less than 0, nor more than a budget can be. */
export const clampSpent = (spent: number | null | undefined): number =>
  Math.min(MAX_USD, Math.max(0, spent ?? 0))

/** Reads a time, which has no zone in some versions and is in UTC. Throws a RangeError for none. */
export function readTime(text: string | null | undefined): string | null {
  if (text == null || text === '') return null
  const hasZone = /(Z|[+-]\d\d:?\d\d)$/i.test(text)
  return new Date(hasZone ? text : `${text}Z`).toISOString()
}
