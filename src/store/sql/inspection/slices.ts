import type { Reader, Reading } from '../reading.ts'

/** Reads the rows of a table with numbers after `after` and up to `last`, in order. */
type ReadRange<Row> = (after: number, last: number) => Reading<Row[]>

/** What of a table cannot be read: the numbers of its rows. */
export interface Unreadable {
  first: number
  last: number
  reason: string
}

/**
 * Reads a range of rows. Where the file is damaged, it reads in halves around what cannot be read,
 * and adds that to `unreadable`: one damaged page hides no other row.
 */
export function* readAround<Row>(
  { readDamage }: Pick<Reader, 'readDamage'>,
  read: ReadRange<Row>,
  [after, last]: [after: number, last: number],
  unreadable: Unreadable[],
): Reading<Row[]> {
  try {
    return yield* read(after, last)
  } catch (thrown) {
    const reason = readDamage(thrown)
    if (reason === null) throw thrown
    if (last - after === 1) {
      addUnreadable(unreadable, last, reason)
      return []
    }
    const middle = after + Math.floor((last - after) / 2)
    const readHalf = (from: number, to: number) =>
      readAround({ readDamage }, read, [from, to], unreadable)
    return [...(yield* readHalf(after, middle)), ...(yield* readHalf(middle, last))]
  }
}

function addUnreadable(unreadable: Unreadable[], row: number, reason: string): void {
  const newest = unreadable.at(-1)
  if (newest?.last === row - 1 && newest.reason === reason) newest.last = row
  else unreadable.push({ first: row, last: row, reason })
}

/** Renders rows that cannot be read, with their table and database. */
export const renderUnreadable = (
  name: string,
  table: string,
  { first, last, reason }: Unreadable,
): string =>
  `${table} ${first === last ? `row ${first}` : `rows ${first} to ${last}`} of ${name} ` +
  `cannot be read (${reason})`
