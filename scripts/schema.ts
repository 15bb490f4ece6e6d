import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { MIGRATIONS } from '../src/core/store/sqlite/contents.ts'
import { openCreated } from '../src/core/store/sqlite/seals/schema.ts'

/** Writes `schema.sql`: what all migrations lead to, where a new database begins. */
const FILE = join(import.meta.dir, '../src/core/store/sqlite/schema.sql')
const HEAD =
  '-- What all migrations lead to: a new database begins here. `bun run schema` writes it.'

/** Renders the statements that create the schema and the rows of a database. */
export function renderSchema(db: Database): string {
  const statements = db
    .query<{ type: string; name: string; sql: string }, []>(
      'select type, name, sql from sqlite_schema where sql is not null ' +
        "and name not like 'sqlite\\_%' escape '\\' order by rowid",
    )
    .all()
  const tables = statements.filter(({ type }) => type === 'table').map(({ name }) => name)
  const inserts = tables.flatMap(table => renderInserts(db, table))
  return [HEAD, ...statements.map(({ sql }) => `${sql};`), ...inserts, ''].join('\n\n').trimEnd()
}

function renderInserts(db: Database, table: string): string[] {
  const columns = db
    .query<{ name: string }, []>(`pragma table_info(${table})`)
    .all()
    .map(({ name }) => name)
  const values = columns.map(name => `quote("${name}")`).join(" || ', ' || ")
  return db
    .query<{ row: string }, []>(`select ${values} as row from ${table}`)
    .all()
    .map(({ row }) => `insert into ${table} (${columns.join(', ')}) values (${row});`)
}

if (import.meta.main) {
  using db = openCreated(MIGRATIONS)
  await Bun.write(FILE, `${renderSchema(db)}\n`)
}
