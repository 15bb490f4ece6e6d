import type { RefusalStore } from '../../../src/core/telemetry/refusals.ts'
import type { Connection } from './memory.ts'

/** Refusals in memory. */
export const createMemoryRefusalStore = (connection: Connection): RefusalStore => ({
  add: (added, keep) =>
    connection.write(({ refusals, counters }) => {
      for (const refusal of added) {
        const sequence = (counters.get('refusals')?.value ?? 0) + 1
        if (sequence === 1) counters.insert('refusals', { value: sequence })
        else counters.update('refusals', { value: sequence })
        refusals.insert(String(sequence), refusal)
        if (refusals.get(String(sequence - keep))) refusals.remove(String(sequence - keep))
      }
    }),
  list: (limit, id) =>
    connection.read(({ refusals }) =>
      refusals
        .all(refusal => id === undefined || refusal.id === id)
        .reverse()
        .slice(0, limit),
    ),
})
