import { conflict } from '../../../src/base/errors.ts'
import type { RecorderEntry } from '../../../src/observability/generations/store.ts'
import type { OutboxStore, WrittenMessages } from '../../../src/observability/outbox.ts'
import type { Connection, Memory } from './memory.ts'

/** The outbox in memory. */
export const createMemoryOutboxStore = (connection: Connection): OutboxStore => ({
  listPending: (limit, after = 0) =>
    connection.read(({ outbox }) => outbox.all(row => row.sequence > after).slice(0, limit)),
  remove: sequences =>
    connection.write(({ outbox }) => {
      for (const sequence of sequences) outbox.remove(String(sequence))
    }),
  inspect: async () => ({ messages: 0, problems: [], unneeded: 0 }),
})

/** Adds the messages of an entry, in the transaction that records it. */
export function addMessages(
  { outbox, deliveries, counters }: Memory,
  entry: RecorderEntry,
): WrittenMessages[] {
  const { generation, charge, outbox: messages } = entry
  if (!messages) return []
  const about = generation ?? charge
  if (!about) throw conflict('The call cannot be recorded')
  for (const { topic, payload, receivers = [] } of messages) {
    const sequence = (counters.get('outbox')?.value ?? 0) + 1
    if (sequence === 1) counters.insert('outbox', { value: sequence })
    else counters.update('outbox', { value: sequence })
    const { id: generation_id, settled_at: created_at } = about
    outbox.insert(String(sequence), { sequence, topic, generation_id, payload, created_at })
    for (const destination_id of receivers)
      deliveries.insert(`${destination_id} ${sequence}`, {
        destination_id,
        sequence,
        bytes: payload.length,
      })
  }
  return messages.flatMap(({ payload, receivers = [] }) =>
    receivers.length === 0 ? [] : [{ receivers, count: 1, bytes: payload.length }],
  )
}
