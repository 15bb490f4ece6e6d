import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import type { OutboxStore } from '../../telemetry/outbox.ts'
import type { Entry } from '../../telemetry/recorder.ts'
import { listed } from './listed.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** The outbox in SQL. It is written together with the calls that it tells of: see `generations.ts`. */
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

/** The statement that adds the messages of an entry. It runs inside the recorder's transaction. */
export function outboxWriter(db: Database): (entry: Entry) => void {
  const insert = db.query(
    'insert into outbox (topic, generation_id, payload, created_at) values (?, ?, ?, ?)',
  )
  return ({ generation, charge, outbox = [] }) => {
    const about = generation ?? charge
    if (!about) throw new TypeError('There is no call that a message could tell of')
    for (const { topic, payload } of outbox) insert.run(topic, about.id, payload, about.settled_at)
  }
}
