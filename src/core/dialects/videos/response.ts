import { buildVideoPath } from '../../inference/videos/view.ts'
import type { Answer } from '../../language/answer.ts'
import type { VideoCall } from '../../language/video.ts'

/**
 * Returns the job that an answer has begun, as `POST /videos` shows it. Throws the error of a failed
 * answer.
 */
export async function collectVideoResponse(
  { id: generation_id, parts }: Answer<'video'>,
  { job_id: id }: Pick<VideoCall, 'job_id'>,
) {
  for (const part of (await parts.collect()).flat()) if (part.type === 'error') throw part.error
  return { id, generation_id, polling_url: buildVideoPath(id), status: 'pending' as const }
}
