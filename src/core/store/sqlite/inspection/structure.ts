import type { Database } from 'bun:sqlite'
import { yieldToEventLoop } from '../../../kernel/clock.ts'
import { isLarge } from './size.ts'
import { readDamage } from './slices.ts'

/**
 * Checks the structure of a database. A large one is checked table by table: a reader that stays
 * long keeps the write-ahead log from being used again. What the file has beside tables and their
 * indexes, such as free pages, is then not looked at.
 */
export async function checkStructure(db: Database): Promise<string[]> {
  if (!isLarge(db)) return listFaults(db, 'pragma integrity_check')
  const faults: string[] = []
  for (const table of listTables(db)) {
    await yieldToEventLoop()
    faults.push(...listFaults(db, `pragma integrity_check("${table}")`))
  }
  return faults
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
