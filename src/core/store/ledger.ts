import { type Kysely, sql } from 'kysely'
import type { LedgerStore } from '../ledger/ledger.ts'
import type { Tables } from './tables.ts'

/** Spending in SQL. It is written together with the generations it belongs to: see `generations.ts`. */
export function ledgerStore(kysely: Kysely<Tables>): LedgerStore {
  return {
    async days(since) {
      const rows = await kysely
        .selectFrom('spend')
        .select(['key_hash', 'byok', 'day', sql<string>`cast(nanos as text)`.as('nanos')])
        .where('day', '>=', since)
        .execute()
      return rows.map(row => ({ ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) }))
    },
    async totals() {
      const rows = await kysely
        .selectFrom('spend')
        .select(['key_hash', 'byok', sql<string>`cast(sum(nanos) as text)`.as('nanos')])
        .groupBy(['key_hash', 'byok'])
        .execute()
      return rows.map(row => ({ ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) }))
    },
  }
}
