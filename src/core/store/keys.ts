import { type Kysely, sql } from 'kysely'
import type { Key, KeyStore } from '../identity/keys.ts'
import { auditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** Keys in SQL. */
export function keyStore(kysely: Kysely<Tables>, write: Write): KeyStore {
  return {
    async all() {
      const rows = await kysely.selectFrom('keys').selectAll().select(sql<string | null>`cast("limit" as text)`.as('limit')).execute()
      return rows.map(row => ({
        ...row,
        disabled: row.disabled === 1,
        include_byok_in_limit: row.include_byok_in_limit === 1,
        limit: row.limit === null ? null : BigInt(row.limit),
      }))
    },
    insert: (key, entry) => write(kysely.insertInto('keys').values(rowOf(key)), auditInsert(kysely, entry)),
    update: (hash, change, entry) =>
      write(kysely.updateTable('keys').set(columnsOf(change)).where('hash', '=', hash), auditInsert(kysely, entry)),
    remove: (hash, entry) => write(kysely.deleteFrom('keys').where('hash', '=', hash), auditInsert(kysely, entry)),
  }
}

const rowOf = (key: Key) => ({ ...key, disabled: Number(key.disabled), include_byok_in_limit: Number(key.include_byok_in_limit) })

const columnsOf = ({ disabled, include_byok_in_limit, ...rest }: Partial<Key>) => ({
  ...rest,
  ...(disabled === undefined ? {} : { disabled: Number(disabled) }),
  ...(include_byok_in_limit === undefined ? {} : { include_byok_in_limit: Number(include_byok_in_limit) }),
})
