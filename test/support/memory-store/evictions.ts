import type { Eviction, EvictionStore } from '../../../src/observability/retention.ts'
import type { Connection, Memory } from './memory.ts'
import { compareByFields } from './table.ts'

/** The counts of removed rows in memory. What is deleted there goes with all that is in it. */
export const createMemoryEvictionStore = (connection: Connection): EvictionStore => ({
  eraseDeleted: async () => 0,
  all: () =>
    connection.read(({ evictions }) => evictions.all().sort(compareByFields('kind', 'reason'))),
})

/** Counts removed rows, in the transaction that removes them. */
export function countEviction({ evictions }: Memory, eviction: Eviction, now: string): void {
  const { kind, reason, rows } = eviction
  if (rows === 0) return
  const name = `${kind} ${reason}`
  const before = evictions.get(name)
  if (before) evictions.update(name, { rows: before.rows + rows, last_at: now })
  else evictions.insert(name, { ...eviction, last_at: now })
}
