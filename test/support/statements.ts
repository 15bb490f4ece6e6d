import { Database } from 'bun:sqlite'
import { readFileSync } from 'node:fs'

const { query } = Database.prototype
const seen = new Set<string>()

/** Notes the text of each statement that any database of this process prepares from now on. */
export function watchStatements(): void {
  Database.prototype.query = function (this: Database, text: string) {
    seen.add(text)
    return query.call(this, text)
  } as typeof query
}

/** Notes nothing more, and returns what was noted. */
export function listStatements(): string[] {
  Database.prototype.query = query
  return [...seen]
}

/**
 * Returns how SQLite runs a statement on the newest schema, a line for each step; no line where the
 * schema does not have what it names.
 */
export function explainPlan(db: Database, text: string): string[] {
  try {
    const steps = db.query<{ detail: string }, []>(`explain query plan ${text}`).all()
    return steps.map(({ detail }) => detail)
  } catch {
    return []
  }
}

/** Opens an empty database in memory with the newest schema. */
export function openSchema(): Database {
  const db = new Database(':memory:')
  const path = new URL('../../src/store/sqlite/schema.sql', import.meta.url)
  db.run(readFileSync(path, 'utf8'))
  return db
}
