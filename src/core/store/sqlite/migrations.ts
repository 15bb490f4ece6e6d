import { Database } from 'bun:sqlite'
import type { RecordSecrets } from '../../ledger/seals.ts'
import { MIGRATIONS } from './contents.ts'
import { sealStoredVersions } from './presets/sealing.ts'
import { moveSeals } from './seals/migrating.ts'
import { writeOpening } from './seals/opening.ts'
import { openMigrated } from './seals/schema.ts'
import { FIRST_SEALED } from './seals/tables.ts'

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
  const applied = readVersion(db)
  if (applied > migrations.length)
    throw new Error(
      `This data directory was written by a newer gateway (schema ${applied}, ` +
        `this one knows ${migrations.length})`,
    )
  if (applied < migrations.length)
    db.transaction(() => applyMigrations(db, readVersion(db), secrets, migrations)).immediate()
}

function applyMigrations(
  db: Database,
  applied: number,
  secrets: RecordSecrets,
  migrations: string[],
): void {
  const runMigrations = () => {
    for (const migration of migrations.slice(applied)) db.run(migration)
  }
  if (applied >= FIRST_SEALED) moveSeals(db, secrets.mac, applied, runMigrations)
  else {
    runMigrations()
    sealStoredVersions(db, secrets.presetSeal)
    writeOpening(db, secrets.mac)
  }
  db.run(`pragma user_version = ${migrations.length}`)
}

let image: Uint8Array | undefined

/**
 * Opens a database in memory, as `migrate` leaves an empty one. Each but the first is a copy,
 * because the migrations take longer than all else about opening one.
 */
export function openInMemory(secrets: RecordSecrets): Database {
  image ??= createImage()
  const db = Database.deserialize(image, { strict: true })
  writeOpening(db, secrets.mac)
  return db
}

function createImage(): Uint8Array {
  const db = openMigrated(MIGRATIONS)
  db.run(`pragma user_version = ${MIGRATIONS.length}`)
  return db.serialize()
}

/** Reads the schema version of a database: how many migrations have been applied. */
export const readVersion = (db: Database): number =>
  (db.query('pragma user_version').get() as { user_version: number }).user_version
