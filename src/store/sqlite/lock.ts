import { Database } from 'bun:sqlite'
import { closeSync } from 'node:fs'
import { join } from 'node:path'
import { conflict, GatewayError } from '../../base/errors.ts'
import { makeDataDirectory } from '../data-directory.ts'
import { hasCode, openDataFile } from '../data-files.ts'
import { nameDatabase } from './write.ts'

/**
 * Locks the data directory against other servers, and returns the function that unlocks it. The
 * lock is the operating system's own, held through SQLite. It ends with the process, however that
 * ends, and is never left behind. Throws 409 when another server holds it, and
 * 403 when other users may write there, and what the system throws where there can be no lock.
 */
export function lockData(data: string): () => void {
  makeDataDirectory(data)
  return lockFile(join(data, 'serve.lock'), `Another gateway serves from ${data}`)
}

/**
 * Locks a file of the data directory, as `lockData` does. Throws 409 with this message when another
 * process holds it.
 */
export function lockFile(path: string, message: string): () => void {
  // The system says why a file cannot be written; SQLite would say only that it cannot be opened.
  closeSync(openDataFile(path, 'append'))
  try {
    return lockDatabase(path, message)
  } catch (thrown) {
    // A lock has no content to lose. A process that holds it would have been seen before this.
    if (!hasCode(thrown, 'SQLITE_NOTADB')) throw thrown
    closeSync(openDataFile(path, 'replace'))
    return lockDatabase(path, message)
  }
}

function lockDatabase(path: string, message: string): () => void {
  const db = nameDatabase(path, () => new Database(path, { create: true }))
  try {
    nameDatabase(path, () => {
      db.run('pragma busy_timeout = 0')
      db.run('pragma locking_mode = exclusive')
      db.run('begin exclusive')
    })
  } catch (thrown) {
    db.close()
    throw isBusy(thrown) ? conflict(message) : thrown
  }
  return () => db.close()
}

/** Locks as `lock` does, but returns null when another process holds it. */
export function tryLock(lock: () => () => void): (() => void) | null {
  try {
    return lock()
  } catch (thrown) {
    if (thrown instanceof GatewayError && thrown.type === 'conflict') return null
    throw thrown
  }
}

const isBusy = (thrown: unknown): boolean =>
  thrown instanceof Error && 'code' in thrown && String(thrown.code).startsWith('SQLITE_BUSY')
