import type { Kysely } from 'kysely'
import type { SessionFilter, SignIn, SignInStore } from '../../resources/sign-ins.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { follow, type Write } from './write.ts'

/** Creates the store of links and sessions in SQL. */
export const createSignInStore = (kysely: Kysely<Tables>, write: Write): SignInStore => ({
  insert: (signIn, now, entry) =>
    write(
      kysely.deleteFrom('sign_ins').where('expires_at', '<=', now),
      kysely.insertInto('sign_ins').values(signIn),
      ...(entry ? [buildAuditInsert(kysely, entry)] : []),
    ),
  find: hash =>
    kysely.selectFrom('sign_ins').selectAll().where('hash', '=', hash).executeTakeFirst(),
  async take(hash) {
    let taken: SignIn | undefined
    const query = kysely.selectFrom('sign_ins').selectAll().where('hash', '=', hash)
    // A stranger's guess costs no transaction.
    if (!(await query.executeTakeFirst())) return undefined
    const remove = kysely.deleteFrom('sign_ins').where('hash', '=', hash)
    await write(
      follow(query, ([row]) => {
        taken = row
        return row ? [remove] : []
      }),
    )
    return taken
  },
  endSessions: (of, until) => {
    const ended = kysely
      .deleteFrom('sign_ins')
      .where('kind', '=', 'session')
      .where('key_hash', 'is', null)
      .where('created_at', '<=', until)
    const names = Object.keys(of) as (keyof SessionFilter)[]
    return write(
      names.reduce(
        (query, name) => query.where(name, 'is not distinct from', of[name] ?? null),
        ended,
      ),
    )
  },
  listSessions: ({ user_id, key_hash }) =>
    kysely
      .selectFrom('sign_ins')
      .selectAll()
      .where('kind', '=', 'session')
      .where('user_id', '=', user_id)
      .where('key_hash', 'is not distinct from', key_hash)
      .orderBy('created_at', 'desc')
      .execute(),
})
