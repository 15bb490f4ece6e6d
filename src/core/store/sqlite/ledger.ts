import type { Database } from 'bun:sqlite'
import { type Kysely, sql } from 'kysely'
import { chained, type LedgerHead, type LedgerRow } from '../../ledger/chain.ts'
import type { Charge, DaySpend, LedgerBooks, LedgerStore } from '../../ledger/ledger.ts'
import type { Tables } from './tables.ts'

/** Creates the store of spending in SQL. `generations.ts` writes spending with its generations. */
export function ledgerStore(kysely: Kysely<Tables>, db: Database): LedgerStore {
  const head = db.query<LedgerHead, []>(
    'select seq, hash from ledger where hash is not null order by seq desc limit 1',
  )
  return {
    async days(since) {
      const rows = await kysely
        .selectFrom('spend')
        .selectAll()
        .select(textOf('nanos'))
        .where('day', '>=', since)
        .execute()
      return rows.map(row => ({ ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) }))
    },
    async totals() {
      const payer = ['key_hash', 'user_id', 'workspace_id', 'byok'] as const
      const sum = sql<string>`cast(sum(nanos) as text)`.as('nanos')
      const rows = await kysely
        .selectFrom('spend')
        .select(payer)
        .select(sum)
        .groupBy(payer)
        .execute()
      return rows.map(row => ({ ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) }))
    },
    // The row of a one-step call is in no index, so it is searched only if the call is on record.
    async charges(id) {
      const rows = kysely
        .selectFrom('ledger')
        .select(['step', 'byok', textOf('nanos')])
        .where('id', '=', id)
        .orderBy('step')
      const steps = await rows.where('several', '=', 1).execute()
      if (steps.length > 0) return steps.map(opened)
      const recorded = await kysely
        .selectFrom('generations')
        .select('id')
        .where('id', '=', id)
        .executeTakeFirst()
      return recorded ? (await rows.execute()).map(opened) : []
    },
    head: async () => head.get(),
    inspect: async see =>
      db.transaction(() => {
        for (const row of rowsOf(db)) see(row)
        return booksOf(db)
      })(),
  }
}

// A driver that reads a 64-bit column as a double would round it.
const textOf = <Name extends string>(name: Name) =>
  sql<string>`cast(${sql.ref(name)} as text)`.as(name)

function booksOf(db: Database): LedgerBooks {
  const spend = db.query('select *, cast(nanos as text) as nanos from spend').all() as (Omit<
    DaySpend,
    'byok' | 'nanos'
  > &
    Raw)[]
  return {
    integrity: db
      .query<{ integrity_check: string }, []>('pragma integrity_check')
      .all()
      .map(one => one.integrity_check),
    spend: spend.map(opened),
    unmatched: (
      db.query(UNMATCHED).all() as { id: string; charged: string | null; recorded: string | null }[]
    ).map(({ id, charged, recorded }) => ({
      id,
      charged: moneyOf(charged),
      recorded: moneyOf(recorded),
    })),
  }
}

function* rowsOf(db: Database): Generator<LedgerRow> {
  const rows = db
    .query(
      'select seq, id, step, settled_at, key_hash, user_id, workspace_id, byok, ' +
        'cast(nanos as text) as nanos, source, hash from ledger order by seq',
    )
    .iterate()
  for (const row of rows as IterableIterator<Omit<LedgerRow, 'byok' | 'nanos'> & Raw>)
    yield opened(row)
}

/** A row as SQL returns it: flags are 0 and 1, money is text. */
type Raw = { byok: number; nanos: string }
const opened = <Row extends { byok: number | boolean; nanos: string }>(row: Row) => ({
  ...row,
  byok: Boolean(row.byok),
  nanos: BigInt(row.nanos),
})
const moneyOf = (text: string | null) => (text === null ? null : BigInt(text))

// Calls from before the chain existed are summed up in its opening rows.
const IS_CHARGED = `
  g.key_hash is not null and g.upstream_inference_cost <> 0
  and g.settled_at >= (select min(settled_at) from ledger where hash is not null)`

const UNMATCHED = `
  select coalesce(g.id, l.id) as id, cast(l.nanos as text) as charged,
    cast(g.upstream_inference_cost as text) as recorded
  from (
    select id, sum(nanos) as nanos from ledger where source <> 'opening'
    group by id having sum(nanos) <> 0
  ) as l
  full join (select g.id, g.upstream_inference_cost from generations as g where ${IS_CHARGED}) as g
    on g.id = l.id
  where l.nanos is distinct from g.upstream_inference_cost`

/**
 * Returns the amount. Throws a TypeError if it does not fit a column, as the driver would truncate
 * it to another number, possibly a negative one.
 */
function fitting(nanos: bigint): bigint {
  if (nanos !== BigInt.asIntN(64, nanos))
    throw new TypeError('An amount of money does not fit 64 bits')
  return nanos
}

/** A row to append, and whether its call continues after it. */
type NewRow = Omit<LedgerRow, 'seq' | 'hash'> & { continued: boolean }

/**
 * Creates the ledger's statements for recording a call. They run only inside the recorder's
 * transaction.
 */
export function ledgerWriter(db: Database) {
  const last = db.query<{ hash: string | null }, []>(
    'select hash from ledger order by seq desc limit 1',
  )
  const row = db.query(
    `insert into ledger
    (id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos, source, hash)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const stepRow = db.query(
    `insert into ledger
    (id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos, source, hash, several)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)`,
  )
  const spend = db.query(
    `insert into spend values (?, ?, ?, ?, ?, ?)
    on conflict do update set nanos = nanos + excluded.nanos`,
  )

  /** Reads the hash that the next row is chained to. Computes it if the rows predate the chain. */
  function head(): string {
    const newest = last.get()
    if (newest?.hash) return newest.hash
    let hash = ''
    for (const before of rowsOf(db)) hash = chained(hash, before)
    return hash
  }

  return {
    /** Appends rows to the chain. */
    append(rows: NewRow[]): void {
      let hash = head()
      for (const one of rows) {
        hash = chained(hash, one)
        const {
          id,
          step,
          settled_at,
          key_hash,
          user_id,
          workspace_id,
          byok,
          nanos,
          source,
          continued,
        } = one
        const insert = continued || step > 1 ? stepRow : row
        insert.run(
          id,
          step,
          settled_at,
          key_hash,
          user_id,
          workspace_id,
          Number(byok),
          fitting(nanos),
          source,
          hash,
        )
      }
    },
    count({ key_hash, user_id, workspace_id, day, byok, nanos }: Charge): void {
      spend.run(key_hash, user_id, workspace_id, day, Number(byok), fitting(nanos))
    },
  }
}
