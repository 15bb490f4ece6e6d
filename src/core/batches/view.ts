import { defineAudit, identifyById } from '../identity/audit/entry.ts'
import type { Batch, BatchEnd } from './store.ts'

/** Shows a batch as OpenAI's clients know it. Its files are there once it has ended. */
export function showBatch(batch: Batch) {
  const isOver = batch.ended_at !== null
  return {
    id: batch.id,
    object: 'batch' as const,
    endpoint: batch.endpoint,
    errors: batch.errors.length === 0 ? null : { object: 'list' as const, data: batch.errors },
    input_file_id: batch.input_file_id,
    completion_window: '24h' as const,
    status: batch.status,
    output_file_id: isOver ? batch.output_file_id : null,
    error_file_id: isOver ? batch.error_file_id : null,
    created_at: toSeconds(batch.created_at) ?? 0,
    in_progress_at: toSeconds(batch.in_progress_at),
    expires_at: toSeconds(batch.expires_at),
    finalizing_at: toSeconds(batch.finalizing_at),
    ...showEnds(batch),
    cancelling_at: toSeconds(batch.cancelling_at),
    request_counts: { total: batch.total, completed: batch.completed, failed: batch.failed },
    metadata: batch.metadata,
  }
}

/** Shows when a batch ended, under the name of how it did. */
function showEnds({ status, ended_at }: Batch) {
  const showEnd = (end: BatchEnd) => (status === end ? toSeconds(ended_at) : null)
  return {
    completed_at: showEnd('completed'),
    failed_at: showEnd('failed'),
    expired_at: showEnd('expired'),
    cancelled_at: showEnd('cancelled'),
  }
}

const toSeconds = (time: string | null): number | null =>
  time === null ? null : Math.floor(Date.parse(time) / 1000)

/** Shows one page of batches. */
export const showBatchList = (batches: Batch[], has_more: boolean) => ({
  object: 'list' as const,
  data: batches.map(showBatch),
  first_id: batches[0]?.id ?? null,
  last_id: batches.at(-1)?.id ?? null,
  has_more,
})

/** Makes the audit entry of a change of a batch. */
export const auditBatch = defineAudit<Batch>('batches', {
  identify: identifyById,
  verbs: { update: 'cancel' },
})
