import type { Database } from 'bun:sqlite'
import { type Kysely, sql } from 'kysely'
import { chained, type LedgerRow } from '../ledger/chain.ts'
import type { Charge, HeldCall, LedgerStore } from '../ledger/ledger.ts'
import type { Tables } from './tables.ts'

/** Spending in SQL. It is written together with the generations it belongs to: see `generations.ts`. */
export function ledgerStore(kysely: Kysely<Tables>, db: Database): LedgerStore {
  const checkpoint = db.query('update holds set spent = ? where id = ?')
  const checkpoints = db.transaction((calls: Pick<HeldCall, 'id' | 'spent'>[]) => {
    for (const { id, spent } of calls) checkpoint.run(spent, id)
  })
  return {
    async days(since) {
      const rows = await kysely.selectFrom('spend').selectAll().select(textOf('nanos')).where('day', '>=', since).execute()
      return rows.map(row => ({ ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) }))
    },
    async totals() {
      const payer = ['key_hash', 'user_id', 'workspace_id', 'byok'] as const
      const sum = sql<string>`cast(sum(nanos) as text)`.as('nanos')
      const rows = await kysely.selectFrom('spend').select(payer).select(sum).groupBy(payer).execute()
      return rows.map(row => ({ ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) }))
    },
    async rows(after, limit) {
      const rows = kysely.selectFrom('ledger').selectAll().select(textOf('nanos')).where('seq', '>', after)
      return (await rows.orderBy('seq').limit(limit).execute()).map(row => ({ ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) }))
    },
    async holds() {
      const rows = await kysely
        .selectFrom('holds')
        .selectAll()
        .select([textOf('nanos'), textOf('spent')])
        .execute()
      const flags = (row: { byok: number; streamed: number }) => ({ byok: row.byok === 1, streamed: row.streamed === 1 })
      return rows.map(row => ({ ...row, ...flags(row), nanos: BigInt(row.nanos), spent: BigInt(row.spent) }))
    },
    checkpoint: calls => void checkpoints.immediate(calls),
  }
}

// A driver that reads a 64-bit column as a double rounds it.
const textOf = <Name extends string>(name: Name) => sql<string>`cast(${sql.ref(name)} as text)`.as(name)

/** The statements of the ledger that are part of recording a call. They run inside the recorder's transaction, and nowhere else. */
export function ledgerWriter(db: Database) {
  const last = db.query<{ hash: string | null }, []>('select hash from ledger order by seq desc limit 1')
  const unchained = db.query('select *, cast(nanos as text) as nanos from ledger order by seq')
  const row = db.query(
    'insert into ledger (id, settled_at, key_hash, user_id, workspace_id, byok, nanos, source, hash) values (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  )
  const spend = db.query('insert into spend values (?, ?, ?, ?, ?, ?) on conflict do update set nanos = nanos + excluded.nanos')
  const hold = db.query('insert into holds values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
  const release = db.query('delete from holds where id = ?')

  /** The hash that the next row follows. */
  function head(): string {
    const newest = last.get()
    if (newest?.hash) return newest.hash
    const before = unchained.all() as (Omit<LedgerRow, 'nanos' | 'byok'> & { nanos: string; byok: number })[]
    return before.reduce((hash, one) => chained(hash, { ...one, byok: one.byok === 1, nanos: BigInt(one.nanos) }), '')
  }

  return {
    /** Adds rows to the chain. */
    append(rows: Omit<LedgerRow, 'seq' | 'hash'>[]): void {
      let hash = head()
      for (const one of rows) {
        hash = chained(hash, one)
        const { id, settled_at, key_hash, user_id, workspace_id, byok, nanos, source } = one
        row.run(id, settled_at, key_hash, user_id, workspace_id, Number(byok), nanos, source, hash)
      }
    },
    count({ key_hash, user_id, workspace_id, day, byok, nanos }: Charge): void {
      spend.run(key_hash, user_id, workspace_id, day, Number(byok), nanos)
    },
    hold({ id, request_id, created_at, key_hash, user_id, workspace_id, api_type, model, streamed, byok, nanos, spent }: HeldCall): void {
      hold.run(id, request_id, created_at, key_hash, user_id, workspace_id, api_type, model, Number(streamed), Number(byok), nanos, spent)
    },
    release: (id: string) => void release.run(id),
  }
}
