import {
  type ImageCall,
  type ImageParams,
  pickNearestRatio,
  pickNearestSize,
  pickNearestTier,
  RESOLUTIONS,
  type Resolution,
  readSize,
  shrinkToSide,
} from '../../../language/image.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import {
  CHAT,
  COMPATIBLE,
  GPT_IMAGE,
  GPT_IMAGE_1,
  getFireworksCapabilities,
  getFluxCapabilities,
  getRecraftCapabilities,
  getStabilityCapabilities,
  IMAGE_EXTRAS,
  IMAGEN,
  type ImageCapabilities,
  OPENROUTER,
  SANDBOX,
  TOGETHER,
  XAI,
} from './capabilities.data.ts'
import { getFalCapabilities } from './fal/families.data.ts'

/** Tells whether the endpoint draws in the course of a conversation. */
export const drawsByChat = ({ output_modalities }: Endpoint): boolean =>
  output_modalities.includes('text')

/** Tells whether Google serves the model under `:predict`. */
export const isImagen = ({ upstreamModel }: Endpoint): boolean => /^imagen/.test(upstreamModel)

/** Tells whether the model is one of OpenAI's that draw, at any provider. */
export const isGptImage = ({ upstreamModel, model }: Endpoint): boolean =>
  /^(chat)?gpt-image/.test(upstreamModel) || /^openai\/(chat)?gpt-image/.test(model)

type Capable = (model: string) => ImageCapabilities

const BY_QUIRK: Record<Endpoint['provider']['quirks']['images'], Capable> = {
  compatible: () => COMPATIBLE,
  xai: () => XAI,
  together: () => TOGETHER,
  openrouter: () => OPENROUTER,
  recraft: getRecraftCapabilities,
  fireworks: getFireworksCapabilities,
}

/** Protocols whose servers do nothing but draw. */
const BY_PROTOCOL: Record<string, Capable> = {
  bfl: getFluxCapabilities,
  fal: getFalCapabilities,
  stability: getStabilityCapabilities,
}

/** Returns what the endpoint can be asked for. */
export function getImageCapabilities(endpoint: Endpoint): ImageCapabilities {
  const { protocol, provider, upstreamModel } = endpoint
  if (protocol === 'gemini')
    return isImagen(endpoint) ? IMAGEN : { ...CHAT, resolutions: getGeminiTiers(upstreamModel) }
  if (protocol === 'sandbox') return SANDBOX
  const ofProtocol = BY_PROTOCOL[protocol]
  if (ofProtocol) return ofProtocol(upstreamModel)
  if (drawsByChat(endpoint) || protocol !== 'openai-chat') return CHAT
  const { images } = provider.quirks
  if (images !== 'compatible' || !isGptImage(endpoint)) return BY_QUIRK[images](upstreamModel)
  return /gpt-image-1(?!\d)|chatgpt-image/.test(upstreamModel) ? GPT_IMAGE_1 : GPT_IMAGE
}

// The older family draws about a megapixel, and refuses a size.
const getGeminiTiers = (model: string): Resolution[] =>
  /gemini-2/.test(model) ? ['1K'] : ['1K', '2K', '4K']

/**
 * Returns the parameters with the size to ask the endpoint for: pixels that it does not draw become
 * the nearest that it does, or a ratio and a tier, and so does a tier. The parameters themselves
 * where it is exact.
 */
export function fitSize(params: ImageParams, endpoint: Endpoint): ImageParams {
  const can = getImageCapabilities(endpoint)
  if (!params.size) return fitTier(params, can)
  const { size, ...rest } = params
  const { sizes, side = Number.POSITIVE_INFINITY } = can
  if (can.size && Math.max(size.width, size.height) > side)
    return { ...rest, size: shrinkToSide(size, side) }
  if (can.size && (!sizes || sizes.includes(`${size.width}x${size.height}`))) return params
  if (sizes) return { ...rest, size: pickNearestSize(size, sizes.map(readSize)) }
  const resolution = pickNearestTier(size, can.resolutions)
  return {
    ...rest,
    ...(resolution ? { resolution } : {}),
    aspect_ratio: pickNearestRatio(size.width / size.height, can.aspect_ratios),
  }
}

function fitTier(params: ImageParams, { resolutions }: ImageCapabilities): ImageParams {
  const { resolution, ...rest } = params
  if (resolution === undefined || resolutions.includes(resolution)) return params
  const side = RESOLUTIONS[resolution]
  const nearest = pickNearestTier({ width: side, height: side }, resolutions)
  return nearest ? { ...rest, resolution: nearest } : rest
}

/** Tells whether the endpoint draws as the call asks: in size, quality and background. */
export const drawsAsAsked = (call: ImageCall, endpoint: Endpoint): boolean =>
  fitSize(call.params, endpoint) === call.params && listIgnoredLooks(call, endpoint).length === 0

/** Lists the parameters that the endpoint does not have, and does without. */
export function listIgnoredImage(call: ImageCall, endpoint: Endpoint): string[] {
  const { params } = call
  const { seed, streams, extras = [] } = getImageCapabilities(endpoint)
  return [
    ...listIgnoredLooks(call, endpoint),
    ...(params.seed !== undefined && !seed ? ['seed'] : []),
    ...(params.partial_images !== undefined && !streams ? ['partial_images'] : []),
    ...IMAGE_EXTRAS.filter(name => params[name] !== undefined && !extras.includes(name)),
  ]
}

function listIgnoredLooks({ params }: ImageCall, endpoint: Endpoint): string[] {
  const { qualities, backgrounds } = getImageCapabilities(endpoint)
  return [
    ...(isMissing(params.quality, qualities) ? ['quality'] : []),
    ...(isMissing(params.background, backgrounds) ? ['background'] : []),
  ]
}

const isMissing = (value: string | undefined, known: readonly string[]): boolean =>
  value !== undefined && value !== 'auto' && !known.includes(value)

/** Lists the parameters of the call that the endpoint cannot follow, under their wire names. */
export function listUnsupportedParameters(call: ImageCall, endpoint: Endpoint): string[] {
  const { params, references } = call
  const can = getImageCapabilities(endpoint)
  const checks: [name: string, isUnsupported: boolean][] = [
    ['input_references', references.length > can.references],
    ['mask', call.mask !== undefined && !can.masks],
    [
      'output_format',
      isMissing(params.output_format, can.output_formats) && !isConverted(call, can),
    ],
    [
      'output_compression',
      needsCompression(call) && !can.output_compression && !isConverted(call, can),
    ],
  ]
  return checks.flatMap(([name, isUnsupported]) => (isUnsupported ? [name] : []))
}

/** Whether the call asks for a compression that has an effect: PNG has none to choose. */
export const needsCompression = ({
  params: { output_compression, output_format },
}: ImageCall): boolean =>
  output_compression !== undefined && (output_format === 'jpeg' || output_format === 'webp')

/** Whether the gateway makes the format out of another: of pixels, and not of lines. */
const isConverted = ({ params: { output_format } }: ImageCall, can: ImageCapabilities): boolean =>
  output_format !== undefined && listConverted(can).includes(output_format)

/** Lists the formats that the gateway can make of what an endpoint draws. */
const listConverted = ({ output_formats }: ImageCapabilities): readonly string[] =>
  output_formats.length === 1 && output_formats[0] === 'svg' ? [] : CONVERTED

const CONVERTED = ['png', 'jpeg', 'webp']

/** Lists the formats in which pictures of an endpoint can be had. */
export const listFormats = (can: ImageCapabilities): string[] => [
  ...new Set([...can.output_formats, ...listConverted(can)]),
]

/**
 * Returns the format to ask the endpoint for: the call's, or the one that loses nothing where the
 * gateway converts it. Undefined for any.
 */
export function pickFormat(call: ImageCall, endpoint: Endpoint): ImageParams['output_format'] {
  const { output_format } = call.params
  if (output_format === undefined) return undefined
  const can = getImageCapabilities(endpoint)
  const isDrawn = can.output_formats.includes(output_format)
  if (isDrawn && (can.output_compression || !needsCompression(call))) return output_format
  return can.output_formats.includes('png') ? 'png' : undefined
}

/** Whether the endpoint is asked for another format than the call asks for. */
export const asksOtherFormat = (call: ImageCall, endpoint: Endpoint): boolean =>
  pickFormat(call, endpoint) !== call.params.output_format

/** Returns the compression to ask the endpoint for; undefined where it has none to choose. */
export const pickCompression = (call: ImageCall, endpoint: Endpoint): number | undefined =>
  needsCompression(call) && getImageCapabilities(endpoint).output_compression
    ? call.params.output_compression
    : undefined
