import { notFound } from '../../../src/base/errors.ts'
import { compareTexts } from '../../../src/base/sorting.ts'
import { checkUnfinished } from '../../../src/extensions/batches/quota.ts'
import type { BatchStore } from '../../../src/extensions/batches/store.ts'
import type { BatchResult } from '../../../src/observability/generations/store.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import { countEviction } from './evictions.ts'
import type { Connection, Memory } from './memory.ts'

/** Batches in memory. */
export const createMemoryBatchStore = (connection: Connection): BatchStore => ({
  insert: (batch, entry) =>
    connection.write(memory => {
      const { workspace_id } = batch
      mustBeLive(memory, workspace_id)
      const isOpen = (one: { workspace_id: string; ended_at: string | null }) =>
        one.workspace_id === workspace_id && one.ended_at === null
      checkUnfinished(memory.batches.all(isOpen).length)
      memory.batches.insert(batch.id, batch)
      addAudit(memory, entry)
    }),
  find: id => connection.read(({ batches }) => batches.get(id)),
  list: ({ workspace_id, after, before, endpoint, limit, ...range }) =>
    connection.read(({ batches }) => {
      const { statuses, created_after, created_before } = range
      const found = batches
        .all(one => one.workspace_id === workspace_id)
        .filter(({ id }) => after === undefined || compareTexts(id, after) < 0)
        .filter(({ id }) => before === undefined || compareTexts(id, before) > 0)
        .filter(one => endpoint === undefined || one.endpoint === endpoint)
        .filter(({ status }) => statuses === undefined || statuses.includes(status))
        .filter(one => created_after === undefined || one.created_at > created_after)
        .filter(one => created_before === undefined || one.created_at < created_before)
        .sort((a, b) => compareTexts(b.id, a.id))
      return before === undefined ? found.slice(0, limit) : found.slice(-limit)
    }),
  listUnfinished: () =>
    connection.read(({ batches }) =>
      batches.all(one => one.ended_at === null).sort((a, b) => compareTexts(a.id, b.id)),
    ),
  change: (id, from, change, entry) =>
    connection.write(memory => {
      const batch = memory.batches.get(id)
      if (!batch || !from.includes(batch.status)) return false
      memory.batches.update(id, change)
      if (entry) addAudit(memory, entry)
      return true
    }),
  remove: (id, entry) =>
    connection.write(memory => {
      if (!memory.batches.has(id)) throw notFound('Batch not found')
      removeBatch(memory, id)
      addAudit(memory, entry)
    }),
  removeBefore: (time, now) =>
    connection.write(memory => {
      const isOld = ({ ended_at }: { ended_at: string | null }) =>
        ended_at !== null && ended_at < time
      const old = memory.batches.all(isOld).slice(0, 100)
      for (const { id } of old) removeBatch(memory, id)
      countEviction(memory, { kind: 'batches', reason: 'age', rows: old.length }, now)
      return old.length
    }),
  addResult: result => connection.write(memory => addResult(memory, result)),
  listResults: (batch_id, after, limit) =>
    connection.read(memory =>
      listOf(memory, batch_id)
        .filter(({ line }) => line > after)
        .slice(0, limit),
    ),
  listDoneLines: batch_id =>
    connection.read(memory => listOf(memory, batch_id).map(({ line }) => line)),
  sweepResults: () =>
    connection.write(memory => {
      const ended = memory.batches.all(({ ended_at }) => ended_at !== null)
      const results = ended.flatMap(({ id }) => listOf(memory, id)).slice(0, 1_000)
      for (const result of results) memory.batchResults.remove(nameResult(result))
      return results.length
    }),
})

const nameResult = ({ batch_id, line }: Pick<BatchResult, 'batch_id' | 'line'>) =>
  `${batch_id} ${line}`

const listOf = ({ batchResults }: Memory, batch_id: string): BatchResult[] =>
  batchResults.all(one => one.batch_id === batch_id).sort((a, b) => a.line - b.line)

/** Adds a result and counts it, once. */
export function addResult(memory: Memory, result: BatchResult): void {
  const batch = memory.batches.get(result.batch_id)
  if (!batch || memory.batchResults.has(nameResult(result))) return
  memory.batchResults.insert(nameResult(result), result)
  const name = result.is_error ? 'failed' : 'completed'
  memory.batches.update(batch.id, { [name]: batch[name] + 1 })
}

/** Removes a batch with its results. */
export function removeBatch(memory: Memory, id: string): void {
  for (const result of listOf(memory, id)) memory.batchResults.remove(nameResult(result))
  memory.batches.remove(id)
}
