import type { DestinationStore } from '../../../src/observability/destinations/store.ts'
import { tooMany } from '../../../src/observability/destinations.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import { sweepOutbox } from './deliveries.ts'
import type { Connection, Memory } from './memory.ts'

/** Destinations in memory. */
export const createMemoryDestinationStore = (connection: Connection): DestinationStore => ({
  all: () =>
    connection.read(({ destinations }) =>
      destinations.all(row => row.deleted_at === null).map(({ deleted_at: _, ...row }) => row),
    ),
  insert: (destination, most, entry) =>
    connection.write(memory => {
      const { id, workspace_id, type } = destination
      mustBeLive(memory, workspace_id)
      const same = memory.destinations.all(
        row => row.workspace_id === workspace_id && row.type === type && row.deleted_at === null,
      )
      if (same.length >= most) throw tooMany(type, most)
      memory.destinations.insert(id, { ...destination, deleted_at: null })
      addAudit(memory, entry)
    }),
  update: (id, change, entry) =>
    connection.write(memory => {
      if (memory.destinations.get(id)?.deleted_at === null) memory.destinations.update(id, change)
      addAudit(memory, entry)
    }),
  remove: (id, deleted_at, entry) =>
    connection.write(memory => {
      removeDestinations(memory, deleted_at, row => row.id === id)
      addAudit(memory, entry)
    }),
})

/** Erases destinations with all that is kept for them. */
export function removeDestinations(
  memory: Memory,
  deleted_at: string,
  isMeant: (row: { id: string; workspace_id: string }) => boolean,
): void {
  for (const { id, deleted_at: before } of memory.destinations.all(isMeant)) {
    if (before === null) memory.destinations.update(id, { sealed: '', deleted_at })
    for (const table of [memory.deliveries, memory.failedDeliveries])
      for (const row of table.all(({ destination_id }) => destination_id === id))
        table.remove(`${id} ${row.sequence}`)
    memory.deliveryCounts.remove(id)
  }
  sweepOutbox(memory)
}
