import { Database } from 'bun:sqlite'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { conflict } from '../errors.ts'

/**
 * Keeps every other server out of the data directory, and returns how to let go. The lock is the operating system's own, held
 * through SQLite: it goes with the process, however that ends, and never stays behind. Throws 409 when another server has it.
 */
export function lockData(data: string): () => void {
  mkdirSync(data, { recursive: true, mode: 0o700 })
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
