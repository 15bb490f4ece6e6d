import type { Endpoint } from '../../catalog/models.ts'
import { omitUndefined, readObject, readString } from '../../kernel/json.ts'
import type { VideoCall } from '../../language/video.ts'
import { findMessage, translateFailure, unreadableAnswer } from '../failure.ts'
import type { JobProtocol, JobState, Protocol, UpstreamRequest } from '../protocol.ts'
import {
  findFrame,
  listUrls,
  pickSeconds,
  readVideoOptions,
  requireObject,
  toCompleted,
  toEnded,
  toJobParts,
  toRunning,
  videoDefaults,
} from '../videos.ts'

const buildGeneration = (id: string, method: 'GET' | 'DELETE'): UpstreamRequest => ({
  ...{ method, path: `/generations/${encodeURIComponent(id)}`, body: {} },
})

const job: JobProtocol = {
  buildPoll: ({ upstream_id }) => buildGeneration(upstream_id, 'GET'),
  readState,
  buildCancel: ({ upstream_id }) => buildGeneration(upstream_id, 'DELETE'),
}

/** Luma's generations (https://docs.lumalabs.ai/docs/video-generation). */
export const lumaVideos: Protocol<'video'> = {
  ...videoDefaults,
  urlMedia: ['image', 'audio', 'video'],
  buildRequest,
  parseAnswer: body => toJobParts(requireObject(body).id),
  readFailure: (status, body) =>
    translateFailure(status, { code: null, message: findMessage(body) }),
  job,
}

function buildRequest(call: VideoCall, endpoint: Endpoint): UpstreamRequest {
  const { resolution, aspect_ratio } = call.params
  const seconds = pickSeconds(call, endpoint)
  const toKey = (url: string | undefined) => url && { type: 'image', url }
  const keyframes = omitUndefined({
    frame0: toKey(findFrame(call, 'first_frame')),
    frame1: toKey(findFrame(call, 'last_frame')),
  })
  const body = {
    ...readVideoOptions(call, endpoint),
    ...omitUndefined({
      model: endpoint.upstreamModel,
      prompt: call.prompt || undefined,
      keyframes: Object.keys(keyframes).length === 0 ? undefined : keyframes,
      resolution: (resolution ?? '720p').toLowerCase(),
      aspect_ratio,
      duration: seconds === null ? undefined : `${seconds}s`,
    }),
  }
  return { path: '/generations', body }
}

function readState(body: unknown): JobState {
  const answer = requireObject(body)
  switch (readString(answer.state)) {
    case 'queued':
      return toRunning('pending')
    case 'dreaming':
      return toRunning('in_progress')
    case 'failed':
      return toEnded('failed', answer.failure_reason)
    case 'completed':
      return toCompleted(listUrls([readObject(answer, 'assets').video]))
    default:
      throw unreadableAnswer()
  }
}
