import type { ByteRange } from '../../base/byte-source.ts'
import { Cancellation } from '../../base/cancellation.ts'
import { conflict, GatewayError, notFound } from '../../base/errors.ts'
import { Deadline } from '../../network/answer.ts'
import type { IncomingResponse } from '../../network/egress.ts'
import { checkUntrustedUrl } from '../../network/untrusted-url.ts'
import { hasEnded, type VideoJob } from '../../resources/videos.ts'
import type { ExtensionWorld } from '../world.ts'
import { askJobProvider, getJobProtocol, getJobProvider, sendToJobProvider } from './ask.ts'
import { parseOutputs } from './view.ts'

/** The bytes of a video, or some of them, as they arrive, and their type. */
export interface VideoContent {
  media_type: string
  content: AsyncIterator<Uint8Array>
  /** How many bytes the video has; null where only its end will tell. */
  size: number | null
  /** Which of them these are; undefined for all. */
  range: ByteRange | undefined
  /** What tells a client whether it is the same video later: `etag` and `last-modified`. */
  validators: Record<string, string>
}

/** Which bytes of a video a client asks for (RFC 9110, 14). */
export interface RangeWish {
  /** Its headers as they are; null without one. */
  range: string | null
  if_range: string | null
  /** Returns those of so many bytes; undefined for all of them. */
  choose(size: number): ByteRange | undefined
}

/** The most bytes of one video: 1 GiB. */
const LARGEST = 1024 * 1024 * 1024

/**
 * Opens a video of a job at its provider: what is kept there with the credential that made it, what
 * is elsewhere without any, and from public hosts alone. A range is asked for there, and is cut out
 * of a video that comes whole. Throws 409 while the job goes on, 410 where there is no video any more
 * or never was one, 404 for an index without one, 416 for a range that it does not have, and 502 for
 * what is no video.
 */
export async function openVideoContent(
  world: ExtensionWorld,
  job: VideoJob,
  index: number,
  wish: RangeWish = WHOLE,
): Promise<VideoContent> {
  if (!hasEnded(job)) throw conflict('The video is not ready yet')
  if (job.status !== 'completed') throw gone(`The job has no video: it is ${job.status}`)
  const output = parseOutputs(job)[index]
  if (output === undefined) throw notFound(`The job has no video ${index}`)
  const cancellation = new Cancellation()
  const deadline = new Deadline(cancellation, readLimits(world))
  try {
    const source = await openOutput(world, job, output, { deadline, headers: renderWish(wish) })
    return await admitVideo(source, wish, deadline)
  } catch (thrown) {
    const failure = toFailure(deadline.attempt.reason ?? thrown)
    deadline.abort()
    throw failure
  }
}

const WHOLE: RangeWish = { range: null, if_range: null, choose: () => undefined }

const isRange = (range: string | null): range is string => /^bytes=\d*-\d*$/.test(range ?? '')

const renderWish = ({ range, if_range }: RangeWish): Record<string, string> =>
  isRange(range) ? { range, ...(if_range === null ? {} : { 'if-range': if_range }) } : {}

const gone = (message: string) => new GatewayError('not_found', message, { status: 410 })

const noVideo = (cause?: unknown) =>
  new GatewayError('provider_unavailable', 'Provider returned error', {
    cause,
    reason: { code: null, message: 'The answer of the provider is no video' },
  })

// What our caller has asked for is right: another refusal is about what the provider has said.
const toFailure = (thrown: unknown): GatewayError =>
  thrown instanceof GatewayError && [410, 416, 502, 503].includes(thrown.status)
    ? thrown
    : noVideo(thrown)

const readLimits = ({ config: { timeouts } }: ExtensionWorld) => ({
  firstByte: timeouts.first_byte_stream_seconds * 1000,
  idle: timeouts.idle_seconds * 1000,
  total: timeouts.total_seconds * 1000,
})

/** Something that is read piece by piece. */
type Source = Pick<IncomingResponse, 'read' | 'header' | 'status'>

/** What a video is asked for with. */
interface Asking {
  deadline: Deadline
  headers: Record<string, string>
}

async function openOutput(
  world: ExtensionWorld,
  job: VideoJob,
  output: string,
  { deadline, headers }: Asking,
): Promise<Source> {
  if (output.startsWith('inline:')) return readInline(world, job, output, deadline)
  const path = findPath(getJobProvider(world, job).base_url, output)
  if (path === null) return openUrl(world, output, { deadline, headers })
  const incoming = await sendToJobProvider(
    world,
    job,
    { method: 'GET', path, body: {}, headers: { ...headers, 'accept-encoding': 'identity' } },
    deadline.attempt,
  )
  const redirect = readRedirect(incoming)
  return redirect === null
    ? requireContent(incoming)
    : openUrl(world, redirect, { deadline, headers })
}

/** Returns the path of what is at the provider itself; null for anything else. */
function findPath(base_url: string, output: string): string | null {
  if (output.startsWith('/')) return output
  const { href } = new URL(output)
  return href.startsWith(`${base_url}/`) ? href.slice(base_url.length) : null
}

const REDIRECTS = [301, 302, 303, 307, 308]
const MAX_REDIRECTS = 3
const HEADERS = { accept: '*/*', 'accept-encoding': 'identity', 'user-agent': 'gateway' }

const readRedirect = (incoming: IncomingResponse): string | null =>
  REDIRECTS.includes(incoming.status) ? incoming.header('location') : null

/** Opens a URL that the provider has named: each host is checked, redirects included. */
async function openUrl(
  world: ExtensionWorld,
  url: string,
  { deadline, headers }: Asking,
): Promise<Source> {
  let checked = await checkUntrustedUrl(world, url)
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const incoming = await world.egress.send(
      { method: 'GET', ...checked, headers: { ...HEADERS, ...headers }, body: '' },
      deadline.attempt,
    )
    const redirect = readRedirect(incoming)
    if (redirect === null) return requireContent(incoming)
    checked = await checkUntrustedUrl(world, redirect, undefined, checked.url)
  }
  throw noVideo()
}

function requireContent(incoming: IncomingResponse): IncomingResponse {
  if (incoming.status === 404 || incoming.status === 410)
    throw gone('The provider does not keep the video any more')
  if (![200, 206, 416].includes(incoming.status)) throw noVideo()
  return incoming
}

/** Asks once more for an answer that has the video in it. */
async function readInline(
  world: ExtensionWorld,
  job: VideoJob,
  output: string,
  deadline: Deadline,
): Promise<Source> {
  const protocol = getJobProtocol(job)
  const { upstream_id, upstream_model: upstreamModel } = job
  const request = protocol.buildPoll({ upstream_id, upstreamModel })
  const { status, body } = await askJobProvider(world, job, request, deadline.attempt)
  if (status === 404 || status === 410) throw gone('The provider does not keep the video any more')
  const base64 = protocol.readInline?.(body, Number(output.slice('inline:'.length)))
  if (status !== 200 || base64 === undefined) throw noVideo()
  let bytes: Uint8Array | null = Buffer.from(base64, 'base64')
  const { length } = bytes
  return {
    status: 200,
    header: name => (name === 'content-length' ? String(length) : null),
    read: async () => {
      const whole = bytes
      bytes = null
      return whole
    },
  }
}

/** The bytes by which a type is known. */
const SAMPLE = 8_192

/** Reads the beginning of a video, and refuses what is none. */
async function admitVideo(
  source: Source,
  wish: RangeWish,
  deadline: Deadline,
): Promise<VideoContent> {
  if (source.status === 416) throw refuseRange(/\/(\d+)$/.exec(readRangeHeader(source))?.[1])
  const validators = readValidators(source)
  if (source.status === 206) return admitRange(source, validators, deadline)
  const { head, type } = await readHead(source, deadline)
  const size = readSize(source)
  const isSame = wish.if_range === null || Object.values(validators).includes(wish.if_range)
  const wanted = size !== null && isRange(wish.range) && isSame ? wish.choose(size) : undefined
  if (size !== null && !wanted && isRange(wish.range) && isSame) throw refuseRange(String(size))
  const range = wanted && wanted.start <= MOST_SKIPPED ? wanted : undefined
  const content = readVideo(head, source, deadline)
  return {
    media_type: type,
    content: range ? cutRange(content, range) : content,
    ...{ size, range, validators },
  }
}

/**
 * No more bytes are read to be thrown away: a client that asks for the end of a long video again and
 * again gets all of it, and has to read it.
 */
const MOST_SKIPPED = 64 * 1024 * 1024

/** The provider has cut out what was asked for. Of its beginning alone a type is known. */
async function admitRange(
  source: Source,
  validators: Record<string, string>,
  deadline: Deadline,
): Promise<VideoContent> {
  const [, first, last, all] =
    /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15}|\*)$/.exec(readRangeHeader(source)) ?? []
  const [start, length] = [Number(first), Number(last) - Number(first) + 1]
  if (first === undefined || !(length > 0)) throw noVideo()
  const named = source.header('content-type') ?? ''
  const { head, type } =
    start === 0 && length >= SAMPLE
      ? await readHead(source, deadline)
      : { head: [], type: /^video\/[\w.+-]+/.exec(named)?.[0] ?? 'video/mp4' }
  return {
    media_type: type,
    content: readVideo(head, source, deadline),
    size: all === '*' ? null : Number(all),
    range: { start, length },
    validators,
  }
}

const readRangeHeader = (source: Source): string => source.header('content-range') ?? ''

/** Throws 416, with how many bytes there are. */
const refuseRange = (size: string | undefined) =>
  new GatewayError('invalid_request', 'The video does not have these bytes', {
    status: 416,
    metadata: size === undefined ? {} : { headers: { 'content-range': `bytes */${size}` } },
  })

function readSize(source: Source): number | null {
  const length = source.header('content-length')
  const isPlain = source.header('content-encoding') === null && /^\d{1,15}$/.test(length ?? '')
  return isPlain ? Number(length) : null
}

const readValidators = (source: Source): Record<string, string> =>
  Object.fromEntries(
    ['etag', 'last-modified'].flatMap(name => {
      const value = source.header(name)
      return value === null ? [] : [[name, value]]
    }),
  )

/** Returns some of the bytes, and ends the rest. */
async function* cutRange(
  content: AsyncGenerator<Uint8Array>,
  { start, length }: ByteRange,
): AsyncGenerator<Uint8Array> {
  let at = 0
  for await (const piece of content) {
    const from = Math.max(start - at, 0)
    const to = Math.min(start + length - at, piece.length)
    at += piece.length
    if (from < to) yield piece.subarray(from, to)
    if (at >= start + length) return
  }
}

/** Reads the bytes by which a type is known. Throws 502 for what is no video. */
async function readHead(source: Source, deadline: Deadline) {
  const head: Uint8Array[] = []
  let size = 0
  while (size < SAMPLE) {
    const bytes = await source.read()
    if (!bytes) break
    deadline.touch(bytes.length)
    head.push(bytes)
    size += bytes.length
  }
  // Loaded on first use: few calls need it, and every start would pay for it.
  const { fileTypeFromBuffer } = await import('file-type')
  const type = (await fileTypeFromBuffer(Buffer.concat(head).subarray(0, SAMPLE)))?.mime
  if (!type?.startsWith('video/')) throw noVideo()
  return { head, type }
}

/** The pieces of a video. It breaks off where there are too many, or where its provider stops. */
async function* readVideo(
  head: Uint8Array[],
  source: Source,
  deadline: Deadline,
): AsyncGenerator<Uint8Array> {
  let size = 0
  try {
    const readNext = async () => head.shift() ?? (await source.read())
    for (let piece = await readNext(); piece; piece = await readNext()) {
      deadline.touch(piece.length)
      size += piece.length
      if (size > LARGEST) throw noVideo()
      // A client that pauses is no silence of the provider.
      deadline.pause()
      yield piece
      deadline.resume()
    }
  } catch (thrown) {
    throw toFailure(deadline.attempt.reason ?? thrown)
  } finally {
    deadline.abort()
  }
}
