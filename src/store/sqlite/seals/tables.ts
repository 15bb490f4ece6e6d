import type { Database } from 'bun:sqlite'

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

/** A column of a table, as SQLite describes it. */
export interface Column {
  name: string
  type: string
  /** Its place in the primary key, from 1; 0 outside it. */
  pk: number
}

/** The expressions for the id and the text of a row, given the name of the row. */
interface RowExpressions {
  id(row: string): string
  text(row: string): string
}

/**
 * Returns how a table's rows are rendered, from its own columns, so that none is left out. One that
 * is null leaves no trace, so a later migration may add one.
 */
export function renderRows(columns: Column[]): RowExpressions {
  const keys = columns.filter(({ pk }) => pk > 0)
  return {
    id: row => keys.map(({ name }) => `cast(${row}."${name}" as text)`).join(" || ' ' || "),
    text: row =>
      columns.map(({ name, type }) => renderColumn(`${row}."${name}"`, name, type)).join(' || '),
  }
}

const listColumns = (db: Database, table: string): Column[] =>
  db.query<Column, []>(`pragma main.table_info(${table})`).all()

// `quote` ends at a zero character. How a fraction is printed may differ between versions.
function renderColumn(value: string, name: string, type: string): string {
  const exact = type === 'REAL' ? `cast(${value} * 1000000 as integer)` : value
  const quoted = `case when instr(${exact}, char(0)) > 0 then hex(${exact}) else quote(${exact}) end`
  return `case when ${value} is null then '' else '${name}=' || ${quoted} || ';' end`
}

/** Reads every row of a table in one pass: none of one that a later migration creates. */
export function* readRows(db: Database, noun: string): Generator<SealedRow> {
  const columns = listColumns(db, noun)
  // Most tables of a new database are empty, and to render their rows takes longer than to ask.
  if (columns.length === 0 || isEmpty(db, noun)) return
  const { id, text } = renderRows(columns)
  const rows = db
    .query<Omit<SealedRow, 'noun'>, []>(
      `select ${id('t')} as id, ${text('t')} as text from ${noun} t`,
    )
    .iterate()
  for (const row of rows) yield { noun, ...row }
}

// A statement that `query` keeps ends with the database; another would hold it open after that.
const isEmpty = (db: Database, table: string): boolean =>
  db.query(`select 1 from main.${table} limit 1`).get() === null
/** Reads the seals of a table's rows, by the rows' ids. */
export const readSeals = (db: Database, noun: string): Map<string, string> =>
  new Map(
    db
      .query<{ id: string; seal: string }, [string]>('select id, seal from seals where noun = ?')
      .all(noun)
      .map(({ id, seal }) => [id, seal]),
  )
