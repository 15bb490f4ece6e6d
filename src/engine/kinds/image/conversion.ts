import type { ImageCall, Picture } from '../../../language/image.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import {
  asksOtherFormat,
  needsCompression,
} from '../../../translation/protocols/images/capabilities.ts'

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
export function findConversion(
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
const MOST_PIXELS = 4_096 * 4_096 * 1.25

/** Ends when the conversion before it does: pictures are decoded one by one, as they are large. */
let last: Promise<unknown> = Promise.resolve()

/**
 * Converts a picture with the codecs of the platform, which decode the first frame of one that
 * moves. Waits for other conversions. Rejects for bytes that do not decode, and before anything is
 * decoded for more pixels than any tier has.
 */
export function convertPicture(picture: Picture, to: Conversion): Promise<Picture> {
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
  const image = new Bun.Image(bytes, { maxPixels: MOST_PIXELS })
  const target = format === 'png' ? image.png() : image[format]({ quality })
  const encoded = await target.toBase64()
  const { width, height } = image
  return { data: encoded, media_type: `image/${format}`, pixels: { width, height } }
}

const TAIL = 4 * 1024
const END = Buffer.from([0xff, 0xd9])

/** Tells whether a JPEG has its end. Decoders make the missing rest of one that is cut off grey. */
const isWhole = (jpeg: Buffer): boolean => jpeg.subarray(-TAIL).includes(END)
