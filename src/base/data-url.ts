import { isUtf8 } from 'node:buffer'
import { releaseBytes } from './body.ts'
import { GatewayError, invalid } from './errors.ts'

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

/** Reads a `data:` URL as `parseDataUrl` does. Null for any other URL, and for one that is broken. */
export function readDataUrl(url: string): Media | null {
  try {
    return isDataUrl(url) ? parseDataUrl(url) : null
  } catch {
    return null
  }
}

/**
 * Throws `invalid_image`, naming `field`, for a `data:` URL that no provider could decode: one
 * without data or a type, or with what is no base64. Makes no copy of the data.
 */
export function checkDataUrl(url: string, field?: string): void {
  const comma = url.slice(0, LONGEST_HEAD).indexOf(',')
  const head = url.slice(5, Math.max(comma, 5)).toLowerCase()
  const type = head.split(';', 1)[0]?.trim() ?? ''
  const isTyped = type === '' || MEDIA_TYPE.test(type)
  const data = url.slice(comma + 1)
  const isBase64 = /;\s*base64\s*$/.test(head)
  if (comma === -1 || !isTyped || data === '' || (isBase64 && !mayBeBase64(data)))
    throw unreadable(field)
}

// Percent signs are rare there, and are decoded to tell.
function mayBeBase64(data: string): boolean {
  if (data.includes('%')) return normalizeBase64(data) !== null
  const padding = data.indexOf('=')
  const end = padding === -1 ? data.length : padding
  return !NO_BASE64.test(data) && !/[^=\s]/.test(data.slice(end)) && data.slice(end).length <= 64
}

const NO_BASE64 = /[^A-Za-z0-9+/_\s=-]/

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

/** A multiple of three bytes: their base64 needs no padding. */
const PART = 48 * 1024

/**
 * Returns a plain text as a `data:` URL in base64. That of a large one is put together in place: as
 * two texts that are joined it would be there twice.
 */
export function toTextUrl(text: string): string {
  const bytes = Buffer.from(text)
  const url = Buffer.allocUnsafe(TEXT_HEAD.length + 4 * Math.ceil(bytes.length / 3))
  let end = url.write(TEXT_HEAD, 'latin1')
  for (let at = 0; at < bytes.length; at += PART)
    end += url.write(bytes.toString('base64', at, Math.min(at + PART, bytes.length)), end, 'latin1')
  releaseBytes(bytes)
  const result = url.toString('latin1', 0, end)
  releaseBytes(url)
  return result
}

const TEXT_HEAD = 'data:text/plain;base64,'

const PLAIN = /^data:text\/plain[;,]/i

/**
 * Reads the text of a `data:` URL of plain text. Undefined for any other URL. Throws as
 * `parseDataUrl` does.
 */
export const readPlainText = (url: string, field?: string): string | undefined =>
  PLAIN.test(url) ? decodeMediaText(parseDataUrl(url, field), readCharset(url), field) : undefined

const CHARSET = /^data:[^,]{0,150};\s*charset=["']?([\w-]+)/i

/** Returns the encoding that a `data:` URL states for its text; empty if it states none. */
export const readCharset = (url: string): string => CHARSET.exec(url.slice(0, 200))?.[1] ?? ''

/**
 * Decodes the bytes of a text: UTF-16 where a byte order mark, the stated `charset` or zeros in
 * every other byte say so, otherwise UTF-8, or else the stated encoding. Throws 400, naming `field`,
 * for bytes that are in none of these: a guess would garble them.
 */
export function decodeMediaText(
  { data }: Pick<Media, 'data'>,
  charset = '',
  field?: string,
): string {
  const bytes = Buffer.from(data, 'base64')
  const encoding = detectUtf16(bytes, charset.toLowerCase())
  const text = encoding
    ? new TextDecoder(encoding).decode(bytes)
    : decodePlain(bytes, charset, field)
  releaseBytes(bytes)
  return text
}

function decodePlain(bytes: Buffer, charset: string, field: string | undefined): string {
  if (isUtf8(bytes)) return bytes.toString()
  try {
    return new TextDecoder(charset || 'utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw invalid(`${field ?? 'file'}: expected a text in UTF-8, or one with its charset`, field)
  }
}

/**
 * Tells whether bytes of an unknown type look like text: no controls, and valid UTF-8 or UTF-16.
 */
export function looksLikeText(data: string): boolean {
  // A multiple of four digits; a character may be cut in two at the end.
  const bytes = Buffer.from(data.slice(0, 2_048), 'base64')
  const encoding = detectUtf16(bytes, '')
  const text = (encoding ? new TextDecoder(encoding).decode(bytes) : bytes.toString()).slice(0, -4)
  return bytes.length > 0 && !NOT_IN_TEXT.test(text)
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: controls that texts do not have.
const NOT_IN_TEXT = /[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]/

function detectUtf16(bytes: Buffer, charset: string): 'utf-16le' | 'utf-16be' | null {
  const mark = bytes.length >= 2 ? bytes.readUInt16BE(0) : 0
  if (mark === 0xfffe) return 'utf-16le'
  if (mark === 0xfeff) return 'utf-16be'
  if (charset.startsWith('utf-16')) return charset === 'utf-16be' ? 'utf-16be' : 'utf-16le'
  const [even, odd] = countZeros(bytes.subarray(0, 1_024))
  const most = Math.min(bytes.length, 1_024) / 2
  if (odd > MOSTLY * most && even === 0) return 'utf-16le'
  return even > MOSTLY * most && odd === 0 ? 'utf-16be' : null
}

const MOSTLY = 0.3

/** Counts the zeros at even and at odd places. */
function countZeros(bytes: Buffer): [even: number, odd: number] {
  const counts: [number, number] = [0, 0]
  for (let i = 0; i < bytes.length; i++) if (bytes[i] === 0) counts[i % 2 === 0 ? 0 : 1] += 1
  return counts
}

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
export function normalizeBase64(body: string): string | null {
  const text = body.includes('%') ? decodePercent(body).toString('latin1') : body
  const bytes = decodeBase64(text)
  if (!bytes) return null
  const standard = isStandardBase64(text, bytes.length)
    ? text
    : Buffer.from(bytes).toString('base64')
  releaseBytes(bytes)
  return standard
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
