import { type Json, omitUndefined, readObject, readString } from '../../../base/json.ts'
import type { PixelSize } from '../../../language/image.ts'
import type { VideoCall } from '../../../language/video.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { readFailure, readStreamFailure } from '../openai-chat/failure.ts'
import type { JobProtocol, JobState, Protocol, UpstreamJob, UpstreamRequest } from '../protocol.ts'
import {
  computeSize,
  findFrame,
  pickSeconds,
  readVideoOptions,
  readWord,
  requireObject,
  toCompleted,
  toJobParts,
  videoDefaults,
} from '../videos.ts'

const job: JobProtocol = {
  buildPoll: ({ upstream_id }) => ({ method: 'GET', path: buildJobPath(upstream_id), body: {} }),
  readState,
  buildCancel: ({ upstream_id }) => ({
    method: 'DELETE',
    path: buildJobPath(upstream_id),
    body: {},
  }),
}

/**
 * OpenAI's videos, and those of compatible servers and of OpenRouter: `POST {base_url}/videos`, then
 * `GET /videos/{id}` and `/videos/{id}/content`.
 */
export const openaiVideos: Protocol<'video'> = {
  ...videoDefaults,
  buildRequest: (call, endpoint) =>
    endpoint.provider.quirks.videos === 'openrouter'
      ? buildPublicRequest(call, endpoint)
      : buildRequest(call, endpoint),
  parseAnswer(body) {
    const answer = requireObject(body)
    if (answer.error && answer.id === undefined) throw readStreamFailure(answer.error)
    return toJobParts(answer.id)
  },
  readFailure,
  job,
}

const buildJobPath = (id: string): string => `/videos/${encodeURIComponent(id)}`

function buildRequest(call: VideoCall, endpoint: Endpoint): UpstreamRequest {
  const seconds = pickSeconds(call, endpoint)
  const frame = findFrame(call, 'first_frame')
  const body = {
    ...readVideoOptions(call, endpoint),
    ...omitUndefined({
      model: endpoint.upstreamModel,
      prompt: call.prompt,
      seconds: seconds === null ? undefined : String(seconds),
      size: renderSize(computeSize(call)),
      seed: call.params.seed,
    }),
  }
  if (frame === undefined) return { path: '/videos', body }
  return {
    path: '/videos',
    body: { ...body, input_reference: [frame] },
    files: ['input_reference'],
  }
}

const renderSize = (size: PixelSize | undefined): string | undefined =>
  size && `${size.width}x${size.height}`

/** Builds the request in the public API's own form. */
function buildPublicRequest(call: VideoCall, endpoint: Endpoint): UpstreamRequest {
  const { size, ...params } = call.params
  const body = {
    ...readVideoOptions(call, endpoint),
    ...params,
    ...omitUndefined({
      model: endpoint.upstreamModel,
      prompt: call.prompt || undefined,
      size: renderSize(size),
      user: call.user ?? undefined,
    }),
    ...(call.frames.length === 0 ? {} : { frame_images: call.frames.map(toFrameImage) }),
    ...(call.references.length === 0
      ? {}
      : { input_references: call.references.map(({ type, url }) => toReference(type, url)) }),
  }
  return { path: '/videos', body }
}

const toFrameImage = ({ type, url }: VideoCall['frames'][number]) => ({
  ...{ type: 'image_url', image_url: { url } },
  frame_type: type,
})

const toReference = (type: string, url: string) => ({
  type: `${type}_url`,
  [`${type}_url`]: { url },
})

function readState(body: unknown, { upstream_id }: UpstreamJob): JobState {
  const answer = requireObject(body)
  const path = `${buildJobPath(upstream_id)}/content`
  const { unsigned_urls: urls } = answer
  const isPublic = Array.isArray(urls) && urls.length > 0
  const outputs = isPublic
    ? urls.slice(0, MOST_OUTPUTS).map((_, i) => `${path}?index=${i}`)
    : [path]
  const error = findError(answer)
  // Where there is a video it is at a path that the answer does not name.
  const isMade = isPublic || (error === null && isFinished(answer))
  return readWord(answer.status ?? answer.state, {
    error,
    findResult: isKnown =>
      toCompleted(isKnown || isMade ? outputs : [], readSeconds(answer.seconds)),
  })
}

const isFinished = ({ progress, completed_at }: Json): boolean =>
  progress === 100 || typeof completed_at === 'number'

const MOST_OUTPUTS = 16

const findError = (answer: Record<string, unknown>): string | null =>
  readString(answer.error) ?? readString(readObject(answer, 'error').message) ?? null

/** OpenAI writes them as a text. */
function readSeconds(value: unknown): number | null {
  const seconds = typeof value === 'string' ? Number(value) : value
  return typeof seconds === 'number' && seconds > 0 && Number.isFinite(seconds) ? seconds : null
}
