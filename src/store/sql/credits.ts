import { type Kysely, sql } from 'kysely'
import type { Mac } from '../../base/mac.ts'
import type { CreditStore } from '../../limits/world.ts'
import { buildAuditInsert } from './audit.ts'
import { chainCharge, countSpend, followHead, INSERT_CHARGE } from './ledger.ts'
import type { Tables } from './tables.ts'
import { follow, prepare, type Statement, type Write } from './write.ts'

/**
 * Creates the store of credits in SQL. The table's triggers refuse to change or delete any. Rows of
 * the ledger come after `lockLedger`, where others write it at the same time.
 */
export function createCreditStore(
  kysely: Kysely<Tables>,
  write: Write,
  mac: Mac,
  lockLedger: Statement[],
): CreditStore {
  return {
    async insert(credit, entry, opening) {
      const inserts = [kysely.insertInto('credits').values(credit), buildAuditInsert(kysely, entry)]
      if (!opening) return write(...inserts)
      const { day, ...row } = opening
      const known = prepare<{ id: string }>('select id from ledger where id = ?', row.id)
      const add = follow<{ id: string }>(known, ([there]) => {
        if (there) return []
        return [
          ...lockLedger,
          followHead(head => [
            prepare(INSERT_CHARGE, ...chainCharge(mac, head, { ...row, source: 'opening' }).values),
          ]),
          countSpend({ ...row, day }),
          ...inserts,
        ]
      })
      return write(add)
    },
    async computeTotal() {
      const sum = sql<string>`cast(coalesce(sum(amount), 0) as text)`.as('total')
      const { total } = await kysely.selectFrom('credits').select(sum).executeTakeFirstOrThrow()
      return BigInt(total)
    },
    async listPage(offset, limit) {
      const amount = sql<string>`cast(amount as text)`.as('amount')
      const rows = kysely
        .selectFrom('credits')
        .select(['id', 'created_at', 'note', 'user_id', amount])
      const credits = await rows.orderBy('sequence', 'desc').offset(offset).limit(limit).execute()
      const { count } = await kysely
        .selectFrom('credits')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .executeTakeFirstOrThrow()
      return { credits: credits.map(row => ({ ...row, amount: BigInt(row.amount) })), count }
    },
  }
}
