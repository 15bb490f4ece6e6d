import { GatewayError } from '../errors.ts'

/** Bytes with their media type. */
export interface Media {
  /** Lower case, without parameters. */
  media_type: string
  /** In base64 as RFC 4648, 4 defines it. */
  data: string
}

/** Whether this is a `data:` URL. Does not check its content. */
export const isDataUrl = (url: string): boolean => url.slice(0, 5).toLowerCase() === 'data:'

/** The part before the comma is short. This bounds the search for a comma in a long text. */
const LONGEST_HEAD = 1024

/**
 * Parses a `data:` URL (RFC 2397) in base64 or percent-encoding, with or without parameters. Takes
 * linear time. The type is the one that the URL states. An image whose first bytes show another
 * type gets that one, since providers look at the bytes and refuse a mismatch. Throws
 * `invalid_image`, naming `field`, for a URL that is broken or empty.
 */
export function parseDataUrl(url: string, field?: string): Media {
  const comma = url.slice(0, LONGEST_HEAD).indexOf(',')
  if (!isDataUrl(url) || comma === -1) throw unreadable(field)
  const [type = '', ...parameters] = url
    .slice(5, comma)
    .split(';')
    .map(part => part.trim().toLowerCase())
  const media_type = type || 'text/plain'
  const body = url.slice(comma + 1)
  const data =
    parameters.at(-1) === 'base64' ? normalizeBase64(body) : decodePercent(body).toString('base64')
  if (!data || !MEDIA_TYPE.test(media_type)) throw unreadable(field)
  return {
    media_type: media_type.startsWith('image/')
      ? (detectImageType(data) ?? media_type)
      : media_type,
    data,
  }
}

/** The first bytes of the image types that every provider accepts, in base64. */
const PICTURES = {
  iVBORw0KGgo: 'image/png',
  '/9j/': 'image/jpeg',
  R0lGOD: 'image/gif',
  UklGR: 'image/webp',
}

/** Detects the type of an image in base64 by its first bytes. Undefined when they are not known. */
export const detectImageType = (data: string): string | undefined =>
  Object.entries(PICTURES).find(([beginning]) => data.startsWith(beginning))?.[1]

const PLAIN = /^data:text\/plain[;,]/i

/**
 * Reads the text of a `data:` URL of plain text. Undefined for any other URL. Throws as
 * `parseDataUrl` does.
 */
export const readPlainText = (url: string, field?: string): string | undefined =>
  PLAIN.test(url) ? decodeMediaText(parseDataUrl(url, field)) : undefined

/** Decodes the bytes as UTF-8. */
export const decodeMediaText = ({ data }: Pick<Media, 'data'>): string =>
  Buffer.from(data, 'base64').toString()

const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]+\/[a-z0-9!#$&^_.+-]+$/

const unreadable = (field?: string) =>
  new GatewayError(
    'invalid_image',
    'The data URL cannot be read',
    field === undefined ? {} : { metadata: { field } },
  )

/**
 * Returns the same bytes in the standard alphabet, padded and without spaces. Null when the text is
 * not base64.
 */
function normalizeBase64(body: string): string | null {
  const text = body.includes('%') ? decodePercent(body).toString('latin1') : body
  const bytes = decodeBase64(text)
  if (!bytes) return null
  return isStandardBase64(text, bytes.length) ? text : Buffer.from(bytes).toString('base64')
}

const isStandardBase64 = (text: string, bytes: number) =>
  text.length === 4 * Math.ceil(bytes / 3) && !text.includes('-') && !text.includes('_')

// The fast decoder skips unknown characters, and then returns fewer bytes than the length implies.
// Spaces may be the reason, and the strict decoder allows them.
function decodeBase64(text: string): Uint8Array | null {
  const letters = text.length - (text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0)
  const isWhole = letters === text.length ? letters % 4 !== 1 : text.length % 4 === 0
  const bytes = Buffer.from(text, 'base64')
  if (isWhole && bytes.length === Math.floor((letters * 3) / 4)) return bytes
  try {
    return Uint8Array.fromBase64(text)
  } catch {
    return null
  }
}

/**
 * Decodes `%XX` in a text to bytes. A percent sign that starts no such sequence stands for itself,
 * as in a browser.
 */
function decodePercent(text: string): Buffer {
  const bytes = Buffer.from(text)
  let size = 0
  for (let index = 0; index < bytes.length; index++) {
    const code = bytes[index] === PERCENT ? parseHexPair(bytes[index + 1], bytes[index + 2]) : -1
    bytes[size++] = code === -1 ? (bytes[index] ?? 0) : code
    if (code !== -1) index += 2
  }
  return bytes.subarray(0, size)
}

const PERCENT = 0x25

function parseHexPair(high = 0, low = 0): number {
  const [first, second] = [parseHexDigit(high), parseHexDigit(low)]
  return first === -1 || second === -1 ? -1 : first * 16 + second
}

function parseHexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const letter = code | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x61 + 10 : -1
}

/**
 * Pieces of base64 that belong together. Each may have its own padding, and then joining the texts
 * would not give valid base64: such pieces are decoded, each once. Linear in their length.
 */
export class Base64Pieces {
  length = 0
  #text = ''
  readonly #bytes: Uint8Array[] = []

  /** Adds the next piece. */
  add(piece: string): void {
    this.length += piece.length
    this.#text += piece
    if (!piece.endsWith('=')) return
    this.#bytes.push(Buffer.from(this.#text, 'base64'))
    this.#text = ''
  }

  /** Returns all of them as one text. */
  join(): string {
    if (this.#bytes.length === 0) return this.#text
    const rest = Buffer.from(this.#text, 'base64')
    return Buffer.concat([...this.#bytes, rest]).toString('base64')
  }
}
