import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import type { OutboxStore } from '../../telemetry/outbox.ts'
import type { Entry } from '../../telemetry/recorder.ts'
import { listed } from './listed.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** Creates the store of the outbox in SQL. `generations.ts` writes messages with their calls. */
export const outboxStore = (kysely: Kysely<Tables>, write: Write): OutboxStore => ({
  pending: (limit, after = 0) =>
    kysely
      .selectFrom('outbox')
      .selectAll()
      .where('sequence', '>', after)
      .orderBy('sequence')
      .limit(limit)
      .execute(),
  remove: sequences =>
    write(kysely.deleteFrom('outbox').where('sequence', 'in', listed(kysely, sequences))),
})

/** Creates the function that adds an entry's messages, inside the recorder's transaction. */
export function outboxWriter(db: Database): (entry: Entry) => void {
  const insert = db.query(
    'insert into outbox (topic, generation_id, payload, created_at) values (?, ?, ?, ?)',
  )
  return ({ generation, charge, outbox = [] }) => {
    const about = generation ?? charge
    if (!about) throw new TypeError('A message needs a call that it is about')
    for (const { topic, payload } of outbox) insert.run(topic, about.id, payload, about.settled_at)
  }
}
