import type { ScimTokenStore } from '../../../../src/resources/scim.ts'
import { addAudit } from '../audit.ts'
import type { Connection } from '../memory.ts'
import { changedConcurrently, compareByFields } from '../table.ts'

/** Tokens in memory. */
export const createMemoryScimTokenStore = (connection: Connection): ScimTokenStore => ({
  all: () =>
    connection.read(({ scimTokens }) => scimTokens.all().sort(compareByFields('created_at', 'id'))),
  byHash: hash => connection.read(({ scimTokens }) => scimTokens.all(one => one.hash === hash)[0]),
  insert: (token, entry) =>
    connection.write(memory => {
      if (memory.scimTokens.all(one => one.hash === token.hash).length > 0)
        throw changedConcurrently()
      memory.scimTokens.insert(token.id, token)
      addAudit(memory, entry)
    }),
  remove: (id, entry) =>
    connection.write(memory => {
      memory.scimTokens.remove(id)
      addAudit(memory, entry)
    }),
})
