import type { Endpoint } from '../../catalog/models.ts'
import {
  ASPECT_RATIOS,
  countPictures,
  type ImageCall,
  RESOLUTIONS,
  type Resolution,
} from '../../language/image.ts'

/** What an endpoint can be asked for when it draws. */
export interface ImageCapabilities {
  /** The most pictures of one request. */
  n: number
  /** The most pictures that it takes beside the prompt. */
  references: number
  /** The ratios that it draws. Others become the nearest of them. */
  aspect_ratios: readonly string[]
  resolutions: readonly Resolution[]
  /** Whether exact pixels may be named. */
  size: boolean
  qualities: readonly string[]
  backgrounds: readonly string[]
  output_formats: readonly string[]
  output_compression: boolean
  seed: boolean
  /** Whether previews stream. */
  streams: boolean
  /** The fields of `provider.options` that go to the provider. */
  passthrough: readonly string[]
}

/** A model that answers with pictures in a conversation, whatever its protocol. */
const CHAT: ImageCapabilities = {
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
  passthrough: ['moderation', 'input_fidelity'],
}

/** A server with OpenAI's form of which nothing more is known. */
const COMPATIBLE: ImageCapabilities = {
  ...GPT_IMAGE,
  aspect_ratios: ASPECT_RATIOS,
  resolutions: Object.keys(RESOLUTIONS) as Resolution[],
  qualities: ['auto', 'low', 'medium', 'high', 'xhigh', 'max'],
  output_formats: ['png', 'jpeg', 'webp', 'svg'],
  seed: true,
  streams: false,
  passthrough: ['negative_prompt', 'guidance_scale', 'steps', 'style', 'moderation'],
}

/** https://docs.x.ai/docs/guides/image-generations */
const XAI: ImageCapabilities = {
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
const TOGETHER: ImageCapabilities = {
  ...COMPATIBLE,
  n: 4,
  references: 1,
  qualities: [],
  backgrounds: [],
  output_formats: ['png', 'jpeg'],
  output_compression: false,
  passthrough: ['negative_prompt', 'guidance_scale', 'steps', 'disable_safety_checker'],
}

/** OpenRouter, and servers with its API: they choose who draws. */
const OPENROUTER: ImageCapabilities = { ...COMPATIBLE, passthrough: [] }

/** The sandbox draws squares and rectangles. */
const SANDBOX: ImageCapabilities = {
  ...COMPATIBLE,
  resolutions: ['512', '1K'],
  qualities: [],
  backgrounds: [],
  output_formats: ['png'],
  output_compression: false,
  passthrough: [],
}

/** Tells whether the endpoint draws in the course of a conversation. */
export const drawsByChat = ({ output_modalities }: Endpoint): boolean =>
  output_modalities.includes('text')

/** Tells whether Google serves the model under `:predict`. */
export const isImagen = ({ upstreamModel }: Endpoint): boolean => /^imagen/.test(upstreamModel)

/** Tells whether the model is one of OpenAI's that draw, at any provider. */
export const isGptImage = ({ upstreamModel, model }: Endpoint): boolean =>
  /^(chat)?gpt-image/.test(upstreamModel) || /^openai\/(chat)?gpt-image/.test(model)

const BY_QUIRK = {
  compatible: COMPATIBLE,
  xai: XAI,
  together: TOGETHER,
  openrouter: OPENROUTER,
}

/** Returns what the endpoint can be asked for. */
export function getImageCapabilities(endpoint: Endpoint): ImageCapabilities {
  const { protocol, provider, upstreamModel } = endpoint
  if (protocol === 'gemini')
    return isImagen(endpoint) ? IMAGEN : { ...CHAT, resolutions: getGeminiTiers(upstreamModel) }
  if (protocol === 'sandbox') return SANDBOX
  if (drawsByChat(endpoint) || protocol !== 'openai-chat') return CHAT
  const { images } = provider.quirks
  return images === 'compatible' && isGptImage(endpoint) ? GPT_IMAGE : BY_QUIRK[images]
}

// The older family draws about a megapixel, and refuses a size.
const getGeminiTiers = (model: string): Resolution[] =>
  /gemini-2/.test(model) ? ['1K'] : ['1K', '2K', '4K']

/** Tells whether the endpoint takes no seed: it is left out then. */
export const canRefuseSeed = (endpoint: Endpoint): boolean => !getImageCapabilities(endpoint).seed

/** Lists the parameters of the call that the endpoint cannot follow, under their wire names. */
export function listUnsupportedParameters(call: ImageCall, endpoint: Endpoint): string[] {
  const { params, references } = call
  const can = getImageCapabilities(endpoint)
  const isMissing = (value: string | undefined, known: readonly string[]) =>
    value !== undefined && value !== 'auto' && !known.includes(value)
  const checks: [name: string, isUnsupported: boolean][] = [
    ['n', countPictures(call) > can.n],
    ['input_references', references.length > can.references],
    ['size', params.size !== undefined && !can.size],
    ['resolution', isMissing(params.resolution, can.resolutions)],
    ['quality', isMissing(params.quality, can.qualities)],
    ['background', isMissing(params.background, can.backgrounds)],
    ['output_format', isMissing(params.output_format, can.output_formats)],
    ['output_compression', needsCompression(call) && !can.output_compression],
  ]
  return checks.flatMap(([name, isUnsupported]) => (isUnsupported ? [name] : []))
}

/** Whether the call asks for a compression that has an effect: PNG has none to choose. */
export const needsCompression = ({
  params: { output_compression, output_format },
}: ImageCall): boolean =>
  output_compression !== undefined && (output_format === 'jpeg' || output_format === 'webp')
