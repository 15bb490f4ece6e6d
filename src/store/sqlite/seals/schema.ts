import { Database } from 'bun:sqlite'

/**
 * Compares the database with one that these statements create: every table, index and trigger must
 * be there as this program made it, and no other. A trigger of someone else could lower what is
 * spent; a missing one no longer protects the audit trail.
 */
export function compareSchemas(db: Database, created: string[]): string[] {
  const expected = readExpected(created)
  const found = readSchema(db)
  return [...new Set([...expected.keys(), ...found.keys()])].flatMap(name => {
    if (expected.get(name) === found.get(name)) return []
    if (!found.has(name)) return `the ${name} is missing`
    return `the ${name} was ${expected.has(name) ? 'changed' : 'added'} by another program`
  })
}

/** The schemas that statements create: to run them takes longer than all comparisons. */
const schemas = new WeakMap<string[], Map<string, string>>()

function readExpected(statements: string[]): Map<string, string> {
  const known = schemas.get(statements)
  if (known) return known
  using db = openCreated(statements)
  const schema = readSchema(db)
  schemas.set(statements, schema)
  return schema
}

/** Opens a database in memory in which only these statements were run. */
export function openCreated(statements: string[]): Database {
  const db = new Database(':memory:')
  for (const statement of statements) db.run(statement)
  return db
}

/** Reads what creates each table, index and trigger, in the order in which they were created. */
export const readSchema = (db: Database): Map<string, string> =>
  new Map(
    db
      .query<{ type: string; name: string; sql: string | null }, []>(
        "select type, name, sql from main.sqlite_schema where name not like 'sqlite\\_%' " +
          "escape '\\' order by rowid",
      )
      .all()
      .map(({ type, name, sql }) => [`${type} ${name}`, sql ?? '']),
  )
