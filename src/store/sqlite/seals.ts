import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import type { Mac } from '../../base/mac.ts'
import type { Seal } from '../../base/seal.ts'
import type { RecordSecrets, SealStore } from '../../limits/seals.ts'
import type { SealedData } from '../own-secret.ts'
import type { Spool } from '../spool.ts'
import { buildEntryInsert } from '../sql/audit.ts'
import { renderAnchor } from '../sql/generations/rows.ts'
import { BlockReader } from '../sql/outbox/blocks.ts'
import type { BundleRow } from '../sql/outbox/bundles.ts'
import { inspectSeals } from '../sql/seals/inspection.ts'
import { encryptAgain, sealAgain } from '../sql/seals/resealing.ts'
import { type Column, isUnproven } from '../sql/seals.ts'
import type { Tables } from '../sql/tables.ts'
import { type Messages, moveIntoRow, renderPayload } from './outbox/messages.ts'
import { takeSteps } from './reader.ts'
import { SealLog } from './seals/log.ts'
import { compareSchemas } from './seals/schema.ts'

/** What the store of seals works with. */
interface SealParts {
  secrets: RecordSecrets
  messages: Messages
  /** What creates the schema that the database has to have. */
  schema: string[]
  getColumns(): Map<string, Column[]>
}

/** Creates the store of seals in SQL. */
export function createSealStore(
  kysely: Kysely<Tables>,
  db: Database,
  { secrets, messages, schema, getColumns }: SealParts,
): SealStore {
  const log = new SealLog(db, secrets.mac)
  const createReader = (mac: Mac) => createSealReader(db, mac, { schema, getColumns })
  return {
    ...createReader(secrets.mac),
    readHead: async () => log.readHead(),
    has: async head => log.has(head),
    listUnsealed: async () => listUnsealed(db),
    under: createReader,
    reseal: async (entry, previous) =>
      db
        .transaction(() => {
          if (previous) encryptStored(db, secrets, previous, messages.spool)
          const insert = buildEntryInsert(kysely, entry).compile()
          takeSteps(db, sealAgain(secrets.mac, getColumns(), insert))
        })
        .immediate(),
  }
}

function createSealReader(
  db: Database,
  mac: Mac,
  { schema, getColumns }: Pick<SealParts, 'schema' | 'getColumns'>,
): Pick<SealStore, 'readOpening' | 'inspect'> {
  const log = new SealLog(db, mac)
  return {
    readOpening: async () => log.readOpening(),
    inspect: async () =>
      db.transaction(() => ({
        schema: compareSchemas(db, schema),
        ...takeSteps(db, inspectSeals(mac, getColumns())),
      }))(),
  }
}

/** Lists the tables whose rows nothing proves. */
const listUnsealed = (db: Database): string[] =>
  db
    .query<{ name: string }, []>(
      "select name from sqlite_schema where type = 'table' order by name",
    )
    .all()
    .map(({ name }) => name)
    .filter(isUnproven)

/** Encrypts again all that the previous secret has encrypted, in the database and in the spool. */
function encryptStored(
  db: Database,
  current: RecordSecrets,
  previous: RecordSecrets,
  spool: Spool | null,
): void {
  takeSteps(db, encryptAgain(current, previous))
  encryptSpooled(db, current.destinationSeal(), previous.destinationSeal(), spool)
}

/** Moves what the previous secret has encrypted in the spool into the database. */
function encryptSpooled(db: Database, current: Seal, previous: Seal, spool: Spool | null): void {
  const reader = new BlockReader(spool, () => previous)
  const next = db.query<BundleRow, [number]>(
    'select * from outbox where segment is not null and sequence > ? order by sequence limit 1',
  )
  for (let row = next.get(0); row; row = next.get(row.sequence)) {
    const payload = renderPayload(row, reader, current)
    if (payload !== null) moveIntoRow(db, row.sequence, payload)
  }
}

/** Tells what a database has that was sealed. Data from before the seals keeps the secret that it has. */
export const readSealedData = (db: Database): SealedData => ({
  isNew: !hasTable(db, 'meta'),
  isSealed: isSealed(db),
  isOf: mac => isOpeningGenuine(db, mac) || isAnchorGenuine(db, mac),
})

const hasTable = (db: Database, name: string): boolean =>
  db.query('select 1 from sqlite_schema where name = ?').get(name) !== null

const isSealed = (db: Database): boolean =>
  hasTable(db, 'seal_log') &&
  db.query('select 1 from seal_log where opening is not null').get() !== null

const isOpeningGenuine = (db: Database, mac: Mac): boolean =>
  new SealLog(db, mac).readOpening() !== null

/** Records have a seal of their own that says where they begin. */
function isAnchorGenuine(db: Database, mac: Mac): boolean {
  if (!hasTable(db, 'record_seals')) return false
  const anchor = db
    .query<{ last_row: number; seal: string }, []>(
      'select last_row, seal from record_seals where columns = 0 order by n limit 1',
    )
    .get()
  return anchor !== null && anchor.seal === mac(renderAnchor(anchor.last_row))
}
