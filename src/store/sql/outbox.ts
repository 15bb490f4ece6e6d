import type { Kysely } from 'kysely'
import type { OutboxStore, SpoolReport } from '../../observability/outbox.ts'
import { selectNumbers } from './json-values.ts'
import type { BlockReader } from './outbox/blocks.ts'
import { type BundleRow, cutBundle } from './outbox/bundles.ts'
import type { BundledMessage } from './outbox/bundling.ts'
import type { Tables } from './tables.ts'
import { prepare, type Statement, type Write } from './write.ts'

/** The payloads of the outbox: in its rows, or beside them. */
export interface Messages {
  /** Opens a reader of payloads, for rows in their order. */
  openReader(): BlockReader
  /** Returns the payload that a row has by itself. */
  renderPayload(row: BundleRow): string
  /** Removes what no row refers to any more. Never throws. */
  sweep(): void
  /** Checks that everything is there that rows refer to, as it was written. */
  inspect(): SpoolReport
}

/** Creates the store of the outbox in SQL. `generations.ts` writes messages with their calls. */
export const createOutboxStore = (
  kysely: Kysely<Tables>,
  write: Write,
  messages: Messages,
): OutboxStore => ({
  async listPending(limit, after = 0) {
    const rows = await kysely
      .selectFrom('outbox')
      .selectAll()
      .where('sequence', '>', after)
      .orderBy('sequence')
      .limit(limit)
      .execute()
    const reader = messages.openReader()
    return rows
      .flatMap(cutBundle)
      .filter(({ sequence }) => sequence > after)
      .slice(0, limit)
      .map(row => ({
        sequence: row.sequence,
        topic: row.topic,
        generation_id: row.generation_id,
        payload: reader.readPayload(row),
        created_at: row.created_at,
      }))
  },
  async remove(sequences) {
    await write(
      kysely.deleteFrom('outbox').where('sequence', 'in', selectNumbers(kysely, sequences)),
    )
    messages.sweep()
  },
  inspect: async () => messages.inspect(),
})

const INSERT = `insert into outbox (sequence, topic, generation_id, payload, created_at, calls,
    segment, start, length, first, sizes)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

const ADD_RECEIVER =
  'insert into deliveries (destination_id, sequence, bytes, calls) values (?, ?, ?, ?)'

/**
 * Adds the messages of entries after the last number that was given, in the recorder's transaction.
 * Those of a bundle are one row, as far as their calls are recorded together.
 */
export function addMessages(last: number, entries: { messages: BundledMessage[] }[]): Statement[] {
  let sequence = last
  return listRuns(entries).flatMap(({ bundle, first, count }) => {
    sequence += count
    const { topic, receivers, created_at, place } = bundle
    const end = first + count
    const sizes = bundle.sizes.slice(first, end)
    const bytes = sizes.reduce((sum, size) => sum + size, 0)
    return [
      prepare(
        INSERT,
        sequence,
        topic,
        bundle.ids.slice(first, end).join('\n'),
        place ? '' : bundle.payloads.slice(first, end).join('\n'),
        created_at,
        count,
        place?.segment ?? null,
        place?.start ?? null,
        place?.length ?? null,
        place && first,
        place && sizes.join('\n'),
      ),
      ...receivers.map(receiver => prepare(ADD_RECEIVER, receiver, sequence, bytes, count)),
    ]
  })
}

/** Messages of a bundle that follow one another. */
interface Run {
  bundle: BundledMessage['bundle']
  first: number
  count: number
}

/** Lists the messages of entries as runs. Where an entry is left out, its bundle has two. */
function listRuns(entries: { messages: BundledMessage[] }[]): Run[] {
  const runs: Run[] = []
  const last = new Map<Run['bundle'], Run>()
  for (const { messages } of entries)
    for (const { bundle, index } of messages) {
      const run = last.get(bundle)
      if (run && run.first + run.count === index) run.count += 1
      else {
        const begun = { bundle, first: index, count: 1 }
        runs.push(begun)
        last.set(bundle, begun)
      }
    }
  return runs
}
