import { GatewayError } from '../../../errors.ts'
import type { Cancellation } from '../../../kernel/cancellation.ts'
import { parseDataUrl } from '../../../kernel/data-url.ts'
import type { ImagePart, Picture, PixelSize } from '../../../language/image.ts'
import { fetchMedia } from '../../../upstream/media.ts'
import type { UpstreamWorld } from '../../../upstream/world.ts'

type PicturePart = Extract<ImagePart, { type: 'picture' }>

/** The most bytes of one picture, and of all that are fetched for one answer. */
const LARGEST = 20 * 1024 * 1024
const LARGEST_OF_ALL = 64 * 1024 * 1024

/**
 * Returns the parts with their pictures checked: what is only referred to by URL is fetched, from
 * public hosts alone; the base64 decodes, and its bytes begin as a picture does, whatever the
 * provider says that they are. Throws `provider_unavailable` otherwise: what is no picture has not
 * been delivered. `cancellation` ends the downloads; it is null for a part of a stream, where no
 * provider sends URLs.
 */
export async function checkPictures(
  world: UpstreamWorld,
  parts: ImagePart[],
  cancellation: Cancellation | null,
): Promise<ImagePart[]> {
  try {
    const fetched = await fetchLinked(world, parts, cancellation)
    return await Promise.all(fetched.map(checkPart))
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

async function checkPart(part: ImagePart): Promise<ImagePart> {
  if (part.type === 'preview') return { ...part, data: (await checkData(part.data)).data }
  if (part.type !== 'picture') return part
  const { url: _, ...picture } = part
  return { ...picture, ...(await checkData(picture.data)) }
}

/** The base64 of the bytes by which a type is known. */
const SAMPLE = 16 * 1024

async function checkData(given: string): Promise<Omit<Picture, 'url'>> {
  if (given.length > (LARGEST / 3) * 4 + 4) throw new Error('The picture is too large')
  const { data } = parseDataUrl(`data:image/png;base64,${given}`)
  const head = Buffer.from(data.slice(0, SAMPLE), 'base64')
  // Loaded on first use: few calls need it, and every start would pay for it.
  const { fileTypeFromBuffer } = await import('file-type')
  const mime = (await fileTypeFromBuffer(head))?.mime
  const media_type = mime === 'image/apng' ? 'image/png' : mime
  if (media_type?.startsWith('image/')) return { data, media_type, ...(await readPixels(head)) }
  if (isSvg(head)) return { data, media_type: 'image/svg+xml' }
  throw new Error('The bytes are no picture')
}

/** Whether a text is an SVG document: what comes before its root is a prolog and comments. */
const isSvg = (head: Buffer): boolean =>
  /^\ufeff?\s*(?:<\?xml[^>]{0,200}\?>\s*)?(?:<!--[^>]{0,2000}-->\s*)?(?:<!DOCTYPE svg[^>]{0,500}>\s*)?<svg[\s>]/i.test(
    head.toString(),
  )

/** Reads the width and height from the head of a picture; nothing for types without any. */
async function readPixels(head: Buffer): Promise<{ pixels?: PixelSize }> {
  try {
    const { width, height } = await new Bun.Image(head).metadata()
    return width > 0 && height > 0 ? { pixels: { width, height } } : {}
  } catch {
    return {}
  }
}
