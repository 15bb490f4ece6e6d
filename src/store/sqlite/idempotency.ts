import type { Kysely } from 'kysely'
import {
  CALLS,
  checkRemembered,
  type IdempotencyStore,
  type IdempotentAnswer,
  MOST_REMEMBERED,
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
    const makeRoom = name.startsWith(CALLS) ? [forgetCalls(kysely)] : []
    await write(
      kysely.deleteFrom('idempotency').where('created_at', '<=', before),
      follow(kysely.selectFrom('idempotency').selectAll().where('name', '=', name), ([row]) => {
        first = row
        return row ? [] : [...makeRoom, checkRoom, kysely.insertInto('idempotency').values(answer)]
      }),
    )
    return first
  },
  finish: (name, status, sealed) =>
    write(kysely.updateTable('idempotency').set({ status, sealed }).where('name', '=', name)),
  remove: name => write(kysely.deleteFrom('idempotency').where('name', '=', name)),
})

/** Forgets the calls that are older than all but the newest: there is room for one more then. */
const forgetCalls = (kysely: Kysely<Tables>) =>
  kysely
    .deleteFrom('idempotency')
    .where('name', 'like', `${CALLS}%`)
    .where('created_at', '<=', ({ selectFrom }) =>
      selectFrom('idempotency')
        .select('created_at')
        .orderBy('created_at', 'desc')
        .limit(1)
        .offset(MOST_REMEMBERED - 1),
    )
