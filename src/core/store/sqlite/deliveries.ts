import { type Kysely, sql } from 'kysely'
import type {
  DeliveryCounts,
  DeliveryRefusal,
  DeliveryStore,
  TakenDeliveries,
} from '../../destinations/deliveries/store.ts'
import { selectValues } from './json-values.ts'
import type { Tables } from './tables.ts'
import { follow, type Statement, type Write } from './write.ts'

type Count = 'delivered' | 'skipped' | 'dropped'
type Place = 'deliveries' | 'failed_deliveries'

/** Creates the store of what waits for destinations in SQL. */
export function createDeliveryStore(kysely: Kysely<Tables>, write: Write): DeliveryStore {
  const statements = new DeliveryStatements(kysely)
  /** Makes a change, and returns what it took. A transaction that is retried takes it once. */
  const take = async (
    build: (onTaken: OnTaken) => Statement[],
    ...more: Statement[]
  ): Promise<TakenDeliveries[]> => {
    const taken = new Map<string, TakenDeliveries>()
    await write(...build(one => taken.set(one.destination_id, one)), ...more)
    return [...taken.values()]
  }
  const takeOwn = async (destination_id: string, ...change: Parameters<typeof take>) =>
    (await take(...change))[0] ?? { destination_id, count: 0, bytes: 0 }
  const listSequences = (place: Place, destination_id: string, limit = -1) =>
    kysely
      .selectFrom(place)
      .select('sequence')
      .where('destination_id', '=', destination_id)
      .orderBy('sequence')
      .limit(limit)
  const removeListed = (id: string, listed: ReturnType<typeof listSequences>, place: Place) =>
    takeOwn(id, onTaken => [
      follow(listed, rows =>
        statements.remove(place, id, rows.map(readSequence), 'dropped', onTaken),
      ),
    ])
  return {
    listWaiting: (destination_id, after, limit, bytes) =>
      kysely
        .selectFrom(statements.selectFitting(destination_id, after, limit, bytes).as('fitting'))
        .innerJoin('outbox', 'outbox.sequence', 'fitting.sequence')
        .select(['outbox.sequence', 'generation_id', 'payload', 'created_at', 'bytes'])
        .orderBy('outbox.sequence')
        .execute(),
    finish: (id, sequences, at) =>
      takeOwn(
        id,
        onTaken => statements.remove('deliveries', id, sequences, 'delivered', onTaken),
        statements.note(id, { last_success_at: at }),
      ),
    skip: (id, sequences) =>
      takeOwn(id, onTaken => statements.remove('deliveries', id, sequences, 'skipped', onTaken)),
    fail: (id, sequences, refusal, most) =>
      takeOwn(
        id,
        onTaken => [statements.move(id, sequences, refusal, onTaken)],
        statements.note(id, { last_error_at: refusal.failed_at, last_error: refusal.reason }),
        follow(statements.selectFailedPast(id, most), rows =>
          statements.remove('failed_deliveries', id, rows.map(readSequence), 'dropped'),
        ),
      ),
    noteError: (id, last_error, last_error_at) =>
      write(statements.note(id, { last_error, last_error_at })),
    dropOldest: count =>
      take(onTaken => [
        follow(statements.selectOldest(count), rows =>
          [...Map.groupBy(rows, row => row.destination_id)].flatMap(([id, own]) =>
            statements.remove('deliveries', id, own.map(readSequence), 'dropped', onTaken),
          ),
        ),
      ]),
    drop: (id, limit) => removeListed(id, listSequences('deliveries', id, limit), 'deliveries'),
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
      await removeListed(id, listSequences('failed_deliveries', id), 'failed_deliveries')
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

/** Told what was taken from a destination's queue. */
type OnTaken = (taken: TakenDeliveries) => void

const tellTaken = (
  onTaken: OnTaken | undefined,
  destination_id: string,
  rows: { bytes: number }[],
): void =>
  onTaken?.({
    destination_id,
    count: rows.length,
    bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0),
  })

async function countDeliveries(kysely: Kysely<Tables>): Promise<DeliveryCounts[]> {
  const { rows } = await sql<DeliveryCounts>`
    select id as destination_id, coalesce(waiting, 0) as waiting, coalesce(bytes, 0) as bytes,
      coalesce(failed, 0) as failed, coalesce(delivered, 0) as delivered,
      coalesce(skipped, 0) as skipped, coalesce(dropped, 0) as dropped,
      last_success_at, last_error_at, last_error
    from (select destination_id as id from deliveries union
      select destination_id from failed_deliveries union
      select destination_id from delivery_counts)
    left join (select destination_id, count(*) as waiting, sum(bytes) as bytes
      from deliveries group by destination_id) as w on w.destination_id = id
    left join (select destination_id, count(*) as failed
      from failed_deliveries group by destination_id) as f on f.destination_id = id
    left join delivery_counts as c on c.destination_id = id
    order by id`.execute(kysely)
  return rows
}

/** The statements that several changes of deliveries share. */
class DeliveryStatements {
  readonly #kysely: Kysely<Tables>

  constructor(kysely: Kysely<Tables>) {
    this.#kysely = kysely
  }

  /** Takes messages from where they wait, and returns those that were there. */
  take(place: Place, destination_id: string, sequences: number[]) {
    return this.#kysely
      .deleteFrom(place)
      .where('destination_id', '=', destination_id)
      .where('sequence', 'in', selectValues(this.#kysely, sequences))
      .returning(['sequence', 'bytes'])
  }

  /** Selects the messages of greater sequence that fit a batch, and the first in any case. */
  selectFitting(destination_id: string, after: number, limit: number, bytes: number) {
    const rows = this.#kysely
      .selectFrom('deliveries')
      .select(['sequence', 'bytes'])
      .where('destination_id', '=', destination_id)
      .where('sequence', '>', after)
      .orderBy('sequence')
      .limit(limit)
    return this.#kysely
      .selectFrom(
        this.#kysely
          .selectFrom(rows.as('rows'))
          .select(['sequence', 'bytes', sql<number>`sum(bytes) over (order by sequence)`.as('sum')])
          .as('summed'),
      )
      .select(['sequence', 'bytes'])
      .where(({ or, eb, ref }) => or([eb('sum', '<=', bytes), eb('sum', '=', ref('bytes'))]))
  }

  /** Selects the oldest messages of all destinations. */
  selectOldest(count: number) {
    return this.#kysely
      .selectFrom('outbox')
      .crossJoin('delivery_receivers')
      .innerJoin('deliveries', join =>
        join
          .onRef('deliveries.destination_id', '=', 'delivery_receivers.destination_id')
          .onRef('deliveries.sequence', '=', 'outbox.sequence'),
      )
      .select(['deliveries.destination_id', 'deliveries.sequence'])
      .orderBy('outbox.sequence')
      .limit(count)
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
    return [
      follow(this.take(place, destination_id, sequences), rows => {
        tellTaken(onTaken, destination_id, rows)
        return [
          this.#add(destination_id, count, rows.length),
          deleteUnreferred(this.#kysely, rows.map(readSequence)),
        ]
      }),
    ]
  }

  /** Moves messages to those that failed. */
  move(
    destination_id: string,
    sequences: number[],
    refusal: DeliveryRefusal,
    onTaken: OnTaken,
  ): Statement {
    return follow(this.take('deliveries', destination_id, sequences), rows => {
      tellTaken(onTaken, destination_id, rows)
      const failed = rows.map(row => ({ ...row, ...refusal, destination_id }))
      return failed.length === 0
        ? []
        : [this.#kysely.insertInto('failed_deliveries').values(failed)]
    })
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

  #add(destination_id: string, count: Count, amount: number) {
    return this.#kysely
      .insertInto('delivery_counts')
      .values({ destination_id, [count]: amount })
      .onConflict(conflict =>
        conflict
          .column('destination_id')
          .doUpdateSet({ [count]: sql`delivery_counts.${sql.ref(count)} + ${amount}` }),
      )
  }
}

/** Deletes those messages of the outbox that no destination waits for, or has refused. */
export function deleteUnreferred(kysely: Kysely<Tables>, sequences: number[]) {
  const values = selectValues(kysely, sequences)
  const waiting = kysely
    .selectFrom('deliveries')
    .select('sequence')
    .where('destination_id', 'in', kysely.selectFrom('delivery_receivers').select('destination_id'))
    .where('sequence', 'in', values)
  const failed = kysely
    .selectFrom('failed_deliveries')
    .select('sequence')
    .where('sequence', 'in', values)
  return kysely
    .deleteFrom('outbox')
    .where('sequence', 'in', values)
    .where('sequence', 'not in', waiting)
    .where('sequence', 'not in', failed)
}
