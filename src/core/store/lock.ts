import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { conflict } from '../errors.ts'
import { makeDataDirectory } from './data-directory.ts'

/**
 * Locks the data directory against other servers, and returns the function that unlocks it. The
 * lock is the operating system's own, held through SQLite. It ends with the process, however that
 * ends, and is never left behind. Throws 409 when another server holds it, and
 * 403 when other users may write there.
 */
export function lockData(data: string): () => void {
  makeDataDirectory(data)
  const db = new Database(join(data, 'serve.lock'), { create: true })
  try {
    db.run('pragma busy_timeout = 0')
    db.run('pragma locking_mode = exclusive')
    db.run('begin exclusive')
  } catch {
    db.close()
    throw conflict(`Another gateway serves from ${data}`)
  }
  return () => db.close()
}
