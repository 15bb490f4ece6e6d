import type {
  Compilable,
  DeleteQueryBuilder,
  DeleteQueryNode,
  Expression,
  InsertQueryBuilder,
  InsertQueryNode,
  Kysely,
  SelectQueryNode,
  TableNode,
  UpdateQueryBuilder,
  UpdateQueryNode,
} from 'kysely'
import type { Mac } from '../../../base/mac.ts'
import {
  appendSeals,
  type Column,
  type RowChange,
  renderRow,
  SEALED_TABLES,
  type SelectedRow,
  selectColumns,
} from '../seals.ts'
import type { Tables } from '../tables.ts'
import { follow, type Statement } from '../write.ts'

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
