import { isUtf8 } from 'node:buffer'
import { type ErrorType, GatewayError } from '../errors.ts'
import { Cancellation } from '../kernel/cancellation.ts'
import type { Media } from '../kernel/data-url.ts'
import type { Media as MediaKind } from '../protocols/protocol.ts'
import type { Incoming } from './egress.ts'
import { type CheckedUrl, checkUntrustedUrl } from './untrusted-url.ts'
import type { UpstreamWorld } from './world.ts'

/** What to fetch for a caller, and its limits. */
export interface Wanted {
  kind: MediaKind
  /** The field of the request that holds the URL. */
  field?: string
  /** The most bytes, decompressed. 20 MiB by default. */
  largest?: number
  /** The limit for the whole download. 20 seconds by default. */
  patience?: number
  /** Ends the download, which is its only listener: concurrent downloads need a branch each. */
  cancellation?: Cancellation
}

const MEBIBYTE = 1024 * 1024
const LARGEST = 20 * MEBIBYTE
const PATIENCE = 20_000
const MOST_REDIRECTS = 3

/**
 * Fetches media that a caller named by URL, for a provider that accepts only bytes. Only public
 * hosts are called, each at the address that was checked, redirects included. The media type is
 * detected from the bytes, whatever the server claims. For an image throws `image_not_found`,
 * `image_download_failed`, `image_too_large` or `unsupported_image_format`; for other media, and
 * for a URL that may not be called, `invalid_request`. No message repeats what the server sent.
 */
export async function fetchMedia(
  gateway: UpstreamWorld,
  url: string,
  wanted: Wanted,
): Promise<Media> {
  const limit = new Cancellation()
  const late = setTimeout(
    () => limit.cancel(trouble('failed', wanted)),
    wanted.patience ?? PATIENCE,
  )
  wanted.cancellation?.listen(reason => limit.cancel(reason))
  try {
    const bytes = await download(gateway, url, wanted, limit)
    return { media_type: await typeOf(bytes, wanted), data: bytes.toString('base64') }
  } catch (thrown) {
    throw (
      limit.reason ?? (thrown instanceof GatewayError ? thrown : trouble('failed', wanted, thrown))
    )
  } finally {
    clearTimeout(late)
    wanted.cancellation?.listen(null)
  }
}

type Trouble = 'missing' | 'failed' | 'large' | 'format'

const IMAGE_TROUBLE: Record<Trouble, ErrorType> = {
  missing: 'image_not_found',
  failed: 'image_download_failed',
  large: 'image_too_large',
  format: 'unsupported_image_format',
}

const SENTENCES: Record<Trouble, string> = {
  missing: 'was not found',
  failed: 'could not be downloaded',
  large: 'is too large',
  format: 'is in a format that is not supported',
}

function trouble(what: Trouble, { kind, field }: Wanted, cause?: unknown): GatewayError {
  const type = kind === 'image' ? IMAGE_TROUBLE[what] : 'invalid_request'
  return new GatewayError(type, `The ${kind} ${SENTENCES[what]}`, {
    metadata: field === undefined ? {} : { field },
    cause,
  })
}

async function download(
  gateway: UpstreamWorld,
  given: string,
  wanted: Wanted,
  limit: Cancellation,
): Promise<Buffer> {
  let checked = await limit.orCancelled(checkUntrustedUrl(gateway, given, wanted.field))
  for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects++) {
    const found = await visit(gateway, checked, wanted, limit)
    if (typeof found !== 'string') return found
    checked = await limit.orCancelled(checkUntrustedUrl(gateway, found, wanted.field, checked.url))
  }
  throw trouble('failed', wanted)
}

const HEADERS = {
  accept: '*/*',
  'accept-encoding': 'identity',
  'user-agent': 'gateway',
  connection: 'close',
}
const REDIRECTS = [301, 302, 303, 307, 308]

/** Requests a URL. Returns its bytes, or the target of a redirect. Always closes the connection. */
async function visit(
  gateway: UpstreamWorld,
  checked: CheckedUrl,
  wanted: Wanted,
  limit: Cancellation,
): Promise<Buffer | string> {
  const visiting = new Cancellation()
  limit.listen(reason => visiting.cancel(reason))
  try {
    const incoming = await gateway.egress.send(
      { method: 'GET', ...checked, headers: HEADERS, body: '' },
      visiting,
    )
    const elsewhere = REDIRECTS.includes(incoming.status) ? incoming.header('location') : null
    return elsewhere ?? (await bytesOf(incoming, wanted))
  } finally {
    visiting.cancel(OVER)
  }
}

const OVER = new GatewayError('unmapped', 'The download is over')

async function bytesOf(incoming: Incoming, wanted: Wanted): Promise<Buffer> {
  if (incoming.status === 404 || incoming.status === 410) throw trouble('missing', wanted)
  if (incoming.status !== 200) throw trouble('failed', wanted)
  return gathered(incoming, wanted)
}

const FIRST_ROOM = 64 * 1024

// One buffer that doubles: a list of chunks would be many times larger if they came byte by byte.
async function gathered(incoming: Incoming, wanted: Wanted): Promise<Buffer> {
  let room: Buffer = Buffer.allocUnsafe(FIRST_ROOM)
  let size = 0
  for (let bytes = await incoming.read(); bytes; bytes = await incoming.read()) {
    if (size + bytes.length > (wanted.largest ?? LARGEST)) throw trouble('large', wanted)
    if (size + bytes.length > room.length) room = enlarged(room, size + bytes.length)
    room.set(bytes, size)
    size += bytes.length
  }
  return room.subarray(0, size)
}

function enlarged(room: Buffer, atLeast: number): Buffer {
  const larger = Buffer.allocUnsafe(Math.max(room.length * 2, atLeast))
  larger.set(room)
  return larger
}

/**
 * The bytes from which an image, audio or video is detected. A file may be a container, which is
 * detected by its contents, so all of it is examined.
 */
const SAMPLE = 8192

async function typeOf(bytes: Buffer, wanted: Wanted): Promise<string> {
  // Loaded on first use: few calls need it, and every start would pay for it.
  const { fileTypeFromBuffer } = await import('file-type')
  const found = await fileTypeFromBuffer(wanted.kind === 'file' ? bytes : bytes.subarray(0, SAMPLE))
  const type = found ? usualName(found.mime) : isText(bytes) ? 'text/plain' : undefined
  if (type === undefined || !isOfKind(type, wanted.kind)) throw trouble('format', wanted)
  return type
}

// An animated PNG is a valid PNG, also for programs that do not support animation.
const usualName = (mime: string) => (mime === 'image/apng' ? 'image/png' : mime.replace(/;.*$/, ''))

const isText = (bytes: Buffer) => bytes.length > 0 && isUtf8(bytes) && !bytes.includes(0)

const isOfKind = (type: string, kind: MediaKind) => kind === 'file' || type.startsWith(`${kind}/`)
