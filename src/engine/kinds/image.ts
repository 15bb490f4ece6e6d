import { pickLarger } from '../../base/money.ts'
import {
  countPictures,
  findResolution,
  type ImageCall,
  type ImagePart,
  MOST_PICTURES,
  type PixelSize,
  RESOLUTIONS,
} from '../../language/image.ts'
import type { Block } from '../../language/message.ts'
import type { Drawn, Units } from '../../language/usage.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { Prices } from '../../resources/prices.ts'
import {
  drawsAsAsked,
  fitSize,
  getImageCapabilities,
  listIgnoredImage,
  listUnsupportedParameters,
} from '../../translation/protocols/images/capabilities.ts'
import { defineKind } from './define-kind.ts'
import { checkPictures } from './image/pictures.ts'

/** Ours, not in the public list: the endpoint cannot draw as the call asks. */
export const IMAGE_PARAMETERS = 'image_parameters'

/** Pictures drawn from a prompt. The charge is for tokens, pictures or megapixels. */
export const image = defineKind<'image'>({
  apiType: 'image',
  outputName: 'image',
  isMeaningful: ({ type }) => type === 'picture' || type === 'preview',
  admitParts: checkPictures,
  splitCall,
  understanding: {
    readContents,
    replaceContents,
    checkEndpoint,
    supportsPreferred: drawsAsAsked,
    listIgnored,
    fitToEndpoint,
  },
  costing: {
    estimateUnits: call => countUnits(call, countPictures(call), estimateMegapixels(call)),
    boundUnits: (call, endpoint) =>
      countUnits(
        call,
        countPictures(call),
        Math.max(boundMegapixels(call), boundMegapixels(fitToEndpoint(call, endpoint))),
        countRequests(call, endpoint),
      ),
    boundOutput: (call, endpoint) =>
      countPictures(call) * boundTokens(fitToEndpoint(call, endpoint), endpoint),
    // No provider takes a bound of the tokens of a picture.
    computeLeastOutput: () => Number.POSITIVE_INFINITY,
    describeDrawn: (call, endpoint) =>
      describeDrawn(endpoint ? fitToEndpoint(call, endpoint) : call, []),
    priceOutputToken,
  },
  metering: { countUnits: countDelivered, describeDrawn, countOutput },
})

function checkEndpoint(call: ImageCall, endpoint: Endpoint): string | true {
  if (listUnsupportedParameters(call, endpoint).length > 0) return IMAGE_PARAMETERS
  const { require_parameters } = call.routing
  return !require_parameters || listIgnored(call, endpoint).length === 0 || 'require_parameters'
}

function listIgnored(call: ImageCall, endpoint: Endpoint): string[] {
  const ignored = listIgnoredImage(call, endpoint)
  if (fitSize(call.params, endpoint) === call.params) return ignored
  return [...ignored, call.params.size ? 'size' : 'resolution']
}

/**
 * Splits a call for more pictures than the endpoint draws at once: as many requests as that takes,
 * which ask for as many pictures together as the call does. Each draws from a seed of its own, if
 * the call has one: the same seed would draw the same picture.
 */
function splitCall(call: ImageCall, endpoint: Endpoint): ImageCall[] | undefined {
  const count = countRequests(call, endpoint)
  if (count === 1) return undefined
  const { n: most } = getImageCapabilities(endpoint)
  const { seed } = call.params
  return Array.from({ length: count }, (_, i) => ({
    ...call,
    stream: false,
    params: {
      ...call.params,
      n: Math.min(most, countPictures(call) - i * most),
      ...(seed === undefined ? {} : { seed: seed < MOST_PICTURES ? seed + i : seed - i }),
    },
  }))
}

const countRequests = (call: ImageCall, endpoint: Endpoint): number =>
  Math.ceil(countPictures(call) / getImageCapabilities(endpoint).n)

function readContents({ prompt, references }: ImageCall): Block[][] {
  const pictures = references.map((url, i) => ({
    type: 'image' as const,
    url,
    field: `input_references.${i}.image_url.url`,
  }))
  return [[{ type: 'text', text: prompt }, ...pictures]]
}

function replaceContents(call: ImageCall, [blocks = []]: Block[][]): ImageCall {
  const text = blocks.find(block => block.type === 'text')
  const references = blocks.flatMap(block => (block.type === 'image' ? [block.url] : []))
  return { ...call, prompt: text?.text ?? '', references }
}

// Where a provider draws from no seed, the picture differs each time, and that is all.
function fitToEndpoint(call: ImageCall, endpoint: Endpoint): ImageCall {
  const ignored = listIgnoredImage(call, endpoint)
  const fitted = fitSize(call.params, endpoint)
  if (ignored.length === 0) return fitted === call.params ? call : { ...call, params: fitted }
  const kept = Object.entries(fitted).filter(([name]) => !ignored.includes(name))
  return { ...call, params: Object.fromEntries(kept) }
}

/** Megapixels are counted in thousandths. */
const PIXELS_PER_PART = 1_000

const countParts = ({ width, height }: PixelSize): number =>
  Math.ceil((width * height) / PIXELS_PER_PART)

const toSquare = (side: number): PixelSize => ({ width: side, height: side })

/** Without a size, providers draw about a megapixel. */
const estimateMegapixels = ({ params: { size, resolution = '1K' } }: ImageCall): number =>
  countParts(size ?? toSquare(RESOLUTIONS[resolution]))

/** A picture of a tier may have a few pixels more than its square. */
const SPARE = 1.25

/** Without a size, a provider may draw as large as any does. */
const boundMegapixels = ({ params: { size, resolution = '4K' } }: ImageCall): number =>
  size ? countParts(size) : Math.ceil(countParts(toSquare(RESOLUTIONS[resolution])) * SPARE)

/** Counts what is charged for. Each request has the references again. */
function countUnits(
  { references }: ImageCall,
  pictures: number,
  parts: number,
  requests = 1,
): Units {
  return {
    image: pictures,
    megapixel: pictures * parts,
    ...(references.length > 0 ? { input_image: references.length * requests } : {}),
  }
}

/**
 * Returns how pictures are drawn: as the call says, or as large as they are. What it leaves to the
 * provider is not known before.
 */
function describeDrawn({ params }: ImageCall, delivered: ImagePart[]): Drawn {
  const { quality, size, resolution } = params
  const pixels = delivered
    .flatMap(part => (part.type === 'picture' ? (part.pixels ?? []) : []))
    .at(0)
  const exact = size ?? pixels
  const tier = resolution ?? (exact && findResolution(exact))
  return {
    ...(quality === undefined || quality === 'auto' ? {} : { quality }),
    ...(tier === undefined ? {} : { resolution: tier }),
  }
}

/** Counts what was delivered: previews are part of their picture. */
function countDelivered(call: ImageCall, delivered: ImagePart[]): Units {
  const pictures = delivered.flatMap(part => (part.type === 'picture' ? [part] : []))
  if (pictures.length === 0) return {}
  const megapixel = pictures.reduce(
    (sum, { pixels }) => sum + (pixels ? countParts(pixels) : estimateMegapixels(call)),
    0,
  )
  const requests = new Set(pictures.map(({ share = 0 }) => share)).size
  return { ...countUnits(call, pictures.length, 0, requests), megapixel }
}

/**
 * The most tokens of a picture by its quality: OpenAI's largest has 6,240, Google's 2,520; what
 * comes beside a picture is about as much again.
 */
const TOKENS: Record<string, number> = { low: 1_024, medium: 4_096 }
const MOST_TOKENS = 16_384

function boundTokens({ params: { quality = '' } }: ImageCall, endpoint: Endpoint): number {
  const { output_modalities, max_completion_tokens } = endpoint
  // Models that talk too may think before they draw, whatever the quality.
  if (output_modalities.includes('text')) return max_completion_tokens ?? 2 * MOST_TOKENS
  return TOKENS[quality] ?? MOST_TOKENS
}

function priceOutputToken(_: ImageCall, prices: Prices): bigint {
  return pickLarger(pickLarger(prices.completion, prices.reasoning), prices.image_output)
}

/** The tokens of a usual picture, where the provider counts none. */
const USUAL_TOKENS = 1_290

function countOutput(_: ImageCall, delivered: ImagePart[]): number {
  return USUAL_TOKENS * delivered.filter(({ type }) => type === 'picture').length
}
