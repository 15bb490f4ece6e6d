import { type Kysely, sql } from 'kysely'
import type {
  DeliveryCounts,
  DeliveryRefusal,
  DeliveryStore,
  TakenDeliveries,
  WaitingDelivery,
} from '../../observability/destinations/deliveries/store.ts'
import { deleteUnreferred } from './deliveries/unreferred.ts'
import type { Recording } from './generations.ts'
import { selectNumbers } from './json-values.ts'
import type { BlockReader } from './outbox/blocks.ts'
import {
  type BundleRow,
  cutBundle,
  listNumbers,
  type MessageRow,
  MOST_CALLS,
  measureMessage,
} from './outbox/bundles.ts'
import type { Messages } from './outbox.ts'
import type { Tables } from './tables.ts'
import { follow, prepare, type Statement, type Write } from './write.ts'

/** Records that wait for their transaction, and what writes them. */
type WaitingRecords = Pick<Recording, 'isWaiting' | 'flush'>

type Count = 'delivered' | 'skipped' | 'dropped'

type Place = 'deliveries' | 'failed_deliveries'

interface DeliveryParts {
  write: Write
  writeQuietly: Write
  messages: Messages
  recording: WaitingRecords
}

/** Creates the store of what waits for destinations in SQL. */
export function createDeliveryStore(
  kysely: Kysely<Tables>,
  { write, writeQuietly, messages, recording }: DeliveryParts,
): DeliveryStore {
  const statements = new DeliveryStatements(kysely, messages)
  /** Makes a change, and returns what it took. A transaction that is retried takes it once. */
  const take = async (
    build: (onTaken: OnTaken) => Statement[],
    ...more: Statement[]
  ): Promise<TakenDeliveries[]> => {
    const taken = new Map<string, TakenDeliveries>()
    await writeQuietly(...build(one => taken.set(one.destination_id, one)), ...more)
    messages.sweep()
    return [...taken.values()]
  }
  const takeOwn = async (destination_id: string, ...change: Parameters<typeof take>) =>
    (await take(...change))[0] ?? { destination_id, count: 0, bytes: 0 }
  const listWaiting = (id: string, limit: number) =>
    kysely
      .selectFrom('deliveries')
      .select(['sequence', 'calls'])
      .where('destination_id', '=', id)
      .orderBy('sequence')
      .limit(limit)
  const listFailed = (id: string) =>
    kysely.selectFrom('failed_deliveries').select('sequence').where('destination_id', '=', id)
  return {
    async listWaiting(destination_id, after, limit, bytes) {
      const read = () => listFitting(kysely, destination_id, after, limit, bytes)
      let { sequences, isCut } = await read()
      // What waits for its transaction comes after all of these.
      if (!isCut && recording.isWaiting) {
        await recording.flush().catch(() => undefined)
        sequences = (await read()).sequences
      }
      const rows = await readBundles(kysely, sequences)
      const reader = messages.openReader()
      return takeFitting(rows.flatMap(cutBundle), after, limit, bytes).map(row =>
        toWaiting(row, reader),
      )
    },
    finish: (id, sequences, at) =>
      takeOwn(
        id,
        onTaken => statements.remove('deliveries', id, sequences, 'delivered', onTaken),
        prepare(NOTE_SUCCESS, id, at),
      ),
    skip: (id, sequences) =>
      takeOwn(id, onTaken => statements.remove('deliveries', id, sequences, 'skipped', onTaken)),
    fail: (id, sequences, refusal, most) =>
      takeOwn(
        id,
        onTaken => statements.move(id, sequences, refusal, onTaken),
        statements.note(id, { last_error_at: refusal.failed_at, last_error: refusal.reason }),
        follow(statements.selectFailedPast(id, most), rows =>
          statements.remove('failed_deliveries', id, rows.map(readSequence), 'dropped'),
        ),
      ),
    noteError: (id, last_error, last_error_at) =>
      writeQuietly(statements.note(id, { last_error, last_error_at })),
    dropOldest: count =>
      take(onTaken => [
        follow(prepare<OldestRow>(LIST_OLDEST, Math.min(count, MOST_DROPPED_ROWS)), rows =>
          [...Map.groupBy(takeOldest(rows, count), row => row.destination_id)].flatMap(
            ([id, own]) =>
              statements.remove('deliveries', id, own.flatMap(listNumbers), 'dropped', onTaken),
          ),
        ),
      ]),
    drop: (id, limit) =>
      takeOwn(id, onTaken => [
        follow(listWaiting(id, limit), rows =>
          statements.remove(
            'deliveries',
            id,
            rows.flatMap(listNumbers).slice(0, limit),
            'dropped',
            onTaken,
          ),
        ),
      ]),
    async listFailed(destination_id, offset, limit) {
      const own = kysely
        .selectFrom('failed_deliveries')
        .where('destination_id', '=', destination_id)
      const rows = await own
        .innerJoin('outbox', 'outbox.sequence', 'failed_deliveries.sequence')
        .select(['outbox.sequence', 'generation_id', 'bytes', 'reason', 'status', 'failed_at'])
        .orderBy('failed_deliveries.sequence')
        .offset(offset)
        .limit(limit)
        .execute()
      const { total } = await own
        .select(({ fn }) => fn.countAll<number>().as('total'))
        .executeTakeFirstOrThrow()
      return { rows, total }
    },
    replay: id => write(...statements.replay(id)),
    async dropFailed(id) {
      await writeQuietly(
        follow(listFailed(id), rows =>
          statements.remove('failed_deliveries', id, rows.map(readSequence), 'dropped'),
        ),
      )
      messages.sweep()
    },
    async countFailed() {
      const rows = await kysely
        .selectFrom('failed_deliveries')
        .select(({ fn }) => ['destination_id', fn.countAll<number>().as('failed')])
        .groupBy('destination_id')
        .execute()
      return new Map(rows.map(({ destination_id, failed }) => [destination_id, failed]))
    },
    count: () => countDeliveries(kysely),
  }
}

const readSequence = ({ sequence }: { sequence: number }) => sequence

/** A row that waits: of a message, or of a bundle of them. */
interface WaitingRow {
  sequence: number
  bytes: number
  calls: number
}

/** The same among those of all destinations. */
type OldestRow = Omit<WaitingRow, 'bytes'> & { destination_id: string }

/** A full queue drops so many rows at once: calls wait meanwhile. */
const MOST_DROPPED_ROWS = 32

// Prepared, as each batch reads, takes and settles its messages on the thread that serves calls.
const LIST_WAITING = `select sequence, bytes, calls from deliveries
  where destination_id = ? and sequence > ? order by sequence limit ?`

const READ_BUNDLES = `select * from outbox
  where sequence in (select cast(value as bigint) from json_each(?)) order by sequence`

const LIST_OLDEST = `select deliveries.destination_id, deliveries.sequence, deliveries.calls
  from outbox cross join delivery_receivers cross join deliveries
  where deliveries.destination_id = delivery_receivers.destination_id
  and deliveries.sequence = outbox.sequence order by outbox.sequence limit ?`

const TAKE_ROWS = `delete from deliveries where destination_id = ?
  and sequence in (select cast(value as bigint) from json_each(?)) returning sequence, bytes, calls`

const LIST_BUNDLES = `select sequence, calls from deliveries
  where destination_id = ? and sequence >= ? and sequence < ? and calls > 1`

const ADD: Record<Count, string> = {
  delivered: renderAdd('delivered'),
  skipped: renderAdd('skipped'),
  dropped: renderAdd('dropped'),
}

const NOTE_SUCCESS = `insert into delivery_counts (destination_id, last_success_at) values (?, ?)
  on conflict (destination_id) do update set last_success_at = excluded.last_success_at`

function renderAdd(count: Count): string {
  return `insert into delivery_counts (destination_id, ${count}) values (?, ?)
    on conflict (destination_id) do update
    set ${count} = delivery_counts.${count} + excluded.${count}`
}

/**
 * Lists rows as long as they fit a batch: the first in any case. Tells whether more of them wait.
 * What they have is read when that is known, as one may be long.
 */
async function listFitting(
  kysely: Kysely<Tables>,
  destination_id: string,
  after: number,
  limit: number,
  bytes: number,
): Promise<{ sequences: number[]; isCut: boolean }> {
  const list = prepare<WaitingRow>(LIST_WAITING, destination_id, after, limit + 1)
  const { rows } = await kysely.executeQuery(list.compile())
  const sequences: number[] = []
  let [count, length] = [0, 0]
  for (const row of rows) {
    count += row.calls
    length += row.bytes
    if (sequences.length > 0 && (count > limit || length > bytes)) return { sequences, isCut: true }
    sequences.push(row.sequence)
  }
  return { sequences, isCut: false }
}

async function readBundles(kysely: Kysely<Tables>, sequences: number[]): Promise<BundleRow[]> {
  if (sequences.length === 0) return []
  const read = prepare<BundleRow>(READ_BUNDLES, JSON.stringify(sequences))
  return (await kysely.executeQuery(read.compile())).rows
}

/** Leaves out messages up to a number, and those that are too many or too long; never the first. */
function takeFitting(
  messages: MessageRow[],
  after: number,
  limit: number,
  bytes: number,
): MessageRow[] {
  const taken: MessageRow[] = []
  let length = 0
  for (const message of messages) {
    if (message.sequence <= after) continue
    length += measureMessage(message)
    if (taken.length > 0 && (taken.length >= limit || length > bytes)) break
    taken.push(message)
  }
  return taken
}

const toWaiting = (row: MessageRow, reader: BlockReader): WaitingDelivery => ({
  sequence: row.sequence,
  generation_id: row.generation_id,
  payload: reader.readBytes(row),
  created_at: row.created_at,
  bytes: measureMessage(row),
})

/** Takes rows until they have so many messages. Bundles are not cut for this. */
function takeOldest<Row extends { calls: number }>(rows: Row[], count: number): Row[] {
  let sum = 0
  return rows.filter(({ calls }) => {
    const isNeeded = sum < count
    sum += calls
    return isNeeded
  })
}

/** Told what was taken from a destination's queue. */
type OnTaken = (taken: TakenDeliveries) => void

const tellTaken = (
  onTaken: OnTaken | undefined,
  destination_id: string,
  rows: { bytes: number; calls?: number }[],
): void =>
  onTaken?.({
    destination_id,
    count: countCalls(rows),
    bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0),
  })

const countCalls = (rows: { calls?: number }[]): number =>
  rows.reduce((sum, { calls = 1 }) => sum + calls, 0)

async function countDeliveries(kysely: Kysely<Tables>): Promise<DeliveryCounts[]> {
  const { rows } = await sql<DeliveryCounts>`
    select id as destination_id, coalesce(waiting, 0) as waiting, coalesce(bytes, 0) as bytes,
      coalesce(failed, 0) as failed, coalesce(delivered, 0) as delivered,
      coalesce(skipped, 0) as skipped, coalesce(dropped, 0) as dropped,
      last_success_at, last_error_at, last_error
    from (select destination_id as id from deliveries union
      select destination_id from failed_deliveries union
      select destination_id from delivery_counts) as known
    left join (select destination_id, sum(calls) as waiting, sum(bytes) as bytes
      from deliveries group by destination_id) as w on w.destination_id = id
    left join (select destination_id, count(*) as failed
      from failed_deliveries group by destination_id) as f on f.destination_id = id
    left join delivery_counts as c on c.destination_id = id
    order by id`.execute(kysely)
  return rows
}

/** A row that was taken: of a message, or of a bundle of them. */
interface TakenRow {
  sequence: number
  bytes: number
  calls?: number
}

/** The statements that several changes of deliveries share. */
class DeliveryStatements {
  readonly #kysely: Kysely<Tables>
  readonly #messages: Messages

  constructor(kysely: Kysely<Tables>, messages: Messages) {
    this.#kysely = kysely
    this.#messages = messages
  }

  /** Takes rows of messages from where they wait, and returns those that were there. */
  take(destination_id: string, sequences: number[]) {
    return prepare<WaitingRow>(TAKE_ROWS, destination_id, JSON.stringify(sequences))
  }

  /** Takes messages from those that failed, and returns those that were there. */
  takeFailed(destination_id: string, sequences: number[]) {
    return this.#kysely
      .deleteFrom('failed_deliveries')
      .where('destination_id', '=', destination_id)
      .where('sequence', 'in', selectNumbers(this.#kysely, sequences))
      .returning(['sequence', 'bytes'])
  }

  /**
   * Cuts the bundles of a destination that have some of these messages but not all, or any of them,
   * so that each is a row of its own. Most bundles leave as they came.
   */
  cut(destination_id: string, sequences: number[], which: 'partial' | 'any'): Statement {
    const numbers = new Set(sequences)
    const bundles = prepare<{ sequence: number; calls: number }>(
      LIST_BUNDLES,
      destination_id,
      Math.min(...sequences),
      Math.max(...sequences) + MOST_CALLS,
    )
    return follow(bundles, rows =>
      rows.flatMap(row => {
        const has = listNumbers(row).filter(number => numbers.has(number)).length
        const isCut = which === 'any' ? has > 0 : has > 0 && has < row.calls
        return isCut ? [this.#cutBundle(row.sequence)] : []
      }),
    )
  }

  /** Makes each message of a bundle a row of its own, for every destination that waits for it. */
  #cutBundle(sequence: number): Statement {
    const kysely = this.#kysely
    const row = kysely.selectFrom('outbox').selectAll().where('sequence', '=', sequence)
    const waiting = kysely
      .deleteFrom('deliveries')
      .where(
        'destination_id',
        'in',
        kysely.selectFrom('delivery_receivers').select('destination_id'),
      )
      .where('sequence', '=', sequence)
      .returning('destination_id')
    return follow(row, bundles => {
      const messages = bundles.flatMap(cutBundle)
      return [
        kysely.deleteFrom('outbox').where('sequence', '=', sequence),
        ...messages.map(message => kysely.insertInto('outbox').values(message)),
        follow(waiting, rows =>
          rows.flatMap(({ destination_id }) =>
            messages.map(message =>
              kysely.insertInto('deliveries').values({
                ...{ destination_id, sequence: message.sequence },
                bytes: measureMessage(message),
              }),
            ),
          ),
        ),
      ]
    })
  }

  /** Moves messages out of the spool: what failed may wait for long. */
  #moveIntoRows(sequences: number[]): Statement {
    const spooled = this.#kysely
      .selectFrom('outbox')
      .selectAll()
      .where('sequence', 'in', selectNumbers(this.#kysely, sequences))
      .where('segment', 'is not', null)
    return follow(spooled, rows =>
      rows.map(row =>
        this.#kysely
          .updateTable('outbox')
          .set({
            payload: this.#messages.renderPayload(row),
            ...{ segment: null, start: null, length: null, first: null },
          })
          .where('sequence', '=', row.sequence),
      ),
    )
  }

  /** Takes messages, counts those that were there, and deletes those that nothing refers to. */
  remove(
    place: Place,
    destination_id: string,
    sequences: number[],
    count: Count,
    onTaken?: OnTaken,
  ): Statement[] {
    if (sequences.length === 0) return []
    const settle = (rows: TakenRow[]): Statement[] => {
      tellTaken(onTaken, destination_id, rows)
      return [
        prepare(ADD[count], destination_id, countCalls(rows)),
        deleteUnreferred(rows.map(readSequence)),
      ]
    }
    if (place === 'failed_deliveries')
      return [follow(this.takeFailed(destination_id, sequences), settle)]
    return [
      this.cut(destination_id, sequences, 'partial'),
      follow(this.take(destination_id, sequences), settle),
    ]
  }

  /** Moves messages to those that failed. */
  move(
    destination_id: string,
    sequences: number[],
    refusal: DeliveryRefusal,
    onTaken: OnTaken,
  ): Statement[] {
    if (sequences.length === 0) return []
    return [
      this.cut(destination_id, sequences, 'any'),
      this.#moveIntoRows(sequences),
      follow(this.take(destination_id, sequences), rows => {
        tellTaken(onTaken, destination_id, rows)
        const failed = rows.map(({ sequence, bytes }) => ({
          ...{ sequence, bytes, destination_id },
          ...refusal,
        }))
        return failed.length === 0
          ? []
          : [this.#kysely.insertInto('failed_deliveries').values(failed)]
      }),
    ]
  }

  /** Lets what failed wait again. */
  replay(destination_id: string): Statement[] {
    const failed = this.#kysely
      .selectFrom('failed_deliveries')
      .select(['destination_id', 'sequence', 'bytes'])
      .where('destination_id', '=', destination_id)
    return [
      this.#kysely
        .insertInto('deliveries')
        .columns(['destination_id', 'sequence', 'bytes'])
        .expression(failed),
      this.#kysely.deleteFrom('failed_deliveries').where('destination_id', '=', destination_id),
    ]
  }

  /** Notes when a destination last answered, or failed. */
  note(
    destination_id: string,
    noted: Partial<Pick<DeliveryCounts, 'last_success_at' | 'last_error_at' | 'last_error'>>,
  ) {
    return this.#kysely
      .insertInto('delivery_counts')
      .values({ destination_id, ...noted })
      .onConflict(conflict => conflict.column('destination_id').doUpdateSet(noted))
  }

  /** Selects what failed before the newest `most`. */
  selectFailedPast(destination_id: string, most: number) {
    return this.#kysely
      .selectFrom('failed_deliveries')
      .select('sequence')
      .where('destination_id', '=', destination_id)
      .orderBy('failed_at', 'desc')
      .orderBy('sequence', 'desc')
      .limit(1_000_000_000)
      .offset(most)
  }
}
