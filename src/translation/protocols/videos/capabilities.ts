import { isDataUrl } from '../../../base/data-url.ts'
import { pickNearestRatio, pickNearestSize, readSize } from '../../../language/image.ts'
import {
  type FrameType,
  pickNearestResolution,
  VIDEO_RATIOS,
  VIDEO_RESOLUTIONS,
  type VideoCall,
  type VideoParams,
  type VideoRatio,
  type VideoResolution,
} from '../../../language/video.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
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
  /** The most pictures of `input_references`. */
  references: number
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

/** Tells whether the endpoint takes no seed: it is left out then. */
export const refusesVideoSeed = (endpoint: Endpoint): boolean =>
  !getVideoCapabilities(endpoint).seed

/**
 * Returns the parameters with the size to ask the endpoint for: pixels that it does not film become
 * the nearest that it does, or a ratio and a resolution. The parameters themselves where it is exact.
 */
export function fitVideoSize(params: VideoParams, endpoint: Endpoint): VideoParams {
  const { size, ...rest } = params
  if (!size) return params
  const can = getVideoCapabilities(endpoint)
  if (!isMissing(`${size.width}x${size.height}`, can.sizes)) return params
  if (can.sizes && can.sizes.length > 0)
    return { ...rest, size: pickNearestSize(size, can.sizes.map(readSize)) }
  const resolution = pickNearestResolution(size, can.resolutions)
  const aspect_ratio = pickNearestRatio(size.width / size.height, can.ratios) as VideoRatio
  return { ...rest, ...(resolution ? { resolution } : {}), aspect_ratio }
}

/** Lists what the call asks for and the endpoint cannot follow, under its wire names. */
export function listUnsupportedVideo(call: VideoCall, endpoint: Endpoint): string[] {
  const { params, frames, references } = call
  const can = getVideoCapabilities(endpoint)
  const { duration, generate_audio: audio } = params
  const pictures = references.filter(({ type }) => type === 'image')
  const hasData = (items: { url: string }[]) =>
    !can.dataUrls && items.some(({ url }) => isDataUrl(url))
  const checks: [name: string, isUnsupported: boolean][] = [
    ['duration', duration !== undefined && can.durations?.includes(duration) === false],
    ['resolution', isMissing(params.resolution, can.resolutions)],
    ['aspect_ratio', isMissing(params.aspect_ratio, can.ratios)],
    ['frame_images', can.needsFrame === true && frames.length === 0],
    ['frame_images', frames.some(({ type }) => !can.frames.includes(type)) || hasData(frames)],
    ['input_references', pictures.length > can.references || hasData(pictures)],
    ['generate_audio', audio === true && can.audio === 'never'],
    ['generate_audio', audio === false && can.audio === 'always'],
    ['upscale_factor', params.upscale_factor !== undefined && !can.upscales],
    ['creativity', params.creativity !== undefined && !can.upscales],
  ]
  return checks.flatMap(([name, isUnsupported]) => (isUnsupported ? [name] : []))
}

const isMissing = (value: string | undefined, known: readonly string[] | null): boolean =>
  value !== undefined && known !== null && !known.includes(value)
