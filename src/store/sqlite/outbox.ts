import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import type { OutboxStore } from '../../observability/outbox.ts'
import { selectValues } from './json-values.ts'
import { cutBundle } from './outbox/bundles.ts'
import type { BundledMessage } from './outbox/bundling.ts'
import type { Messages } from './outbox/messages.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

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
      kysely.deleteFrom('outbox').where('sequence', 'in', selectValues(kysely, sequences)),
    )
    messages.sweep()
  },
  inspect: async () => messages.inspect(),
})

/**
 * Creates the function that adds the messages of entries, inside the recorder's transaction. Those
 * of a bundle are one row, as far as their calls are recorded together.
 */
export function createOutboxWriter(
  db: Database,
): (entries: { messages: BundledMessage[] }[]) => void {
  const insert = db.query(
    `insert into outbox (sequence, topic, generation_id, payload, created_at, calls,
       segment, start, length, first, sizes)
     select coalesce(max(seq), 0) + ?5, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
     from sqlite_sequence where name = 'outbox'`,
  )
  const addReceiver = db.query(
    'insert into deliveries (destination_id, sequence, bytes, calls) values (?, ?, ?, ?)',
  )
  return entries => {
    for (const { bundle, first, count } of listRuns(entries)) {
      const { topic, receivers, created_at, place } = bundle
      const end = first + count
      const sizes = bundle.sizes.slice(first, end)
      const { lastInsertRowid } = insert.run(
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
      )
      const bytes = sizes.reduce((sum, size) => sum + size, 0)
      for (const receiver of receivers) addReceiver.run(receiver, lastInsertRowid, bytes, count)
    }
  }
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
