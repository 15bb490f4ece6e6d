import type { Actor } from './actor.ts'

export const VIDEO_STATUSES = [
  ...['pending', 'in_progress', 'completed', 'failed', 'cancelled', 'expired'],
] as const
type VideoStatus = (typeof VIDEO_STATUSES)[number]

/** How the end of a job is told: it is to be told, was told, or was given up. */
const CALLBACK_STATUSES = ['waiting', 'delivered', 'failed'] as const
type CallbackStatus = (typeof CALLBACK_STATUSES)[number]

/** A job that makes a video at a provider. Times are ISO 8601, money is in nano-dollars. */
export interface VideoJob {
  /** `job-` and 32 hexadecimal digits. */
  id: string
  /** The call that has begun it. */
  generation_id: string
  workspace_id: string
  key_hash: string | null
  user_id: string
  created_at: string
  model: string
  /** Where it is: the provider's slug, and the caller's own key that it is asked with. */
  provider: string
  byok_id: string | null
  /** The name of the credential that it was begun with, where its provider has several. */
  credential: string | null
  protocol: string
  upstream_model: string
  upstream_id: string
  status: VideoStatus
  /** Why there is no video; null if there is one, or none yet. */
  error: string | null
  /** Where its videos are, as `JobState` has them; a JSON list. */
  outputs: string
  /** What is set aside for it through the gateway's own credential, and through the caller's. */
  own: bigint | null
  byok: bigint | null
  /** What it cost; null until it has ended, or where the price is not known. */
  cost: bigint | null
  is_byok: boolean
  /** When the operator asked for its end; null if that did not happen. */
  cancel_requested_at: string | null
  ended_at: string | null
  /** What its record needs, as JSON; empty once it has ended. */
  details: string
  /** Where its end is told, sealed; null where it is told to no one, and once it is told. */
  callback_url: string | null
  /** Null where its end is told to no one. */
  callback: CallbackStatus | null
  /** When its end is told next; null before the end, and once that is over. */
  callback_at: string | null
  /** How often that was tried, and why the last try failed. */
  callback_attempts: number
  callback_error: string | null
}

/** What is known of a callback after a try. */
export type CallbackState = Pick<
  VideoJob,
  'callback_url' | 'callback' | 'callback_at' | 'callback_attempts' | 'callback_error'
>

/** Which jobs are listed, newest first. */
interface VideoRange {
  workspace_id: string | null
  status: VideoStatus | null
  limit: number
}

/** Stores the jobs of videos. Their ends are written with the records of their calls. */
export interface VideoStore {
  insert(job: VideoJob): Promise<void>
  find(id: string): Promise<VideoJob | undefined>
  list(range: VideoRange): Promise<VideoJob[]>
  /** Lists every job that has not ended. */
  listOpen(): Promise<VideoJob[]>
  /** Lists every job that has ended and is still to be told, the first due first. */
  listUntold(): Promise<VideoJob[]>
  /** Notes what came of telling the end of a job. */
  noteCallback(id: string, state: CallbackState): Promise<void>
  /** Notes that the provider works on a job. One that has ended stays as it is. */
  markStarted(id: string): Promise<void>
  /** Asks for the end of a job. Returns whether it was still open. */
  requestCancel(id: string, at: string): Promise<boolean>
}

/** Whose jobs may be seen: those of the actor's workspace. */
export const isOwnJob = ({ workspace_id }: Actor, job: Pick<VideoJob, 'workspace_id'>): boolean =>
  job.workspace_id === workspace_id

/** Tells whether a job has ended. */
export const hasEnded = ({ status }: Pick<VideoJob, 'status'>): boolean =>
  status !== 'pending' && status !== 'in_progress'
