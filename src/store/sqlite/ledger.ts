import type { Database } from 'bun:sqlite'
import { type Kysely, sql } from 'kysely'
import { toDayNumber } from '../../base/clock.ts'
import type { Mac } from '../../base/mac.ts'
import {
  hashLedgerRow,
  type LedgerHead,
  type LedgerRow,
  sealLedgerRow,
} from '../../limits/chain.ts'
import type { Charge, DaySpend, LedgerStore } from '../../limits/ledger.ts'
import { parseRow, readLedger } from './ledger/rows.ts'
import type { Tables } from './tables.ts'

/** Creates the store of spending in SQL. `generations.ts` writes spending with its generations, and
 * `credits.ts` what accounts open with. */
export function createLedgerStore(
  kysely: Kysely<Tables>,
  db: Database,
): Omit<LedgerStore, 'inspect'> {
  const head = db.query<LedgerHead, []>(
    'select seq, hash from ledger where hash is not null order by seq desc limit 1',
  )
  const findHash = db.query<{ hash: string | null }, [number]>(
    'select hash from ledger where seq = ?',
  )
  const removeDays = db.query<unknown, [number]>(
    `delete from call_spend where (account, day, byok) in
    (select account, day, byok from call_spend where day < ? limit 500)`,
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
    async listSubaccountDays(accounts, since) {
      const rows = await kysely
        .selectFrom('call_spend')
        .select(['account', 'day', 'byok', castToText('nanos')])
        .where('account', 'in', accounts)
        .where('day', '>=', since)
        .execute()
      return rows.map(row => ({ ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) }))
    },
    async removeSubaccountDays(before) {
      const { changes } = removeDays.run(before)
      return changes
    },
    async listCharges(id) {
      const rows = kysely
        .selectFrom('ledger')
        .select(['step', 'byok', castToText('nanos')])
        .where('id', '=', id)
        .orderBy('step')
      return (await rows.execute()).map(parseRow)
    },
    async listOpenings(after) {
      const rows = await kysely
        .selectFrom('ledger')
        .select(['id', 'seq', 'key_hash', 'user_id', 'workspace_id', 'settled_at', 'byok'])
        .select(castToText('nanos'))
        // Found by the index of ids, so that reading them again does not read the ledger.
        .where('id', '>=', 'opening-')
        .where('id', '<', 'opening.')
        .where('seq', '>', after)
        .where('source', '=', 'opening')
        .orderBy('seq')
        .execute()
      return rows.map(({ settled_at, ...row }) => ({
        ...row,
        byok: row.byok === 1,
        nanos: BigInt(row.nanos),
        day: toDayNumber(new Date(settled_at)),
      }))
    },
    readHead: async () => head.get(),
    has: async ({ seq, hash }) => seq === 0 || findHash.get(seq)?.hash === hash,
  }
}

// A driver that reads a 64-bit column as a double would round it.
const castToText = <Name extends string>(name: Name) =>
  sql<string>`cast(${sql.ref(name)} as text)`.as(name)

/**
 * Returns the amount. Throws a TypeError if it does not fit a column, as the driver would truncate
 * it to another number, possibly a negative one.
 */
function checkAmount(nanos: bigint): bigint {
  if (nanos !== BigInt.asIntN(64, nanos))
    throw new TypeError('An amount of money does not fit 64 bits')
  return nanos
}

/** A row to append. */
type NewRow = Omit<LedgerRow, 'seq' | 'hash'>

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
  const addCallSpend = db.query(
    `insert into call_spend values (?, ?, ?, ?)
    on conflict do update set nanos = nanos + excluded.nanos`,
  )

  return {
    /** Reads the hash that the next row is chained to. Computes it if the rows predate the chain. */
    readHead(): string {
      const newest = newestHash.get()
      if (newest?.hash) return newest.hash
      let hash = ''
      for (const row of readLedger(db)) hash = hashLedgerRow(hash, row)
      return hash
    },
    /** Appends a row to the chain, of a call that may go on, and returns the new head. */
    append(head: string, row: NewRow, isContinued = false): string {
      const { id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos, source } = row
      const hash = sealLedgerRow(mac, head, row)
      const insert = isContinued || step > 1 ? insertStepRow : insertRow
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
      return hash
    },
    /** Counts a charge in the parts of accounts that budgets count. */
    countParts({ subaccounts = [], day, byok, nanos }: Charge): void {
      if (nanos === 0n) return
      for (const account of subaccounts)
        addCallSpend.run(account, day, Number(byok), checkAmount(nanos))
    },
    count({ key_hash, user_id, workspace_id, day, byok, nanos }: DaySpend): void {
      addSpend.run(key_hash, user_id, workspace_id, day, Number(byok), checkAmount(nanos))
    },
  }
}
