import type { Database } from 'bun:sqlite'

/** Reads the rows of a table with numbers after `after` and up to `last`, in order. */
type ReadRange<Row> = (after: number, last: number) => Row[]

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
export function readAround<Row>(
  read: ReadRange<Row>,
  after: number,
  last: number,
  unreadable: Unreadable[],
): Row[] {
  try {
    return read(after, last)
  } catch (thrown) {
    const reason = readDamage(thrown)
    if (reason === null) throw thrown
    if (last - after === 1) {
      addUnreadable(unreadable, last, reason)
      return []
    }
    const middle = after + Math.floor((last - after) / 2)
    return [
      ...readAround(read, after, middle, unreadable),
      ...readAround(read, middle, last, unreadable),
    ]
  }
}

function addUnreadable(unreadable: Unreadable[], row: number, reason: string): void {
  const newest = unreadable.at(-1)
  if (newest?.last === row - 1 && newest.reason === reason) newest.last = row
  else unreadable.push({ first: row, last: row, reason })
}

/** Returns what SQLite says about a damaged file; null for any other error. */
export function readDamage(thrown: unknown): string | null {
  if (!(thrown instanceof Error && 'code' in thrown)) return null
  const code = String(thrown.code)
  return code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB' ? thrown.message : null
}

/** Renders rows that cannot be read, with their table and file. */
export const renderUnreadable = (
  db: Database,
  table: string,
  { first, last, reason }: Unreadable,
): string =>
  `${table} ${first === last ? `row ${first}` : `rows ${first} to ${last}`} of ${db.filename} ` +
  `cannot be read (${reason})`
