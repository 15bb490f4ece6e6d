import type { Endpoint } from '../../catalog/models.ts'
import { omitUndefined, readString } from '../../kernel/json.ts'
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

/** The date of the API that this speaks. */
const HEADERS = { 'x-runway-version': '2024-11-06' }

const buildTask = (id: string, method: 'GET' | 'DELETE'): UpstreamRequest => ({
  ...{ method, path: `/tasks/${encodeURIComponent(id)}`, headers: HEADERS, body: {} },
})

const job: JobProtocol = {
  buildPoll: ({ upstream_id }) => buildTask(upstream_id, 'GET'),
  readState,
  buildCancel: ({ upstream_id }) => buildTask(upstream_id, 'DELETE'),
}

/** Runway's tasks (https://docs.dev.runwayml.com/api). */
export const runwayVideos: Protocol<'video'> = {
  ...videoDefaults,
  urlMedia: ['image', 'audio', 'video'],
  buildRequest,
  parseAnswer: body => toJobParts(requireObject(body).id),
  readFailure: (status, body) =>
    translateFailure(status, { code: null, message: findMessage(body) }),
  job,
}

function buildRequest(call: VideoCall, endpoint: Endpoint): UpstreamRequest {
  const promptImage = findFrame(call, 'first_frame')
  const body = {
    ...readVideoOptions(call, endpoint),
    ...omitUndefined({
      model: endpoint.upstreamModel,
      promptText: call.prompt || undefined,
      promptImage,
      ratio: pickRatio(call),
      duration: pickSeconds(call, endpoint) ?? undefined,
      seed: call.params.seed,
    }),
  }
  const path = promptImage === undefined ? '/text_to_video' : '/image_to_video'
  return { path, headers: HEADERS, body }
}

/** The pixels that each ratio has there, by which it is named. */
const RATIOS: Record<string, string> = {
  '16:9': '1280:720',
  '9:16': '720:1280',
  '1:1': '960:960',
  '4:3': '1112:834',
  '3:4': '834:1112',
  '21:9': '1584:672',
}

function pickRatio({ params: { size, aspect_ratio = '16:9' } }: VideoCall): string | undefined {
  return size ? `${size.width}:${size.height}` : RATIOS[aspect_ratio]
}

const STATES: Record<string, JobState['status']> = {
  PENDING: 'pending',
  THROTTLED: 'pending',
  RUNNING: 'in_progress',
  SUCCEEDED: 'completed',
  FAILED: 'failed',
  CANCELLED: 'cancelled',
}

function readState(body: unknown): JobState {
  const answer = requireObject(body)
  const status = STATES[readString(answer.status) ?? '']
  if (status === undefined) throw unreadableAnswer()
  if (status === 'pending' || status === 'in_progress') return toRunning(status)
  if (status !== 'completed') return toEnded(status, answer.failure)
  return toCompleted(listUrls(Array.isArray(answer.output) ? answer.output : []))
}
