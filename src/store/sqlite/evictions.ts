import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import type { EvictedKind, Eviction, EvictionStore } from '../../observability/retention.ts'
import type { Tables } from './tables.ts'

/** Creates the store of the counts of removed rows in SQL. What removes rows writes them. */
export const createEvictionStore = (
  kysely: Kysely<Tables>,
  erase: () => number,
): EvictionStore => ({
  eraseDeleted: async () => erase(),
  all: () => kysely.selectFrom('evictions').selectAll().orderBy('kind').orderBy('reason').execute(),
})

/** Creates the function that counts removed rows, inside the transaction that removes them. */
export function createEvictionCounter(db: Database) {
  const count = db.query(
    'insert into evictions (kind, reason, rows, last_at) values (?, ?, ?, ?) on conflict do ' +
      'update set rows = rows + excluded.rows, last_at = excluded.last_at',
  )
  return ({ kind, reason, rows }: Eviction, now: string): void => {
    if (rows > 0) count.run(kind, reason, rows, now)
  }
}

/**
 * Creates the function that removes some rows from before a time by a statement, and counts them,
 * in one transaction.
 */
export function createRemoval(db: Database, kind: EvictedKind, statement: string) {
  const remove = db.query<unknown, [string]>(statement)
  const count = createEvictionCounter(db)
  const removeSome = db.transaction((time: string, now: string) => {
    const { changes: rows } = remove.run(time)
    count({ kind, reason: 'age', rows }, now)
    return rows
  })
  return async (time: string, now: string): Promise<number> => removeSome.immediate(time, now)
}
