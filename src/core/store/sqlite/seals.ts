import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import type { Mac } from '../../kernel/mac.ts'
import type { RecordSecrets, SealStore } from '../../ledger/seals.ts'
import { buildAuditInsert } from './audit.ts'
import type { Messages } from './outbox/messages.ts'
import { encryptAgain } from './seals/encrypting.ts'
import { SealLog } from './seals/log.ts'
import { writeNewOpening } from './seals/opening.ts'
import { compareSchemas } from './seals/schema.ts'
import { inspectRows, listUnsealed } from './seals/verify.ts'
import { watchTables } from './seals/watch.ts'
import type { Tables } from './tables.ts'

/** The changes that this connection has made and not sealed yet. */
export interface Sealing {
  /** Seals them. It belongs at the end of every transaction. */
  sealChanges(): void
  /** Forgets them, because every row has just been sealed. */
  forgetChanges(): void
}

/**
 * Opens the sealing of what this connection changes. From now on its triggers note every change
 * that it makes in a sealed table, whichever statement makes it. Changes by other programs are not
 * noted, and so never sealed.
 */
export function openSealing(db: Database, mac: Mac): Sealing {
  const log = new SealLog(db, mac)
  const changes = watchTables(db)
  return {
    sealChanges: () => {
      const changed = changes.take()
      if (changed.length > 0) log.append(changed)
    },
    forgetChanges: () => void changes.take(),
  }
}

/** What the store of seals works with. */
interface SealParts {
  sealing: Sealing
  secrets: RecordSecrets
  messages: Messages
  /** What creates the schema that the database has to have. */
  schema: string[]
}

/** Creates the store of seals in SQL. */
export function createSealStore(
  kysely: Kysely<Tables>,
  db: Database,
  { sealing, secrets, messages, schema }: SealParts,
): SealStore {
  const log = new SealLog(db, secrets.mac)
  return {
    ...createSealReader(db, secrets.mac, schema),
    readHead: async () => log.readHead(),
    has: async head => log.has(head),
    listUnsealed: async () => listUnsealed(db),
    under: mac => createSealReader(db, mac, schema),
    reseal: async (entry, previous) =>
      db
        .transaction(() => {
          if (previous) encryptAgain(db, secrets, previous, messages.spool)
          const { sql, parameters } = buildAuditInsert(kysely, entry).compile()
          db.query(sql).run(...(parameters as never[]))
          writeNewOpening(db, secrets.mac)
          sealing.forgetChanges()
        })
        .immediate(),
  }
}

function createSealReader(
  db: Database,
  mac: Mac,
  schema: string[],
): Pick<SealStore, 'readOpening' | 'inspect'> {
  const log = new SealLog(db, mac)
  return {
    readOpening: async () => log.readOpening(),
    inspect: async () =>
      db.transaction(() => ({
        schema: compareSchemas(db, schema),
        ...inspectRows(db, log),
      }))(),
  }
}
