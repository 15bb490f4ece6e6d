import type { Compilable, Kysely } from 'kysely'
import { denied, unauthenticated } from '../../base/errors.ts'
import type { SessionBounds, SessionFilter, SignIn, SignInStore } from '../../resources/sign-ins.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { type Check, check, type FollowUp, follow, type Write } from './write.ts'

/** Creates the store of links and sessions in SQL. */
export const createSignInStore = (kysely: Kysely<Tables>, write: Write): SignInStore => ({
  insert: (signIn, now, entry, bounds) =>
    write(
      kysely.deleteFrom('sign_ins').where('expires_at', '<=', now),
      checkActive(kysely, signIn),
      ...(bounds?.secret_hash === undefined ? [] : [checkSecret(kysely, signIn, bounds)]),
      ...(bounds ? [endOldest(kysely, signIn, bounds)] : []),
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
  listSessions: of => selectSessions(kysely, of).execute(),
})

const selectSessions = (
  kysely: Kysely<Tables>,
  { user_id, key_hash }: Pick<SignIn, 'user_id' | 'key_hash'>,
) =>
  kysely
    .selectFrom('sign_ins')
    .selectAll()
    .where('kind', '=', 'session')
    .where('user_id', '=', user_id)
    .where('key_hash', 'is not distinct from', key_hash)
    .orderBy('created_at', 'desc')

const checkActive = (kysely: Kysely<Tables>, { user_id }: SignIn): Check =>
  check(
    kysely.selectFrom('members').select('id').where('id', '=', user_id).where('active', '=', 0),
    ([left]) => {
      if (left) throw denied('This member was deactivated')
    },
  )

/** Refuses a session of a secret that was valid a moment ago. */
const checkSecret = (
  kysely: Kysely<Tables>,
  { key_hash }: SignIn,
  { secret_hash }: SessionBounds,
): Check =>
  check(
    kysely.selectFrom('keys').select(['secret_hash', 'disabled']).where('hash', '=', key_hash),
    ([key]) => {
      if (key?.disabled !== 0 || key.secret_hash !== secret_hash)
        throw unauthenticated('Invalid API key')
    },
  )

const endOldest = (kysely: Kysely<Tables>, signIn: SignIn, { most }: SessionBounds): FollowUp =>
  follow(selectSessions(kysely, signIn), sessions =>
    sessions
      .slice(most - 1)
      .map(({ hash }) => kysely.deleteFrom('sign_ins').where('hash', '=', hash)),
  )

/** Builds the statement that has the sessions of a key end at this time at the latest. */
export const buildSessionEnd = (
  kysely: Kysely<Tables>,
  key_hash: string,
  until: string,
): Compilable =>
  kysely
    .updateTable('sign_ins')
    .set({ expires_at: until })
    .where('key_hash', '=', key_hash)
    .where('expires_at', '>', until)

/** Builds the statements that end what a member has begun: links, sessions, and codes for apps. */
export const buildSignOut = (kysely: Kysely<Tables>, user_id: string): Compilable[] => [
  kysely.deleteFrom('sign_ins').where('user_id', '=', user_id),
  kysely.deleteFrom('auth_codes').where('user_id', '=', user_id),
]
