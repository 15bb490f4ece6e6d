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
interface Column {
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
function renderRows(columns: Column[]): RowExpressions {
  const keys = columns.filter(({ pk }) => pk > 0)
  return {
    id: row => keys.map(({ name }) => `cast(${row}."${name}" as text)`).join(" || ' ' || "),
    text: row =>
      columns.map(({ name, type }) => renderColumn(`${row}."${name}"`, name, type)).join(' || '),
  }
}

const listColumns = (db: Database, table: string): Column[] =>
  db.query<Column, []>(`pragma main.table_info(${table})`).all()

/** Lists the columns of all sealed tables: one statement, where each of its own takes as long. */
function listAllColumns(db: Database): Map<string, Column[]> {
  const columns = db
    .query<Column & { table: string }, []>(
      `select s.name as "table", c.name, c.type, c.pk from main.sqlite_schema s ` +
        `join pragma_table_info(s.name, 'main') c where s.type = 'table' order by c.cid`,
    )
    .all()
  const byTable = Map.groupBy(columns, ({ table }) => table)
  return new Map(SEALED_TABLES.map(table => [table, byTable.get(table) ?? []]))
}

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

/** A row as a trigger noted it, before or after a change. */
interface NotedRow {
  seq: number
  isOld: number
  id: string
  text: string
}

/**
 * Notes every change that this connection makes in a sealed table, by triggers that only it has.
 * The triggers copy columns; `take` renders them, and returns the changes since the last call, in
 * their order.
 */
export function watchTables(db: Database): { take(): RowChange[] } {
  const tables = listAllColumns(db)
  const width = Math.max(...[...tables.values()].map(columns => columns.length))
  const places = Array.from({ length: width }, (_, place) => `c${place}`)
  const statements = [
    `create temp table noted (noun text, isOld integer, ${places.join(', ')});`,
    ...[...tables].map(([table, columns]) => writeTriggers(table, columns)),
  ]
  db.run(statements.join(''))
  const nouns = db.query<{ noun: string }, []>('select distinct noun from temp.noted')
  const clear = db.query('delete from temp.noted')
  return {
    take() {
      const noted = nouns.all().flatMap(({ noun }) => readNoted(db, noun, tables.get(noun) ?? []))
      if (noted.length > 0) clear.run()
      return noted.sort((a, b) => a.seq - b.seq).map(({ change }) => change)
    },
  }
}

/** Reads the noted rows of one table, rendered as `readRows` renders those of the table itself. */
function readNoted(
  db: Database,
  noun: string,
  columns: Column[],
): { seq: number; change: RowChange }[] {
  const named = columns.map(({ name }, place) => `c${place} as "${name}"`)
  const { id, text } = renderRows(columns)
  return db
    .query<NotedRow, [string]>(
      `select "#seq" as seq, "#isOld" as isOld, ${id('t')} as id, ${text('t')} as text from ` +
        `(select rowid as "#seq", isOld as "#isOld", ${named.join(', ')} ` +
        'from temp.noted where noun = ?) t',
    )
    .all(noun)
    .map(({ seq, isOld, id, text }) => ({
      seq,
      change: isOld
        ? { noun, id, before: text, after: null }
        : { noun, id, before: null, after: text },
    }))
}

/** Writes the statements that create a table's triggers. */
function writeTriggers(table: string, columns: Column[]): string {
  const places = columns.map((_, place) => `c${place}`).join(', ')
  const note = (row: 'old' | 'new') =>
    `insert into noted (noun, isOld, ${places}) values ('${table}', ${row === 'old' ? 1 : 0}, ` +
    `${columns.map(({ name }) => `${row}."${name}"`).join(', ')});`
  const watch = (event: string, ...notes: string[]) =>
    `create temp trigger notice_${event}_${table} after ${event} on main.${table} ` +
    `begin ${notes.join(' ')} end;`
  return (
    watch('insert', note('new')) +
    watch('delete', note('old')) +
    // As a removal and an addition, because an update may change the id.
    watch('update', note('old'), note('new'))
  )
}
