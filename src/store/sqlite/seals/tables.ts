import type { Database } from 'bun:sqlite'
import { type Column, SEALED_TABLES, type SealedRow } from '../../sql/seals.ts'

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

/** Lists the columns of all sealed tables: in one statement, which is quicker than one for each. */
export function readSealedColumns(db: Database): Map<string, Column[]> {
  const columns = db
    .query<Column & { table: string }, [string]>(
      `select t.value as "table", c.name, c.type, c.pk from json_each(?) t ` +
        `join pragma_table_info(t.value, 'main') c order by c.cid`,
    )
    .all(JSON.stringify(SEALED_TABLES))
  const byTable = Map.groupBy(columns, ({ table }) => table)
  return new Map(SEALED_TABLES.map(table => [table, byTable.get(table) ?? []]))
}
