import {
  conflict,
  denied,
  GatewayError,
  invalid,
  notFound,
  unavailable,
} from '../../base/errors.ts'
import {
  BATCH_BYTES,
  type CopiedTable,
  type CopiedValue,
  type CopySource,
  type CopyTarget,
  parseCopied,
  selectCopied,
} from '../copy.ts'
import { connect, isAway, type Runner, readCode, run, SCHEMA } from './connection.ts'
import { refuseUnfit } from './opening.ts'
import type { Pool } from './pool.ts'
import { SNAPSHOT, takeSteps } from './reader.ts'
import { createSchemaComparison, createTables } from './schema.ts'

/** A place in Postgres, as messages may name it. */
export interface PostgresPlace {
  url: string
  /** The host and the database, without who opens it. */
  name: string
  host: string
  database: string
}

const EXPECTED = 'expected postgres://USER@HOST/DATABASE'

/** Reads a URL of Postgres. Throws 400 for another one, and never says what is in it. */
export function parsePlace(url: string): PostgresPlace {
  const { protocol, host, pathname } = URL.parse(url) ?? {}
  if (!/^postgres(ql)?:$/.test(protocol ?? '') || !host)
    throw invalid(`The URL of Postgres: ${EXPECTED}`)
  const database = decodeURIComponent(pathname?.slice(1) ?? '')
  if (database === '') throw invalid(`The URL of Postgres names no database: ${EXPECTED}`)
  return { url, name: `postgres://${host}/${database}`, host, database }
}

/**
 * Reads the store of a database at one moment, while servers may change it. Throws 404 where there
 * is none, and 409 for one whose tables are not as this program makes them.
 */
export const readPostgres = <Result>(
  place: PostgresPlace,
  use: (source: CopySource) => Promise<Result>,
): Promise<Result> =>
  withPool(place, async pool => {
    const [found] = await run<{ gate: string | null }>(pool, FIND_GATE)
    if (!found?.gate) throw notFound(`There is no store of a gateway in ${place.name}`)
    const problems = await createSchemaComparison(pool)()
    if (problems.length > 0)
      throw conflict(
        `The store in ${place.name} was made by another version of the gateway, or changed: ` +
          problems.slice(0, 3).join('; '),
      )
    return (await pool.begin(SNAPSHOT, connection =>
      use(createSource(place, connection)),
    )) as Result
  })

const FIND_GATE = `select to_regclass('${SCHEMA}.gate')::text as gate`

/**
 * Makes a store in a database that has none, and fills it in one transaction: whatever ends that,
 * nothing of it is there. Throws 409 for a schema that is not empty.
 */
export const fillPostgres = <Result>(
  place: PostgresPlace,
  fill: (target: CopyTarget) => Promise<Result>,
): Promise<Result> =>
  withPool(place, async pool => {
    await refuseUnfit(pool, place.name)
    return (await pool.begin(async connection => {
      await refuseContent(connection, place)
      await createTables(connection)
      const counted = await run<{ name: string }>(connection, LIST_TRIGGERED)
      // What was numbered and counted once is not again.
      for (const { name } of counted)
        await connection.unsafe(`alter table ${name} disable trigger user`)
      await connection.unsafe('delete from transcript_use')
      const result = await fill(createTarget(place, connection))
      for (const { name } of counted)
        await connection.unsafe(`alter table ${name} enable trigger user`)
      return result
    })) as Result
  })

async function withPool<Result>(
  place: PostgresPlace,
  use: (pool: Pool) => Promise<Result>,
): Promise<Result> {
  const pool = connect(place.url, 1)
  try {
    return await explain(place, () => use(pool))
  } finally {
    await pool.close()
  }
}

async function explain<Result>(
  place: PostgresPlace,
  use: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await use()
  } catch (thrown) {
    throw explainRefusal(place, thrown)
  }
}

/** Says in a sentence what Postgres refuses. */
function explainRefusal({ name, host, database }: PostgresPlace, thrown: unknown): unknown {
  if (thrown instanceof GatewayError || !(thrown instanceof Error)) return thrown
  const code = readCode(thrown)
  const said = `${name}: ${thrown.message}`
  if (code === '3D000') return notFound(`There is no database ${database} at ${host}`)
  if (code === '53100') return unavailable(`${said}. Is its disk full?`, undefined, thrown)
  if (code.startsWith('28') || code === '42501') return denied(said)
  if (code.startsWith('23')) return conflict(`It cannot be stored in ${said}`)
  if (code !== '') return unavailable(said, undefined, thrown)
  return isAway(thrown)
    ? unavailable(`${host} cannot be reached: ${thrown.message}`, undefined, thrown)
    : thrown
}

/** Makes the schema where there is none. Throws 409 where anything is in it. */
async function refuseContent(connection: Runner, { name }: PostgresPlace): Promise<void> {
  const found = await run<{ name: string }>(connection, LIST_CONTENT)
  if (found.length > 0)
    throw conflict(
      `${name} is not empty: its schema ${SCHEMA} has ${found.length} tables and others ` +
        `(${await describeContent(
          connection,
          found.map(one => one.name),
        )}). ` +
        'Name another database, or remove that schema',
    )
  const [schema] = await run(connection, `select to_regnamespace('${SCHEMA}') as oid`)
  if ((schema as { oid: unknown } | undefined)?.oid === null)
    await connection.unsafe(`create schema ${SCHEMA}`)
}

/** Says how much of what is there, of which a few things are enough. */
async function describeContent(connection: Runner, names: string[]): Promise<string> {
  const known = ['keys', 'generations', 'members'].filter(name => names.includes(name))
  if (known.length < 3) return names.slice(0, 3).join(', ')
  const counts = known.map(async name => {
    const [row] = await run<{ n: number }>(
      connection,
      `select count(*) as n from ${SCHEMA}.${name}`,
    )
    return `${row?.n ?? 0} ${name}`
  })
  return (await Promise.all(counts)).join(', ')
}

const LIST_CONTENT = `select relname as name from pg_class
    where relnamespace = to_regnamespace('${SCHEMA}') and relkind not in ('i', 'I', 't', 'c')
  union all select proname from pg_proc where pronamespace = to_regnamespace('${SCHEMA}')
  order by name`

const LIST_TRIGGERED = `select distinct tgrelid::regclass::text as name from pg_trigger
  join pg_class c on c.oid = tgrelid
  where not tgisinternal and relnamespace = current_schema()::regnamespace order by name`

// What it throws is explained here: it may be read for a target in another place.
const createSource = (place: PostgresPlace, connection: Runner): CopySource => ({
  name: place.name,
  read: reading => explain(place, () => takeSteps(connection, reading)),
  countRows: table =>
    explain(place, async () => {
      const [row] = await run<{ n: number }>(connection, `select count(*) as n from ${table.name}`)
      return row?.n ?? 0
    }),
  readRows: table => readRows(place, connection, table),
  readLastNumbers: () =>
    explain(place, async () => {
      const rows = await run<{ name: string; last: string }>(connection, LIST_NUMBERS)
      return new Map(rows.map(row => [row.name, BigInt(row.last)]))
    }),
})

const LIST_NUMBERS = 'select name, last::text as last from numbers'

/** How many rows are fetched at once, at most. */
const MOST_ROWS = 2_000

/** Reads rows by a cursor, so many at once that even if each is the largest, they are a batch. */
async function* readRows(
  place: PostgresPlace,
  connection: Runner,
  table: CopiedTable,
): AsyncGenerator<CopiedValue[][]> {
  const count = await explain(place, () => openCursor(connection, table))
  for (let isOver = count === 0; !isOver; ) {
    const fetched = await explain(place, () =>
      connection.unsafe(`fetch ${count} from copied`).values(),
    )
    const rows = fetched as unknown as Fetched[]
    if (rows.length > 0)
      yield rows.map(row => table.columns.map((one, i) => parseCopied(one, row[i] ?? null)))
    isOver = rows.length < count
  }
  if (count > 0) await explain(place, () => connection.unsafe('close copied'))
}

/** Returns how many rows to fetch at once; 0 for an empty table, which needs no cursor. */
async function openCursor(
  connection: Runner,
  { name, columns, order }: CopiedTable,
): Promise<number> {
  const sizes = columns.map(column => `coalesce(pg_column_size("${column.name}"), 0)`).join(' + ')
  const [largest] = await run<{ size: number | null }>(
    connection,
    `select max(${sizes}) as size from ${name}`,
  )
  if (!largest?.size) return 0
  const ordered = order.length === 0 ? '' : `order by ${order.map(one => `t."${one}"`).join(', ')}`
  await connection.unsafe(
    `declare copied no scroll cursor for
      select ${columns.map(selectCopied).join(', ')} from ${name} t ${ordered}`,
  )
  return Math.max(1, Math.min(MOST_ROWS, Math.floor(BATCH_BYTES / largest.size)))
}

type Fetched = (string | number | null)[]

const createTarget = ({ name }: PostgresPlace, connection: Runner): CopyTarget => ({
  async writeRows(table, rows) {
    const json = JSON.stringify(rows, renderNumber)
    if (json.includes('\\u0000')) refuseZeros(name, table, rows)
    await run(connection, buildInsert(table), [json])
  },
  async writeLastNumbers(numbers) {
    for (const [table, last] of numbers) await run(connection, WRITE_NUMBER, [table, last])
    for (const { table } of await run<{ table: string }>(connection, LIST_IDENTITIES))
      await connection.unsafe(
        `select setval(pg_get_serial_sequence('${table}', 'rowid'), max(rowid)) from ${table}
          having max(rowid) is not null`,
      )
  },
})

const WRITE_NUMBER = `insert into numbers values (?, ?)
  on conflict (name) do update set last = excluded.last`

const renderNumber = (_: string, value: unknown) =>
  typeof value === 'bigint' ? String(value) : value

// One list of JSON for all rows: a fifth of what a parameter for each value costs.
const buildInsert = ({ name, columns }: CopiedTable): string =>
  `insert into ${name} (${columns.map(column => `"${column.name}"`).join(', ')})
    overriding system value
    select ${columns.map(({ type }, i) => `(row->>${i})${CASTS[type] ?? ''}`).join(', ')}
    from jsonb_array_elements(?::text::jsonb) as listed (row)`

const CASTS: Record<string, string> = { INTEGER: '::bigint', REAL: '::double precision' }

const LIST_IDENTITIES = `select table_name as table from information_schema.columns
  where table_schema = current_schema() and column_name = 'rowid' and is_identity = 'YES'`

/** Throws 409 for a text that Postgres cannot store as it is: its seal would no longer be its own. */
function refuseZeros(
  name: string,
  { name: table, columns, order }: CopiedTable,
  rows: CopiedValue[][],
): void {
  for (const row of rows) {
    const at = row.findIndex(value => typeof value === 'string' && value.includes('\0'))
    if (at === -1) continue
    const key = order.map(one => row[columns.findIndex(column => column.name === one)]).join(' ')
    throw conflict(
      `${table} ${key}: its ${columns[at]?.name} has a zero character, which ${name} cannot store`,
    )
  }
}
