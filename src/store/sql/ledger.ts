import { type Kysely, sql } from 'kysely'
import { toDayNumber } from '../../base/clock.ts'
import type { Mac } from '../../base/mac.ts'
import { hashLedgerRow, type LedgerRow, sealLedgerRow } from '../../limits/chain.ts'
import type { Charge, DaySpend, LedgerStore } from '../../limits/ledger.ts'
import { selectTexts } from './json-values.ts'
import type { Tables } from './tables.ts'
import { follow, prepare, type Statement, type Write } from './write.ts'

/** Creates the store of spending in SQL. `generations.ts` writes spending with its generations, and
 * `credits.ts` what accounts open with. */
export function createLedgerStore(
  kysely: Kysely<Tables>,
  write: Write,
): Omit<LedgerStore, 'inspect'> {
  const selectHead = () =>
    kysely
      .selectFrom('ledger')
      .select(['seq', 'hash'])
      .where('hash', 'is not', null)
      .orderBy('seq', 'desc')
      .limit(1)
      .$narrowType<{ hash: string }>()
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
        .where('account', 'in', selectTexts(kysely, accounts))
        .where('day', '>=', since)
        .execute()
      return rows.map(row => ({ ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) }))
    },
    async removeSubaccountDays(before) {
      let count = 0
      await write(
        follow(prepare(REMOVE_DAYS, before), rows => {
          count = rows.length
          return []
        }),
      )
      return count
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
    readHead: async () => (await selectHead().executeTakeFirst()) ?? null,
    async has({ seq, hash }) {
      if (seq === 0) return true
      const row = kysely.selectFrom('ledger').select('hash').where('seq', '=', seq)
      return (await row.executeTakeFirst())?.hash === hash
    },
  }
}

const REMOVE_DAYS = `delete from call_spend where (account, day, byok) in
  (select account, day, byok from call_spend where day < ? limit 500) returning 1`

// A driver that reads a 64-bit column as a double would round it.
const castToText = <Name extends string>(name: Name) =>
  sql<string>`cast(${sql.ref(name)} as text)`.as(name)

/**
 * Returns the amount. Throws a TypeError if it does not fit a column, as the driver would truncate
 * it to another number, possibly a negative one.
 */
export function checkAmount(nanos: bigint): bigint {
  if (nanos !== BigInt.asIntN(64, nanos))
    throw new TypeError('An amount of money does not fit 64 bits')
  return nanos
}

/** A row to append. */
type NewRow = Omit<LedgerRow, 'seq' | 'hash'>

/** Selects rows of the ledger that match a condition, in order. */
export const selectLedger = (condition = ''): string =>
  'select seq, id, step, settled_at, key_hash, user_id, workspace_id, byok, ' +
  `cast(nanos as text) as nanos, source, hash from ledger ${condition} order by seq`

/** A row as SQL returns it: flags are 0 and 1, money is text. */
export type RawRow = { byok: number; nanos: string }

/** A row of the ledger as `selectLedger` returns it. */
export type RawLedgerRow = Omit<LedgerRow, 'byok' | 'nanos'> & RawRow

/** Returns the row with its flag and its money. */
export const parseRow = <Row extends { byok: number | boolean; nanos: string }>(
  row: Row,
): Omit<Row, 'byok' | 'nanos'> & { byok: boolean; nanos: bigint } => ({
  ...row,
  byok: row.byok === 1,
  nanos: BigInt(row.nanos),
})

/** Returns money from its column. */
export const parseMoney = (text: string | null) => (text === null ? null : BigInt(text))

export const NEWEST_HASH = 'select seq, hash from ledger order by seq desc limit 1'

/** Reads the row that the next one is chained to. Computes its hash if the rows predate the chain. */
export const followHead = (then: (hash: string, seq: number) => Statement[]): Statement =>
  follow<{ seq: number; hash: string | null }>(prepare(NEWEST_HASH), ([newest]) => {
    if (!newest || newest.hash) return then(newest?.hash ?? '', newest?.seq ?? 0)
    return [
      follow<RawLedgerRow>(prepare(selectLedger()), rows =>
        then(rows.map(parseRow).reduce(hashLedgerRow, ''), newest.seq),
      ),
    ]
  })

/** Appends a row to the chain, whose values `chainCharge` returns. */
export const INSERT_CHARGE = `insert into ledger
  (id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos, source, hash, several)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

/** The values of a row: text, number, and money. */
export type LedgerValues = (string | number | bigint)[]

/** Chains a row, of a call that may go on. Returns the new head with the values of the row. */
export function chainCharge(
  mac: Mac,
  head: string,
  row: NewRow,
  isContinued = false,
): { hash: string; values: LedgerValues } {
  const { id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos, source } = row
  const hash = sealLedgerRow(mac, head, row)
  const payer = [key_hash, user_id, workspace_id, Number(byok)]
  const several = Number(isContinued || step > 1)
  const values = [id, step, settled_at, ...payer, checkAmount(nanos), source, hash, several]
  return { hash, values }
}

const ADD_SPEND = `insert into spend (key_hash, user_id, workspace_id, day, byok, nanos)
  values (?, ?, ?, ?, ?, ?)
  on conflict (key_hash, day, byok) do update set nanos = spend.nanos + excluded.nanos`

/** Counts what was charged to a key on a day. */
export const countSpend = (sum: DaySpend): Statement => {
  const { key_hash, user_id, workspace_id, day, byok, nanos } = sum
  return prepare(ADD_SPEND, key_hash, user_id, workspace_id, day, Number(byok), checkAmount(nanos))
}

const ADD_PART = `insert into call_spend (account, day, byok, nanos) values (?, ?, ?, ?)
  on conflict (account, day, byok) do update set nanos = call_spend.nanos + excluded.nanos`

/** Counts a charge in the parts of accounts that budgets count. */
export const countParts = ({ subaccounts = [], day, byok, nanos }: Charge): Statement[] =>
  nanos === 0n
    ? []
    : subaccounts.map(account => prepare(ADD_PART, account, day, Number(byok), checkAmount(nanos)))
