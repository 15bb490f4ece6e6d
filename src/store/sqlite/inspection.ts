import type { Database } from 'bun:sqlite'
import { open, read } from 'node:fs'
import { promisify } from 'node:util'
import { yieldToEventLoop } from '../../base/clock.ts'
import { readMemoryBytes } from '../../base/machine.ts'
import type { Inspected } from '../sql/reading.ts'
import { createVerifier } from '../sql/rollups/verify.ts'
import { createStepper, ENDPOINT_ID, readDamage } from './reader.ts'

/** Opens a database for an inspection. A large one is read ahead, and checked apart. */
export const openInspected = (db: Database): Inspected => ({
  ...createStepper(db),
  name: db.filename,
  checkStructure: () => runCheck(db, 'structure'),
  prepare: async () => (isLarge(db) ? readAhead(db.filename) : null),
})

/** Checks that need nothing but the database, and return what they find wrong. */
export const CHECKS = {
  structure: checkStructure,
  'roll-ups': (db: Database) => createVerifier(createStepper(db), ENDPOINT_ID)(),
}
type CheckName = keyof typeof CHECKS

/** What a Worker is asked, and what it answers. */
export interface CheckRequest {
  check: CheckName
  path: string
}
export type CheckAnswer = { problems: string[] } | { failure: string }

/**
 * Runs a check of a database, and returns what is wrong. That of a large one runs in a thread of its
 * own, with a connection of its own, beside the others. Throws what the check throws.
 */
export async function runCheck(db: Database, check: CheckName): Promise<string[]> {
  if (!isLarge(db)) return CHECKS[check](db)
  await readAhead(db.filename)
  return runCheckApart({ check, path: db.filename })
}

/** Runs a check of the database at a path in a thread of its own. Throws as it does. */
export async function runCheckApart(request: CheckRequest): Promise<string[]> {
  const worker = new Worker(getWorkerUrl().href)
  try {
    const answer = await ask(worker, request)
    if ('failure' in answer) throw new Error(answer.failure)
    return answer.problems
  } finally {
    worker.terminate()
  }
}

const ask = (worker: Worker, request: CheckRequest): Promise<CheckAnswer> =>
  new Promise((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<CheckAnswer>) => resolve(data)
    worker.onerror = ({ message }) => reject(new Error(message))
    worker.postMessage(request)
  })

// In the compiled binary, entry points keep their paths in src, and all other modules are at the
// root.
const getWorkerUrl = () =>
  new URL(
    Bun.isStandaloneExecutable ? './store/sqlite/inspection/worker.ts' : './inspection/worker.ts',
    import.meta.url,
  )

/**
 * Checks the structure of a database. A large one is checked table by table: a reader that stays
 * long keeps the write-ahead log from being used again. What the file has beside tables and their
 * indexes, such as free pages, is then not looked at.
 */
async function checkStructure(db: Database): Promise<string[]> {
  if (!isLarge(db)) return listFaults(db, 'pragma integrity_check')
  const faults: string[] = []
  for (const table of listTables(db)) {
    await yieldToEventLoop()
    faults.push(...listFaults(db, `pragma integrity_check("${table}")`))
  }
  return faults
}

function listTables(db: Database): string[] {
  const rows = db
    .query<{ name: string }, []>(
      "select name from sqlite_schema where type = 'table' and name not like 'sqlite\\_%' escape '\\'",
    )
    .all()
  return rows.map(({ name }) => name)
}

// What no page can be read of is thrown instead of listed.
function listFaults(db: Database, check: string): string[] {
  try {
    const rows = db.query<{ integrity_check: string }, []>(check).all()
    return rows.map(row => row.integrity_check).filter(line => line !== 'ok')
  } catch (thrown) {
    const reason = readDamage(thrown)
    if (reason === null) throw thrown
    return [reason]
  }
}

const [openFile, readFile] = [promisify(open), promisify(read)]

/** How many bytes one read takes. */
const AT_ONCE = 4 * 1024 * 1024
/** Of a machine's memory: a larger file would push itself out again. */
const LARGEST_SHARE = 0.5

/**
 * Files that were read ahead, by path. They stay open until the process ends: to close one drops
 * every lock that SQLite holds on it in this process (POSIX, `fcntl`).
 */
const descriptors = new Map<string, Promise<number>>()
const running = new Map<string, Promise<number>>()

/**
 * Reads a file once from its beginning to its end, so that the system has it in memory: a disk
 * gives it in order many times faster than page by page. Returns how many bytes were read: 0 of a
 * file that is larger than half of the memory. Two at the same time are one. What cannot be read
 * is left to the reader who needs it.
 */
export function readAhead(path: string, memory = readMemoryBytes()): Promise<number> {
  const found = running.get(path)
  if (found) return found
  const reading = readWhole(path, memory * LARGEST_SHARE)
    .catch(() => 0)
    .finally(() => running.delete(path))
  running.set(path, reading)
  return reading
}

async function readWhole(path: string, largest: number): Promise<number> {
  if (Bun.file(path).size > largest) return 0
  const opened = descriptors.get(path) ?? openFile(path, 'r')
  descriptors.set(path, opened)
  const descriptor = await opened
  const buffer = new Uint8Array(AT_ONCE)
  for (let position = 0; ; ) {
    const { bytesRead } = await readFile(descriptor, buffer, 0, AT_ONCE, position)
    if (bytesRead === 0) return position
    position += bytesRead
  }
}

/** In bytes: a database up to this size is checked at one moment, in one thread. */
const SMALL = 64 * 1024 * 1024

/** The names of databases without a file. */
const IN_MEMORY = ['', ':memory:']

/** Whether a database is too large to be checked at one moment. One in memory never is. */
const isLarge = (db: Database): boolean =>
  !IN_MEMORY.includes(db.filename) && measureDatabase(db) > SMALL

function measureDatabase(db: Database): number {
  const row = db
    .query<{ bytes: number }, []>(
      'select page_count * page_size as bytes from pragma_page_count(), pragma_page_size()',
    )
    .get()
  return row?.bytes ?? 0
}
