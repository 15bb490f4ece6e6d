import type { Compilable, Kysely, Selectable } from 'kysely'
import type { AuditEntry, AuditFilter, AuditStore } from '../../identity/audit.ts'
import { parseObject } from '../../kernel/json.ts'
import { usdOf } from '../../kernel/money.ts'
import type { Tables } from './tables.ts'

/** What was changed, in SQL. Only `auditInsert` adds to it, and the table itself refuses to lose anything. */
export function auditStore(kysely: Kysely<Tables>): AuditStore {
  return {
    async page(filter, offset, limit) {
      // By the order of writing: an id is older than its entry where the store was locked for a moment.
      const rows = await meant(kysely, filter)
        .selectAll()
        .orderBy('sequence', 'desc')
        .offset(offset)
        .limit(limit)
        .execute()
      const { total } = await meant(kysely, filter)
        .select(({ fn }) => fn.countAll<number>().as('total'))
        .executeTakeFirstOrThrow()
      return { entries: rows.map(entryOf), total }
    },
  }
}

function meant(kysely: Kysely<Tables>, { since, until, ...equal }: AuditFilter) {
  let query = kysely.selectFrom('audit').where(({ and }) => and(equal))
  if (since !== undefined) query = query.where('created_at', '>=', since)
  if (until !== undefined) query = query.where('created_at', '<', until)
  return query
}

function entryOf({ sequence: _, before, after, ...row }: Selectable<Tables['audit']>): AuditEntry {
  return { ...row, before: recordOf(before), after: recordOf(after) }
}

const recordOf = (json: string | null) => (json === null ? null : (parseObject(json) ?? null))

/** The statement that keeps an entry: it belongs into the transaction of the change that it tells of. */
export const auditInsert = (kysely: Kysely<Tables>, entry: AuditEntry): Compilable =>
  kysely
    .insertInto('audit')
    .values({ ...entry, before: jsonOf(entry.before), after: jsonOf(entry.after) })

// Money reads as on the wire.
const jsonOf = (record: object | null): string | null =>
  record && JSON.stringify(record, (_, value) => (typeof value === 'bigint' ? usdOf(value) : value))
