import type { Database } from 'bun:sqlite'
import { conflict } from '../../errors.ts'
import type { App } from '../../telemetry/rollups/apps.ts'
import { parseDay } from '../../telemetry/rollups/calls.ts'
import type { FreshCalls } from '../../telemetry/rollups/slice.ts'
import type { RollupStore } from '../../telemetry/rollups.ts'
import { runCheck } from './inspection/apart.ts'
import { createAdvance } from './rollups/advance.ts'
import { createCallReader } from './rollups/calls.ts'
import { createCellReader } from './rollups/sessions.ts'
import { createSumReader } from './rollups/sums.ts'
import { retryWhileLocked } from './write.ts'

/** What is forgotten when the roll-ups are computed again. Groups and apps keep their ids. */
const MADE_TABLES = [
  'usage_hours',
  'usage_days',
  'usage_endpoint_days',
  'usage_rows',
  'usage_sessions',
  'rollup_cursor',
]

/** Creates the store of roll-ups in SQL over `fresh` calls, which the store of records notes. Its statements are prepared when they are first used. */
export function createRollupStore(db: Database, fresh: FreshCalls): RollupStore {
  const calls = createCallReader(db)
  const advance = createAdvance(db, calls, fresh)
  const sum = createSumReader(db)
  const listCells = createCellReader(db)
  const reset = db.transaction(() => {
    if (hasLostRows(db)) throw conflict('Older calls are no longer on record: their sums stay')
    for (const table of MADE_TABLES) db.run(`delete from ${table}`)
  })
  return {
    advance: limit => retryWhileLocked(() => advance(limit)),
    reset: () => retryWhileLocked(() => reset.immediate()),
    sum: async query => sum(query),
    findHours: async () => findHours(db),
    findComplete: async () => findComplete(db),
    findRows: async (from, until) => findRows(db, from, until),
    listCalls: async (after, last, limit) => calls(after, last, limit),
    listApps: async () =>
      db.query<App, []>('select id, identity, name, slug from apps order by id').all(),
    listSessionCells: async (week, bounds) => listCells(week, bounds),
    verify: () => runCheck(db, 'roll-ups'),
  }
}

function hasLostRows(db: Database): boolean {
  const counted = db.query<{ row: number | null }, []>(
    'select min(first_row) as row from usage_rows',
  )
  const present = db.query<{ row: number | null }, []>('select min(rowid) as row from generations')
  const first = counted.get()?.row ?? null
  const oldest = present.get()?.row ?? null
  return first !== null && (oldest === null || oldest > first)
}

function findHours(db: Database) {
  // Two statements, as each alone reads one end of the index.
  const first = db.query<{ hour: number | null }, []>('select min(start) as hour from usage_rows')
  const last = db.query<{ hour: number | null }, []>('select max(start) as hour from usage_rows')
  const hours = [first.get()?.hour ?? null, last.get()?.hour ?? null] as const
  return hours[0] === null || hours[1] === null ? null : { first: hours[0], last: hours[1] }
}

// Retention removes whole days, and corrections of older ones may outlive them.
function findComplete(db: Database): number {
  const row = db.query<{ day: string | null }, []>('select max(day) as day from evicted_days').get()
  const day = row?.day ? parseDay(row.day) : null
  return day === null ? 0 : (day + 1) * HOURS
}

const HOURS = 24

function findRows(db: Database, from: number, until: number) {
  const query = db.query<{ first: number | null; last: number | null }, [number, number]>(
    'select min(first_row) as first, max(last_row) as last from usage_rows ' +
      'where start >= ? and start < ?',
  )
  const { first = null, last = null } = query.get(from, until) ?? {}
  return first === null || last === null ? null : { first, last }
}
