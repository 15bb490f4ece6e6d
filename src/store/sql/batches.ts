import type { Kysely, Selectable } from 'kysely'
import { GatewayError, notFound } from '../../base/errors.ts'
import {
  type Batch,
  type BatchRange,
  type BatchStatus,
  type BatchStore,
  MOST_UNFINISHED,
} from '../../extensions/batches/store.ts'
import type { BatchResult } from '../../observability/generations/store.ts'
import { buildAuditInsert } from './audit.ts'
import { createRemoval } from './evictions.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { check, follow, prepare, type Statement, toColumns, type Write } from './write.ts'

/** Throws 429 where a workspace has as many unfinished batches as it may. */
function checkUnfinished(count: number): void {
  if (count >= MOST_UNFINISHED)
    throw new GatewayError(
      'rate_limit_exceeded',
      `A workspace may have ${MOST_UNFINISHED} unfinished batches`,
      { retryAfter: 60 },
    )
}

/** How many results one transaction removes. */
const REMOVED_AT_ONCE = 1_000

/** Creates the store of batches in SQL. */
export const createBatchStore = (kysely: Kysely<Tables>, write: Write): BatchStore => ({
  insert: (batch, entry) =>
    write(
      checkWorkspaceReference(kysely, batch.workspace_id),
      check(countUnfinished(kysely, batch.workspace_id), ([row]) =>
        checkUnfinished(row?.count ?? 0),
      ),
      kysely.insertInto('batches').values(toRow(batch)),
      buildAuditInsert(kysely, entry),
    ),
  async find(id) {
    const row = await selectBatches(kysely).where('id', '=', id).executeTakeFirst()
    return row && toBatch(row)
  },
  async list(range) {
    const found = (await selectRange(kysely, range).execute()).map(toBatch)
    return range.before === undefined ? found : found.reverse()
  },
  async listUnfinished() {
    const query = selectBatches(kysely).where('ended_at', 'is', null).orderBy('id')
    return (await query.execute()).map(toBatch)
  },
  async change(id, from, change, entry) {
    let isChanged = false
    await write(
      follow(selectStatus(kysely, id, from), ([row]) => {
        isChanged = row !== undefined
        const update = kysely.updateTable('batches').set(toRow(change)).where('id', '=', id)
        return isChanged ? [update, ...(entry ? [buildAuditInsert(kysely, entry)] : [])] : []
      }),
    )
    return isChanged
  },
  remove: (id, entry) =>
    write(
      check(kysely.selectFrom('batches').select('id').where('id', '=', id), ([row]) => {
        if (!row) throw notFound('Batch not found')
      }),
      kysely.deleteFrom('batches').where('id', '=', id),
      buildAuditInsert(kysely, entry),
    ),
  removeBefore: createRemoval(write, 'batches', REMOVE_OLD),
  addResult: result => write(addResult(result)),
  async listResults(batch_id, after, limit) {
    const query = kysely
      .selectFrom('batch_results')
      .selectAll()
      .where('batch_id', '=', batch_id)
      .where('line', '>', after)
      .orderBy('line')
      .limit(limit)
    return (await query.execute()).map(row => ({ ...row, is_error: row.is_error === 1 }))
  },
  async listDoneLines(batch_id) {
    const query = kysely.selectFrom('batch_results').select('line')
    return (await query.where('batch_id', '=', batch_id).execute()).map(({ line }) => line)
  },
  async sweepResults(batch_id) {
    let count = 0
    const all = kysely
      .selectFrom('batch_results')
      .innerJoin('batches', 'batches.id', 'batch_results.batch_id')
      .select(['batch_id', 'line'])
      .where('ended_at', 'is not', null)
      .limit(REMOVED_AT_ONCE)
    const ended = batch_id === undefined ? all : all.where('batch_id', '=', batch_id)
    await write(
      follow(ended, rows => {
        count = rows.length
        const [first] = rows
        if (!first) return []
        const lines = rows.filter(({ batch_id }) => batch_id === first.batch_id)
        count = lines.length
        return [
          kysely
            .deleteFrom('batch_results')
            .where('batch_id', '=', first.batch_id)
            .where('line', '<=', Math.max(...lines.map(({ line }) => line))),
        ]
      }),
    )
    return count
  },
})

const INSERT_RESULT = `insert into batch_results (batch_id, line, is_error, sealed)
  select id, ?, ?, ? from batches where id = ? on conflict do nothing returning 1`

const COUNT_RESULT =
  'update batches set completed = completed + ?, failed = failed + ? where id = ?'

/**
 * Adds a result and counts it: that of a call that is paid in the transaction of its record. A line
 * that has one already, and a batch that is gone, change nothing.
 */
export const addResult = ({ batch_id, line, is_error, sealed }: BatchResult): Statement =>
  follow(prepare(INSERT_RESULT, line, Number(is_error), sealed, batch_id), ([added]) =>
    added ? [prepare(COUNT_RESULT, Number(!is_error), Number(is_error), batch_id)] : [],
  )

// Their results go with them, up to as many as a batch has lines.
const REMOVE_OLD =
  'delete from batches where id in ' +
  '(select id from batches where ended_at < ? order by ended_at limit 100) returning 1'

const selectBatches = (kysely: Kysely<Tables>) => kysely.selectFrom('batches').selectAll()

const selectStatus = (kysely: Kysely<Tables>, id: string, from: readonly BatchStatus[]) =>
  kysely
    .selectFrom('batches')
    .select('id')
    .where('id', '=', id)
    .where('status', 'in', [...from])

const countUnfinished = (kysely: Kysely<Tables>, workspace_id: string) =>
  kysely
    .selectFrom('batches')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('workspace_id', '=', workspace_id)
    .where('ended_at', 'is', null)

function selectRange(kysely: Kysely<Tables>, range: BatchRange) {
  const { workspace_id, after, before, endpoint, statuses, limit } = range
  const { created_after, created_before } = range
  let found = selectBatches(kysely).where('workspace_id', '=', workspace_id)
  if (after !== undefined) found = found.where('id', '<', after)
  if (statuses !== undefined) found = found.where('status', 'in', statuses)
  if (created_after !== undefined) found = found.where('created_at', '>', created_after)
  if (created_before !== undefined) found = found.where('created_at', '<', created_before)
  if (endpoint !== undefined) found = found.where('endpoint', '=', endpoint as Batch['endpoint'])
  return before === undefined
    ? found.orderBy('id', 'desc').limit(limit)
    : found.where('id', '>', before).orderBy('id', 'asc').limit(limit)
}

type Row = Selectable<Tables['batches']>

const toRow = ({ metadata, ...rest }: Partial<Batch>): Row =>
  toColumns<Row>({
    ...rest,
    ...(metadata === undefined ? {} : { metadata: metadata && JSON.stringify(metadata) }),
  })

const toBatch = (row: Row): Batch => ({
  ...row,
  metadata: row.metadata === null ? null : JSON.parse(row.metadata),
  errors: row.errors === null ? [] : JSON.parse(row.errors),
})
