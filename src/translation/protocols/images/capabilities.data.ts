import { ASPECT_RATIOS, RESOLUTIONS, type Resolution, readRatio } from '../../../language/image.ts'

/** Parameters that are left out where an endpoint does not have them. */
export const IMAGE_EXTRAS = ['moderation', 'input_fidelity', 'style'] as const
type ImageExtra = (typeof IMAGE_EXTRAS)[number]

/** What an endpoint can be asked for when it draws. */
export interface ImageCapabilities {
  /** The most pictures of one request. */
  n: number
  /** The most pictures that it takes beside the prompt. */
  references: number
  /** The ratios that it draws. Others become the nearest of them. */
  aspect_ratios: readonly string[]
  resolutions: readonly Resolution[]
  /** Whether exact pixels may be named. Others become the nearest that it draws. */
  size: boolean
  /** The pixels that may be named, as `1024x1024`; absent for any. */
  sizes?: readonly string[]
  /** The longest side that may be named; absent for any. */
  side?: number
  /** What any pixels that may be named have to be; absent for no bounds. */
  bounds?: SizeBounds
  qualities: readonly string[]
  backgrounds: readonly string[]
  output_formats: readonly string[]
  output_compression: boolean
  seed: boolean
  /** Whether a picture that is changed keeps its shape, whatever a call says. */
  keepsShape?: true
  /** Whether previews stream. */
  streams: boolean
  /** Whether it changes a picture only where a mask says so. */
  masks?: boolean
  /** What it takes of OpenAI's own parameters that others do well without. */
  extras?: readonly ImageExtra[]
  /** The fields of `provider.options` that go to the provider. */
  passthrough: readonly string[]
}

/** The bounds of pixels that may be named. */
interface SizeBounds {
  /** Sides are multiples of it, and at most so long. */
  grid: number
  side: number
  /** The fewest pixels and the most. */
  least: number
  most: number
  /** How much longer than the other a side may be. */
  stretch: number
}

/** A model that answers with pictures in a conversation, whatever its protocol. */
export const CHAT: ImageCapabilities = {
  n: 1,
  references: 16,
  aspect_ratios: ['1:1', '2:3', '3:2', '3:4', '4:3', '4:5', '5:4', '9:16', '16:9', '21:9'],
  resolutions: ['1K', '2K', '4K'],
  size: false,
  qualities: [],
  backgrounds: [],
  output_formats: [],
  output_compression: false,
  seed: true,
  streams: false,
  passthrough: [],
}

/** A model of the Responses API, which has no fields for pictures. */
export const RESPONSES: ImageCapabilities = {
  ...CHAT,
  aspect_ratios: [],
  resolutions: [],
  seed: false,
}

/** https://ai.google.dev/gemini-api/docs/imagen */
const IMAGEN: ImageCapabilities = {
  ...CHAT,
  n: 4,
  references: 0,
  aspect_ratios: ['1:1', '3:4', '4:3', '9:16', '16:9'],
  resolutions: ['1K', '2K'],
  output_formats: ['png', 'jpeg'],
  output_compression: true,
  seed: false,
  passthrough: ['personGeneration'],
}

/** Returns what Imagen can be asked for: only its larger models of today draw two tiers. */
export const getImagenCapabilities = (model: string): ImageCapabilities =>
  /imagen-(3|4[\w.]*-fast)/.test(model) ? { ...IMAGEN, resolutions: ['1K'] } : IMAGEN

/** https://platform.openai.com/docs/api-reference/images */
const GPT_IMAGE: ImageCapabilities = {
  n: 10,
  references: 16,
  aspect_ratios: ['1:1', '3:2', '2:3'],
  resolutions: ['1K'],
  size: true,
  qualities: ['auto', 'low', 'medium', 'high'],
  backgrounds: ['auto', 'transparent', 'opaque'],
  output_formats: ['png', 'jpeg', 'webp'],
  output_compression: true,
  seed: false,
  streams: true,
  masks: true,
  extras: ['moderation', 'input_fidelity'],
  passthrough: ['moderation', 'input_fidelity'],
}

/** OpenAI's first models draw three sizes. */
const GPT_IMAGE_1: ImageCapabilities = {
  ...GPT_IMAGE,
  sizes: ['1024x1024', '1536x1024', '1024x1536'],
}

/** The later ones draw any within bounds, and keep to a picture as well as they can. */
const GPT_IMAGE_2: ImageCapabilities = {
  ...GPT_IMAGE,
  aspect_ratios: ASPECT_RATIOS.filter(ratio => readRatio(ratio) <= 3 && readRatio(ratio) >= 1 / 3),
  resolutions: ['1K', '2K', '4K'],
  bounds: { grid: 16, side: 3_840, least: 655_360, most: 8_294_400, stretch: 3 },
  extras: ['moderation'],
  passthrough: ['moderation'],
}

/** Returns what OpenAI’s models can be asked for, by their names. */
export function getGptCapabilities(names: string): ImageCapabilities {
  if (!/gpt-image-1(?!\d)|chatgpt-image/.test(names)) return GPT_IMAGE_2
  return /-mini/.test(names)
    ? { ...GPT_IMAGE_1, extras: ['moderation'], passthrough: ['moderation'] }
    : GPT_IMAGE_1
}

/** A server with OpenAI's form of which nothing more is known. */
export const COMPATIBLE: ImageCapabilities = {
  ...GPT_IMAGE,
  aspect_ratios: ASPECT_RATIOS,
  resolutions: Object.keys(RESOLUTIONS) as Resolution[],
  qualities: ['auto', 'low', 'medium', 'high', 'xhigh', 'max'],
  output_formats: ['png', 'jpeg', 'webp', 'svg'],
  seed: true,
  streams: false,
  extras: IMAGE_EXTRAS,
  passthrough: ['negative_prompt', 'guidance_scale', 'steps', 'style', 'moderation'],
}

/** https://docs.x.ai/docs/guides/image-generations */
export const XAI: ImageCapabilities = {
  ...CHAT,
  n: 10,
  references: 1,
  aspect_ratios: [
    ...['1:1', '3:4', '4:3', '9:16', '16:9', '2:3', '3:2', '1:2', '2:1'],
    ...['9:19.5', '19.5:9', '9:20', '20:9'],
  ],
  resolutions: ['1K', '2K'],
  seed: false,
}

/** https://docs.together.ai/reference/post-images-generations */
export const TOGETHER: ImageCapabilities = {
  ...COMPATIBLE,
  n: 4,
  references: 1,
  qualities: [],
  backgrounds: [],
  output_formats: ['png', 'jpeg'],
  output_compression: false,
  masks: false,
  extras: [],
  passthrough: ['negative_prompt', 'guidance_scale', 'steps', 'disable_safety_checker'],
}

/** OpenRouter, and servers with its API: they choose who draws. */
export const OPENROUTER: ImageCapabilities = {
  ...COMPATIBLE,
  masks: false,
  extras: [],
  passthrough: [],
}

/** The longest side of a picture of the sandbox. */
export const SANDBOX_SIDE = 2_048

/** The sandbox draws squares and rectangles. */
export const SANDBOX: ImageCapabilities = {
  ...COMPATIBLE,
  resolutions: ['512', '1K', '2K'],
  side: SANDBOX_SIDE,
  qualities: [],
  backgrounds: [],
  output_formats: ['png'],
  output_compression: false,
  masks: false,
  extras: [],
  passthrough: [],
}

/** https://www.recraft.ai/docs/api-reference/endpoints: a size may be a ratio. */
const RECRAFT: ImageCapabilities = {
  ...CHAT,
  n: 6,
  references: 0,
  aspect_ratios: [
    ...['1:1', '2:1', '1:2', '3:2', '2:3', '4:3', '3:4', '5:4', '4:5'],
    ...['16:9', '9:16', '1:4', '4:1'],
  ],
  resolutions: ['1K'],
  size: true,
  output_formats: ['png'],
  seed: false,
  passthrough: ['style', 'substyle', 'style_id', 'negative_prompt', 'controls', 'text_layout'],
}

/** Recraft’s models of vectors, and of more pixels. */
export const getRecraftCapabilities = (model: string): ImageCapabilities => ({
  ...RECRAFT,
  ...(/_vector$/.test(model) ? { output_formats: ['svg'] } : {}),
  ...(/_pro(_|$)/.test(model) ? { resolutions: ['2K'] } : {}),
})

const FLUX_RATIOS = [
  ...['1:1', '21:9', '16:9', '3:2', '5:4', '4:5', '2:3', '9:16', '9:21', '4:3', '3:4'],
]

/** https://docs.fireworks.ai/api-reference/generate-a-new-image-from-a-text-prompt */
const FIREWORKS: ImageCapabilities = {
  ...CHAT,
  references: 0,
  aspect_ratios: FLUX_RATIOS,
  resolutions: ['1K'],
  output_formats: ['png'],
  passthrough: ['guidance_scale', 'num_inference_steps'],
}

/** Kontext changes pictures, and is Black Forest Labs’ own form within that of Fireworks. */
export const getFireworksCapabilities = (model: string): ImageCapabilities =>
  /kontext/.test(model)
    ? {
        ...FIREWORKS,
        references: 1,
        output_formats: ['png', 'jpeg'],
        passthrough: ['prompt_upsampling', 'safety_tolerance'],
      }
    : FIREWORKS

/** https://docs.bfl.ai: exact pixels, or a ratio where the model is named below. */
const FLUX: ImageCapabilities = {
  ...CHAT,
  references: 1,
  aspect_ratios: ASPECT_RATIOS,
  resolutions: ['512', '1K'],
  size: true,
  output_formats: ['png', 'jpeg'],
  passthrough: ['safety_tolerance', 'prompt_upsampling', 'steps', 'guidance'],
}

/** Returns what Black Forest Labs’ models can be asked for. */
export function getFluxCapabilities(model: string): ImageCapabilities {
  if (/kontext/.test(model))
    return { ...FLUX, references: 4, aspect_ratios: FLUX_RATIOS, resolutions: ['1K'], size: false }
  if (/ultra/.test(model))
    return {
      ...FLUX,
      aspect_ratios: FLUX_RATIOS,
      resolutions: ['2K'],
      size: false,
      passthrough: ['safety_tolerance', 'prompt_upsampling', 'raw', 'image_prompt_strength'],
    }
  if (/^flux-[2-9]/.test(model)) return { ...FLUX, references: 8, resolutions: ['512', '1K', '2K'] }
  return FLUX
}

/** https://platform.stability.ai/docs/api-reference */
const STABILITY: ImageCapabilities = {
  ...CHAT,
  references: 1,
  keepsShape: true,
  aspect_ratios: ['21:9', '16:9', '3:2', '5:4', '1:1', '4:5', '2:3', '9:16', '9:21'],
  resolutions: ['1K'],
  output_formats: ['png', 'jpeg', 'webp'],
  passthrough: ['negative_prompt', 'style_preset', 'strength', 'cfg_scale'],
}

/** Returns what Stability’s models can be asked for: Core takes no picture, SD3 makes no WebP. */
export function getStabilityCapabilities(model: string): ImageCapabilities {
  if (/core$/.test(model)) return { ...STABILITY, references: 0 }
  if (/ultra$/.test(model)) return STABILITY
  return { ...STABILITY, output_formats: ['png', 'jpeg'] }
}
