import { type Insertable, type Kysely, type Selectable, sql } from 'kysely'
import { conflict } from '../../base/errors.ts'
import type { AuthCode, AuthCodeStore } from '../../resources/auth-codes/store.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { check, follow, toColumns, type Write } from './write.ts'

/** Creates the store of codes in SQL. */
export const createAuthCodeStore = (kysely: Kysely<Tables>, write: Write): AuthCodeStore => ({
  insert: (code, before, most, entry) =>
    write(
      kysely.deleteFrom('auth_codes').where('created_at', '<=', before),
      check(
        kysely
          .selectFrom('auth_codes')
          .select('hash')
          .where('user_id', '=', code.user_id)
          .where('key_hash', 'is not distinct from', code.key_hash),
        ({ length }) => {
          if (length >= most) throw conflict(`${length} codes wait to be exchanged already`)
        },
      ),
      checkWorkspaceReference(kysely, code.workspace_id),
      kysely.insertInto('auth_codes').values(toColumns<Insertable<Tables['auth_codes']>>(code)),
      buildAuditInsert(kysely, entry),
    ),
  async take(hash) {
    let taken: AuthCode | undefined
    const query = kysely
      .selectFrom('auth_codes')
      .selectAll()
      .select(sql<string | null>`cast("limit" as text)`.as('limit'))
      .where('hash', '=', hash)
    const remove = kysely.deleteFrom('auth_codes').where('hash', '=', hash)
    // A stranger's guess costs no transaction.
    if (!(await query.executeTakeFirst())) return undefined
    await write(
      follow<Selectable<Tables['auth_codes']>>(query as never, ([row]) => {
        taken = row && { ...row, limit: row.limit === null ? null : BigInt(row.limit) }
        return row ? [remove] : []
      }),
    )
    return taken
  },
})
