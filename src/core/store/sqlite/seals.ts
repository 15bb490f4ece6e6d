import type { Database } from 'bun:sqlite'
import type { Mac } from '../../kernel/mac.ts'
import type { SealStore } from '../../ledger/seals.ts'
import { SealLog } from './seals/log.ts'
import { compareSchemas } from './seals/schema.ts'
import { watchTables } from './seals/tables.ts'
import { inspectRows } from './seals/verify.ts'

/**
 * Opens the function that seals what was changed since its last call; it belongs at the end of
 * every transaction. From now on triggers of this connection note every change that it makes in a
 * sealed table, whichever statement makes it. Changes by other programs are not noted, and so never
 * sealed.
 */
export function openSealing(db: Database, mac: Mac): () => void {
  const log = new SealLog(db, mac)
  const changes = watchTables(db)
  return () => {
    const changed = changes.take()
    if (changed.length > 0) log.append(changed)
  }
}

/** Creates the store of seals in SQL. */
export function createSealStore(db: Database, mac: Mac, migrations: string[]): SealStore {
  const log = new SealLog(db, mac)
  return {
    readOpening: async () => log.readOpening(),
    readHead: async () => log.readHead(),
    has: async head => log.has(head),
    inspect: async () =>
      db.transaction(() => ({
        schema: compareSchemas(db, migrations),
        ...inspectRows(db, log),
      }))(),
  }
}
