import { isDataUrl } from '../../../base/data-url.ts'
import {
  pickNearest,
  pickNearestRatio,
  pickNearestSize,
  readRatio,
  readSize,
} from '../../../language/image.ts'
import {
  type FrameType,
  pickNearestResolution,
  VIDEO_RATIOS,
  VIDEO_RESOLUTIONS,
  type VideoCall,
  type VideoParams,
  type VideoRatio,
  type VideoReference,
  type VideoResolution,
} from '../../../language/video.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { listDropped, omitNamed } from '../dropped.ts'
import { isVertex } from '../gemini/capabilities.data.ts'

/** What an endpoint can be asked for when it makes a video. */
export interface VideoCapabilities {
  /** The lengths in seconds; null for any. */
  durations: readonly number[] | null
  /** The length to ask for where a call names none; null leaves it to the provider. */
  usual: number | null
  resolutions: readonly VideoResolution[]
  ratios: readonly VideoRatio[]
  /** The sizes in pixels that may be named, as `1280x720`; null for any. */
  sizes: readonly string[] | null
  frames: readonly FrameType[]
  /** The most pictures of `input_references`, and whether sounds and videos may be among them. */
  references: number
  sounds?: true
  /** Whether a sound comes with it: as the call says, always or never. */
  audio: 'choice' | 'always' | 'never'
  seed: boolean
  /** Whether it makes other videos larger. */
  upscales: boolean
  /** Whether it only moves a picture: a prompt alone is not enough. */
  needsFrame?: true
  /** Whether pictures may be data URLs. */
  dataUrls: boolean
  /** The fields of `provider.options` that go to the provider. */
  passthrough: readonly string[]
}

/** A server with OpenAI's form of which nothing more is known. */
const COMPATIBLE: VideoCapabilities = {
  durations: null,
  usual: null,
  resolutions: Object.keys(VIDEO_RESOLUTIONS) as VideoResolution[],
  ratios: VIDEO_RATIOS,
  sizes: null,
  frames: ['first_frame'],
  references: 0,
  audio: 'never',
  seed: true,
  upscales: false,
  dataUrls: true,
  passthrough: ['negative_prompt', 'guidance_scale', 'num_inference_steps', 'fps'],
}

/** https://platform.openai.com/docs/api-reference/videos */
const SORA: VideoCapabilities = {
  ...COMPATIBLE,
  durations: [4, 8, 12],
  usual: 8,
  resolutions: ['720p'],
  ratios: ['16:9', '9:16'],
  sizes: ['1280x720', '720x1280'],
  audio: 'always',
  seed: false,
  passthrough: [],
}

const SORA_PRO: VideoCapabilities = {
  ...SORA,
  sizes: ['1280x720', '720x1280', '1792x1024', '1024x1792'],
}

/** OpenRouter, and servers with its API: they choose who makes it. */
const OPENROUTER: VideoCapabilities = {
  ...COMPATIBLE,
  frames: ['first_frame', 'last_frame'],
  references: 16,
  sounds: true,
  audio: 'choice',
  upscales: true,
  passthrough: [],
}

/** https://ai.google.dev/gemini-api/docs/video */
const VEO: VideoCapabilities = {
  ...COMPATIBLE,
  durations: [4, 6, 8],
  usual: 8,
  resolutions: ['720p', '1080p'],
  ratios: ['16:9', '9:16'],
  sizes: ['1280x720', '720x1280', '1920x1080', '1080x1920'],
  frames: ['first_frame', 'last_frame'],
  references: 3,
  audio: 'always',
  passthrough: ['negativePrompt', 'personGeneration'],
}

const VEO_4K: VideoCapabilities = {
  ...VEO,
  resolutions: ['720p', '1080p', '4K'],
  sizes: [...(VEO.sizes ?? []), '3840x2160', '2160x3840'],
}

const VEO_2: VideoCapabilities = {
  ...VEO,
  durations: [5, 6, 8],
  resolutions: ['720p'],
  sizes: ['1280x720', '720x1280'],
  references: 0,
  audio: 'never',
}

/** https://fal.ai/models: each model has parameters of its own, so none is refused here. */
const FAL: VideoCapabilities = {
  ...COMPATIBLE,
  sizes: [],
  frames: ['first_frame', 'last_frame'],
  references: 7,
  audio: 'choice',
  passthrough: [
    ...['negative_prompt', 'cfg_scale', 'guidance_scale', 'num_inference_steps', 'fps', 'style'],
    ...['enable_prompt_expansion', 'enable_safety_checker', 'camera_fixed', 'loop'],
  ],
}

/** https://docs.dev.runwayml.com/api */
const RUNWAY: VideoCapabilities = {
  ...COMPATIBLE,
  durations: [2, 3, 4, 5, 6, 7, 8, 9, 10],
  usual: 5,
  resolutions: ['720p'],
  ratios: ['16:9', '9:16', '1:1', '4:3', '3:4', '21:9'],
  sizes: ['1280x720', '720x1280', '960x960', '1112x834', '834x1112'],
  frames: ['first_frame'],
  audio: 'never',
  passthrough: ['contentModeration'],
}

/** https://docs.lumalabs.ai/docs/video-generation */
const LUMA: VideoCapabilities = {
  ...COMPATIBLE,
  durations: [5, 9],
  usual: 5,
  resolutions: ['720p', '1080p', '4K'],
  ratios: ['16:9', '9:16', '1:1', '4:3', '3:4', '21:9', '9:21'],
  sizes: [],
  frames: ['first_frame', 'last_frame'],
  audio: 'never',
  seed: false,
  dataUrls: false,
  passthrough: ['loop', 'concepts'],
}

/** The sandbox films patterns. */
const SANDBOX: VideoCapabilities = {
  ...COMPATIBLE,
  usual: 4,
  resolutions: ['480p'],
  ratios: ['16:9'],
  sizes: [],
  frames: [],
  passthrough: [],
}

const BY_PROTOCOL: Record<string, VideoCapabilities> = {
  fal: FAL,
  luma: LUMA,
  sandbox: SANDBOX,
}

/** Returns what the endpoint can be asked for. */
export function getVideoCapabilities(endpoint: Endpoint): VideoCapabilities {
  const { protocol, provider, upstreamModel } = endpoint
  if (protocol === 'gemini') return getVeo(endpoint)
  if (protocol === 'runway')
    return /^gen4_turbo/.test(upstreamModel) ? { ...RUNWAY, needsFrame: true } : RUNWAY
  const own = BY_PROTOCOL[protocol]
  if (own) return own
  if (provider.quirks.videos === 'openrouter') return OPENROUTER
  if (!/^sora/.test(upstreamModel)) return COMPATIBLE
  return upstreamModel.includes('pro') ? SORA_PRO : SORA
}

// On Vertex a call says whether there is sound.
function getVeo(endpoint: Endpoint): VideoCapabilities {
  const { upstreamModel } = endpoint
  if (/^veo-2/.test(upstreamModel)) return VEO_2
  const isLarge = /^veo-3\.[1-9](?!-lite)/.test(upstreamModel)
  const veo = isLarge ? VEO_4K : { ...VEO, references: 0 }
  return isVertex(endpoint) ? { ...veo, audio: 'choice' } : veo
}

/**
 * Returns the parameters that the endpoint follows: a size, a length, a resolution or a ratio that it
 * does not film is the nearest that it does, and what it has nothing like is left out. The
 * parameters themselves where it follows all of them.
 */
export function fitVideo(params: VideoParams, endpoint: Endpoint): VideoParams {
  const can = getVideoCapabilities(endpoint)
  const sized = fitSize(params, can)
  const { duration, generate_audio: audio } = sized
  const left = [
    ...(sized.seed === undefined || can.seed ? [] : ['seed']),
    ...(audio === undefined || can.audio !== (audio ? 'never' : 'always') ? [] : [AUDIO]),
    ...(can.upscales ? [] : ['upscale_factor', 'creativity']),
    ...listDropped(sized, endpoint),
  ]
  const kept = omitNamed(sized, left)
  const seconds = kept.duration === undefined ? undefined : pickLength(kept.duration, can)
  return seconds === duration || seconds === undefined ? kept : { ...kept, duration: seconds }
}

const AUDIO = 'generate_audio'

const pickLength = (duration: number, { durations }: VideoCapabilities): number | undefined =>
  durations === null ? duration : pickNearest(durations, one => Math.abs(one - duration))

function fitSize(params: VideoParams, can: VideoCapabilities): VideoParams {
  const { size, ...rest } = params
  if (!size) return fitShape(params, can)
  if (!isMissing(`${size.width}x${size.height}`, can.sizes)) return params
  if (can.sizes && can.sizes.length > 0)
    return { ...rest, size: pickNearestSize(size, can.sizes.map(readSize)) }
  const resolution = pickNearestResolution(size, can.resolutions)
  const aspect_ratio = pickNearestRatio(size.width / size.height, can.ratios) as VideoRatio
  return { ...rest, ...(resolution ? { resolution } : {}), aspect_ratio }
}

function fitShape(params: VideoParams, { resolutions, ratios }: VideoCapabilities): VideoParams {
  const { resolution, aspect_ratio, ...rest } = params
  const isOther = isMissing(resolution, resolutions)
  if (!isOther && !isMissing(aspect_ratio, ratios)) return params
  const lines = VIDEO_RESOLUTIONS[resolution ?? '720p']
  const pixels = { width: lines, height: lines }
  const tier = isOther ? pickNearestResolution(pixels, resolutions) : resolution
  const ratio = aspect_ratio && (pickNearestRatio(readRatio(aspect_ratio), ratios) as VideoRatio)
  return {
    ...rest,
    ...(tier ? { resolution: tier } : {}),
    ...(ratio ? { aspect_ratio: ratio } : {}),
  }
}

/** Lists what the endpoint cannot use, or only the nearest of, under the wire names. */
export function listIgnoredVideo({ params, references }: VideoCall, endpoint: Endpoint): string[] {
  const fitted = fitVideo(params, endpoint)
  const names = Object.keys(params) as (keyof VideoParams)[]
  return [
    ...(fitted === params ? [] : names.filter(name => fitted[name] !== params[name])),
    ...(listUsable(references, endpoint) === references ? [] : ['input_references']),
  ]
}

/** Returns the references that the endpoint takes: all of them, or those that are pictures. */
export function listUsable(references: VideoReference[], endpoint: Endpoint): VideoReference[] {
  const { sounds } = getVideoCapabilities(endpoint)
  return sounds || references.every(isPicture) ? references : references.filter(isPicture)
}

const isPicture = ({ type }: VideoReference): boolean => type === 'image'

/** Lists what the call consists of and the endpoint makes nothing of, under its wire names. */
export function listUnsupportedVideo(call: VideoCall, endpoint: Endpoint): string[] {
  const { prompt, frames } = call
  const can = getVideoCapabilities(endpoint)
  const references = listUsable(call.references, endpoint)
  const hasData = (items: { url: string }[]) =>
    !can.dataUrls && items.some(({ url }) => isDataUrl(url))
  const pictures = references.filter(isPicture)
  const isEmpty = prompt === '' && frames.length + references.length === 0
  const checks: [name: string, isUnsupported: boolean][] = [
    ['frame_images', can.needsFrame === true && frames.length === 0],
    ['frame_images', frames.some(({ type }) => !can.frames.includes(type)) || hasData(frames)],
    ['input_references', isEmpty || pictures.length > can.references || hasData(pictures)],
  ]
  return checks.flatMap(([name, isUnsupported]) => (isUnsupported ? [name] : []))
}

const isMissing = (value: string | undefined, known: readonly string[] | null): boolean =>
  value !== undefined && known !== null && !known.includes(value)
