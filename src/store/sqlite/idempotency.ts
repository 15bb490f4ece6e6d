import type { Kysely } from 'kysely'
import {
  checkRemembered,
  type IdempotencyStore,
  type IdempotentAnswer,
} from '../../resources/idempotency.ts'
import type { Tables } from './tables.ts'
import { check, follow, type Write } from './write.ts'

/** Creates the store of answers to repeated changes in SQL. */
export const createIdempotencyStore = (kysely: Kysely<Tables>, write: Write): IdempotencyStore => ({
  async begin(answer, before) {
    let first: IdempotentAnswer | undefined
    const { name } = answer
    const countAll = kysely
      .selectFrom('idempotency')
      .select(({ fn }) => fn.countAll<number>().as('count'))
    const checkRoom = check(countAll, ([row]) => checkRemembered(row?.count ?? 0))
    await write(
      kysely.deleteFrom('idempotency').where('created_at', '<=', before),
      follow(kysely.selectFrom('idempotency').selectAll().where('name', '=', name), ([row]) => {
        first = row
        return row ? [] : [checkRoom, kysely.insertInto('idempotency').values(answer)]
      }),
    )
    return first
  },
  finish: (name, status, sealed) =>
    write(kysely.updateTable('idempotency').set({ status, sealed }).where('name', '=', name)),
  remove: name => write(kysely.deleteFrom('idempotency').where('name', '=', name)),
})
