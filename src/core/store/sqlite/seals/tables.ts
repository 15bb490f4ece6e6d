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

/** The expressions for the id and the text of a row, given the name of the row. */
interface RowExpressions {
  id(row: string): string
  text(row: string): string
}

/**
 * Reads how a table's rows are rendered from the table itself, so that no column is left out. A
 * column that is null leaves no trace, so a later migration may add one.
 */
export function describeRows(db: Database, table: string): RowExpressions {
  const columns = db
    .query<{ name: string; type: string; pk: number }, []>(`pragma main.table_info(${table})`)
    .all()
  const keys = columns.filter(({ pk }) => pk > 0)
  return {
    id: row => keys.map(({ name }) => `cast(${row}."${name}" as text)`).join(" || ' ' || "),
    text: row =>
      columns.map(({ name, type }) => renderColumn(`${row}."${name}"`, name, type)).join(' || '),
  }
}

// `quote` ends at a zero character. How a fraction is printed may differ between versions.
function renderColumn(value: string, name: string, type: string): string {
  const exact = type === 'REAL' ? `cast(${value} * 1000000 as integer)` : value
  const quoted = `case when instr(${exact}, char(0)) > 0 then hex(${exact}) else quote(${exact}) end`
  return `case when ${value} is null then '' else '${name}=' || ${quoted} || ';' end`
}

/** Reads every row of a table in one pass. */
export function* readRows(db: Database, noun: string): Generator<SealedRow> {
  const { id, text } = describeRows(db, noun)
  const rows = db
    .query<Omit<SealedRow, 'noun'>, []>(
      `select ${id('t')} as id, ${text('t')} as text from ${noun} t`,
    )
    .iterate()
  for (const row of rows) yield { noun, ...row }
}

/**
 * Notes every change that this connection makes in a sealed table, by triggers that only it has.
 * `take` returns the changes since the last call, in their order.
 */
export function watchTables(db: Database): { take(): RowChange[] } {
  db.run('create temp table changed_rows (noun text, id text, before text, after text)')
  for (const table of SEALED_TABLES) watchTable(db, table)
  const list = db.query<RowChange, []>('select * from temp.changed_rows order by rowid')
  const clear = db.query('delete from temp.changed_rows')
  return {
    take() {
      const changes = list.all()
      if (changes.length > 0) clear.run()
      return changes
    },
  }
}

function watchTable(db: Database, table: string): void {
  const { id, text } = describeRows(db, table)
  const note = (row: string, before: string, after: string) =>
    `insert into changed_rows values ('${table}', ${id(row)}, ${before}, ${after});`
  const watch = (event: string, ...notes: string[]) =>
    db.run(
      `create temp trigger notice_${event}_${table} after ${event} on main.${table} ` +
        `begin ${notes.join(' ')} end`,
    )
  watch('insert', note('new', 'null', text('new')))
  watch('delete', note('old', text('old'), 'null'))
  // As a removal and an addition, because an update may change the id.
  watch('update', note('old', text('old'), 'null'), note('new', 'null', text('new')))
}
