import type { Compilable, Kysely, Selectable } from 'kysely'
import { parseObject } from '../../base/json.ts'
import { toUsd } from '../../base/money.ts'
import type { AuditEntry, AuditFilter, AuditStore } from '../../resources/audit/store.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/**
 * Creates the store of audit entries in SQL. Only `buildAuditInsert` adds entries, and the table's
 * triggers refuse to change or delete any.
 */
export function createAuditStore(kysely: Kysely<Tables>, write: Write): AuditStore {
  return {
    append: entry => write(buildAuditInsert(kysely, entry)),
    async listPage(filter, offset, limit) {
      // In the order of writing: an id may be older than its entry if the store was locked.
      const rows = await selectMatching(kysely, filter)
        .selectAll()
        .orderBy('sequence', 'desc')
        .offset(offset)
        .limit(limit)
        .execute()
      const { total } = await selectMatching(kysely, filter)
        .select(({ fn }) => fn.countAll<number>().as('total'))
        .executeTakeFirstOrThrow()
      return { entries: rows.map(toEntry), total }
    },
  }
}

function selectMatching(kysely: Kysely<Tables>, { since, until, ...equal }: AuditFilter) {
  let query = kysely.selectFrom('audit').where(({ and }) => and(equal))
  if (since !== undefined) query = query.where('created_at', '>=', since)
  if (until !== undefined) query = query.where('created_at', '<', until)
  return query
}

function toEntry({ sequence: _, before, after, ...row }: Selectable<Tables['audit']>): AuditEntry {
  return { ...row, before: parseRecord(before), after: parseRecord(after) }
}

const parseRecord = (json: string | null) => (json === null ? null : (parseObject(json) ?? null))

/** Builds the insert of an entry. It belongs in the transaction of the change that it records. */
export const buildAuditInsert = (kysely: Kysely<Tables>, entry: AuditEntry): Compilable =>
  kysely
    .insertInto('audit')
    .values({ ...entry, before: renderRecord(entry.before), after: renderRecord(entry.after) })

// Money is rendered as on the wire.
const renderRecord = (record: object | null): string | null =>
  record && JSON.stringify(record, (_, value) => (typeof value === 'bigint' ? toUsd(value) : value))
