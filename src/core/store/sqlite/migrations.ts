import type { Database } from 'bun:sqlite'
import { MIGRATIONS } from './contents.ts'

/**
 * Migrates the database to this program's version, in one transaction. Throws when a newer program
 * has written it.
 */
export function migrate(db: Database): void {
  const applied = readVersion(db)
  if (applied > MIGRATIONS.length)
    throw new Error(
      `This data directory was written by a newer gateway (schema ${applied}, ` +
        `this one knows ${MIGRATIONS.length})`,
    )
  if (applied < MIGRATIONS.length)
    db.transaction(() => applyMigrations(db, readVersion(db))).immediate()
}

function applyMigrations(db: Database, applied: number): void {
  for (const migration of MIGRATIONS.slice(applied)) db.run(migration)
  db.run(`pragma user_version = ${MIGRATIONS.length}`)
}

const readVersion = (db: Database): number =>
  (db.query('pragma user_version').get() as { user_version: number }).user_version
