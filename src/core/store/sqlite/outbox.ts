import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import type { OutboxStore } from '../../telemetry/outbox.ts'
import type { RecorderEntry } from '../../telemetry/recorder.ts'
import { selectValues } from './json-values.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** Creates the store of the outbox in SQL. `generations.ts` writes messages with their calls. */
export const createOutboxStore = (kysely: Kysely<Tables>, write: Write): OutboxStore => ({
  listPending: (limit, after = 0) =>
    kysely
      .selectFrom('outbox')
      .selectAll()
      .where('sequence', '>', after)
      .orderBy('sequence')
      .limit(limit)
      .execute(),
  remove: sequences =>
    write(kysely.deleteFrom('outbox').where('sequence', 'in', selectValues(kysely, sequences))),
})

/** Creates the function that adds an entry's messages, inside the recorder's transaction. */
export function createOutboxWriter(db: Database): (entry: RecorderEntry) => void {
  const insert = db.query(
    'insert into outbox (topic, generation_id, payload, created_at) values (?, ?, ?, ?)',
  )
  const addReceiver = db.query(
    'insert into deliveries (destination_id, sequence, bytes) values (?, ?, ?)',
  )
  return ({ generation, charge, outbox = [] }) => {
    const call = generation ?? charge
    if (!call) throw new TypeError('A message needs a call that it is about')
    for (const { topic, payload, receivers = [] } of outbox) {
      const { lastInsertRowid } = insert.run(topic, call.id, payload, call.settled_at)
      for (const receiver of receivers) addReceiver.run(receiver, lastInsertRowid, payload.length)
    }
  }
}
