/** The Worker's side: checks a database beside the thread that reads the chain and the records. */

import { Database } from 'bun:sqlite'
import { CHECKS, type CheckAnswer, type CheckRequest } from '../inspection.ts'

self.onmessage = async ({ data }: MessageEvent<CheckRequest>) => {
  postMessage(await check(data))
}

async function check({ check: name, path }: CheckRequest): Promise<CheckAnswer> {
  try {
    const db = new Database(path, { readonly: true, strict: true })
    try {
      applyPragmas(db)
      return { problems: await CHECKS[name](db) }
    } finally {
      db.close()
    }
  } catch (thrown) {
    return { failure: thrown instanceof Error ? thrown.message : String(thrown) }
  }
}

/** In kibibytes: what one check reads again and again is near. */
const CACHE = 65_536

function applyPragmas(db: Database): void {
  db.run('pragma busy_timeout = 5000')
  db.run('pragma trusted_schema = off')
  db.run('pragma cell_size_check = on')
  db.run('pragma temp_store = memory')
  db.run(`pragma cache_size = -${CACHE}`)
}
