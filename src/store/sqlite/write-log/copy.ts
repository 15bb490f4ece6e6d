import { Database } from 'bun:sqlite'

/** How often what was written meanwhile is copied too, so that the log can begin anew. */
const ROUNDS = 5

/** What a copy of a log came to, in pages. */
interface Copied {
  busy: number
  log: number
  checkpointed: number
}

/**
 * Copies the write-ahead log of the database at a path into its file, and waits for no reader or
 * writer. Returns whether all of it was copied: then the next write begins the log anew. Throws what
 * SQLite throws.
 */
export function copyLog(path: string): boolean {
  const db = new Database(path, { readwrite: true, create: false })
  try {
    // Not a cached query: it is run a few times, by a connection that is closed after them.
    const checkpoint = db.prepare<Copied, []>('pragma wal_checkpoint(passive)')
    try {
      return copyRounds(() => checkpoint.get())
    } finally {
      checkpoint.finalize()
    }
  } finally {
    db.close()
  }
}

function copyRounds(copy: () => Copied | null): boolean {
  for (let round = 0; round < ROUNDS; round++) {
    const copied = copy()
    if (copied?.busy !== 0) return false
    if (copied.log === copied.checkpointed) return true
  }
  return false
}
