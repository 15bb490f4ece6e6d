import { renderDetails } from '../../src/extensions/videos/details.ts'
import type { VideoJob } from '../../src/resources/videos.ts'
import { buildGeneration } from './generation.ts'

/** Builds a job of the sandbox that has just begun, with `more` applied. */
export const buildVideoJob = (more: Partial<VideoJob> = {}): VideoJob => ({
  id: 'job-00000000000000000000000000000001',
  generation_id: 'gen-1772600767-00000000000000000001',
  workspace_id: 'w-1',
  key_hash: null,
  user_id: 'user_1',
  created_at: '2026-03-04T05:06:07.000Z',
  model: 'sandbox/video',
  provider: 'sandbox',
  byok_id: null,
  credential: null,
  protocol: 'sandbox',
  upstream_model: 'video',
  upstream_id: 'sandbox-4-1',
  status: 'pending',
  error: null,
  outputs: '[]',
  own: null,
  byok: null,
  cost: null,
  is_byok: false,
  cancel_requested_at: null,
  ended_at: null,
  details: '',
  callback_url: null,
  callback: null,
  callback_at: null,
  callback_attempts: 0,
  callback_error: null,
  ...more,
})

/** Builds a job of the sandbox that it does not know, as it begins at this time. */
export function buildLostVideo(id: string, generation_id: string, begun: Date): VideoJob {
  const generation = buildGeneration({ id: generation_id })
  const details = { params: {}, seconds: 4, prices: null, generation, transcript: null, outbox: [] }
  return buildVideoJob({
    ...{ id, generation_id, upstream_id: 'lost', details: renderDetails(details) },
    created_at: begun.toISOString(),
  })
}
