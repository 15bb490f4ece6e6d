import { type Expression, sql } from 'kysely'
import { list, type Reading } from '../reading.ts'

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
