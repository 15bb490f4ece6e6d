import { isDataUrl, parseDataUrl } from '../../base/data-url.ts'
import { isObject, type Json } from '../../base/json.ts'
import type { PixelSize } from '../../language/image.ts'
import type { FrameType, VideoCall, VideoPart } from '../../language/video.ts'
import { VIDEO_RESOLUTIONS } from '../../language/video.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { unreadableAnswer } from './failure.ts'
import { readJobWord } from './job-words.ts'
import { readPassthrough } from './passthrough.ts'
import type { JobState, Protocol } from './protocol.ts'
import { getVideoCapabilities } from './videos/capabilities.ts'

/** What protocols share that make videos: no answer streams. */
export const videoDefaults = {
  framing: 'sse',
  acceptsNames: true,
  // Sounds and videos go on as they are, where they go on at all.
  urlMedia: ['audio', 'video'],
  createReader: () => {
    throw unreadableAnswer()
  },
} satisfies Partial<Protocol<'video'>>

/**
 * Returns the parameters that the call names for this provider alone. Throws 400 for one that the
 * endpoint is not known to take.
 */
export const readVideoOptions = ({ options }: VideoCall, endpoint: Endpoint): Json =>
  readPassthrough(options, endpoint, getVideoCapabilities(endpoint).passthrough)

/** Returns the seconds to ask the endpoint for: its usual ones by default, null if it has none. */
export const pickSeconds = (
  { params }: Pick<VideoCall, 'params'>,
  endpoint: Endpoint,
): number | null => params.duration ?? getVideoCapabilities(endpoint).usual

/**
 * Returns the pixels that the call asks for; undefined if it names neither size, resolution nor
 * ratio. Sides are even, as codecs want them.
 */
export function computeSize({ params }: Pick<VideoCall, 'params'>): PixelSize | undefined {
  const { size, resolution, aspect_ratio } = params
  if (size) return size
  if (resolution === undefined && aspect_ratio === undefined) return undefined
  const short = VIDEO_RESOLUTIONS[resolution ?? '720p']
  const [width = 16, height = 9] = (aspect_ratio ?? '16:9').split(':').map(Number)
  const long = Math.round((short * Math.max(width, height)) / Math.min(width, height) / 2) * 2
  return width >= height ? { width: long, height: short } : { width: short, height: long }
}

/** Finds the URL of the picture at this place. */
export const findFrame = ({ frames }: VideoCall, type: FrameType): string | undefined =>
  frames.find(frame => frame.type === type)?.url

/** Lists the URLs of the pictures among the references: providers ignore the others. */
export const listPictures = ({ references }: VideoCall): string[] =>
  references.flatMap(({ type, url }) => (type === 'image' ? [url] : []))

/** Returns a picture as Google takes it, from its data URL. Throws 400 for another URL. */
export function toBytes(url: string): { bytesBase64Encoded: string; mimeType: string } {
  const { data, media_type } = parseDataUrl(url)
  return { bytesBase64Encoded: data, mimeType: media_type }
}

/** Returns the answer that a job has begun. Throws `provider_unavailable` for an id that is none. */
export function toJobParts(id: unknown, pattern = JOB_ID): VideoPart[] {
  if (typeof id !== 'string' || !pattern.test(id) || id.includes('..')) throw unreadableAnswer()
  return [
    { type: 'start', upstream_id: id, system_fingerprint: null, service_tier: null },
    { type: 'job', upstream_id: id },
  ]
}

/** It becomes a part of paths at the provider. */
const JOB_ID = /^[\w.:-]{1,256}$/

/** Builds the state of a job that goes on. */
export const toRunning = (status: 'pending' | 'in_progress'): JobState => ({
  ...{ status, error: null, outputs: [], seconds: null },
})

/** Builds the state of a job without a result. */
export const toEnded = (status: 'failed' | 'cancelled', error: unknown = null): JobState => ({
  ...{ status, outputs: [], seconds: null },
  error: typeof error === 'string' && error !== '' ? error.slice(0, LONGEST_ERROR) : null,
})

const LONGEST_ERROR = 1_000

/** Builds the state of a job with results. Without any it has failed. */
export const toCompleted = (outputs: string[], seconds: number | null = null): JobState =>
  outputs.length === 0
    ? toEnded('failed', 'The provider made no video')
    : { status: 'completed', error: null, outputs, seconds }

/** What an answer says of a job that has ended. */
interface JobEnd {
  /** Why it failed, as far as that is said. */
  error: unknown
  /** Returns what it has come to; `isKnown` where its word is known to say that it is completed. */
  findResult(isKnown: boolean): JobState
}

/**
 * Reads the state of a job by its word. One that is not known ends the wait, with a result if there
 * is one. Throws `provider_unavailable` for what is no word.
 */
export function readWord(value: unknown, { error, findResult }: JobEnd): JobState {
  const word = readJobWord(value)
  if (word === undefined) throw unreadableAnswer()
  if (word === 'pending' || word === 'in_progress') return toRunning(word)
  if (word === 'completed') return findResult(true)
  if (word !== 'unknown') return toEnded(word, error)
  const result = findResult(false)
  if (result.status === 'completed') return result
  return toEnded('failed', error ?? `The provider’s word for it is ${value}`)
}

/** Returns the body as an object. Throws `provider_unavailable` for anything else. */
export function requireObject(body: unknown): Json {
  if (!isObject(body)) throw unreadableAnswer()
  return body
}

/** Lists the URLs among some values. Data URLs are none: nothing would bound them. */
export const listUrls = (values: unknown[]): string[] =>
  values.filter(
    (value): value is string =>
      typeof value === 'string' && !isDataUrl(value) && /^https?:\/\//i.test(value),
  )
