import type { ScimTokenStore } from '../../../../src/core/identity/scim/tokens.ts'
import { addAudit } from '../audit.ts'
import type { Connection } from '../memory.ts'
import { byFields, changedMeanwhile } from '../table.ts'

/** Tokens in memory. */
export const scimTokenStore = (connection: Connection): ScimTokenStore => ({
  all: () =>
    connection.read(({ scimTokens }) => scimTokens.all().sort(byFields('created_at', 'id'))),
  byHash: hash => connection.read(({ scimTokens }) => scimTokens.all(one => one.hash === hash)[0]),
  insert: (token, entry) =>
    connection.write(memory => {
      if (memory.scimTokens.all(one => one.hash === token.hash).length > 0) throw changedMeanwhile()
      memory.scimTokens.insert(token.id, token)
      addAudit(memory, entry)
    }),
  remove: (id, entry) =>
    connection.write(memory => {
      memory.scimTokens.remove(id)
      addAudit(memory, entry)
    }),
})
