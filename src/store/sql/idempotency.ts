import type { Kysely } from 'kysely'
import {
  CALLS,
  checkRemembered,
  type IdempotencyStore,
  type IdempotentAnswer,
  MOST_REMEMBERED,
  SECRETS,
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
        if (row) return []
        return [forgetCalls(kysely), checkRoom, kysely.insertInto('idempotency').values(answer)]
      }),
    )
    return first
  },
  finish: (name, status, sealed) =>
    write(kysely.updateTable('idempotency').set({ status, sealed }).where('name', '=', name)),
  find: name =>
    kysely.selectFrom('idempotency').selectAll().where('name', '=', name).executeTakeFirst(),
  remove: name => write(kysely.deleteFrom('idempotency').where('name', '=', name)),
  removeSecrets: before =>
    write(
      kysely
        .deleteFrom('idempotency')
        .where('name', '>=', SECRETS)
        .where('name', '<', SECRETS_END)
        .where('created_at', '<=', before),
    ),
})

/** The first name behind those that begin with `SECRETS`, so that an index finds them. */
const SECRETS_END = SECRETS.replace(':', ';')

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
