import {
  isObject,
  type Json,
  omitUndefined,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import type { VideoCall } from '../../../language/video.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { isVertex } from '../gemini/capabilities.data.ts'
import { readFailure, readStreamFailure } from '../gemini/failure.ts'
import type { JobProtocol, JobState, Protocol, UpstreamRequest } from '../protocol.ts'
import {
  computeSize,
  findFrame,
  listPictures,
  listUrls,
  pickSeconds,
  readVideoOptions,
  requireObject,
  toBytes,
  toCompleted,
  toEnded,
  toJobParts,
  toRunning,
  videoDefaults,
} from '../videos.ts'

/** On Vertex the operation is the project's, and is asked about by its model. */
const isOfProject = (name: string): boolean => name.startsWith('projects/')

const job: JobProtocol = {
  buildPoll: ({ upstream_id, upstreamModel }) =>
    isOfProject(upstream_id)
      ? {
          path: `/models/${encodeURIComponent(upstreamModel)}:fetchPredictOperation`,
          body: { operationName: upstream_id },
        }
      : { method: 'GET', path: `/${upstream_id}`, body: {} },
  readState,
  readInline: (body, index) => findInline(readResponse(body))[index],
}

/**
 * Google's Veo: `:predictLongRunning`, and the operation that it begins
 * (https://ai.google.dev/gemini-api/docs/video).
 */
export const geminiVideos: Protocol<'video'> = {
  ...videoDefaults,
  buildRequest,
  parseAnswer(body) {
    const answer = requireObject(body)
    if (isObject(answer.error)) throw readStreamFailure(answer.error)
    return toJobParts(answer.name, OPERATION)
  },
  readFailure,
  job,
}

const OPERATION = /^(models|projects|operations)\/[\w./:-]{1,480}$/

function buildRequest(call: VideoCall, endpoint: Endpoint): UpstreamRequest {
  const toPicture = (url: string | undefined) => (url === undefined ? undefined : toBytes(url))
  const pictures = listPictures(call)
  const instance = omitUndefined({
    prompt: call.prompt || undefined,
    image: toPicture(findFrame(call, 'first_frame')),
    lastFrame: toPicture(findFrame(call, 'last_frame')),
    referenceImages:
      pictures.length === 0
        ? undefined
        : pictures.map(url => ({ image: toBytes(url), referenceType: 'asset' })),
  })
  const parameters = {
    ...readVideoOptions(call, endpoint),
    ...omitUndefined({
      aspectRatio: pickRatio(call),
      // Veo 2 has one, and no field for it.
      resolution: /^veo-2/.test(endpoint.upstreamModel) ? undefined : pickResolution(call),
      durationSeconds: pickSeconds(call, endpoint) ?? undefined,
      seed: call.params.seed,
      generateAudio: isVertex(endpoint) ? call.params.generate_audio : undefined,
    }),
  }
  const path = `/models/${encodeURIComponent(endpoint.upstreamModel)}:predictLongRunning`
  return { path, body: { instances: [instance], parameters } }
}

function pickRatio(call: VideoCall): string | undefined {
  const size = computeSize(call)
  return size && (size.width >= size.height ? '16:9' : '9:16')
}

function pickResolution({ params: { size, resolution } }: VideoCall): string | undefined {
  if (!size) return resolution?.toLowerCase()
  const lines = Math.min(size.width, size.height)
  return lines > 1080 ? '4k' : `${lines}p`
}

function readState(body: unknown): JobState {
  const operation = requireObject(body)
  if (operation.done !== true && !isObject(operation.error) && !isObject(operation.response))
    return toRunning('in_progress')
  if (isObject(operation.error)) return toEnded('failed', operation.error.message)
  const response = readResponse(operation)
  const urls = listUrls(listSamples(response).map(({ uri }) => uri))
  const inline = findInline(response).map((_, i) => `inline:${i}`)
  if (urls.length + inline.length > 0) return toCompleted([...urls, ...inline])
  return toEnded('failed', findRefusal(response) ?? 'The provider made no video')
}

/** Google AI Studio wraps the answer once more than Vertex does. */
function readResponse(body: unknown): Json {
  const response = readObject(requireObject(body), 'response')
  return isObject(response.generateVideoResponse) ? response.generateVideoResponse : response
}

const listSamples = ({ generatedSamples, videos }: Json): Json[] => [
  ...readObjects(generatedSamples).map(sample => readObject(sample, 'video')),
  ...readObjects(videos),
]

const findInline = (response: Json): string[] =>
  listSamples(response).flatMap(({ bytesBase64Encoded }) => readString(bytesBase64Encoded) ?? [])

function findRefusal({ raiMediaFilteredReasons: reasons }: Json): string | undefined {
  return Array.isArray(reasons) ? (readString(reasons[0]) ?? undefined) : undefined
}
