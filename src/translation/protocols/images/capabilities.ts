import {
  countPictures,
  type ImageCall,
  type ImageParams,
  type PixelSize,
  pickNearest,
  pickNearestRatio,
  pickNearestSize,
  pickNearestTier,
  RESOLUTIONS,
  type Resolution,
  readRatio,
  readSize,
  shrinkToSide,
} from '../../../language/image.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { listDropped, omitNamed } from '../dropped.ts'
import {
  CHAT,
  COMPATIBLE,
  getFireworksCapabilities,
  getFluxCapabilities,
  getGptCapabilities,
  getImagenCapabilities,
  getRecraftCapabilities,
  getStabilityCapabilities,
  IMAGE_EXTRAS,
  type ImageCapabilities,
  OPENROUTER,
  RESPONSES,
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
    return isImagen(endpoint)
      ? getImagenCapabilities(upstreamModel)
      : { ...CHAT, resolutions: getGeminiTiers(upstreamModel) }
  if (protocol === 'sandbox') return SANDBOX
  const ofProtocol = BY_PROTOCOL[protocol]
  if (ofProtocol) return ofProtocol(upstreamModel)
  if (protocol === 'openai-responses') return RESPONSES
  if (drawsByChat(endpoint) || protocol !== 'openai-chat') return CHAT
  const { images } = provider.quirks
  if (images !== 'compatible' || !isGptImage(endpoint)) return BY_QUIRK[images](upstreamModel)
  // A deployment has any name.
  return getGptCapabilities(`${upstreamModel} ${endpoint.model}`)
}

// The older family draws about a megapixel, and refuses a size.
const getGeminiTiers = (model: string): Resolution[] =>
  /gemini-2/.test(model) ? ['1K'] : ['1K', '2K', '4K']

/**
 * Returns the parameters that the endpoint follows: a size, a tier or a ratio that it does not draw is
 * the nearest that it does, and what it has nothing like is left out. The parameters themselves where
 * it follows all of them, and those that ask for what comes anyway.
 */
export function fitImage(call: ImageCall, endpoint: Endpoint): ImageParams {
  const fitted = fitShape(call, endpoint)
  return omitNamed(fitted, [...listIgnoredLooks(call, endpoint), ...listLeftOut(call, endpoint)])
}

function fitShape({ params, references }: ImageCall, endpoint: Endpoint): ImageParams {
  const can = getImageCapabilities(endpoint)
  if (can.keepsShape && references.length > 0)
    return omitNamed(params, ['size', 'resolution', 'aspect_ratio'])
  return params.size ? fitSize(params, can) : fitRatio(fitTier(params, can), can)
}

function fitSize({ size, ...rest }: ImageParams, can: ImageCapabilities): ImageParams {
  if (!size) return rest
  const { sizes, side = Number.POSITIVE_INFINITY } = can
  if (can.size && Math.max(size.width, size.height) > side)
    return { ...rest, size: shrinkToSide(size, side) }
  if (can.bounds) return { ...rest, size: boundSize(size, can.bounds) }
  if (can.size && (!sizes || sizes.includes(`${size.width}x${size.height}`)))
    return { ...rest, size }
  if (sizes) return { ...rest, size: pickNearestSize(size, sizes.map(readSize)) }
  const resolution = pickNearestTier(size, can.resolutions)
  return {
    ...rest,
    ...(resolution ? { resolution } : {}),
    ...pickRatio(size.width / size.height, can),
  }
}

const pickRatio = (ratio: number, { aspect_ratios: known }: ImageCapabilities): ImageParams =>
  known.length === 0 ? {} : { aspect_ratio: pickNearestRatio(ratio, known) }

type Bounds = NonNullable<ImageCapabilities['bounds']>

/** Returns the pixels within bounds that are nearest: themselves where they are within. */
function boundSize(size: PixelSize, bounds: Bounds): PixelSize {
  if (isWithin(size, bounds)) return size
  const { grid, side } = bounds
  const ratio = size.width / size.height
  const toGrid = (length: number) => Math.max(Math.round(length / grid), 1) * grid
  const sides = Array.from({ length: side / grid }, (_, i) => (i + 1) * grid)
  const within = sides
    .flatMap(one => [
      { width: toGrid(one * ratio), height: one },
      { width: toGrid(one * bounds.stretch), height: one },
      { width: one, height: toGrid(one * bounds.stretch) },
    ])
    .filter(pixels => isWithin(pixels, bounds))
  const distance = ({ width, height }: PixelSize) =>
    SHAPE_FIRST * Math.abs(Math.log(width / height / ratio)) +
    Math.abs(Math.log((width * height) / (size.width * size.height)))
  return pickNearest(within, distance) ?? size
}

/** How much worse another shape is than as many times more pixels. */
const SHAPE_FIRST = 4

function isWithin({ width, height }: PixelSize, bounds: Bounds): boolean {
  const [short, long] = [Math.min(width, height), Math.max(width, height)]
  const pixels = width * height
  return (
    width % bounds.grid === 0 &&
    height % bounds.grid === 0 &&
    long <= bounds.side &&
    long <= short * bounds.stretch &&
    pixels >= bounds.least &&
    pixels <= bounds.most
  )
}

/** Returns the pixels to ask for of an endpoint with bounds; undefined for its usual ones. */
export function pickBounded(pixels: PixelSize | undefined, endpoint: Endpoint) {
  const { bounds } = getImageCapabilities(endpoint)
  return pixels && bounds ? boundSize(pixels, bounds) : pixels
}

function fitTier(params: ImageParams, { resolutions }: ImageCapabilities): ImageParams {
  const { resolution, ...rest } = params
  if (resolution === undefined || resolutions.includes(resolution)) return params
  const side = RESOLUTIONS[resolution]
  const nearest = pickNearestTier({ width: side, height: side }, resolutions)
  return nearest ? { ...rest, resolution: nearest } : rest
}

function fitRatio(params: ImageParams, can: ImageCapabilities): ImageParams {
  const { aspect_ratio, ...rest } = params
  if (aspect_ratio === undefined || can.aspect_ratios.includes(aspect_ratio)) return params
  return { ...rest, ...pickRatio(readRatio(aspect_ratio), can) }
}

/** Lists the parameters that the endpoint cannot use, or only the nearest of, by their wire names. */
export const listIgnoredImage = (call: ImageCall, endpoint: Endpoint): string[] =>
  listChanged(call.params, fitImage(call, endpoint))

function listChanged(params: ImageParams, fitted: ImageParams): string[] {
  if (fitted === params) return []
  const names = Object.keys(params) as (keyof ImageParams)[]
  return names.filter(name => fitted[name] !== params[name])
}

/** Tells whether the endpoint draws as the call asks: in size, quality and background. */
export const drawsAsAsked = (call: ImageCall, endpoint: Endpoint): boolean =>
  listChanged(call.params, fitShape(call, endpoint)).length === 0 &&
  listIgnoredLooks(call, endpoint).length === 0

/** Lists what a picture can do without: what comes anyway is none of it. */
function listLeftOut(call: ImageCall, endpoint: Endpoint): string[] {
  const { params } = call
  return [
    ...(params.seed !== undefined && !getImageCapabilities(endpoint).seed ? ['seed'] : []),
    ...(params.partial_images && !drawsPreviews(call, endpoint) ? ['partial_images'] : []),
    ...IMAGE_EXTRAS.filter(
      name =>
        params[name] !== undefined &&
        params[name] !== USUAL[name] &&
        !takesExtra(name, call, endpoint),
    ),
    ...listDropped(params, endpoint),
  ]
}

type Extra = (typeof IMAGE_EXTRAS)[number]

/** What OpenAI does where a call says nothing. */
const USUAL: Partial<Record<Extra, string>> = { moderation: 'auto', input_fidelity: 'low' }

/** Tells whether an endpoint takes one of OpenAI's own parameters: one is of changes alone. */
export function takesExtra(name: Extra, { references }: ImageCall, endpoint: Endpoint): boolean {
  const { extras = [] } = getImageCapabilities(endpoint)
  return extras.includes(name) && (name !== 'input_fidelity' || references.length > 0)
}

/** Tells whether previews of the call stream: with them, one picture is drawn. */
export const drawsPreviews = (call: ImageCall, endpoint: Endpoint): boolean =>
  call.stream && countPictures(call) === 1 && getImageCapabilities(endpoint).streams

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
