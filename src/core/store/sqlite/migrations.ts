import type { Database } from 'bun:sqlite'
import first from './migrations/001-first.sql' with { type: 'text' }
import presets from './migrations/002-presets.sql' with { type: 'text' }
import byok from './migrations/003-byok.sql' with { type: 'text' }
import audit from './migrations/004-audit.sql' with { type: 'text' }
import workspaces from './migrations/005-workspaces.sql' with { type: 'text' }
import guardrails from './migrations/006-guardrails.sql' with { type: 'text' }
import scim from './migrations/007-scim.sql' with { type: 'text' }
import contentFilters from './migrations/008-content-filters.sql' with { type: 'text' }
import ledger from './migrations/009-ledger.sql' with { type: 'text' }
import credits from './migrations/010-credits.sql' with { type: 'text' }
import routing from './migrations/011-routing.sql' with { type: 'text' }
import outboxAndSteps from './migrations/012-outbox-steps.sql' with { type: 'text' }

/** Every migration, in order. A released one is never changed; the version is how many have been applied. */
const MIGRATIONS: string[] = [
  first, //
  presets,
  byok,
  audit,
  workspaces,
  guardrails,
  scim,
  contentFilters,
  ledger,
  credits,
  routing,
  outboxAndSteps,
]

/** Brings the database to this program's version, each step whole or not at all. Throws when it was written by a newer one. */
export function migrate(db: Database): void {
  const applied = versionOf(db)
  if (applied > MIGRATIONS.length)
    throw new Error(`This data directory was written by a newer gateway (schema ${applied}, this one knows ${MIGRATIONS.length})`)
  if (applied < MIGRATIONS.length) db.transaction(() => applyFrom(db, versionOf(db))).immediate()
}

function applyFrom(db: Database, applied: number): void {
  for (const migration of MIGRATIONS.slice(applied)) db.run(migration)
  db.run(`pragma user_version = ${MIGRATIONS.length}`)
}

const versionOf = (db: Database): number => (db.query('pragma user_version').get() as { user_version: number }).user_version
