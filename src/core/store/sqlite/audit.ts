import type { Compilable, Kysely, Selectable } from 'kysely'
import type { AuditEntry, AuditFilter, AuditStore } from '../../identity/audit.ts'
import { parseObject } from '../../kernel/json.ts'
import { usdOf } from '../../kernel/money.ts'
import type { Tables } from './tables.ts'

/**
 * Creates the store of audit entries in SQL. Only `buildAuditInsert` adds entries, and the table's
 * triggers refuse to change or delete any.
 */
export function auditStore(kysely: Kysely<Tables>): AuditStore {
  return {
    async page(filter, offset, limit) {
      // In the order of writing: an id may be older than its entry if the store was locked.
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

/** Builds the insert of an entry. It belongs in the transaction of the change that it records. */
export const auditInsert = (kysely: Kysely<Tables>, entry: AuditEntry): Compilable =>
  kysely
    .insertInto('audit')
    .values({ ...entry, before: jsonOf(entry.before), after: jsonOf(entry.after) })

// Money is rendered as on the wire.
const jsonOf = (record: object | null): string | null =>
  record && JSON.stringify(record, (_, value) => (typeof value === 'bigint' ? usdOf(value) : value))
