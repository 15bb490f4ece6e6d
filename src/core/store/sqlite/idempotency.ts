import type { Kysely } from 'kysely'
import type { IdempotencyStore, IdempotentAnswer } from '../../identity/idempotency.ts'
import type { Tables } from './tables.ts'
import { follow, type Write } from './write.ts'

/** Creates the store of answers to repeated changes in SQL. */
export const createIdempotencyStore = (kysely: Kysely<Tables>, write: Write): IdempotencyStore => ({
  async begin(answer, before) {
    let first: IdempotentAnswer | undefined
    const { name } = answer
    await write(
      kysely.deleteFrom('idempotency').where('created_at', '<=', before),
      follow(kysely.selectFrom('idempotency').selectAll().where('name', '=', name), ([row]) => {
        first = row
        return row ? [] : [kysely.insertInto('idempotency').values(answer)]
      }),
    )
    return first
  },
  finish: (name, status, sealed) =>
    write(kysely.updateTable('idempotency').set({ status, sealed }).where('name', '=', name)),
  remove: name => write(kysely.deleteFrom('idempotency').where('name', '=', name)),
})
