import type {
  DeliveryCounts,
  DeliveryStore,
  TakenDeliveries,
} from '../../../src/observability/destinations/deliveries/store.ts'
import type { Connection, Memory } from './memory.ts'

type Count = 'delivered' | 'skipped' | 'dropped'
type Place = 'deliveries' | 'failedDeliveries'

/** What waits for destinations, in memory. */
export const createMemoryDeliveryStore = (connection: Connection): DeliveryStore => ({
  listWaiting: (id, after, limit, most) =>
    connection.read(memory => {
      let sum = 0
      return listOwn(memory, 'deliveries', id)
        .filter(({ sequence }) => sequence > after)
        .slice(0, limit)
        .filter(({ bytes }) => {
          sum += bytes
          return sum <= most || sum === bytes
        })
        .map(({ sequence, bytes }) => {
          const { payload, ...message } = getMessage(memory, sequence)
          return { bytes, ...message, payload: new TextEncoder().encode(payload) }
        })
    }),
  finish: (id, sequences, last_success_at) =>
    connection.write(memory => {
      const taken = remove(memory, 'deliveries', id, sequences, 'delivered')
      note(memory, id, { last_success_at })
      return taken
    }),
  skip: (id, sequences) =>
    connection.write(memory => remove(memory, 'deliveries', id, sequences, 'skipped')),
  fail: (id, sequences, refusal, most) =>
    connection.write(memory => {
      const own = listOwn(memory, 'deliveries', id)
      const failed = own.filter(row => sequences.includes(row.sequence))
      for (const row of failed) {
        memory.deliveries.remove(`${id} ${row.sequence}`)
        memory.failedDeliveries.insert(`${id} ${row.sequence}`, { ...row, ...refusal })
      }
      note(memory, id, { last_error_at: refusal.failed_at, last_error: refusal.reason })
      const newestFirst = memory.failedDeliveries
        .all(({ destination_id }) => destination_id === id)
        .sort((a, b) => compare(b.failed_at, a.failed_at) || b.sequence - a.sequence)
      const old = newestFirst.slice(most).map(({ sequence }) => sequence)
      remove(memory, 'failedDeliveries', id, old, 'dropped')
      return countTaken(id, failed)
    }),
  noteError: (id, last_error, last_error_at) =>
    connection.write(memory => note(memory, id, { last_error, last_error_at })),
  dropOldest: count =>
    connection.write(memory => {
      const oldest = memory.deliveries.all().sort((a, b) => a.sequence - b.sequence)
      const byId = Map.groupBy(oldest.slice(0, count), row => row.destination_id)
      return [...byId].map(([id, rows]) => {
        const sequences = rows.map(({ sequence }) => sequence)
        return remove(memory, 'deliveries', id, sequences, 'dropped')
      })
    }),
  drop: (id, limit) =>
    connection.write(memory =>
      remove(memory, 'deliveries', id, listSequences(memory, 'deliveries', id, limit), 'dropped'),
    ),
  listFailed: (id, offset, limit) =>
    connection.read(memory => {
      const failed = listOwn(memory, 'failedDeliveries', id)
      const rows = failed.slice(offset, offset + limit).map(row => {
        const { destination_id: _, ...shown } = row
        return { generation_id: getMessage(memory, row.sequence).generation_id, ...shown }
      })
      return { rows, total: failed.length }
    }),
  replay: id =>
    connection.write(memory => {
      for (const { destination_id, sequence, bytes } of listOwn(memory, 'failedDeliveries', id)) {
        memory.failedDeliveries.remove(`${id} ${sequence}`)
        memory.deliveries.insert(`${id} ${sequence}`, { destination_id, sequence, bytes })
      }
    }),
  dropFailed: id =>
    connection.write(memory => {
      const failed = listSequences(memory, 'failedDeliveries', id, Infinity)
      remove(memory, 'failedDeliveries', id, failed, 'dropped')
    }),
  countFailed: () =>
    connection.read(({ failedDeliveries }) => {
      const byId = Map.groupBy(failedDeliveries.all(), row => row.destination_id)
      return new Map([...byId].map(([id, rows]) => [id, rows.length]))
    }),
  count: () => connection.read(countAll),
})

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const countTaken = (destination_id: string, rows: { bytes: number }[]): TakenDeliveries => ({
  destination_id,
  count: rows.length,
  bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0),
})

/** Deletes the messages for destinations that nothing refers to. */
export function sweepOutbox({ outbox, deliveries, failedDeliveries }: Memory): void {
  const referred = new Set(
    [...deliveries.all(), ...failedDeliveries.all()].map(({ sequence }) => sequence),
  )
  for (const { topic, sequence } of outbox.all())
    if (topic === 'trace' && !referred.has(sequence)) outbox.remove(String(sequence))
}

const listSequences = (memory: Memory, place: Place, id: string, limit: number): number[] =>
  listOwn(memory, place, id)
    .slice(0, limit)
    .map(({ sequence }) => sequence)

const listOwn = <P extends Place>(memory: Memory, place: P, id: string) =>
  (memory[place] as Memory['failedDeliveries'])
    .all(({ destination_id }) => destination_id === id)
    .sort((a, b) => a.sequence - b.sequence)

function getMessage({ outbox }: Memory, sequence: number) {
  const row = outbox.get(String(sequence))
  if (!row) throw new Error('A delivery without a message')
  const { topic: _, ...message } = row
  return message
}

function remove(
  memory: Memory,
  place: Place,
  id: string,
  sequences: number[],
  count: Count,
): TakenDeliveries {
  const there = listOwn(memory, place, id).filter(row => sequences.includes(row.sequence))
  for (const { sequence } of there) memory[place].remove(`${id} ${sequence}`)
  if (sequences.length > 0) {
    note(memory, id, { [count]: getCounts(memory, id)[count] + there.length })
    sweepOutbox(memory)
  }
  return countTaken(id, there)
}

const NOTHING = { delivered: 0, skipped: 0, dropped: 0 }
const NEVER = { last_success_at: null, last_error_at: null, last_error: null }
type Stored = Omit<DeliveryCounts, 'waiting' | 'bytes' | 'failed'>

const getCounts = ({ deliveryCounts }: Memory, destination_id: string): Stored =>
  deliveryCounts.get(destination_id) ?? { destination_id, ...NOTHING, ...NEVER }

function note(memory: Memory, id: string, noted: Partial<Stored>): void {
  const counts = { ...getCounts(memory, id), ...noted }
  if (memory.deliveryCounts.has(id)) memory.deliveryCounts.update(id, counts)
  else memory.deliveryCounts.insert(id, counts)
}

function countAll(memory: Memory): DeliveryCounts[] {
  const places = [...memory.deliveries.all(), ...memory.failedDeliveries.all()]
  const ids = [...places, ...memory.deliveryCounts.all()].map(row => row.destination_id)
  return [...new Set(ids)].sort().map(id => {
    const waiting = listOwn(memory, 'deliveries', id)
    return {
      ...getCounts(memory, id),
      waiting: waiting.length,
      bytes: waiting.reduce((sum, { bytes }) => sum + bytes, 0),
      failed: listOwn(memory, 'failedDeliveries', id).length,
    }
  })
}
