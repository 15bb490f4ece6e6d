import type { Compilable, Kysely, Selectable } from 'kysely'
import { assertCurrent } from '../../base/entity-tag.ts'
import { parseObject } from '../../base/json.ts'
import { toUsd } from '../../base/money.ts'
import type { AuditEntry, AuditFilter, AuditStore } from '../../resources/audit/store.ts'
import type { Tables } from './tables.ts'
import { follow, type Statement, type Write } from './write.ts'

/**
 * Creates the store of audit entries in SQL. Only `buildAuditInsert` adds entries, and the table's
 * triggers refuse to change or delete any.
 */
export function createAuditStore(kysely: Kysely<Tables>, write: Write): AuditStore {
  return {
    append: entry => write(buildAuditInsert(kysely, entry)),
    async readVersion(resource_id) {
      return toVersion(await selectLast(kysely, resource_id).executeTakeFirst()).version
    },
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

/**
 * Builds the insert of an entry. It belongs in the transaction of the change that it records, which
 * ends with 412 where the resource has another version than the entry requires.
 */
export function buildAuditInsert(
  kysely: Kysely<Tables>,
  { ifMatch = null, ...entry }: AuditEntry,
): Statement {
  const insert = buildEntryInsert(kysely, entry)
  if (ifMatch === null) return insert
  return follow(selectLast(kysely, entry.resource_id), ([last]) => {
    assertCurrent({ ifMatch }, toVersion(last))
    return [insert]
  })
}

/** Builds the insert of an entry that requires nothing. */
export const buildEntryInsert = (
  kysely: Kysely<Tables>,
  { before, after, ...entry }: Omit<AuditEntry, 'ifMatch'>,
): Compilable =>
  kysely
    .insertInto('audit')
    .values({ ...entry, before: renderRecord(before), after: renderRecord(after) })

const selectLast = (kysely: Kysely<Tables>, resource_id: string) =>
  kysely
    .selectFrom('audit')
    .select('id')
    .where('resource_id', '=', resource_id)
    .orderBy('sequence', 'desc')
    .limit(1)

// What came with the store has no entry.
const toVersion = (last: { id: string } | undefined) => ({ version: last?.id ?? '0' })

// Money is rendered as on the wire.
const renderRecord = (record: object | null): string | null =>
  record && JSON.stringify(record, (_, value) => (typeof value === 'bigint' ? toUsd(value) : value))
