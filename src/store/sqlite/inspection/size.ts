import type { Database } from 'bun:sqlite'

/** In bytes: a database up to this size is checked at one moment, in one thread. */
const SMALL = 64 * 1024 * 1024

/** The names of databases without a file. */
const IN_MEMORY = ['', ':memory:']

/** Whether a database is too large to be checked at one moment. One in memory never is. */
export const isLarge = (db: Database): boolean =>
  !IN_MEMORY.includes(db.filename) && measureDatabase(db) > SMALL

function measureDatabase(db: Database): number {
  const row = db
    .query<{ bytes: number }, []>(
      'select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()',
    )
    .get()
  return row?.bytes ?? 0
}
