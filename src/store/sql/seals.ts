import {
  type Compilable,
  type DeleteQueryBuilder,
  type DeleteQueryNode,
  type Expression,
  type InsertQueryBuilder,
  type InsertQueryNode,
  type Kysely,
  type SelectQueryNode,
  sql,
  type TableNode,
  type UpdateQueryBuilder,
  type UpdateQueryNode,
} from 'kysely'
import type { Mac } from '../../base/mac.ts'
import type { SealHead } from '../../limits/seals.ts'
import { list, type Reading } from './reading.ts'
import type { Tables } from './tables.ts'
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

/*
 * The changes of rows that a transaction makes, whichever statements it is of.
 */

/** What a sealer needs. */
interface SealerOptions {
  kysely: Kysely<Tables>
  mac: Mac
  /** Returns the columns of each sealed table. */
  getColumns(): Map<string, Column[]>
}

/** Has the changes sealed that the statements of a transaction make: in the transaction, each run. */
export type Seal = (statements: Statement[]) => Statement[]

/** Creates the function that adds their seals to the statements of a transaction. */
export function createSealer({ kysely, mac, getColumns }: SealerOptions): Seal {
  const selections: Noting['selections'] = new Map()
  return statements => {
    const changes: RowChange[] = []
    const noting = {
      ...{ kysely, selections },
      columns: getColumns(),
      note: (change: RowChange) => void changes.push(change),
    }
    return [...noteChanges(noting, statements), { later: () => appendSeals(mac, changes) }]
  }
}

/** What notes the changes of a transaction. */
interface Noting {
  kysely: Kysely<Tables>
  /** The columns of each sealed table. */
  columns: Map<string, Column[]>
  /** What is selected of their rows: it takes longer to make than many changes. */
  selections: Map<string, ReturnType<typeof selectColumns>>
  /** Is told of each change, in their order. */
  note(change: RowChange): void
}

/** A table whose rows go with those of another that they refer to. */
interface Dependent {
  table: string
  column: string
  /** The column of the other table. */
  to: string
}

/** The sealed tables whose rows go with those of another one. */
export const DEPENDENTS: Record<string, Dependent[]> = {
  guardrails: [
    { table: 'guardrail_keys', column: 'guardrail_id', to: 'id' },
    { table: 'guardrail_members', column: 'guardrail_id', to: 'id' },
  ],
  keys: [{ table: 'guardrail_keys', column: 'key_hash', to: 'hash' }],
  scim_groups: [
    { table: 'scim_group_members', column: 'group_id', to: 'id' },
    { table: 'scim_group_mappings', column: 'scim_group_id', to: 'id' },
  ],
  scim_users: [{ table: 'scim_group_members', column: 'scim_user_id', to: 'id' }],
}

/**
 * Returns the statements of a transaction such that each change which they make in a sealed table is
 * noted, by the rows that the database returns: changes by other programs are not. Throws a TypeError
 * for a statement whose changes cannot be known.
 */
export const noteChanges = (noting: Noting, statements: Statement[]): Statement[] =>
  statements.flatMap(statement => noteStatement(noting, statement))

function noteStatement(noting: Noting, statement: Statement): Statement[] {
  if ('later' in statement) return [{ later: () => noteChanges(noting, statement.later()) }]
  if ('query' in statement) {
    const changed = findChanged(statement.query)
    if (changed) throw notNoted(changed.table)
    if ('judge' in statement) return [statement]
    return [follow(statement.query, rows => noteChanges(noting, statement.follow(rows)))]
  }
  const changed = findChanged(statement)
  if (!changed) return [statement]
  const { table, node } = changed
  if (!node || !isPlain(node)) throw notNoted(table)
  if (node.kind === 'InsertQueryNode') return noteInsert(noting, table, statement)
  if (node.kind === 'UpdateQueryNode') return noteUpdate(noting, table, statement, node)
  return noteDelete(noting, table, statement, node)
}

type Change = InsertQueryNode | UpdateQueryNode | DeleteQueryNode

/** Finds the sealed table that a statement changes, and what Kysely has made the statement of. */
function findChanged(statement: Compilable): { table: string; node: Change | null } | null {
  const isText = !('toOperationNode' in statement)
  const node = isText ? null : readNode(statement)
  const table = isText ? readTable(statement) : node && findTable(node)
  return table && SEALED_TABLES.includes(table) ? { table, node } : null
}

const notNoted = (what: string) => new TypeError(`A change of ${what} is not noted`)

/** Returns what a change is made of; null for what only reads. Throws for what may do both. */
function readNode(statement: Compilable): Change | null {
  const source = statement as unknown as { toOperationNode(): SelectQueryNode | Change }
  const node = source.toOperationNode()
  if (node.with || !(node.kind === 'SelectQueryNode' || node.kind in PARTS))
    throw notNoted(`what a ${node.kind} may change`)
  return node.kind === 'SelectQueryNode' ? null : node
}

/** The parts of a change whose rows are known before it: those that a condition selects. */
const PARTS: Record<Change['kind'], string[]> = {
  InsertQueryNode: ['kind', 'into', 'columns', 'values', 'onConflict'],
  UpdateQueryNode: ['kind', 'table', 'where', 'updates'],
  DeleteQueryNode: ['kind', 'from', 'where'],
}

/** Whether no part of a change decides about rows but its condition, or about a row that is there. */
function isPlain(node: Change): boolean {
  for (const [name, part] of Object.entries(node))
    if (part !== undefined && !PARTS[node.kind].includes(name)) return false
  return !('onConflict' in node && node.onConflict?.updates)
}

/** Throws for a table that has another name there. */
function findTable(node: Change): string {
  const target =
    node.kind === 'InsertQueryNode'
      ? node.into
      : node.kind === 'UpdateQueryNode'
        ? node.table
        : node.from.froms[0]
  if (target?.kind !== 'TableNode') throw notNoted('a table under another name')
  return (target as TableNode).table.identifier.name
}

const CHANGE = /^\s*(?:(?:insert (?:or \w+ )?|replace )into|update|delete from)\s+"?(\w+)/i

const readTable = (statement: Compilable): string | undefined =>
  CHANGE.exec(statement.compile().sql)?.[1]

function noteInsert(noting: Noting, table: string, statement: Compilable): Statement[] {
  const insert = statement as InsertQueryBuilder<Tables, keyof Tables, object>
  return [
    follow(insert.returning(select(noting, table)) as Compilable<SelectedRow>, rows => {
      for (const row of rows) note(noting, table, null, row)
      return []
    }),
  ]
}

function noteUpdate(
  noting: Noting,
  table: string,
  statement: Compilable,
  node: UpdateQueryNode,
): Statement[] {
  const update = statement as UpdateQueryBuilder<Tables, keyof Tables, keyof Tables, object>
  return [
    follow(selectChanged(noting, table, node), before =>
      before.length === 0
        ? []
        : [
            follow(update.returning(select(noting, table)) as Compilable<SelectedRow>, after => {
              // As a removal and an addition, because an update may change the id.
              for (const row of before) note(noting, table, row, null)
              for (const row of after) note(noting, table, null, row)
              return []
            }),
          ],
    ),
  ]
}

function noteDelete(
  noting: Noting,
  table: string,
  statement: Compilable,
  node: DeleteQueryNode,
): Statement[] {
  const remove = statement as DeleteQueryBuilder<Tables, keyof Tables, object>
  return [
    ...(DEPENDENTS[table] ?? []).flatMap(dependent =>
      noteStatement(noting, deleteDependent(noting.kysely, table, dependent, node)),
    ),
    follow(remove.returning(select(noting, table)) as Compilable<SelectedRow>, rows => {
      for (const row of rows) note(noting, table, row, null)
      return []
    }),
  ]
}

function deleteDependent(
  kysely: Kysely<Tables>,
  table: string,
  { table: from, column, to }: Dependent,
  { where }: DeleteQueryNode,
): Compilable {
  const owners = kysely.selectFrom(table as 'keys').select(to as 'hash')
  const node = { ...owners.toOperationNode(), ...(where && { where }) }
  const removed = { toOperationNode: () => node, expressionType: undefined }
  return kysely
    .deleteFrom(from as 'guardrail_keys')
    .where(column as 'key_hash', 'in', removed as Expression<string>)
}

/** Selects the rows that a change is of, as they are before it. */
function selectChanged(
  noting: Noting,
  table: string,
  { where }: UpdateQueryNode,
): Compilable<SelectedRow> {
  const { kysely } = noting
  const all = kysely.selectFrom(table as 'keys').select(select(noting, table) as never)
  const changed = { ...all.toOperationNode(), ...(where && { where }) }
  const executor = kysely.getExecutor()
  const queryId = { queryId: crypto.randomUUID() }
  return {
    compile: () => executor.compileQuery(executor.transformQuery(changed, queryId), queryId),
  } as Compilable<SelectedRow>
}

function select(noting: Noting, table: string): never {
  const selection = noting.selections.get(table) ?? selectColumns(noting.columns.get(table) ?? [])
  noting.selections.set(table, selection)
  return selection as never
}

function note(
  noting: Noting,
  noun: string,
  before: SelectedRow | null,
  after: SelectedRow | null,
): void {
  const { id, text } = renderRow(noting.columns.get(noun) ?? [], (before ?? after) as SelectedRow)
  noting.note({ noun, id, before: before && text, after: after && text })
}
