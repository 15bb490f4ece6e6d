import type { Database } from 'bun:sqlite'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Gateway } from '../../src/app/gateway.ts'
import { listHeldCalls } from '../../src/store/hold-journal.ts'
import { UNMATCHED } from '../../src/store/sql/inspection.ts'
import { openDatabaseNow } from './database.ts'

/** Keys whose counter is not the sum of their rows in the ledger. */
const MISCOUNTED = `select key_hash from (
    select key_hash, byok, nanos from ledger
    union all select key_hash, byok, -nanos from spend
  ) group by key_hash, byok having sum(nanos) <> 0`

/** Calls that are charged twice for a step. */
const TWICE = 'select id from ledger group by id, step having count(*) > 1'

/**
 * Throws unless the invariants hold that any server leaves behind, however it ended: I1 counters are
 * the sums of the ledger; I5 no key is anywhere in its files; I8 each call has one outcome, and is
 * charged once what its record says. Every server of the shared support is checked when it stops.
 */
export function requireBooks(data: string, secrets: string[]): void {
  if (!existsSync(join(data, 'gateway.db'))) return
  // Records that still wait in the log of a killed server are with their charges nowhere yet.
  const db = openDatabaseNow(data, { readonly: true, strict: true })
  try {
    const broken = [...listBroken(db, data), ...listLeaks(data, secrets)]
    if (broken.length > 0) throw new Error(`Invariants do not hold: ${broken.join('; ')}`)
  } finally {
    db.close()
  }
}

/** Throws unless nothing is in flight (I4) and nothing is held (I2) in a server that has stopped. */
export function requireRest(gateway: Gateway): void {
  const left = countRunning(gateway)
  if (gateway.recorder.healthy && Object.values(left).some(count => count > 0))
    throw new Error(`Invariants do not hold: I2 or I4: ${JSON.stringify(left)}`)
}

/** Counts what runs in a gateway, and the money that is held for it, but for jobs that go on. */
export function countRunning({ traffic, ledger, videos }: Gateway) {
  const { calls, memory } = traffic.admission
  const ofJobs = new Set(videos.listHolds())
  return {
    calls: traffic.calls.size,
    places: calls.used,
    bytes: memory.used,
    readOns: traffic.readOns.size,
    background: traffic.background.size,
    holds: ledger.listHolds().filter(hold => hold.isOpen && !ofJobs.has(hold)).length,
  }
}

function listBroken(db: Database, data: string): string[] {
  const record = db.query('select 1 from generations where id = ?')
  const held = listHeldCalls(data)
  const running = new Set(held.flatMap(({ id }) => (record.get(id) ? [] : [id])))
  const list = (name: string, sql: string) =>
    (db.query(sql).values() as [string][])
      .filter(([id]) => !running.has(id))
      .map(([id]) => `${name}: ${id}`)
  return [...list('I1', MISCOUNTED), ...list('I8', TWICE), ...list('I8', UNMATCHED)]
}

function listLeaks(data: string, secrets: string[]): string[] {
  const known = secrets.filter(secret => secret !== '')
  return readdirSync(data, { withFileTypes: true })
    .filter(entry => entry.isFile())
    .filter(({ name }) => {
      const bytes = readFileSync(join(data, name))
      return known.some(secret => bytes.includes(secret))
    })
    .map(({ name }) => `I5: ${name}`)
}
