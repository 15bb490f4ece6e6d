import type { Kysely } from 'kysely'
import type { EvictedKind, Eviction, EvictionStore } from '../../observability/retention.ts'
import type { Erase } from './erasing.ts'
import type { Tables } from './tables.ts'
import { follow, prepare, type Statement, type Write } from './write.ts'

/** Creates the store of the counts of removed rows in SQL. What removes rows writes them. */
export const createEvictionStore = (kysely: Kysely<Tables>, erase: Erase): EvictionStore => ({
  eraseDeleted: erase,
  all: () => kysely.selectFrom('evictions').selectAll().orderBy('kind').orderBy('reason').execute(),
})

const COUNT = `insert into evictions (kind, reason, rows, last_at) values (?, ?, ?, ?)
  on conflict (kind, reason) do update
  set rows = evictions.rows + excluded.rows, last_at = excluded.last_at`

/** Counts removed rows, in the transaction that removes them. */
export const countEvicted = ({ kind, reason, rows }: Eviction, now: string): Statement[] =>
  rows > 0 ? [prepare(COUNT, kind, reason, rows, now)] : []

/**
 * Creates the function that removes some rows from before a time by a statement that returns one row
 * for each, and counts them, in one transaction.
 */
export const createRemoval =
  (write: Write, kind: EvictedKind, statement: string) =>
  async (time: string, now: string): Promise<number> => {
    let rows = 0
    await write(
      follow(prepare(statement, time), removed => {
        rows = removed.length
        return countEvicted({ kind, reason: 'age', rows }, now)
      }),
    )
    return rows
  }
