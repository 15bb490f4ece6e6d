import type { Database } from 'bun:sqlite'
import { yieldToEventLoop } from '../../base/clock.ts'
import type { Inspected } from '../sql/reading.ts'
import { createVerifier } from '../sql/rollups/verify.ts'
import { readAhead } from './inspection/read-ahead.ts'
import { isLarge } from './inspection/size.ts'
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
