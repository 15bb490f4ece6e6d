import { isUtf8 } from 'node:buffer'
import { Cancellation } from '../base/cancellation.ts'
import { Timeout } from '../base/clock.ts'
import type { Media } from '../base/data-url.ts'
import { type ErrorType, GatewayError } from '../base/errors.ts'
import type { Media as MediaKind } from '../translation/protocols/protocol.ts'
import type { IncomingResponse } from './egress.ts'
import { type CheckedUrl, checkUntrustedUrl } from './untrusted-url.ts'
import type { UpstreamWorld } from './world.ts'

/** What to fetch for a caller, and its limits. */
export interface MediaRequest {
  kind: MediaKind
  /** The field of the request that holds the URL. */
  field?: string
  /** The most bytes, decompressed. 20 MiB by default. */
  maxBytes?: number
  /** The limit for the whole download. 20 seconds by default. */
  timeoutMilliseconds?: number
  /** Ends the download, which is its only listener: concurrent downloads need a branch each. */
  cancellation?: Cancellation
  /** Resolves once there is memory for so many bytes more, which takes none of its time. */
  onLarge?(more: number): Promise<void>
}

const MEBIBYTE = 1024 * 1024
const LARGEST = 20 * MEBIBYTE
const TIMEOUT = 20_000
const MAX_REDIRECTS = 3

/**
 * Fetches media that a caller named by URL, for a provider that accepts only bytes. Only public
 * hosts are called, each at the address that was checked, redirects included. The media type is
 * detected from the bytes, whatever the server claims. For an image throws `image_not_found`,
 * `image_download_failed`, `image_too_large` or `unsupported_image_format`; for other media, and
 * for a URL that may not be called, `invalid_request`. No message repeats what the server sent.
 */
export async function fetchMedia(
  world: UpstreamWorld,
  url: string,
  request: MediaRequest,
): Promise<Media> {
  const limit = new Cancellation()
  const timeout = new Timeout(request.timeoutMilliseconds ?? TIMEOUT, () =>
    limit.cancel(mediaError('failed', request)),
  )
  request.cancellation?.listen(reason => limit.cancel(reason))
  try {
    const bytes = await download(world, url, pauseWhileWaiting(request, timeout), limit)
    return { media_type: await detectType(bytes, request), data: bytes.toString('base64') }
  } catch (thrown) {
    throw (
      limit.reason ??
      (thrown instanceof GatewayError ? thrown : mediaError('failed', request, thrown))
    )
  } finally {
    timeout.stop()
    request.cancellation?.listen(null)
  }
}

/** Returns a request whose time stands still while it waits for memory. */
function pauseWhileWaiting(request: MediaRequest, timeout: Timeout): MediaRequest {
  const { onLarge, timeoutMilliseconds = TIMEOUT } = request
  if (!onLarge) return request
  const startedAt = performance.now()
  let waited = 0
  return {
    ...request,
    async onLarge(more) {
      const waitsSince = performance.now()
      timeout.stop()
      await onLarge(more)
      const now = performance.now()
      waited += now - waitsSince
      timeout.restart(Math.max(1, timeoutMilliseconds - (now - startedAt - waited)))
    },
  }
}

type MediaProblem = 'missing' | 'failed' | 'large' | 'format'

const IMAGE_ERROR_TYPES: Record<MediaProblem, ErrorType> = {
  missing: 'image_not_found',
  failed: 'image_download_failed',
  large: 'image_too_large',
  format: 'unsupported_image_format',
}

const SENTENCES: Record<MediaProblem, string> = {
  missing: 'was not found',
  failed: 'could not be downloaded',
  large: 'is too large',
  format: 'is in a format that is not supported',
}

function mediaError(
  problem: MediaProblem,
  { kind, field }: MediaRequest,
  cause?: unknown,
): GatewayError {
  const type = kind === 'image' ? IMAGE_ERROR_TYPES[problem] : 'invalid_request'
  return new GatewayError(type, `The ${kind} ${SENTENCES[problem]}`, {
    metadata: field === undefined ? {} : { field },
    cause,
  })
}

async function download(
  world: UpstreamWorld,
  namedUrl: string,
  request: MediaRequest,
  limit: Cancellation,
): Promise<Buffer> {
  let checked = await limit.awaitUnlessCancelled(checkUntrustedUrl(world, namedUrl, request.field))
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const result = await requestUrl(world, checked, request, limit)
    if (typeof result !== 'string') return result
    checked = await limit.awaitUnlessCancelled(
      checkUntrustedUrl(world, result, request.field, checked.url),
    )
  }
  throw mediaError('failed', request)
}

const HEADERS = {
  accept: '*/*',
  'accept-encoding': 'identity',
  'user-agent': 'gateway',
  connection: 'close',
}
const REDIRECTS = [301, 302, 303, 307, 308]

/** Requests a URL. Returns its bytes, or the target of a redirect. Always closes the connection. */
async function requestUrl(
  world: UpstreamWorld,
  checked: CheckedUrl,
  request: MediaRequest,
  limit: Cancellation,
): Promise<Buffer | string> {
  const cancellation = new Cancellation()
  const ended = Promise.withResolvers<never>()
  ended.promise.catch(() => undefined)
  limit.listen(reason => {
    cancellation.cancel(reason)
    ended.reject(reason)
  })
  try {
    const incoming = await world.egress.send(
      { method: 'GET', ...checked, headers: HEADERS, body: '' },
      cancellation,
    )
    const redirectUrl = REDIRECTS.includes(incoming.status) ? incoming.header('location') : null
    return redirectUrl ?? (await Promise.race([readMediaBytes(incoming, request), ended.promise]))
  } finally {
    cancellation.cancel(DOWNLOAD_OVER)
  }
}

const DOWNLOAD_OVER = new GatewayError('unmapped', 'The download is over')

async function readMediaBytes(incoming: IncomingResponse, request: MediaRequest): Promise<Buffer> {
  if (incoming.status === 404 || incoming.status === 410) throw mediaError('missing', request)
  if (incoming.status !== 200) throw mediaError('failed', request)
  return gatherBytes(incoming, request)
}

const FIRST_ROOM = 64 * 1024

/** In bytes: what is larger waits for memory. */
const LARGE = 256 * 1024

// One buffer that doubles: a list of chunks would be many times larger if they came byte by byte.
async function gatherBytes(incoming: IncomingResponse, request: MediaRequest): Promise<Buffer> {
  let buffer: Buffer = Buffer.allocUnsafe(FIRST_ROOM)
  let size = 0
  for (let bytes = await incoming.read(); bytes; bytes = await incoming.read()) {
    if (size + bytes.length > (request.maxBytes ?? LARGEST)) throw mediaError('large', request)
    if (size + bytes.length > buffer.length) {
      const wanted = Math.max(buffer.length * 2, size + bytes.length)
      const counted = buffer.length > LARGE ? buffer.length : 0
      // Its server waits meanwhile.
      if (wanted > LARGE) await request.onLarge?.(wanted - counted)
      buffer = enlargeBuffer(buffer, wanted)
    }
    buffer.set(bytes, size)
    size += bytes.length
  }
  return buffer.subarray(0, size)
}

function enlargeBuffer(buffer: Buffer, size: number): Buffer {
  const larger = Buffer.allocUnsafe(size)
  larger.set(buffer)
  return larger
}

/**
 * The bytes from which an image, audio or video is detected. A file may be a container, which is
 * detected by its contents, so all of it is examined.
 */
const SAMPLE = 8192

async function detectType(bytes: Buffer, request: MediaRequest): Promise<string> {
  // Loaded on first use: few calls need it, and every start would pay for it.
  const { fileTypeFromBuffer } = await import('file-type')
  const detected = await fileTypeFromBuffer(
    request.kind === 'file' ? bytes : bytes.subarray(0, SAMPLE),
  )
  const type = detected
    ? normalizeMimeType(detected.mime)
    : isText(bytes)
      ? 'text/plain'
      : undefined
  if (type === undefined || !matchesKind(type, request.kind)) throw mediaError('format', request)
  return type
}

// An animated PNG is a valid PNG, also for programs that do not support animation.
const normalizeMimeType = (mime: string) =>
  mime === 'image/apng' ? 'image/png' : mime.replace(/;.*$/, '')

const isText = (bytes: Buffer) => bytes.length > 0 && isUtf8(bytes) && !bytes.includes(0)

const matchesKind = (type: string, kind: MediaKind) =>
  kind === 'file' || type.startsWith(`${kind}/`)
