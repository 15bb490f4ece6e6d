import { Database } from 'bun:sqlite'
import { join } from 'node:path'

/**
 * Opens the database of a data directory beside its server. A statement waits up to 5 s for a lock,
 * since the server writes when it wants to; SQLite's default is to fail at once.
 */
export function openDatabase(
  data: string,
  options: ConstructorParameters<typeof Database>[1] = { readwrite: true, create: true },
): Database {
  const db = new Database(join(data, 'gateway.db'), options)
  db.run('pragma busy_timeout = 5000')
  return db
}
