import type { Cancellation } from '../../base/cancellation.ts'
import { yieldToEventLoop } from '../../base/clock.ts'
import { normalizeBase64 } from '../../base/data-url.ts'
import { GatewayError } from '../../base/errors.ts'
import { pickLarger } from '../../base/money.ts'
import {
  countPictures,
  findResolution,
  type ImageCall,
  type ImagePart,
  MOST_PICTURES,
  type Picture,
  type PixelSize,
  RESOLUTIONS,
} from '../../language/image.ts'
import type { Block } from '../../language/message.ts'
import type { Drawn, Units } from '../../language/usage.ts'
import { fetchMedia } from '../../network/media.ts'
import type { UpstreamWorld } from '../../network/world.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { Prices } from '../../resources/prices.ts'
import {
  asksOtherFormat,
  drawsAsAsked,
  fitImage,
  getImageCapabilities,
  listIgnoredImage,
  listUnsupportedParameters,
  needsCompression,
} from '../../translation/protocols/images/capabilities.ts'
import type { Asked } from '../kind.ts'
import { defineKind, requireAll } from './define-kind.ts'

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
    listIgnored: listIgnoredImage,
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
  return requireAll(call, listIgnoredImage(call, endpoint))
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
  const params = fitImage(call, endpoint)
  return listIgnoredImage(call, endpoint).length === 0 ? call : { ...call, params }
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

/** Whether a text begins as an SVG document: before its root are a prolog and comments. */
const isSvg = (head: string): boolean =>
  /^\ufeff?\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--[^>]{0,2000}-->\s*)?(?:<!DOCTYPE svg[^>]{0,500}>\s*)?<svg[\s>]/i.test(
    head,
  )

/** In characters: slices are read one after the other, and others have their turn between. */
const SLICE = 64 * 1024
/** What a slice has in common with the one before it: nothing that is looked for is longer. */
const OVERLAP = 4 * 1024

/**
 * Tells whether an SVG does more than draw: scripts, handlers of events, pages within it, anything
 * from elsewhere, and declarations, which may hide any of these or fill the memory of a reader. A
 * picture that a model draws has none of them. It is read as a browser reads it: references to
 * characters and escapes of styles stand for what they mean, and prefixes of names do not matter.
 */
async function isActiveSvg(svg: string): Promise<boolean> {
  let text = ''
  for (let start = 0; start < svg.length; start += SLICE) {
    text += svg.slice(start, start + SLICE).replace(BLANKS, ' ')
    await yieldToEventLoop()
  }
  for (let start = 0; start < text.length; start += SLICE) {
    if (isActiveSlice(text.slice(Math.max(0, start - OVERLAP), start + SLICE))) return true
    await yieldToEventLoop()
  }
  return false
}

// One blank stands for as many as there are, so that no pattern has to count them.
const BLANKS = /[\s\u0085\u00a0]+/g

function isActiveSlice(slice: string): boolean {
  if (slice.includes('\0') || DECLARATIONS.test(slice) || MANY_REFERENCES.test(slice)) return true
  const text = slice.includes('&') ? decodeReferences(slice).replace(BLANKS, ' ') : slice
  if (hasActiveElement(text) || hasActiveStyle(text)) return true
  for (const [, name = '', start = ''] of text.matchAll(ATTRIBUTE))
    if (isActiveAttribute(toLocalName(name), start)) return true
  return text.includes('\\') && hasActiveStyle(decodeStyle(text))
}

// A document type is one of the W3C's, without declarations of its own. Instructions other than the
// first may name a style sheet, and an encoding other than UTF-8 another text.
const DECLARATIONS =
  /<!(?:ENTITY|ATTLIST|ELEMENT|NOTATION)|<!DOCTYPE(?! svg(?: PUBLIC "-\/\/W3C\/\/DTD SVG [^">[\]]{1,60}"(?: {1,9}"[^"[\]]{0,99}")?)? {0,9}>)|<\?(?!xml[ ?])|encoding {0,9}= {0,9}["'](?!utf-?8|us-ascii)/i

/** So many in a row are no text, and could push apart what belongs together. */
const MANY_REFERENCES = /(?:&#x?[0-9a-f]{1,9};){200}/i

const ELEMENT = /<([^\s<>/!?]+)/g

const ACTIVE_ELEMENTS = new Set([
  ...['script', 'foreignobject', 'iframe', 'object', 'embed', 'handler', 'listener', 'link'],
  ...['html', 'body', 'audio', 'video', 'canvas', 'form', 'meta', 'base'],
])

function hasActiveElement(text: string): boolean {
  for (const [, name = ''] of text.matchAll(ELEMENT))
    if (ACTIVE_ELEMENTS.has(toLocalName(name))) return true
  return false
}

const toLocalName = (name: string): string => name.slice(name.lastIndexOf(':') + 1).toLowerCase()

/** A name, and the beginning of its value. */
const ATTRIBUTE = /["'\s/]([^\s=<>"'/]{1,200}) {0,9}= {0,9}["']? {0,9}([^"'>]{0,40})/g

/** Attributes whose values are addresses. */
const ADDRESSES = new Set([
  'href',
  'src',
  'data',
  'base',
  'action',
  'formaction',
  'srcset',
  'poster',
])

/** What an address may be: a place in the same document, or a picture of pixels in it. */
const INNER = /^(?:#|data:image\/(?:png|jpe?g|gif|webp|avif)[;,])/i

function isActiveAttribute(name: string, start: string): boolean {
  if (/^on[a-z]/.test(name)) return true
  if (ADDRESSES.has(name)) return start !== '' && !INNER.test(start)
  // An animation may set an address or a handler.
  if (name === 'attributename') return /^(?:on|[^"'>]{0,30}(?:href|src)$)/i.test(start.trim())
  return /^(?:java|vb)script ?:|^data: ?text\/html/i.test(start)
}

const hasActiveStyle = (text: string): boolean =>
  /@import|expression ?\(|(?:java|vb)script ?:|-moz-binding|image-set ?\(|url {0,9}\( {0,9}["']? {0,9}(?!["' ]|#|data:image\/(?:png|jpe?g|gif|webp|avif)[;,])/i.test(
    text,
  )

const NAMED: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" }

const decodeReferences = (text: string): string =>
  text.replace(/&(?:#(\d{1,9})|#x([0-9a-f]{1,9})|(lt|gt|amp|quot|apos));/gi, (_, ten, hex, name) =>
    name ? (NAMED[name.toLowerCase()] ?? '') : toCharacter(ten ? Number(ten) : parseInt(hex, 16)),
  )

const toCharacter = (point: number): string =>
  point > 0 && point <= 0x10_ff_ff ? String.fromCodePoint(point) : '\ufffd'

/** Reads escapes of CSS. */
const decodeStyle = (text: string): string =>
  text.replace(/\\(?:([0-9a-f]{1,6}) ?|([^0-9a-f]))/gi, (_, hex, other) =>
    hex ? toCharacter(parseInt(hex, 16)) : other,
  )

type PicturePart = Extract<ImagePart, { type: 'picture' }>

/** The most bytes of one picture, and of all that are fetched for one answer. */
const LARGEST = 20 * 1024 * 1024
const LARGEST_OF_ALL = 64 * 1024 * 1024

/**
 * Returns the parts with their pictures checked: what is only referred to by URL is fetched, from
 * public hosts alone; the base64 decodes, and its bytes begin as a picture does, whatever the
 * provider says that they are. One in another format than the call asks for is converted.
 * Throws `provider_unavailable` otherwise: what is no picture has not been delivered.
 */
export async function checkPictures(
  world: UpstreamWorld,
  parts: ImagePart[],
  asked: Asked<'image'>,
): Promise<ImagePart[]> {
  const { cancellation } = asked
  try {
    if (parts.some(isLinked)) await asked.enterRoom()
    const fetched = await fetchLinked(world, parts, cancellation)
    return await Promise.all(fetched.map(part => checkPart(part, asked)))
  } catch (thrown) {
    throw cancellation?.reason ?? noPicture(thrown)
  }
}

/** Returns the parts with the data of those of which only a URL is known. */
async function fetchLinked(
  world: UpstreamWorld,
  parts: ImagePart[],
  cancellation: Cancellation | null,
): Promise<ImagePart[]> {
  const linked = parts.filter(isLinked)
  if (linked.length === 0) return parts
  if (!cancellation) throw new Error('A part of a stream is only a URL')
  const branches = cancellation.createBranches(linked.length)
  const maxBytes = Math.min(LARGEST, Math.floor(LARGEST_OF_ALL / linked.length))
  const fetching = linked.map(async (part, i): Promise<[ImagePart, ImagePart]> => {
    const branch = branches[i] ? { cancellation: branches[i] } : {}
    const { data } = await fetchMedia(world, part.url ?? '', { kind: 'file', maxBytes, ...branch })
    return [part, { ...part, data }]
  })
  try {
    const fetched = new Map(await Promise.all(fetching))
    return parts.map(part => fetched.get(part) ?? part)
  } finally {
    for (const branch of branches) branch.cancel(OVER)
  }
}

const OVER = new GatewayError('unmapped', 'The downloads are over')

const isLinked = (part: ImagePart): part is PicturePart =>
  part.type === 'picture' && part.data === '' && part.url !== undefined

const noPicture = (cause: unknown) =>
  new GatewayError('provider_unavailable', 'Provider returned error', {
    cause,
    reason: { code: null, message: 'The answer of the provider is no picture' },
  })

async function checkPart(part: ImagePart, { call, endpoint }: Asked<'image'>): Promise<ImagePart> {
  if (part.type === 'preview') return { ...part, data: (await checkData(part.data)).data }
  if (part.type !== 'picture') return part
  const { url: _, ...picture } = part
  const checked = await checkData(picture.data)
  const conversion = findConversion(call, endpoint, checked.media_type ?? '')
  if (!conversion) return { ...picture, ...checked }
  return { ...picture, ...checked, ...(await convertPicture(checked, conversion)) }
}

/** The base64 of the bytes by which a type is known. */
const SAMPLE = 16 * 1024

async function checkData(given: string): Promise<Omit<Picture, 'url'>> {
  if (given.length > (LARGEST / 3) * 4 + 4) throw new Error('The picture is too large')
  const data = normalizeBase64(given)
  if (!data) throw new Error('The picture is no base64')
  const head = Buffer.from(data.slice(0, SAMPLE), 'base64')
  // Loaded on first use: few calls need it, and every start would pay for it.
  const { fileTypeFromBuffer } = await import('file-type')
  const mime = (await fileTypeFromBuffer(head))?.mime
  const media_type = mime === 'image/apng' ? 'image/png' : mime
  if (!media_type?.startsWith('image/')) return checkSvg(data, head)
  const pixels = await readPixels(head, data)
  return { data, media_type, ...(pixels ? { pixels: checkSides(pixels) } : {}) }
}

/** The base64 of the largest SVG: it is read whole. */
const LARGEST_SVG = (4 * 1024 * 1024 * 4) / 3

async function checkSvg(data: string, head: Buffer): Promise<Omit<Picture, 'url'>> {
  if (!isSvg(head.toString())) throw new Error('The bytes are no picture')
  if (data.length > LARGEST_SVG) throw new Error('The SVG is too large')
  const svg = Buffer.from(data, 'base64').toString()
  if (await isActiveSvg(svg)) throw new Error('The SVG does more than draw')
  return { data, media_type: 'image/svg+xml' }
}

/** Larger pictures are none that a model draws, and their pixels would be charged. */
const LONGEST_SIDE = 16_384
const MOST_PIXELS = 100_000_000

function checkSides(pixels: PixelSize): PixelSize {
  const { width, height } = pixels
  if (Math.max(width, height) > LONGEST_SIDE || width * height > MOST_PIXELS)
    throw new Error('The picture has too many pixels')
  return pixels
}

/**
 * Reads the width and height from the head of a picture, without decoding it; undefined for types
 * without any. In some files a profile of colours comes first.
 */
async function readPixels(head: Buffer, data: string): Promise<PixelSize | undefined> {
  return (await readHeader(head)) ?? (await readHeader(Buffer.from(data.slice(0, LONG), 'base64')))
}

const LONG = 1024 * 1024

async function readHeader(head: Buffer): Promise<PixelSize | undefined> {
  try {
    const { width, height } = await new Bun.Image(head).metadata()
    return width > 0 && height > 0 ? { width, height } : undefined
  } catch (thrown) {
    if (isTooLarge(thrown)) throw thrown
    return undefined
  }
}

const isTooLarge = (thrown: unknown): boolean =>
  thrown instanceof Error && 'code' in thrown && thrown.code === 'ERR_IMAGE_TOO_MANY_PIXELS'

/** What a picture becomes. */
interface Conversion {
  format: 'png' | 'jpeg' | 'webp'
  /** From 1 to 100; PNG has none. */
  quality: number
}

/** A picture that loses nothing that an eye would see. */
const USUAL_QUALITY = 90

/**
 * Returns what a picture has to become so that it is as the call asks; null if it is already.
 * Throws for a drawing of lines where the call asks for pixels.
 */
function findConversion(
  call: ImageCall,
  endpoint: Endpoint,
  media_type: string,
): Conversion | null {
  const { output_format: format, output_compression } = call.params
  if (format === undefined || format === 'svg') return null
  if (media_type === `image/${format}` && !isUncompressed(call, endpoint)) return null
  if (media_type === 'image/svg+xml') throw new Error('The picture is an SVG')
  const quality = needsCompression(call) ? output_compression : undefined
  return { format, quality: Math.max(quality ?? USUAL_QUALITY, 1) }
}

/** Whether the endpoint was asked for another format, as it has no compression to choose. */
const isUncompressed = (call: ImageCall, endpoint: Endpoint): boolean =>
  needsCompression(call) && asksOtherFormat(call, endpoint)

/** The most pixels that are decoded: a square of 4K with a few pixels more. Each takes 4 bytes. */
const MOST_CONVERTED = 4_096 * 4_096 * 1.25

/** Ends when the conversion before it does: pictures are decoded one by one, as they are large. */
let last: Promise<unknown> = Promise.resolve()

/**
 * Converts a picture with the codecs of the platform, which decode the first frame of one that
 * moves. Waits for other conversions. Rejects for bytes that do not decode, and before anything is
 * decoded for more pixels than any tier has.
 */
function convertPicture(picture: Picture, to: Conversion): Promise<Picture> {
  const converted = last.then(() => encode(picture, to))
  last = converted.catch(() => undefined)
  return converted
}

async function encode(
  { data, media_type }: Picture,
  { format, quality }: Conversion,
): Promise<Picture> {
  const bytes = Buffer.from(data, 'base64')
  if (media_type === 'image/jpeg' && !isWhole(bytes)) throw new Error('The picture is cut off')
  const image = new Bun.Image(bytes, { maxPixels: MOST_CONVERTED })
  const target = format === 'png' ? image.png() : image[format]({ quality })
  const encoded = await target.toBase64()
  const { width, height } = image
  return { data: encoded, media_type: `image/${format}`, pixels: { width, height } }
}

const TAIL = 4 * 1024
const END = Buffer.from([0xff, 0xd9])

/** Tells whether a JPEG has its end. Decoders make the missing rest of one that is cut off grey. */
const isWhole = (jpeg: Buffer): boolean => jpeg.subarray(-TAIL).includes(END)
