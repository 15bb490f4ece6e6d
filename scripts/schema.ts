import type { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { MIGRATIONS } from '../src/store/sqlite/migrations.ts'
import { openCreated, readSchema } from '../src/store/sqlite/seals/schema.ts'

/** Writes `schema.sql`: what all migrations lead to, where a new database begins. */
const FILE = join(import.meta.dir, '../src/store/sqlite/schema.sql')
const HEAD =
  '-- What all migrations lead to: a new database begins here. `bun run schema` writes it.'

/** Renders the statements that create the schema and the rows of a database. */
export function renderSchema(db: Database): string {
  const schema = readSchema(db)
  const creations = [...schema.values()].map(sql => `${sql};`)
  const tables = [...schema.keys()].flatMap(name => /^table (.+)$/.exec(name)?.[1] ?? [])
  return [HEAD, ...creations, ...tables.flatMap(table => renderInserts(db, table))].join('\n\n')
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
  if (process.argv.length > 2) {
    process.stderr.write('usage: bun run schema\n')
    process.exit(2)
  }
  using db = openCreated(MIGRATIONS)
  await Bun.write(FILE, `${renderSchema(db)}\n`)
}
