import type { Database } from 'bun:sqlite'
import { type Column, type RowChange, renderRows, SEALED_TABLES } from './tables.ts'

/**
 * Notes every change that this connection makes in a sealed table, by triggers that only it has. A
 * table gets them before the first statement that may change it, because to create those of all
 * tables takes longer than anything else about opening a database. A statement that is prepared in
 * a transaction is not kept beyond it. The triggers copy columns; `take` renders them, and returns
 * the changes since the last call, in their order.
 */
export function watchTables(db: Database): { take(): RowChange[] } {
  const own = pickMethods(db)
  const { columns: tables, names } = readShape(own)
  const width = Math.max(...[...tables.values()].map(columns => columns.length))
  own.run(`create temp table noted (noun text, isOld integer, ${listPlaces(width)})`)
  const watched = new WatchedTables(db, own, tables, names)
  const nouns = own.query<{ noun: string }, []>('select distinct noun from temp.noted')
  const clear = own.query('delete from temp.noted')
  beforeStatements(db, sql => watched.prepareFor(sql))
  return {
    take() {
      const noted = nouns.all().flatMap(({ noun }) => readNoted(own, noun, tables.get(noun) ?? []))
      if (noted.length > 0) clear.run()
      return noted.sort((a, b) => a.seq - b.seq).map(({ change }) => change)
    },
  }
}

/** How this module itself reads and writes: no table is prepared for that. */
type OwnMethods = Pick<Database, 'query' | 'run'>
const pickMethods = (db: Database): OwnMethods => ({
  query: db.query.bind(db) as Database['query'],
  run: db.run.bind(db),
})

/** The sealed tables that have triggers, and those that may still have none. */
class WatchedTables {
  readonly #db: Database
  readonly #own: OwnMethods
  readonly #columns: Map<string, Column[]>
  /** For each table the names of which one is in every statement that may change it. */
  readonly #names: Map<string, string[]>
  readonly #unwatched = new Set(SEALED_TABLES)
  /** Those whose triggers were created in a transaction: where it is rolled back, they are gone. */
  readonly #unsure = new Set<string>()

  constructor(
    db: Database,
    own: OwnMethods,
    columns: Map<string, Column[]>,
    names: Map<string, string[]>,
  ) {
    this.#db = db
    this.#own = own
    this.#columns = columns
    this.#names = names
  }

  /**
   * Watches every table that a statement may change. What is changed is a word of its text, and one
   * before a comma or the end of a parenthesis is a column, or is read.
   */
  prepareFor(sql: string): void {
    if (this.#unsure.size > 0) this.#check()
    if (this.#unwatched.size === 0 || isReading(sql)) return
    const text = sql.toLowerCase()
    for (const table of this.#unwatched)
      for (const name of this.#names.get(table) ?? []) {
        if (!text.includes(name)) continue
        if (!new RegExp(`\\b${name}\\b(?!["'\`\\]]?\\s*[,)])`).test(text)) continue
        this.#watch(table)
        break
      }
  }

  #watch(table: string): void {
    this.#own.run(writeTriggers(table, this.#columns.get(table) ?? []))
    this.#unwatched.delete(table)
    if (this.#db.inTransaction) this.#unsure.add(table)
  }

  #check(): void {
    const rows = this.#own
      .query<{ name: string }, []>("select name from temp.sqlite_schema where type = 'trigger'")
      .all()
    const names = new Set(rows.map(({ name }) => name))
    for (const table of this.#unsure)
      if (EVENTS.some(event => !names.has(nameTrigger(event, table)))) {
        this.#unsure.delete(table)
        this.#unwatched.add(table)
      }
    if (!this.#db.inTransaction) this.#unsure.clear()
  }
}

/** Whether a text is one statement that changes nothing. */
const isReading = (sql: string): boolean => /^\s*(?:select|pragma)\b[^;]*;?\s*$/i.test(sql)

/** What the schema of a database says of its sealed tables. */
interface Shape {
  columns: Map<string, Column[]>
  names: Map<string, string[]>
}

/** The last shape that was read, by the text of its schema: to read one takes long. */
let known: { schema: string; shape: Shape } | undefined

function readShape(db: OwnMethods): Shape {
  const [[schema]] = db
    .query('select json_group_array(json_array(type, name, tbl_name, sql)) from main.sqlite_schema')
    .values() as [[string]]
  if (known?.schema !== schema)
    known = { schema, shape: { columns: listAllColumns(db), names: listNames(db) } }
  return known.shape
}

/**
 * Lists for each sealed table its name, and those of the tables whose changes change it as well,
 * also by way of more: its rows refer to theirs and go with them, or a trigger of theirs writes
 * into it.
 */
function listNames(db: OwnMethods): Map<string, string[]> {
  const entries = db
    .query<SchemaEntry, []>(
      "select type, name, tbl_name, sql from main.sqlite_schema where type = 'trigger' or " +
        "(type = 'table' and " +
        "(sql like '%cascade%' or sql like '%set null%' or sql like '%set default%'))",
    )
    .all()
  const follow = (table: string, found: Set<string>): Set<string> => {
    for (const source of entries.flatMap(entry => listDirectSources(entry, table)))
      if (!found.has(source)) follow(source, found.add(source))
    return found
  }
  return new Map(SEALED_TABLES.map(table => [table, [...follow(table, new Set([table]))]]))
}

interface SchemaEntry {
  type: 'table' | 'trigger'
  name: string
  tbl_name: string
  sql: string
}

function listDirectSources({ type, name, tbl_name, sql }: SchemaEntry, table: string): string[] {
  if (type === 'trigger') return sql.includes(table) ? [tbl_name] : []
  return name === table
    ? [...sql.matchAll(/references "?(\w+)/gi)].map(([, to]) => to as string)
    : []
}

/** Has something done with the text of each statement of a connection before it is prepared. */
function beforeStatements(db: Database, prepare: (sql: string) => void): void {
  const { query, run } = db
  const before =
    <Rest extends unknown[], Result>(method: (sql: string, ...rest: Rest) => Result) =>
    (sql: string, ...rest: Rest): Result => {
      prepare(sql)
      return method.call(db, sql, ...rest)
    }
  Object.assign(db, {
    query: before(query as never),
    prepare: before(db.prepare as never),
    run: before(run as never),
    exec: before(run as never),
  })
}

/** Lists the columns of all sealed tables: one statement, where each of its own takes as long. */
function listAllColumns(db: OwnMethods): Map<string, Column[]> {
  const columns = db
    .query<Column & { table: string }, []>(
      `select s.name as "table", c.name, c.type, c.pk from main.sqlite_schema s ` +
        `join pragma_table_info(s.name, 'main') c where s.type = 'table' order by c.cid`,
    )
    .all()
  const byTable = Map.groupBy(columns, ({ table }) => table)
  return new Map(SEALED_TABLES.map(table => [table, byTable.get(table) ?? []]))
}

/** A row as a trigger noted it, before or after a change. */
interface NotedRow {
  seq: number
  isOld: number
  id: string
  text: string
}

/** Reads the noted rows of one table, rendered as `readRows` renders those of the table itself. */
function readNoted(
  db: OwnMethods,
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

const EVENTS = ['insert', 'delete', 'update'] as const
const nameTrigger = (event: string, table: string) => `notice_${event}_${table}`
const listPlaces = (count: number) =>
  Array.from({ length: count }, (_, place) => `c${place}`).join(', ')

/** Writes the statements that create a table's triggers. */
function writeTriggers(table: string, columns: Column[]): string {
  const places = listPlaces(columns.length)
  const note = (row: 'old' | 'new') =>
    `insert into noted (noun, isOld, ${places}) values ('${table}', ${row === 'old' ? 1 : 0}, ` +
    `${columns.map(({ name }) => `${row}."${name}"`).join(', ')});`
  const watch = (event: (typeof EVENTS)[number], ...notes: string[]) =>
    `create temp trigger ${nameTrigger(event, table)} after ${event} on main.${table} ` +
    `begin ${notes.join(' ')} end;`
  return (
    watch('insert', note('new')) +
    watch('delete', note('old')) +
    // As a removal and an addition, because an update may change the id.
    watch('update', note('old'), note('new'))
  )
}
