import type { SignIn, SignInStore } from '../../../src/resources/sign-ins.ts'
import { addAudit } from './audit.ts'
import type { Connection } from './memory.ts'

/** Links and sessions in memory. */
export const createMemorySignInStore = (connection: Connection): SignInStore => ({
  insert: (signIn, now, entry) =>
    connection.write(memory => {
      for (const { hash } of memory.signIns.all(({ expires_at }) => expires_at <= now))
        memory.signIns.remove(hash)
      memory.signIns.insert(signIn.hash, signIn)
      if (entry) addAudit(memory, entry)
    }),
  find: hash => connection.read(({ signIns }) => signIns.get(hash)),
  take: hash =>
    connection.write(({ signIns }) => {
      const taken = signIns.get(hash)
      signIns.remove(hash)
      return taken
    }),
  endSessions: (of, until) =>
    connection.write(({ signIns }) => {
      const isMeant = (one: SignIn) =>
        one.kind === 'session' && one.key_hash === null && one.created_at <= until
      for (const one of signIns.all(isMeant))
        if (Bun.deepEquals({ ...one, ...of }, one)) signIns.remove(one.hash)
    }),
  listSessions: ({ user_id, key_hash }) =>
    connection.read(({ signIns }) =>
      signIns
        .all(one => one.kind === 'session' && one.user_id === user_id && one.key_hash === key_hash)
        .toSorted((a, b) => (a.created_at < b.created_at ? 1 : -1)),
    ),
})
