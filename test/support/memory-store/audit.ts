import { assertCurrent } from '../../../src/base/entity-tag.ts'
import { parseObject } from '../../../src/base/json.ts'
import { toUsd } from '../../../src/base/money.ts'
import type { AuditEntry, AuditStore } from '../../../src/resources/audit/store.ts'
import type { Connection, Memory } from './memory.ts'

/** The audit trail in memory. */
export const createMemoryAuditStore = (connection: Connection): AuditStore => ({
  append: async entry => connection.write(memory => addAudit(memory, entry)),
  readVersion: id => connection.read(({ audit }) => findVersion(audit, id)),
  listPage: ({ since = '', until, ...equal }, offset, limit) =>
    connection.read(({ audit }) => {
      const isEqual = (row: object) =>
        Object.entries(equal).every(([name, value]) => row[name as keyof typeof row] === value)
      const meant = audit
        .all(row => row.created_at >= since && !(until && row.created_at >= until) && isEqual(row))
        .reverse()
      const entries = meant.slice(offset, offset + limit).map(({ before, after, ...row }) => ({
        ...row,
        before: parseRecord(before),
        after: parseRecord(after),
      }))
      return { entries, total: meant.length }
    }),
})

const parseRecord = (json: string | null) => (json === null ? null : (parseObject(json) ?? null))

/** Adds an entry, in the transaction of the change that it records. */
export function addAudit(
  { audit }: Memory,
  { ifMatch = null, before, after, ...entry }: AuditEntry,
): void {
  assertCurrent({ ifMatch }, { version: findVersion(audit, entry.resource_id) })
  const sides = { before: renderRecord(before), after: renderRecord(after) }
  audit.insert(entry.id, { ...entry, ...sides })
}

const findVersion = (audit: Memory['audit'], resource_id: string): string =>
  audit.all(row => row.resource_id === resource_id).at(-1)?.id ?? '0'

// Money is written as on the wire.
const renderRecord = (record: object | null): string | null =>
  record && JSON.stringify(record, (_, value) => (typeof value === 'bigint' ? toUsd(value) : value))
