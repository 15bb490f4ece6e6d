import { type Static, Type } from '@sinclair/typebox'
import { isDataUrl } from '../../base/data-url.ts'
import { invalid } from '../../base/errors.ts'
import { omitUndefined } from '../../base/json.ts'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../base/schema-builders.ts'
import type { Answer } from '../../language/answer.ts'
import type { PixelSize } from '../../language/image.ts'
import {
  FRAME_TYPES,
  VIDEO_RATIOS,
  VIDEO_RESOLUTIONS,
  type VideoCall,
  type VideoFrame,
  type VideoParams,
  type VideoRatio,
  type VideoReference,
  type VideoResolution,
} from '../../language/video.ts'
import type { Actor } from '../../resources/actor.ts'
import type { CallContext, Dialect, FormFile } from './dialect.ts'
import { toPictureUrl } from './form-picture.ts'
import { readProviderOptions } from './provider-options.ts'
import { buildCallBase, providerWithOptions, routingFields } from './routing.ts'
import { dryRunFields } from './schema.ts'
import type { DialectWorld } from './world.ts'

/**
 * The video request (wire reference B.3). Fields that are not named here are refused: one that a
 * provider reads may change what is charged.
 */

const RESOLUTIONS = [
  ...['480p', '720p', '768p', '1080p', '1K', '2K', '4K'],
] as const satisfies VideoResolution[]

const Url = Type.Object({ url: SomeContent }, open)

const Frame = Type.Object(
  { type: Type.Literal('image_url'), image_url: Url, frame_type: oneOf(...FRAME_TYPES) },
  open,
)

const Reference = Type.Union([
  Type.Object({ type: Type.Literal('image_url'), image_url: Url }, open),
  Type.Object({ type: Type.Literal('audio_url'), audio_url: Url }, open),
  Type.Object({ type: Type.Literal('video_url'), video_url: Url }, open),
])
const MAX_REFERENCES = 16

/** The longest video in seconds, the longest prompt and callback URL in characters. */
const LONGEST = 600
const LONGEST_PROMPT = 100_000
const LONGEST_URL = 8_192

const { user, session_id, trace } = routingFields

const Prompt = optional(Type.String({ maxLength: LONGEST_PROMPT }))
const Seconds = optional(Type.Integer({ minimum: 1, maximum: LONGEST }))
const Size = optional(
  Type.String({
    pattern: '^[1-9]\\d{1,4}x[1-9]\\d{1,4}$',
    maxLength: 11,
    title: 'a width and a height in pixels: 1280x720',
  }),
)

/** The body of `POST /videos`. */
const VideosRequest = Type.Object(
  {
    model: SomeName,
    prompt: Prompt,
    aspect_ratio: optional(oneOf(...VIDEO_RATIOS)),
    callback_url: optional(Type.String({ minLength: 1, maxLength: LONGEST_URL })),
    creativity: optional(Type.Integer({ minimum: -100, maximum: 100 })),
    duration: Seconds,
    frame_images: optional(list(Frame, { maxItems: FRAME_TYPES.length })),
    generate_audio: optional(Type.Boolean()),
    input_references: optional(list(Reference, { maxItems: MAX_REFERENCES })),
    resolution: optional(oneOf(...RESOLUTIONS)),
    seed: optional(
      Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
    ),
    size: Size,
    upscale_factor: optional(Type.Number({ exclusiveMinimum: 0, maximum: 16 })),
    provider: providerWithOptions,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  closed,
)
type VideosRequest = Static<typeof VideosRequest>

/** The fields of the same as a form, as OpenAI's clients send it, beside its file. */
const VideosForm = Type.Object(
  {
    model: SomeName,
    prompt: Prompt,
    seconds: Seconds,
    size: Size,
    'input_reference[image_url]': optional(SomeContent),
  },
  closed,
)
type VideosForm = Static<typeof VideosForm> & { debug?: null }

/** The most bytes of the picture of a form: as many as one that is fetched may have. */
const LARGEST_PICTURE = 20 * 1024 * 1024

/** The most bytes of its fields: the picture may be one in base64, beside the longest prompt. */
const LARGEST_FIELDS = (LARGEST_PICTURE / 3) * 4 + 1024 * 1024

/** The video API: jobs that make videos (wire reference B.3), also in OpenAI's form. */
export const videos: Dialect<'video', VideosRequest | VideosForm> = {
  name: 'videos',
  kind: 'video',
  path: '/videos',
  operation: { id: 'createVideos', tag: 'Videos', summary: 'Begin to make a video' },
  body: VideosRequest,
  form: {
    body: VideosForm,
    file: 'input_reference',
    whole: LARGEST_PICTURE,
    fields: Math.ceil(LARGEST_FIELDS),
  },
  status: 202,
  toCall: toVideoCall,
  collectResponse: collectVideoResponse,
}

/**
 * Returns the job that an answer has begun, as `POST /videos` shows it. Throws the error of a failed
 * answer.
 */
async function collectVideoResponse(
  { id: generation_id, parts }: Answer<'video'>,
  { job_id: id }: Pick<VideoCall, 'job_id'>,
) {
  for (const part of (await parts.collect()).flat()) if (part.type === 'error') throw part.error
  return { id, generation_id, polling_url: buildVideoPath(id), status: 'pending' as const }
}

/**
 * Translates a checked body into a call. Throws 400 for sizes that contradict each other, for a
 * frame that is named twice, for what is no URL, for a sound or video in the body itself, for a file
 * that is no picture, and for an empty list of allowed providers.
 */
function toVideoCall(
  world: DialectWorld,
  actor: Actor,
  fields: VideosRequest | VideosForm,
  context: CallContext,
): VideoCall {
  const body = readVideosForm(fields, context.file)
  const { model, provider, user, session_id, trace } = body
  return {
    ...buildCallBase(
      world,
      actor,
      { model, ...omitUndefined({ provider, user, session_id, trace }) },
      context,
    ),
    kind: 'video',
    job_id: `job-${world.ids.secret().slice(-ID_LENGTH)}`,
    prompt: body.prompt ?? '',
    frames: readFrames(body.frame_images ?? []),
    references: (body.input_references ?? []).map(readReference),
    params: readParams(body),
    ...omitUndefined({ callback_url: body.callback_url ?? undefined }),
    options: readProviderOptions(provider),
  }
}

/** An id of 128 random bits cannot be guessed. */
const ID_LENGTH = 32

function readParams(body: VideosRequest): VideoCall['params'] {
  const { duration, generate_audio, seed, upscale_factor, creativity } = body
  const given = { duration, generate_audio, seed, upscale_factor, creativity }
  return {
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value != null)),
    ...readVideoSize(body),
  }
}

function readFrames(frames: NonNullable<VideosRequest['frame_images']>): VideoFrame[] {
  const read = frames.map(({ frame_type: type, image_url: { url } }, i) => ({
    type,
    url: checkUrl(url, `frame_images.${i}.image_url.url`, true),
  }))
  const [first, second] = read
  if (first && second && first.type === second.type)
    throw invalid(
      `frame_images.1.frame_type: expected another than ${first.type}, as that is taken`,
      'frame_images.1.frame_type',
    )
  return read
}

function readReference(
  reference: NonNullable<VideosRequest['input_references']>[number],
  i: number,
): VideoReference {
  const field = `input_references.${i}.${reference.type}.url`
  if (reference.type === 'image_url')
    return { type: 'image', url: checkUrl(reference.image_url.url, field, true) }
  return reference.type === 'audio_url'
    ? { type: 'audio', url: checkUrl(reference.audio_url.url, field, false) }
    : { type: 'video', url: checkUrl(reference.video_url.url, field, false) }
}

function checkUrl(url: string, field: string, mayBeData: boolean): string {
  if (/^https?:\/\//i.test(url) || (mayBeData && isDataUrl(url))) return url
  const expected = mayBeData ? 'a data URL or an http(s) URL' : 'an http(s) URL'
  throw invalid(`${field}: expected ${expected}`, field)
}

const FIELD = 'input_reference'

/**
 * Translates a form, as OpenAI's clients send it, into the body that it stands for: its picture is
 * the first frame. A body that came as JSON is returned as it is. Throws 400 for a file that is no
 * picture, and for a picture twice.
 */
function readVideosForm(body: VideosRequest | VideosForm, file?: FormFile): VideosRequest {
  const { seconds, [`${FIELD}[image_url]` as const]: named, ...rest } = body as VideosForm
  if (file && named != null) throw invalid(`${FIELD}: expected a file or a URL, found both`, FIELD)
  const url = file ? readPicture(file) : named
  const frame_type = 'first_frame' as const
  return {
    ...rest,
    ...(seconds == null ? {} : { duration: seconds }),
    ...(url == null
      ? {}
      : { frame_images: [{ type: 'image_url', image_url: { url }, frame_type }] }),
  }
}

function readPicture(file: FormFile): string {
  const url = toPictureUrl(file)
  if (url) return url
  throw invalid(`${FIELD}: expected a picture in PNG, JPEG, GIF or WebP`, FIELD)
}

/** Returns the path at which a job is asked about, as the public API has it. */
export const buildVideoPath = (id: string): string => `/api/v1/videos/${id}`

/** What a body says of the size of a video. */
interface SizeFields {
  size?: string | null
  resolution?: VideoResolution | null
  aspect_ratio?: VideoRatio | null
}

/**
 * Reads the size of a video: pixels, or a resolution and a ratio. Throws 400 for pixels that
 * contradict the others, and for more than any provider makes.
 */
function readVideoSize({ size, resolution, aspect_ratio }: SizeFields): VideoParams {
  if (size == null)
    return { ...(resolution ? { resolution } : {}), ...(aspect_ratio ? { aspect_ratio } : {}) }
  const pixels = readPixels(size)
  const lines = Math.min(pixels.width, pixels.height)
  if (resolution && findResolution(lines) !== VIDEO_RESOLUTIONS[resolution])
    throw contradiction(size, `resolution ${resolution}`)
  if (aspect_ratio && findRatio(pixels) !== aspect_ratio)
    throw contradiction(size, `aspect_ratio ${aspect_ratio}`)
  return { size: pixels }
}

const MAX_SIDE = 8_192

function readPixels(size: string): PixelSize {
  const [width = 0, height = 0] = size.split('x').map(Number)
  if (Math.max(width, height) <= MAX_SIDE) return { width, height }
  throw invalid(`size: expected at most ${MAX_SIDE} pixels a side, found ${size}`, 'size')
}

/** Finds the lines of the resolution that is nearest to so many. */
function findResolution(lines: number): number {
  const distance = (one: number) => Math.abs(Math.log(lines / one))
  return Object.values(VIDEO_RESOLUTIONS).reduce((best, one) =>
    distance(one) < distance(best) ? one : best,
  )
}

function findRatio({ width, height }: PixelSize): VideoRatio {
  const distance = (ratio: VideoRatio) => {
    const [w = 1, h = 1] = ratio.split(':').map(Number)
    return Math.abs(Math.log(width / height / (w / h)))
  }
  return VIDEO_RATIOS.reduce((best, ratio) => (distance(ratio) < distance(best) ? ratio : best))
}

const contradiction = (size: string, other: string) =>
  invalid(`size: ${size} contradicts ${other}`, 'size')
