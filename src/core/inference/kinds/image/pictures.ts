import { GatewayError } from '../../../errors.ts'
import type { Cancellation } from '../../../kernel/cancellation.ts'
import { normalizeBase64 } from '../../../kernel/data-url.ts'
import type { ImagePart, Picture, PixelSize } from '../../../language/image.ts'
import { fetchMedia } from '../../../upstream/media.ts'
import type { UpstreamWorld } from '../../../upstream/world.ts'
import type { Asked } from '../../kinds.ts'
import { convertPicture, findConversion } from './conversion.ts'
import { isActiveSvg, isSvg } from './svg.ts'

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
