import { toUsd } from '../../base/money.ts'
import { hasEnded, type VideoJob } from '../../resources/videos.ts'
import { buildVideoPath } from '../../translation/dialects/videos.ts'

/** Shows a job (wire reference B.3, VideoGenerationResponse). */
export function showVideo(job: VideoJob, siteUrl: string) {
  const polling_url = buildVideoPath(job.id)
  const count = parseOutputs(job).length
  return {
    id: job.id,
    generation_id: job.generation_id,
    polling_url,
    status: job.status,
    ...(job.error === null ? {} : { error: job.error }),
    ...(job.status === 'completed'
      ? {
          unsigned_urls: Array.from(
            { length: count },
            (_, index) => `${siteUrl}${polling_url}/content?index=${index}`,
          ),
        }
      : {}),
    ...(hasEnded(job)
      ? { usage: { cost: job.cost === null ? null : toUsd(job.cost), is_byok: job.is_byok } }
      : {}),
  }
}

/** Shows a job to operators. */
export const showVideoToOperator = (job: VideoJob, siteUrl: string) => ({
  ...showVideo(job, siteUrl),
  workspace_id: job.workspace_id,
  model: job.model,
  provider: job.provider,
  upstream_id: job.upstream_id,
  created_at: job.created_at,
  ended_at: job.ended_at,
  callback: job.callback && {
    status: job.callback,
    attempts: job.callback_attempts,
    error: job.callback_error,
  },
})

/** Lists where the videos of a job are. */
export const parseOutputs = ({ outputs }: Pick<VideoJob, 'outputs'>): string[] =>
  JSON.parse(outputs)
