import type { Compilable, Kysely } from 'kysely'
import type { AuditEntry } from '../identity/audit.ts'
import { usdOf } from '../ledger/money.ts'
import type { Tables } from './tables.ts'

/** The statement that keeps an entry: it belongs into the transaction of the change that it tells of. */
export const auditInsert = (kysely: Kysely<Tables>, entry: AuditEntry): Compilable =>
  kysely.insertInto('audit').values({ ...entry, before: jsonOf(entry.before), after: jsonOf(entry.after) })

// Money reads as on the wire.
const jsonOf = (record: object | null): string | null =>
  record && JSON.stringify(record, (_, value) => (typeof value === 'bigint' ? usdOf(value) : value))
