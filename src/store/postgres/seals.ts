import type { Kysely } from 'kysely'
import { parseObject } from '../../base/json.ts'
import type { Mac } from '../../base/mac.ts'
import type { RecordSecrets, SealOpening, SealReport, SealStore } from '../../limits/seals.ts'
import { buildEntryInsert } from '../sql/audit.ts'
import { inspectSeals } from '../sql/seals/inspection.ts'
import { encryptAgain, sealAgain } from '../sql/seals/resealing.ts'
import {
  type Column,
  isGenuine,
  isUnproven,
  type LogEntry,
  SEALED_TABLES,
  writeEntry,
} from '../sql/seals.ts'
import type { Tables } from '../sql/tables.ts'
import type { Statement } from '../sql/write.ts'
import { explainFaults, type Runner, run } from './connection.ts'
import type { Pool } from './pool.ts'
import { SNAPSHOT, takeSteps } from './reader.ts'
import { createSchemaComparison } from './schema.ts'
import type { PostgresWriter } from './write.ts'

/** What the store of seals works with. */
interface SealParts {
  kysely: Kysely<Tables>
  writer: PostgresWriter
  secrets: RecordSecrets
  columns: Map<string, Column[]>
}

/** Creates the store of seals in Postgres. */
export function createSealStore(
  pool: Pool,
  { kysely, writer, secrets, columns }: SealParts,
): SealStore {
  const compareSchemas = createSchemaComparison(pool)
  const createReader = (mac: Mac): ReturnType<SealStore['under']> => ({
    readOpening: () => explainFaults(() => readOpening(pool, mac)),
    inspect: () =>
      explainFaults(async () => ({
        schema: await compareSchemas(),
        ...(await pool.begin(SNAPSHOT, one => takeSteps(one, inspectSeals(mac, columns)))),
      })) as Promise<SealReport>,
  })
  return {
    ...createReader(secrets.mac),
    async readHead() {
      const [last] = await explainFaults(() => run<LogEntry>(pool, NEWEST))
      return last ? { n: last.n, seal: last.seal } : null
    },
    async has({ n, seal }) {
      const [entry] = await explainFaults(() => run<LogEntry>(pool, FIND, [n]))
      return entry?.seal === seal
    },
    async listUnsealed() {
      const tables = await explainFaults(() => run<{ name: string }>(pool, LIST_TABLES))
      return tables.map(({ name }) => name).filter(isUnproven)
    },
    under: createReader,
    reseal: (entry, previous) =>
      writer.transact(async connection => {
        if (previous) await takeSteps(connection, encryptAgain(secrets, previous))
        const insert = buildEntryInsert(kysely, entry).compile()
        await takeSteps(connection, sealAgain(secrets.mac, columns, insert))
      }),
  }
}

/** Writes the opening of a store that has nothing yet. */
export const openSeals = (mac: Mac, at: Date): Statement[] => [
  writeEntry(
    mac,
    { n: 0, seal: '' },
    0n,
    JSON.stringify({
      sealed_at: at.toISOString(),
      ledger: { seq: 0, hash: '' },
    } satisfies SealOpening),
  ),
]

/** Reads the columns of the sealed tables, as SQLite names their types. */
export async function readColumns(on: Runner): Promise<Map<string, Column[]>> {
  const rows = await run<Column & { table: string }>(on, LIST_COLUMNS, [
    JSON.stringify(SEALED_TABLES),
  ])
  return Map.groupBy(rows, ({ table }) => table)
}

// The number of a row is the engine's own, and no seal covers it.
const LIST_COLUMNS = `select c.relname as table, a.attname as name,
    case a.atttypid when 20 then 'INTEGER' when 701 then 'REAL' else 'TEXT' end as type,
    coalesce(array_position(k.conkey, a.attnum), 0)::integer as pk
  from pg_attribute a join pg_class c on c.oid = a.attrelid
  left join pg_constraint k on k.conrelid = c.oid and k.contype = 'p'
  where c.relnamespace = current_schema()::regnamespace and a.attnum > 0 and not a.attisdropped
    and a.attname <> 'rowid' and c.relname in (select value from json_each(?)) and c.relkind = 'r'
  order by a.attnum`

/** What keeps servers going, and says nothing that counts. */
export const OF_SERVERS = [
  ...['gate', 'numbers', 'nodes', 'jobs', 'sightings', 'marks', 'kept_calls', 'homes'],
  ...['accounts', 'leases', 'charged'],
  ...['counts', 'places'],
]

const LIST_TABLES = `select tablename as name from pg_tables
  where schemaname = current_schema() and tablename not in ('${OF_SERVERS.join("', '")}')
  order by name`

const NEWEST = 'select * from seal_log order by n desc limit 1'
const NEWEST_OPENING = 'select * from seal_log where opening is not null order by n desc limit 1'
const FIND = 'select * from seal_log where n = ?'

/** Reads the newest opening; null if it is missing or was made with another secret. */
export async function readOpening(on: Runner, mac: Mac): Promise<SealOpening | null> {
  const [entry] = await run<LogEntry>(on, NEWEST_OPENING)
  if (!entry?.opening) return null
  const [before] = await run<LogEntry>(on, FIND, [entry.n - 1])
  if (!isGenuine(mac, before?.seal ?? '', entry)) return null
  return (parseObject(entry.opening) as unknown as SealOpening | undefined) ?? null
}
