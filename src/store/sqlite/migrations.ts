import { Database } from 'bun:sqlite'
import type { Mac } from '../../base/mac.ts'
import { VERSION } from '../../base/version.ts'
import type { RecordSecrets } from '../../limits/seals.ts'
import { MIGRATIONS, SCHEMA } from './contents.ts'
import { anchorRecords } from './generations/sealing.ts'
import { sealStoredVersions } from './presets/sealing.ts'
import { compareRows } from './seals/compare.ts'
import { SealLog } from './seals/log.ts'
import { writeOpening } from './seals/opening.ts'
import { openCreated } from './seals/schema.ts'
import { FIRST_SEALED, listSealedTables } from './seals/tables.ts'

/** Marks a database as a gateway's in its header: `gate` in ASCII. */
const APPLICATION_ID = 0x67617465

/**
 * Migrates the database to this program's version, in one transaction. Throws when a newer program
 * has written it. The first migration to a version with seals writes their opening; later ones
 * move the seals with the rows.
 */
export function migrate(
  db: Database,
  secrets: RecordSecrets,
  migrations: string[] = MIGRATIONS,
): void {
  refuseNewer(db, migrations)
  if (readVersion(db) < migrations.length)
    db.transaction(() => applyMigrations(db, readVersion(db), secrets, migrations)).immediate()
}

/** Throws for a database that a newer program has written. Changes nothing. */
export function refuseNewer(db: Database, migrations: string[] = MIGRATIONS): void {
  const applied = readVersion(db)
  if (applied > migrations.length)
    throw new Error(
      `This data directory was written by a newer gateway: it has schema ${applied}, and this ` +
        `one (${VERSION}) knows ${migrations.length}`,
    )
}

/** Whether a database has records that migrations would change: a new one has none. */
export function needsMigration(db: Database): boolean {
  const applied = readVersion(db)
  return applied > 0 && applied < MIGRATIONS.length
}

/**
 * Throws for a database that another program than a gateway has written. Those of earlier versions
 * have no mark, but a table of its name. Changes nothing.
 */
export function refuseForeign(db: Database): void {
  const { application_id } = db.query('pragma application_id').get() as { application_id: number }
  const names = db.query<{ name: string }, []>('select name from sqlite_schema').all()
  const isUnmarked = names.length === 0 || names.some(({ name }) => name === 'meta')
  if (application_id !== APPLICATION_ID && !(application_id === 0 && isUnmarked))
    throw new Error('This database was written by another program than a gateway')
}

function applyMigrations(
  db: Database,
  applied: number,
  secrets: RecordSecrets,
  migrations: string[],
): void {
  const runMigrations = () => {
    for (const step of listSteps(applied, migrations)) db.run(step)
  }
  if (applied >= FIRST_SEALED) moveSeals(db, secrets.mac, applied, runMigrations)
  else {
    runMigrations()
    sealStoredVersions(db, secrets.presetSeal)
    writeOpening(db, secrets.mac)
  }
  anchorRecords(db, secrets.mac)
  db.run(`pragma user_version = ${migrations.length}`)
  db.run(`pragma application_id = ${APPLICATION_ID}`)
}

/** Lists what leads from a version to the newest: from nothing, the newest schema does. */
const listSteps = (applied: number, migrations: string[]): string[] =>
  applied === 0 && migrations === MIGRATIONS ? SCHEMA : migrations.slice(applied)

let image: Uint8Array | undefined

/**
 * Opens a database in memory, as `migrate` leaves an empty one. Each but the first is a copy,
 * because the migrations take longer than all else about opening one.
 */
export function openInMemory(secrets: RecordSecrets): Database {
  image ??= createImage()
  const db = Database.deserialize(image, { strict: true })
  writeOpening(db, secrets.mac)
  anchorRecords(db, secrets.mac)
  return db
}

function createImage(): Uint8Array {
  const db = openCreated(SCHEMA)
  db.run(`pragma user_version = ${MIGRATIONS.length}`)
  return db.serialize()
}

/** Reads the schema version of a database: how many migrations have been applied. */
export const readVersion = (db: Database): number =>
  (db.query('pragma user_version').get() as { user_version: number }).user_version

/** Whether the database in a file has the schema of this program. */
export function hasOwnSchema(path: string): boolean {
  const db = new Database(path, { readonly: true })
  try {
    return readVersion(db) === MIGRATIONS.length
  } finally {
    db.close()
  }
}

/**
 * Runs migrations and seals again each row that they change, add or remove, whatever their
 * statements are, so that none can forget it. A row that was not as its seal says before stays so.
 * Tables that had no seals yet are sealed as they stand.
 */
function moveSeals(db: Database, mac: Mac, applied: number, runMigrations: () => void): void {
  const log = new SealLog(db, mac)
  const foreign = new Set<string>()
  for (const noun of listSealedTables(applied))
    for (const { id, state } of compareRows(db, log, noun))
      if (state !== 'genuine') foreign.add(buildName(noun, id))
  runMigrations()
  log.move(db, (noun, id) => foreign.has(buildName(noun, id)))
}

const buildName = (noun: string, id: string) => `${noun}\0${id}`
