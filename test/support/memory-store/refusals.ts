import type {
  RefusalFilter,
  RefusalStore,
  StoredRefusal,
} from '../../../src/observability/refusals.ts'
import { countEviction } from './evictions.ts'
import type { Connection } from './memory.ts'

/** Refusals in memory. */
export const createMemoryRefusalStore = (connection: Connection): RefusalStore => ({
  add: (added, counts, keep) =>
    connection.write(({ refusals, counters }) => {
      for (const refusal of added) {
        const sequence = (counters.get('refusals')?.value ?? 0) + 1
        if (sequence === 1) counters.insert('refusals', { value: sequence })
        else counters.update('refusals', { value: sequence })
        const row = { ...refusal, sequence, left_out: 0, left_out_until: null }
        refusals.insert(String(sequence), row)
        if (refusals.get(String(sequence - keep))) refusals.remove(String(sequence - keep))
      }
      for (const { id, created_at, ...count } of counts)
        for (const row of refusals.all(one => one.id === id && one.created_at === created_at))
          refusals.update(String(row.sequence), count)
    }),
  removeBefore: (time, now) =>
    connection.write(memory => {
      const old = memory.refusals.all(({ created_at }) => created_at < time).slice(0, 1_000)
      for (const { sequence } of old) memory.refusals.remove(String(sequence))
      countEviction(memory, { kind: 'refusals', reason: 'age', rows: old.length }, now)
      return old.length
    }),
  list: (limit, filter = {}) =>
    connection.read(({ refusals }) =>
      refusals
        .all(refusal => matches(refusal, filter))
        .reverse()
        .slice(0, limit),
    ),
})

const matches = (
  refusal: StoredRefusal,
  { id, key_hash, status, before = Infinity, after = 0 }: RefusalFilter,
): boolean =>
  (id === undefined || refusal.id === id) &&
  (key_hash === undefined || refusal.key_hash === key_hash) &&
  (status === undefined ||
    [refusal.status, `${Math.floor(refusal.status / 100)}xx`].includes(status)) &&
  refusal.sequence < before &&
  refusal.sequence > after
