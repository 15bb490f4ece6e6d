import type { Database } from 'bun:sqlite'
import { type Kysely, sql } from 'kysely'
import type { Mac } from '../../kernel/mac.ts'
import {
  hashLedgerRow,
  type LedgerHead,
  type LedgerRow,
  sealLedgerRow,
} from '../../ledger/chain.ts'
import type { Charge, DaySpend, LedgerBooks, LedgerStore } from '../../ledger/ledger.ts'
import { IS_CHARGED } from './generations/evicted.ts'
import type { Tables } from './tables.ts'

/** Creates the store of spending in SQL. `generations.ts` writes spending with its generations. */
export function createLedgerStore(kysely: Kysely<Tables>, db: Database): LedgerStore {
  const head = db.query<LedgerHead, []>(
    'select seq, hash from ledger where hash is not null order by seq desc limit 1',
  )
  const findHash = db.query<{ hash: string | null }, [number]>(
    'select hash from ledger where seq = ?',
  )
  return {
    async listDays(since) {
      const rows = await kysely
        .selectFrom('spend')
        .selectAll()
        .select(castToText('nanos'))
        .where('day', '>=', since)
        .execute()
      return rows.map(row => ({ ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) }))
    },
    async listTotals() {
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
    async listCharges(id) {
      const rows = kysely
        .selectFrom('ledger')
        .select(['step', 'byok', castToText('nanos')])
        .where('id', '=', id)
        .orderBy('step')
      const steps = await rows.where('several', '=', 1).execute()
      if (steps.length > 0) return steps.map(parseRow)
      const recorded = await kysely
        .selectFrom('generations')
        .select('id')
        .where('id', '=', id)
        .executeTakeFirst()
      return recorded ? (await rows.execute()).map(parseRow) : []
    },
    readHead: async () => head.get(),
    has: async ({ seq, hash }) => seq === 0 || findHash.get(seq)?.hash === hash,
    inspect: async onRow =>
      db.transaction(() => {
        for (const row of readLedger(db)) onRow(row)
        return readBooks(db)
      })(),
  }
}

// A driver that reads a 64-bit column as a double would round it.
const castToText = <Name extends string>(name: Name) =>
  sql<string>`cast(${sql.ref(name)} as text)`.as(name)

function readBooks(db: Database): LedgerBooks {
  const spend = db.query('select *, cast(nanos as text) as nanos from spend').all() as (Omit<
    DaySpend,
    'byok' | 'nanos'
  > &
    RawRow)[]
  return {
    integrity: db
      .query<{ integrity_check: string }, []>('pragma integrity_check')
      .all()
      .map(row => row.integrity_check),
    spend: spend.map(parseRow),
    unmatched: (
      db.query(UNMATCHED).all() as { id: string; charged: string | null; recorded: string | null }[]
    ).map(({ id, charged, recorded }) => ({
      id,
      charged: parseMoney(charged),
      recorded: parseMoney(recorded),
    })),
  }
}

/** Reads the ledger row by row, in order. */
export function* readLedger(db: Database): Generator<LedgerRow> {
  const rows = db
    .query(
      'select seq, id, step, settled_at, key_hash, user_id, workspace_id, byok, ' +
        'cast(nanos as text) as nanos, source, hash from ledger order by seq',
    )
    .iterate()
  for (const row of rows as IterableIterator<Omit<LedgerRow, 'byok' | 'nanos'> & RawRow>)
    yield parseRow(row)
}

/** A row as SQL returns it: flags are 0 and 1, money is text. */
type RawRow = { byok: number; nanos: string }
const parseRow = <Row extends { byok: number | boolean; nanos: string }>(row: Row) => ({
  ...row,
  byok: row.byok === 1,
  nanos: BigInt(row.nanos),
})
const parseMoney = (text: string | null) => (text === null ? null : BigInt(text))

/**
 * Matches every charge with its call, and every call with its charge. Two joins, each by an index:
 * SQLite compares all rows with all others for a full join. Charges of calls whose records are no
 * longer kept are compared with the sums of these.
 */
export const UNMATCHED = `
  with charged as materialized (
    select id, sum(nanos) as nanos, substr(max(settled_at), 1, 10) as day
    from ledger where source <> 'opening'
    group by id having sum(nanos) <> 0
  ),
  removed as materialized (
    select c.id, c.nanos from charged as c
    where c.day <= (select max(day) from evicted_days)
      and not exists (select 1 from generations as kept where kept.id = c.id)
  ),
  sums as (
    select (select coalesce(sum(nanos), 0) from removed) as charged,
      (select coalesce(sum(charged), 0) from evicted_days) as recorded
  )
  select l.id, cast(l.nanos as text) as charged,
    cast(g.upstream_inference_cost as text) as recorded
  from charged as l left join generations as g on g.id = l.id and ${IS_CHARGED}
  where l.nanos is distinct from g.upstream_inference_cost
    and l.id not in (select id from removed)
  union all
  select g.id, null, cast(g.upstream_inference_cost as text)
  from generations as g left join charged as l on l.id = g.id
  where l.id is null and ${IS_CHARGED}
  union all
  select 'calls that are no longer kept', cast(charged as text), cast(recorded as text)
  from sums where charged <> recorded`

/**
 * Returns the amount. Throws a TypeError if it does not fit a column, as the driver would truncate
 * it to another number, possibly a negative one.
 */
function checkAmount(nanos: bigint): bigint {
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
export function createLedgerWriter(db: Database, mac: Mac) {
  const newestHash = db.query<{ hash: string | null }, []>(
    'select hash from ledger order by seq desc limit 1',
  )
  const insertRow = db.query(
    `insert into ledger
    (id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos, source, hash)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  )
  const insertStepRow = db.query(
    `insert into ledger
    (id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos, source, hash, several)
    values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1)`,
  )
  const addSpend = db.query(
    `insert into spend values (?, ?, ?, ?, ?, ?)
    on conflict do update set nanos = nanos + excluded.nanos`,
  )

  /** Reads the hash that the next row is chained to. Computes it if the rows predate the chain. */
  function readHead(): string {
    const newest = newestHash.get()
    if (newest?.hash) return newest.hash
    let hash = ''
    for (const row of readLedger(db)) hash = hashLedgerRow(hash, row)
    return hash
  }

  return {
    /** Appends rows to the chain. */
    append(rows: NewRow[]): void {
      let hash = readHead()
      for (const row of rows) {
        hash = sealLedgerRow(mac, hash, row)
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
        } = row
        const insert = continued || step > 1 ? insertStepRow : insertRow
        insert.run(
          id,
          step,
          settled_at,
          key_hash,
          user_id,
          workspace_id,
          Number(byok),
          checkAmount(nanos),
          source,
          hash,
        )
      }
    },
    count({ key_hash, user_id, workspace_id, day, byok, nanos }: Charge): void {
      addSpend.run(key_hash, user_id, workspace_id, day, Number(byok), checkAmount(nanos))
    },
  }
}
