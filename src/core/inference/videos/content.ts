import { conflict, GatewayError, notFound } from '../../errors.ts'
import { Cancellation } from '../../kernel/cancellation.ts'
import { Deadline } from '../../upstream/answer.ts'
import type { IncomingResponse } from '../../upstream/egress.ts'
import { checkUntrustedUrl } from '../../upstream/untrusted-url.ts'
import type { InferenceWorld } from '../world.ts'
import { askJobProvider, getJobProtocol, getJobProvider, sendToJobProvider } from './ask.ts'
import { hasEnded, type VideoJob } from './store.ts'
import { parseOutputs } from './view.ts'

/** The bytes of a video, as they arrive, and their type. */
export interface VideoContent {
  media_type: string
  content: AsyncIterator<Uint8Array>
}

/** The most bytes of one video: 1 GiB. */
const LARGEST = 1024 * 1024 * 1024

/**
 * Opens a video of a job at its provider: what is kept there with the credential that made it, what
 * is elsewhere without any, and from public hosts alone. Throws 409 while the job goes on, 410 where
 * there is no video any more or never was one, 404 for an index without one, and 502 for what is no
 * video.
 */
export async function openVideoContent(
  world: InferenceWorld,
  job: VideoJob,
  index: number,
): Promise<VideoContent> {
  if (!hasEnded(job)) throw conflict('The video is not ready yet')
  if (job.status !== 'completed') throw gone(`The job has no video: it is ${job.status}`)
  const output = parseOutputs(job)[index]
  if (output === undefined) throw notFound(`The job has no video ${index}`)
  const cancellation = new Cancellation()
  const deadline = new Deadline(cancellation, readLimits(world))
  try {
    const source = await openOutput(world, job, output, deadline)
    return await admitVideo(source, deadline)
  } catch (thrown) {
    const failure = toFailure(deadline.attempt.reason ?? thrown)
    deadline.abort()
    throw failure
  }
}

const gone = (message: string) => new GatewayError('not_found', message, { status: 410 })

const noVideo = (cause?: unknown) =>
  new GatewayError('provider_unavailable', 'Provider returned error', {
    cause,
    reason: { code: null, message: 'The answer of the provider is no video' },
  })

// What our caller has asked for is right: another refusal is about what the provider has said.
const toFailure = (thrown: unknown): GatewayError =>
  thrown instanceof GatewayError && [410, 502, 503].includes(thrown.status)
    ? thrown
    : noVideo(thrown)

const readLimits = ({ config: { timeouts } }: InferenceWorld) => ({
  firstByte: timeouts.first_byte_stream_seconds * 1000,
  idle: timeouts.idle_seconds * 1000,
  total: timeouts.total_seconds * 1000,
})

/** Something that is read piece by piece. */
type Source = Pick<IncomingResponse, 'read'>

async function openOutput(
  world: InferenceWorld,
  job: VideoJob,
  output: string,
  deadline: Deadline,
): Promise<Source> {
  if (output.startsWith('inline:')) return readInline(world, job, output, deadline)
  const path = findPath(getJobProvider(world, job).base_url, output)
  if (path === null) return openUrl(world, output, deadline)
  const incoming = await sendToJobProvider(
    world,
    job,
    { method: 'GET', path, body: {} },
    deadline.attempt,
  )
  const redirect = readRedirect(incoming)
  return redirect === null ? requireContent(incoming) : openUrl(world, redirect, deadline)
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
async function openUrl(world: InferenceWorld, url: string, deadline: Deadline): Promise<Source> {
  let checked = await checkUntrustedUrl(world, url)
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    const incoming = await world.egress.send(
      { method: 'GET', ...checked, headers: HEADERS, body: '' },
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
  if (incoming.status !== 200) throw noVideo()
  return incoming
}

/** Asks once more for an answer that has the video in it. */
async function readInline(
  world: InferenceWorld,
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
  return {
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
async function admitVideo(source: Source, deadline: Deadline): Promise<VideoContent> {
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
  return { media_type: type, content: readVideo(head, source, deadline) }
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
