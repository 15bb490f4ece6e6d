import type { BatchResult } from '../../observability/generations/store.ts'
import type { AuditEntry } from '../../resources/audit/store.ts'

/** How far a batch is. The last four are its ends. */
export const BATCH_STATUSES = [
  'validating',
  'in_progress',
  'finalizing',
  'cancelling',
  'completed',
  'failed',
  'expired',
  'cancelled',
] as const
export type BatchStatus = (typeof BATCH_STATUSES)[number]

/** How a batch ends. */
export type BatchEnd = 'completed' | 'failed' | 'expired' | 'cancelled'

/** Why a batch failed. The line counts from 1; null if it is about none. */
export interface BatchProblem {
  code: string
  message: string
  param: string | null
  line: number | null
}

/** A file of requests, and how far they are. Times are ISO 8601. */
export interface Batch {
  /** `batch_` and 32 hexadecimal digits that sort by creation. */
  id: string
  workspace_id: string
  /** The key that pays, and whose limits and rules hold. */
  key_hash: string
  user_id: string
  /** `/v1/chat/completions` or another. */
  endpoint: string
  input_file_id: string
  metadata: Record<string, string> | null
  /** In seconds, how long the files of its results stay; null for ever. */
  output_expires_after: number | null
  status: BatchStatus
  /** How it is about to end; null as long as it goes on. */
  ends_as: BatchEnd | null
  errors: BatchProblem[]
  total: number
  completed: number
  failed: number
  /** The ids that its files have, or will have; null before they are written and without any. */
  output_file_id: string | null
  error_file_id: string | null
  created_at: string
  expires_at: string
  in_progress_at: string | null
  finalizing_at: string | null
  cancelling_at: string | null
  ended_at: string | null
}

/** Which batches of a workspace are listed, newest first. Times are ISO 8601. */
export interface BatchRange {
  workspace_id: string
  /** Only batches that are older than this one. */
  after?: string | undefined
  /** Only batches that are newer than this one, and the nearest to it. */
  before?: string | undefined
  /** Only batches of this endpoint. */
  endpoint?: string | undefined
  statuses?: BatchStatus[] | undefined
  created_after?: string | undefined
  created_before?: string | undefined
  limit: number
}

/** Stores batches and their results. A change and its audit entry are one transaction. */
export interface BatchStore {
  /**
   * Inserts a batch. Throws 400 where the workspace no longer exists, and 429 where it has as many
   * unfinished ones as it may.
   */
  insert(batch: Batch, entry: AuditEntry): Promise<void>
  find(id: string): Promise<Batch | undefined>
  list(range: BatchRange): Promise<Batch[]>
  /** Lists those that go on, oldest first. */
  listUnfinished(): Promise<Batch[]>
  /** Changes a batch that has one of these statuses. Returns whether it had. */
  change(
    id: string,
    from: readonly BatchStatus[],
    change: Partial<Batch>,
    entry?: AuditEntry,
  ): Promise<boolean>
  /** Removes a batch and its results. Throws 404 if another request has just removed it. */
  remove(id: string, entry: AuditEntry): Promise<void>
  /** Removes at most 100 that ended before a time, with their results, and counts them. */
  removeBefore(time: string, now: string): Promise<number>
  /**
   * Adds a result and counts it, in one transaction. A line that has one already, and a batch that
   * is gone, change nothing.
   */
  addResult(result: BatchResult): Promise<void>
  /** Lists at most `limit` results after a line, in their order. */
  listResults(batch_id: string, after: number, limit: number): Promise<BatchResult[]>
  /** Lists the lines that have a result. */
  listDoneLines(batch_id: string): Promise<number[]>
  /** Removes at most 1,000 results of batches that have ended, or of one, and counts them. */
  sweepResults(batch_id?: string): Promise<number>
}

/** How many unfinished batches one workspace may have. */
export const MOST_UNFINISHED = 100
