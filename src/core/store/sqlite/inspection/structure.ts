import type { Database } from 'bun:sqlite'
import { yieldToEventLoop } from '../../../kernel/clock.ts'
import { readDamage } from './slices.ts'

/** In bytes: a database up to this size is checked at one moment. */
const SMALL = 64 * 1024 * 1024

/**
 * Checks the structure of a database. A large one is checked table by table: a reader that stays
 * long keeps the write-ahead log from being used again. What the file has beside tables and their
 * indexes, such as free pages, is then not looked at.
 */
export async function checkStructure(db: Database): Promise<string[]> {
  if (measureDatabase(db) <= SMALL) return listFaults(db, 'pragma integrity_check')
  const faults: string[] = []
  for (const table of listTables(db)) {
    await yieldToEventLoop()
    faults.push(...listFaults(db, `pragma integrity_check("${table}")`))
  }
  return faults
}

function measureDatabase(db: Database): number {
  const row = db
    .query<{ bytes: number }, []>(
      'select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()',
    )
    .get()
  return row?.bytes ?? 0
}

function listTables(db: Database): string[] {
  const rows = db
    .query<{ name: string }, []>(
      "select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\'",
    )
    .all()
  return rows.map(({ name }) => name)
}

// What no page can be read of is thrown instead of listed.
function listFaults(db: Database, check: string): string[] {
  try {
    const rows = db.query<{ integrity_check: string }, []>(check).all()
    return rows.map(row => row.integrity_check).filter(line => line !== 'ok')
  } catch (thrown) {
    const reason = readDamage(thrown)
    if (reason === null) throw thrown
    return [reason]
  }
}
