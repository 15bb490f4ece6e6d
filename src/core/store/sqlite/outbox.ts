import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import type { OutboxMessage, OutboxStore } from '../../telemetry/outbox.ts'
import type { RecorderEntry } from '../../telemetry/recorder.ts'
import { selectValues } from './json-values.ts'
import { MOST_CALLS, openBundle } from './outbox/bundles.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** Creates the store of the outbox in SQL. `generations.ts` writes messages with their calls. */
export const createOutboxStore = (kysely: Kysely<Tables>, write: Write): OutboxStore => ({
  async listPending(limit, after = 0) {
    const rows = await kysely
      .selectFrom('outbox')
      .selectAll()
      .where('sequence', '>', after)
      .orderBy('sequence')
      .limit(limit)
      .execute()
    return rows
      .flatMap(openBundle)
      .filter(({ sequence }) => sequence > after)
      .slice(0, limit)
  },
  remove: sequences =>
    write(kysely.deleteFrom('outbox').where('sequence', 'in', selectValues(kysely, sequences))),
})

/** The most characters of a bundle. */
const MOST_LENGTH = 256 * 1024

/** Messages that become one row. */
interface Bundle {
  topic: string
  receivers: string[]
  created_at: string
  ids: string[]
  payloads: string[]
  length: number
}

/**
 * Creates the function that adds the messages of a batch, inside the recorder's transaction. Those
 * for the same receivers are bundled: most calls of a batch have the same ones.
 */
export function createOutboxWriter(db: Database): (batch: RecorderEntry[]) => void {
  const insert = db.query(
    'insert into outbox (topic, generation_id, payload, created_at) values (?, ?, ?, ?)',
  )
  const insertBundle = db.query(
    `insert into outbox (sequence, topic, generation_id, payload, created_at, calls)
     select coalesce(max(seq), 0) + ?5, ?1, ?2, ?3, ?4, ?5
     from sqlite_sequence where name = 'outbox'`,
  )
  const addReceiver = db.query(
    'insert into deliveries (destination_id, sequence, bytes, calls) values (?, ?, ?, ?)',
  )
  return batch => {
    for (const { topic, receivers, created_at, ids, payloads, length } of bundleMessages(batch)) {
      const { length: calls } = ids
      const [id = '', payload = ''] =
        calls > 1 ? [ids.join('\n'), payloads.join('\n')] : [ids[0], payloads[0]]
      const { lastInsertRowid } =
        calls > 1
          ? insertBundle.run(topic, id, payload, created_at, calls)
          : insert.run(topic, id, payload, created_at)
      for (const receiver of receivers) addReceiver.run(receiver, lastInsertRowid, length, calls)
    }
  }
}

function bundleMessages(batch: RecorderEntry[]): Bundle[] {
  const bundles: Bundle[] = []
  const open = new Map<string, Bundle>()
  for (const { generation, charge, outbox } of batch) {
    if (!outbox) continue
    const call = generation ?? charge
    if (!call) throw new TypeError('A message needs a call that it is about')
    for (const message of outbox) {
      const bundle = findBundle(open, message)
      if (bundle) addMessage(bundle, call.id, message.payload)
      else {
        const { topic, payload, receivers = [] } = message
        const begun = {
          topic,
          receivers,
          created_at: call.settled_at,
          ids: [],
          payloads: [],
          length: 0,
        }
        addMessage(begun, call.id, payload)
        bundles.push(begun)
        if (isBundled(message)) open.set(nameBundle(message), begun)
      }
    }
  }
  return bundles
}

function findBundle(open: Map<string, Bundle>, message: OutboxMessage): Bundle | undefined {
  if (!isBundled(message)) return undefined
  const bundle = open.get(nameBundle(message))
  const fits =
    bundle !== undefined &&
    bundle.ids.length < MOST_CALLS &&
    bundle.length + message.payload.length <= MOST_LENGTH
  return fits ? bundle : undefined
}

function addMessage(bundle: Bundle, id: string, payload: string): void {
  bundle.ids.push(id)
  bundle.payloads.push(payload)
  bundle.length += payload.length
}

const nameBundle = ({ topic, receivers = [] }: OutboxMessage): string =>
  `${topic}\n${receivers.join('\n')}`

/** A bundle has a line for each message. Nothing takes parts of one without receivers. */
const isBundled = ({ receivers = [], payload }: OutboxMessage): boolean =>
  receivers.length > 0 && !payload.includes('\n')
