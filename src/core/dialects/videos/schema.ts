import { type Static, Type } from '@sinclair/typebox'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../kernel/schema-builders.ts'
import { FRAME_TYPES, VIDEO_RATIOS, type VideoResolution } from '../../language/video.ts'
import { providerWithOptions, routingFields } from '../routing.ts'
import { dryRunFields } from '../schema.ts'

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
export const VideosRequest = Type.Object(
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
export type VideosRequest = Static<typeof VideosRequest>

/** The fields of the same as a form, as OpenAI's clients send it, beside its file. */
export const VideosForm = Type.Object(
  {
    model: SomeName,
    prompt: Prompt,
    seconds: Seconds,
    size: Size,
    'input_reference[image_url]': optional(SomeContent),
  },
  closed,
)
export type VideosForm = Static<typeof VideosForm> & { debug?: null }
