import type { Database } from 'bun:sqlite'
import { MIGRATIONS, type RecordSecrets } from './contents.ts'
import { sealStoredVersions } from './presets/sealing.ts'
import { writeOpening } from './seals/opening.ts'

/** The first version whose rows are sealed. */
const FIRST_SEALED = 13

/**
 * Migrates the database to this program's version, in one transaction. Throws when a newer program
 * has written it. The first migration to a version with seals writes their opening.
 */
export function migrate(db: Database, secrets: RecordSecrets): void {
  const applied = readVersion(db)
  if (applied > MIGRATIONS.length)
    throw new Error(
      `This data directory was written by a newer gateway (schema ${applied}, ` +
        `this one knows ${MIGRATIONS.length})`,
    )
  if (applied < MIGRATIONS.length)
    db.transaction(() => applyMigrations(db, readVersion(db), secrets)).immediate()
}

function applyMigrations(db: Database, applied: number, secrets: RecordSecrets): void {
  for (const migration of MIGRATIONS.slice(applied)) db.run(migration)
  if (applied < FIRST_SEALED) sealRecords(db, secrets)
  db.run(`pragma user_version = ${MIGRATIONS.length}`)
}

function sealRecords(db: Database, { mac, seal }: RecordSecrets): void {
  sealStoredVersions(db, seal)
  writeOpening(db, mac)
}

const readVersion = (db: Database): number =>
  (db.query('pragma user_version').get() as { user_version: number }).user_version
