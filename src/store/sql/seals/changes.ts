import type {
  Compilable,
  DeleteQueryBuilder,
  DeleteQueryNode,
  Expression,
  InsertQueryBuilder,
  InsertQueryNode,
  Kysely,
  OperationNode,
  UpdateQueryBuilder,
  UpdateQueryNode,
} from 'kysely'
import type { Mac } from '../../../base/mac.ts'
import type { Tables } from '../tables.ts'
import { follow, type Statement } from '../write.ts'
import { appendSeals } from './log.ts'
import {
  type Column,
  type RowChange,
  renderRow,
  SEALED_TABLES,
  type SelectedRow,
  selectColumns,
} from './tables.ts'

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
  if ('judge' in statement) return [statement]
  if ('follow' in statement) {
    refuseSealed(statement.query)
    return [follow(statement.query, rows => noteChanges(noting, statement.follow(rows)))]
  }
  const node = readNode(statement)
  const table = node && findTable(node)
  if (!table || !SEALED_TABLES.includes(table)) {
    refuseSealed(statement)
    return [statement]
  }
  if (node.kind === 'InsertQueryNode') return noteInsert(noting, table, statement, node)
  if (node.kind === 'UpdateQueryNode') return noteUpdate(noting, table, statement, node)
  return noteDelete(noting, table, statement, node)
}

type Change = InsertQueryNode | UpdateQueryNode | DeleteQueryNode

/** Returns what a statement of Kysely is made of; null for another one, or one that only reads. */
function readNode(statement: Compilable): Change | null {
  if (!('toOperationNode' in statement)) return null
  const node = (statement as unknown as { toOperationNode(): OperationNode }).toOperationNode()
  return KINDS.has(node.kind) ? (node as Change) : null
}

const KINDS = new Set<string>(['InsertQueryNode', 'UpdateQueryNode', 'DeleteQueryNode'])

function findTable(node: Change): string | null {
  const target =
    node.kind === 'InsertQueryNode'
      ? node.into
      : node.kind === 'UpdateQueryNode'
        ? node.table
        : node.from.froms[0]
  const table = target as { table?: { identifier: { name: string } } } | undefined
  return table?.table?.identifier.name ?? null
}

const CHANGE = /^\s*(?:insert (?:or \w+ )?into|update|delete from)\s+"?(\w+)/i

/** Refuses to read what a change of a sealed table returns: what it changes is not noted there. */
function refuseSealed(statement: Compilable): void {
  const node = readNode(statement)
  const table = node ? findTable(node) : readTable(statement)
  if (table && SEALED_TABLES.includes(table))
    throw new TypeError(`A change of ${table} is not noted`)
}

// What Kysely builds otherwise only reads.
const readTable = (statement: Compilable): string | null =>
  'toOperationNode' in statement ? null : (CHANGE.exec(statement.compile().sql)?.[1] ?? null)

function noteInsert(
  noting: Noting,
  table: string,
  statement: Compilable,
  { onConflict, replace }: InsertQueryNode,
): Statement[] {
  if (replace || onConflict?.updates) throw new TypeError(`A change of ${table} is not noted`)
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

const listColumns = ({ columns }: Noting, table: string): Column[] => columns.get(table) ?? []

function select(noting: Noting, table: string): never {
  const selection = noting.selections.get(table) ?? selectColumns(listColumns(noting, table))
  noting.selections.set(table, selection)
  return selection as never
}

function note(
  noting: Noting,
  noun: string,
  before: SelectedRow | null,
  after: SelectedRow | null,
): void {
  const { id, text } = renderRow(listColumns(noting, noun), (before ?? after) as SelectedRow)
  noting.note({ noun, id, before: before && text, after: after && text })
}
