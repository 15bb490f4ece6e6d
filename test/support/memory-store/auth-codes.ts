import { conflict } from '../../../src/base/errors.ts'
import type { AuthCodeStore } from '../../../src/resources/auth-codes/store.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import type { Connection } from './memory.ts'

/** Codes in memory. */
export const createMemoryAuthCodeStore = (connection: Connection): AuthCodeStore => ({
  insert: (code, before, most, entry) =>
    connection.write(memory => {
      for (const { hash } of memory.authCodes.all(({ created_at }) => created_at <= before))
        memory.authCodes.remove(hash)
      const { length } = memory.authCodes.all(({ user_id }) => user_id === code.user_id)
      if (length >= most) throw conflict(`${length} codes wait to be exchanged already`)
      mustBeLive(memory, code.workspace_id)
      memory.authCodes.insert(code.hash, code)
      addAudit(memory, entry)
    }),
  take: hash =>
    connection.write(({ authCodes }) => {
      const taken = authCodes.get(hash)
      authCodes.remove(hash)
      return taken
    }),
})
