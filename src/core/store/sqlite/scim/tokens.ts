import type { Kysely } from 'kysely'
import type { ScimTokenStore } from '../../../identity/scim/tokens.ts'
import { buildAuditInsert } from '../audit.ts'
import type { Tables } from '../tables.ts'
import type { Write } from '../write.ts'

/** Creates the store of SCIM tokens in SQL. */
export const createScimTokenStore = (kysely: Kysely<Tables>, write: Write): ScimTokenStore => ({
  all: () =>
    kysely.selectFrom('scim_tokens').selectAll().orderBy('created_at').orderBy('id').execute(),
  byHash: hash =>
    kysely.selectFrom('scim_tokens').selectAll().where('hash', '=', hash).executeTakeFirst(),
  insert: (token, entry) =>
    write(kysely.insertInto('scim_tokens').values(token), buildAuditInsert(kysely, entry)),
  remove: (id, entry) =>
    write(kysely.deleteFrom('scim_tokens').where('id', '=', id), buildAuditInsert(kysely, entry)),
})
