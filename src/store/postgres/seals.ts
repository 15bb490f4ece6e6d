import type { SQL } from 'bun'
import type { Mac } from '../../base/mac.ts'
import type { SealHead, SealOpening, SealReport } from '../../limits/seals.ts'
import { add, isGenuine, type LogEntry, renderSum, sealRow, writeEntry } from '../sql/seals/log.ts'
import {
  type Column,
  isUnproven,
  renderRow,
  SEALED_TABLES,
  type SelectedRow,
} from '../sql/seals/tables.ts'
import type { Statement } from '../sql/write.ts'
import { explainFaults, type Runner, run } from './connection.ts'

/** What the seals of a store show. */
type Found = Omit<SealReport, 'schema'>

/** Creates what reads and verifies seals in Postgres. */
export const createSealReader = (pool: SQL, mac: Mac, columns: Map<string, Column[]>) => ({
  async readHead(): Promise<SealHead | null> {
    const [last] = await explainFaults(() => run<LogEntry>(pool, NEWEST))
    return last ? { n: last.n, seal: last.seal } : null
  },
  async has({ n, seal }: SealHead): Promise<boolean> {
    const [entry] = await explainFaults(() => run<LogEntry>(pool, FIND, [n]))
    return entry?.seal === seal
  },
  async listUnsealed(): Promise<string[]> {
    const tables = await explainFaults(() => run<{ name: string }>(pool, LIST_TABLES))
    return tables.map(({ name }) => name).filter(isUnproven)
  },
  readOpening: () => explainFaults(() => readOpening(pool, mac)),
  /** Verifies every seal, in one snapshot. */
  inspect: (): Promise<Found> =>
    explainFaults(() =>
      pool.begin('isolation level repeatable read read only', connection =>
        inspectSeals(connection, mac, columns),
      ),
    ) as Promise<Found>,
})

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

// What keeps the engine going says nothing that counts.
const LIST_TABLES = `select tablename as name from pg_tables
  where schemaname = current_schema() and tablename not in ('gate', 'numbers', 'nodes')
  order by name`

const NEWEST = 'select * from seal_log order by n desc limit 1'
const NEWEST_OPENING = 'select * from seal_log where opening is not null order by n desc limit 1'
const FIND = 'select * from seal_log where n = ?'
const LIST_FROM = 'select * from seal_log where n >= ? order by n'

export async function readOpening(on: Runner, mac: Mac): Promise<SealOpening | null> {
  const [entry] = await run<LogEntry>(on, NEWEST_OPENING)
  if (!entry?.opening) return null
  const [before] = await run<LogEntry>(on, FIND, [entry.n - 1])
  return isGenuine(mac, before?.seal ?? '', entry) ? JSON.parse(entry.opening) : null
}

/** Verifies the seal of every row, that none is missing, and that the log ends with all of them. */
async function inspectSeals(on: Runner, mac: Mac, columns: Map<string, Column[]>): Promise<Found> {
  const found: Found = { audit: [], rules: [], seals: [] }
  let sum = 0n
  for (const noun of SEALED_TABLES) {
    const { problems, own } = await compareRows(on, mac, noun, columns.get(noun) ?? [])
    ;(noun === 'audit' ? found.audit : found.rules).push(...problems)
    sum = add(sum, own)
  }
  const isIntact = found.audit.length + found.rules.length === 0
  const opening = await readOpening(on, mac)
  const entries = await run<LogEntry>(on, LIST_FROM, [0])
  if (!opening) found.seals.push('the opening is missing, or was made with another secret')
  entries.forEach((entry, i) => {
    if (!isGenuine(mac, entries[i - 1]?.seal ?? '', entry))
      found.seals.push(`entry ${entry.n} of the log of seals was changed`)
  })
  if (isIntact && entries.at(-1)?.sum !== renderSum(sum))
    found.seals.push('rows were removed together with their seals')
  return found
}

/** Compares every row of a table with its seal. Returns the sum of those that are genuine. */
async function compareRows(
  on: Runner,
  mac: Mac,
  noun: string,
  columns: Column[],
): Promise<{ problems: string[]; own: bigint }> {
  const sealed = await run<{ id: string; seal: string }>(on, LIST_SEALS, [noun])
  const seals = new Map(sealed.map(({ id, seal }) => [id, seal]))
  const problems: string[] = []
  let own = 0n
  for (const selected of await run<SelectedRow>(on, selectAll(noun, columns))) {
    const row = renderRow(columns, selected)
    const seal = seals.get(row.id)
    seals.delete(row.id)
    if (seal === sealRow(mac, { noun, ...row })) own = add(own, BigInt(`0x${seal}`))
    else problems.push(`${noun} ${row.id} was ${seal ? 'changed' : 'added'} by another program`)
  }
  for (const id of seals.keys()) problems.push(`${noun} ${id} was removed`)
  return { problems, own }
}

const LIST_SEALS = 'select id, seal from seals where noun = ?'

const selectAll = (table: string, columns: Column[]): string =>
  `select ${columns
    .map(({ name, type }) =>
      type === 'INTEGER' ? `cast("${name}" as text) as "${name}"` : `"${name}"`,
    )
    .join(', ')} from ${table}`
