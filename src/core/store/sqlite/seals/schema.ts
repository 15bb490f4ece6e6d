import { Database } from 'bun:sqlite'

/**
 * Compares the database with one that has only been migrated: every table, index and trigger must
 * be there as this program made it, and no other. A trigger of someone else could lower what is
 * spent; a missing one no longer protects the audit trail.
 */
export function compareSchemas(db: Database, migrations: string[]): string[] {
  const expected = readExpected(migrations)
  const found = readSchema(db)
  return [...new Set([...expected.keys(), ...found.keys()])].flatMap(name => {
    if (expected.get(name) === found.get(name)) return []
    if (!found.has(name)) return `the ${name} is missing`
    return `the ${name} was ${expected.has(name) ? 'changed' : 'added'} by another program`
  })
}

/** The schemas that migrations lead to: to apply them takes longer than all comparisons. */
const schemas = new WeakMap<string[], Map<string, string>>()

function readExpected(migrations: string[]): Map<string, string> {
  const known = schemas.get(migrations)
  if (known) return known
  using db = openMigrated(migrations)
  const schema = readSchema(db)
  schemas.set(migrations, schema)
  return schema
}

/** Opens a database in memory to which only these migrations were applied. */
export function openMigrated(migrations: string[]): Database {
  const db = new Database(':memory:')
  for (const migration of migrations) db.run(migration)
  return db
}

const readSchema = (db: Database): Map<string, string> =>
  new Map(
    db
      .query<{ type: string; name: string; sql: string | null }, []>(
        "select type, name, sql from main.sqlite_schema where name not like 'sqlite\\_%' escape '\\'",
      )
      .all()
      .map(({ type, name, sql }) => [`${type} ${name}`, sql ?? '']),
  )
