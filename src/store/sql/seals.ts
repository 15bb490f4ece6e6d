import { type Expression, sql } from 'kysely'
import type { Mac } from '../../base/mac.ts'
import type { SealHead } from '../../limits/seals.ts'
import { list, type Reading } from './reading.ts'
import { follow, type Prepared, prepare, type Statement } from './write.ts'

/**
 * The tables whose rows are sealed, with the schema version that began to seal them: who owns the
 * store, the audit trail, money paid in, and all that grants or limits something. The ledger has
 * its own chain.
 */
const SEALED_SINCE: Record<string, number> = {
  audit: 13,
  credits: 13,
  keys: 13,
  workspaces: 13,
  budgets: 13,
  members: 13,
  workspace_members: 13,
  guardrails: 13,
  guardrail_keys: 13,
  guardrail_members: 13,
  presets: 13,
  preset_versions: 13,
  byok: 13,
  scim_tokens: 13,
  scim_group_mappings: 13,
  meta: 14,
  scim_users: 14,
  scim_groups: 14,
  scim_group_members: 14,
  scim_sync_jobs: 14,
  auth_codes: 22,
  sign_ins: 22,
  destinations: 25,
}

/** The tables that this program seals. */
export const SEALED_TABLES = Object.keys(SEALED_SINCE)

/** The first schema version whose rows are sealed. */
export const FIRST_SEALED = Math.min(...Object.values(SEALED_SINCE))

/** Lists the tables whose rows a program of this schema version has sealed. */
export const listSealedTables = (version: number): string[] =>
  SEALED_TABLES.filter(table => (SEALED_SINCE[table] ?? 0) <= version)

/** Tables that prove themselves, are computed from or point at others that do, or hold the proofs. */
const PROVEN =
  /^(ledger|generations|spend|outbox|rollup_cursor|usage_.*|transcripts|responses|response_items|seals|seal_log|record_seals|changes|sqlite_.*)$/

/** Whether another program could change the rows of a table unnoticed. */
export const isUnproven = (table: string): boolean =>
  !PROVEN.test(table) && !SEALED_TABLES.includes(table)

/** A row of a sealed table as its seal covers it. */
export interface SealedRow {
  noun: string
  id: string
  text: string
}

/** A change of a row: its text before and after, null where there is no row. */
export interface RowChange {
  noun: string
  id: string
  before: string | null
  after: string | null
}

/** A column of a table, as an engine describes it. */
export interface Column {
  name: string
  /** `TEXT`, `INTEGER` or `REAL`. */
  type: string
  /** Its place in the primary key, from 1; 0 outside it. */
  pk: number
}

/** Selects the columns of a row as `renderRow` needs them: whole numbers may be of 64 bits. */
export const selectColumns = (columns: Column[]) =>
  columns.map(({ name, type }) =>
    (type === 'INTEGER'
      ? sql<string | null>`cast(${sql.ref(name)} as text)`
      : (sql.ref(name) as Expression<unknown> as ReturnType<typeof sql<unknown>>)
    ).as(name),
  )

/** How many rows of a table are read at once. */
const AT_ONCE = 500

/**
 * Reads every row of a sealed table in the order of its key, and has `use` take one page after the
 * other. There are none of a table that a later migration creates.
 */
export function* readRows(
  noun: string,
  columns: Column[],
  use: (rows: SealedRow[]) => Reading<void> | void,
): Reading<void> {
  if (columns.length === 0) return
  const keys = columns.filter(({ pk }) => pk > 0)
  const names = keys.map(({ name }) => `r."${name}"`).join(', ')
  const select = `select ${columns.map(selectText).join(', ')} from ${noun} r`
  const end = `order by ${names} limit ${AT_ONCE}`
  const places = keys.map(() => '?').join(', ')
  let page = yield* list<SelectedRow>(`${select} ${end}`)
  for (let last = page.at(-1); last; last = page.at(-1)) {
    const more = use(page.map(row => ({ noun, ...renderRow(columns, row) })))
    if (more) yield* more
    if (page.length < AT_ONCE) return
    const values = keys.map(({ name, type }) => {
      const value = last?.[name] ?? null
      return type === 'INTEGER' ? Number(value) : value
    })
    page = yield* list(`${select} where (${names}) > (${places}) ${end}`, ...values)
  }
}

const selectText = ({ name, type }: Column): string =>
  type === 'INTEGER' ? `cast(r."${name}" as text) as "${name}"` : `r."${name}"`

/** A row as `selectColumns` selects it. */
export type SelectedRow = Record<string, string | number | null>

/**
 * Renders the id and the text of a row, from all columns of its table. One that is null leaves no
 * trace, so a later migration may add one.
 */
export function renderRow(columns: Column[], row: SelectedRow): Omit<SealedRow, 'noun'> {
  const keys = columns.filter(({ pk }) => pk > 0).map(({ name }) => row[name])
  return { id: keys.join(' '), text: columns.map(column => renderColumn(column, row)).join('') }
}

// As SQLite quotes values. How a fraction is printed may differ between versions.
function renderColumn({ name, type }: Column, row: SelectedRow): string {
  const value = row[name]
  if (value === null || value === undefined) return ''
  if (type === 'INTEGER') return `${name}=${value};`
  if (type === 'REAL') return `${name}=${Math.trunc(Number(value) * 1_000_000)};`
  return `${name}=${quote(String(value))};`
}

const quote = (text: string): string =>
  text.includes('\0')
    ? Buffer.from(text).toString('hex').toUpperCase()
    : `'${text.replaceAll("'", "''")}'`

/*
 * The seals of single rows, and the log that seals them together. The sum of all seals says which
 * rows there are: without the key it is impossible to remove a row together with its seal, or to
 * put back an earlier one.
 */

/** An entry of the log as it is stored. */
export interface LogEntry extends SealHead {
  sum: string
  opening: string | null
}

const FIND_SEAL = 'select seal from seals where noun = ? and id = ?'
const REMOVE_SEAL = 'delete from seals where noun = ? and id = ?'
const WRITE_SEAL = `insert into seals (noun, id, seal) values (?, ?, ?)
  on conflict (noun, id) do update set seal = excluded.seal`
const LIST_NEWEST = 'select * from seal_log order by n desc limit 2'
const INSERT_ENTRY = 'insert into seal_log (n, sum, seal, opening) values (?, ?, ?, ?)'

/** Computes the seal of a row. */
export const sealRow = (mac: Mac, { noun, id, text }: SealedRow): string =>
  mac(`${noun}\0${id}\0${text}`)

/**
 * Seals the rows that have changed. A row that was not as its seal says before the change keeps
 * its old seal, and a log whose end is not genuine is not continued: both stay visible.
 */
export function appendSeals(mac: Mac, changes: RowChange[]): Statement[] {
  if (changes.length === 0) return []
  let sum = 0n
  return [
    ...changes.map(change =>
      replaceSeal(mac, change, moved => {
        sum = add(sum, moved)
      }),
    ),
    { later: () => continueLog(mac, sum) },
  ]
}

/** Moves the seal of a row, and tells what that adds to the sum. One that differs is left as it is. */
export const replaceSeal = (
  mac: Mac,
  { noun, id, before, after }: RowChange,
  onMoved: (change: bigint) => void,
): Statement =>
  follow<{ seal: string }>(prepare(FIND_SEAL, noun, id), ([found]) => {
    const expected = before === null ? null : sealRow(mac, { noun, id, text: before })
    if ((found?.seal ?? null) !== expected) return []
    const seal = after === null ? null : sealRow(mac, { noun, id, text: after })
    onMoved(toNumber(seal) - toNumber(expected))
    if (seal !== null) return [prepare(WRITE_SEAL, noun, id, seal)]
    return expected === null ? [] : [prepare(REMOVE_SEAL, noun, id)]
  })

/** Moves the sum of the log, if its newest entry is genuine. */
export const continueLog = (mac: Mac, change: bigint): Statement[] => [
  follow<LogEntry>(prepare(LIST_NEWEST), ([last, before]) =>
    last && isGenuine(mac, before?.n === last.n - 1 ? before.seal : '', last)
      ? [writeEntry(mac, last, add(BigInt(`0x${last.sum}`), change), null)]
      : [],
  ),
]

/** Writes the entry after another. */
export function writeEntry(
  mac: Mac,
  previous: SealHead,
  sum: bigint,
  opening: string | null,
): Prepared {
  const entry = { n: previous.n + 1, sum: renderSum(sum), opening }
  return prepare(INSERT_ENTRY, entry.n, entry.sum, sealEntry(mac, previous.seal, entry), opening)
}

/** Whether an entry was sealed by the owner of the secret, after the one with this seal. */
export const isGenuine = (mac: Mac, previous: string, entry: LogEntry): boolean =>
  entry.seal === sealEntry(mac, previous, entry)

export const sealEntry = (
  mac: Mac,
  previous: string,
  { n, sum, opening }: Omit<LogEntry, 'seal'>,
): string => mac(JSON.stringify([previous, n, sum, opening]))

export const toNumber = (seal: string | null): bigint => (seal === null ? 0n : BigInt(`0x${seal}`))

/** Adds a seal to the sum of all. */
export const add = (sum: bigint, number: bigint): bigint => BigInt.asUintN(256, sum + number)

export const renderSum = (sum: bigint): string =>
  BigInt.asUintN(256, sum).toString(16).padStart(64, '0')
