import type { Asker } from '../base/job-worker.ts'
import type { Run } from '../engine/run.ts'

/** Says who asks a Worker for a job: a key, until its call or its use of a tool has ended. */
export const createAsker = (
  { actor: { key_hash, workspace_id } }: Pick<Run, 'actor'>,
  work: { readonly reason: unknown },
): Asker => ({ owner: key_hash ?? workspace_id, isGone: () => work.reason !== null })
