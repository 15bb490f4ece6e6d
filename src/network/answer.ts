import { Cancellation } from '../base/cancellation.ts'
import { Timeout, yieldToEventLoop } from '../base/clock.ts'
import { GatewayError } from '../base/errors.ts'
import type { PeekedSequence } from '../base/iterate.ts'
import { getOwn, parseExact } from '../base/json.ts'
import { parseLargeJson } from '../base/large-json.ts'
import { mendEscapes } from '../base/printable.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Endpoint } from '../resources/models/catalog.ts'
import type { Provider } from '../resources/providers/provider.ts'
import { buildReason, findMessage } from '../translation/protocols/failure.ts'
import type { FollowUp, Protocol } from '../translation/protocols/protocol.ts'
import { cleanReason } from './clean-reason.ts'
import {
  ConnectionFailed,
  type IncomingResponse,
  NO_DESCRIPTOR,
  type OutgoingRequest,
} from './egress.ts'
import { readBodyText } from './http/exchange.ts'
import { type EventRoom, PartStream } from './part-stream.ts'
import type { UpstreamWorld } from './world.ts'

/** Texts of more characters are read in a turn of their own, and their parts are made in another. */
const LONG_ANSWER = 64 * 1024
const LARGEST_ERROR = 256 * 1024

/** Follows an answer while it arrives. */
export interface AnswerObserver {
  /** Called as soon as the head is read. */
  onHead(head: ResponseHead): void
  /** Called then, to read headers. */
  onHeaders?(response: Pick<IncomingResponse, 'header'>): void
  /** Called for each read that brings bytes, with their number. */
  onBytes?(size: number): void
  /**
   * Called when a whole answer turns out to be large, with the bytes that it has or is expected to
   * have; again if it has more. It is read on when this resolves.
   */
  onLarge?(bytes: number): Promise<void>
}

/** Whose answer a request expects, and what ends the wait for it. */
interface ExpectedAnswer<K extends Kind> {
  protocol: Protocol<K>
  endpoint: Endpoint
  call: Work[K]['call']
  cancellation: Cancellation
}

/**
 * Sends one request and opens its answer as batches of parts. Whether it streams is the provider's
 * choice: a streamed answer comes as it arrives, and its first batch is empty; a whole one comes at
 * once. Throws failures in our caller's terms.
 */
export async function openAnswer<K extends Kind>(
  world: UpstreamWorld,
  outgoing: OutgoingRequest,
  { protocol, endpoint, call, cancellation }: ExpectedAnswer<K>,
  { onHead, onHeaders, onBytes, onLarge }: AnswerObserver,
): Promise<PeekedSequence<Work[K]['part'][]>> {
  const limits = readLimits(world, call.stream)
  const deadline = new Deadline(cancellation, limits, { provider: endpoint.provider, onBytes })
  try {
    const incoming = await world.egress.send(outgoing, deadline.attempt)
    onHead({ status: incoming.status, request_id: readUpstreamRequestId(incoming) })
    onHeaders?.(incoming)
    if (incoming.status !== 200) throw await readProviderFailure(protocol, incoming, deadline)
    const largest = world.config.limits.answer_mib * 1024 * 1024
    const expected = { protocol, endpoint, call, largest, waitForMemory: onLarge }
    const stream = openStream(incoming, expected, deadline)
    if (stream) return { first: [], rest: stream }
    const read =
      onLarge && mayBeLarge(incoming) ? waitWhereLarge(incoming, onLarge, deadline) : incoming
    const body = read.text(largest, size => deadline.touch(size))
    const text = typeof body === 'string' ? body : await body
    const isLong = text.length > LONG_ANSWER
    const sent = isLong ? await parseLongAnswer(text) : parseAnswer(text)
    if (isLong) await yieldToEventLoop()
    const next = protocol.readPending?.(sent, endpoint, null)
    const answer = next ? await awaitResult(world, { protocol, endpoint, next }, deadline) : sent
    const first = protocol.parseAnswer(answer, call, endpoint)
    if (isLong) await yieldToEventLoop()
    deadline.close()
    return { first, rest: null }
  } catch (thrown) {
    const error = deadline.toGatewayError(thrown)
    deadline.abort()
    throw error
  }
}

/** The names of the header with a provider's own id of a request; the first that is there counts. */
const REQUEST_ID_HEADERS = [
  'x-request-id',
  'request-id',
  'x-amzn-requestid',
  'apim-request-id',
  'x-goog-request-id',
  'x-cloud-trace-context',
  'cf-ray',
]

const REQUEST_ID = /^[\w.:;=/+-]{1,200}$/

/** Reads the provider's own id of a request, which its support asks for. Null if there is none. */
function readUpstreamRequestId(incoming: IncomingResponse): string | null {
  for (const name of REQUEST_ID_HEADERS) {
    const id = incoming.header(name)
    if (id !== null && REQUEST_ID.test(id)) return id
  }
  return null
}

/** An answer of more bytes takes much memory until it has been passed on. */
const LARGE = 256 * 1024

/** An answer of unknown length is expected to have so many times what has come of it. */
const EXPECTED = 4

const readStatedLength = (incoming: Pick<IncomingResponse, 'header'>): number =>
  Number(incoming.header('content-length') ?? Number.NaN)

// One that says that it is small is read at once where it has come. A compressed one says nothing.
const mayBeLarge = (incoming: IncomingResponse): boolean =>
  !(readStatedLength(incoming) <= LARGE) || incoming.header('content-encoding') !== null

/** Returns the body of a response, which waits each time that it turns out to be larger. */
function waitWhereLarge(
  incoming: Pick<IncomingResponse, 'header' | 'read'>,
  onLarge: (bytes: number) => Promise<void>,
  deadline: Deadline,
): Pick<IncomingResponse, 'text'> {
  let [size, expected] = [0, LARGE]
  const stated = readStatedLength(incoming)
  const read = async () => {
    const bytes = await incoming.read()
    size += bytes?.length ?? 0
    if (size <= expected) return bytes
    expected = stated > size ? stated : size * EXPECTED
    // What is read is only good until the next read; the upstream waits meanwhile.
    deadline.pause()
    await onLarge(expected)
    deadline.resume()
    return bytes
  }
  return { text: (maxBytes, onBytes) => readBodyText({ read }, maxBytes, onBytes) }
}

/** A protocol whose work goes on, and what to ask for it. */
interface Pending {
  protocol: Protocol<Kind>
  endpoint: Endpoint
  next: FollowUp
}

/** Waits for work that goes on after its answer, and returns the answer that ends it. */
async function awaitResult(
  world: UpstreamWorld,
  { protocol, endpoint, next }: Pending,
  deadline: Deadline,
): Promise<unknown> {
  // Loaded on first use: few providers work in their own time.
  const { pollResult } = await import('./poll.ts')
  const largest = world.config.limits.answer_mib * 1024 * 1024
  return pollResult(world, {
    provider: endpoint.provider,
    next,
    readNext: (answer, asked) => protocol.readPending?.(answer, endpoint, asked) ?? null,
    cancellation: deadline.attempt,
    async ask(outgoing) {
      const incoming = await world.egress.send(outgoing, deadline.attempt)
      if (incoming.status !== 200) throw await readProviderFailure(protocol, incoming, deadline)
      return parseLongAnswer(await incoming.text(largest, size => deadline.touch(size)))
    },
  })
}

/** What is known of a response before its body. */
export interface ResponseHead {
  status: number
  /** The provider's own id of the request; null if it sends none. */
  request_id: string | null
}

function readLimits({ config: { timeouts } }: UpstreamWorld, streamed: boolean): Limits {
  const firstByte = streamed ? timeouts.first_byte_stream_seconds : timeouts.first_byte_seconds
  return {
    firstByte: firstByte * 1000,
    idle: timeouts.idle_seconds * 1000,
    total: timeouts.total_seconds * 1000,
  }
}

/** Opens the answer as a stream, if it is one: of events, or of bytes. */
function openStream<K extends Kind>(
  incoming: IncomingResponse,
  expected: Omit<ExpectedAnswer<K>, 'cancellation'> & EventRoom,
  deadline: Deadline,
): PartStream<Work[K]['part']> | null {
  const { protocol, endpoint, call, largest, waitForMemory } = expected
  if (protocol.createByteReader && isBytes(incoming))
    return new PartStream(incoming, protocol.createByteReader(call, endpoint), 'bytes', deadline)
  if (!isStream(incoming, call.stream)) return null
  const reader = protocol.createReader(call, endpoint)
  // A picture comes in one event, and streamed it is no smaller than in a whole answer.
  const isText = call.kind === 'text' && endpoint.output_modalities.length === 1
  return new PartStream(incoming, reader, protocol.framing, deadline, {
    largest: isText ? Math.min(largest, LARGEST_OF_TEXT) : largest,
    waitForMemory,
  })
}

/** The most bytes of one event of texts: as many as a protocol holds back of what has to be whole. */
const LARGEST_OF_TEXT = 16 * 1024 * 1024

// A type that is missing says nothing, so the reader looks at the bytes.
function isBytes(incoming: IncomingResponse): boolean {
  const type = incoming.header('content-type') ?? ''
  return !/^text\/(?!plain)|json|eventstream/i.test(type)
}

function isStream(incoming: IncomingResponse, streamed: boolean): boolean {
  const type = incoming.header('content-type') ?? ''
  if (type.includes('text/event-stream') || type.includes('application/vnd.amazon.eventstream'))
    return true
  if (type.includes('json')) return false
  if (type.startsWith('text/html')) throw unreadable()
  return streamed
}

async function readProviderFailure(
  protocol: Protocol<Kind>,
  incoming: IncomingResponse,
  deadline: Deadline,
): Promise<GatewayError> {
  const text = await Promise.resolve(
    incoming.text(LARGEST_ERROR, size => deadline.touch(size)),
  ).catch(() => '')
  const body = await parseLargeJson(text).catch(() => undefined)
  const failure = protocol.readFailure(incoming.status, body, name => incoming.header(name))
  const error = failure.reason?.message ? failure : addReason(failure, body, text)
  const retryAfter =
    parseRetryAfterMs(incoming.header('retry-after-ms')) ??
    parseRetryAfter(incoming.header('retry-after'))
  if (
    retryAfter === undefined ||
    !(error.type === 'rate_limit_exceeded' || ASKS_TO_WAIT.has(incoming.status))
  )
    return error
  return error.with({ retryAfter })
}

// A proxy before the provider answers with a text or a page, and some servers in forms of their own.
function addReason(error: GatewayError, body: unknown, text: string): GatewayError {
  const message = body === undefined ? readPage(text) : findMessage(body)
  return error.with({ reason: buildReason(error.reason?.code, message) })
}

const readPage = (text: string): string =>
  /<title>([^<]{1,200})/i.exec(text.slice(0, 10_000))?.[1] ?? (/^\s*</.test(text) ? '' : text)

/**
 * Statuses that may carry Retry-After: too many requests, unavailable (RFC 9110, 15.6.4), and
 * Anthropic's status for overloaded.
 */
const ASKS_TO_WAIT = new Set([429, 503, 529])

const LONGEST_RETRY_AFTER = 300

/**
 * Parses Retry-After (RFC 9110, 10.2.3), a number or a date, into whole seconds from 0 to 300.
 * Returns undefined for anything else.
 */
export function parseRetryAfter(value: string | null, now = Date.now()): number | undefined {
  if (value === null) return undefined
  if (NUMBER.test(value.trim())) return toWholeSeconds(Number(value))
  return TIME.test(value) ? toWholeSeconds((Date.parse(value) - now) / 1000) : undefined
}

/** Parses `retry-after-ms` into seconds. OpenAI's and Azure's servers send it, as it is finer. */
export const parseRetryAfterMs = (value: string | null): number | undefined =>
  value !== null && NUMBER.test(value.trim()) ? toWholeSeconds(Number(value) / 1000) : undefined

// Some providers send fractions of seconds, which a lenient date parser takes for a date.
const NUMBER = /^-?\d+(?:\.\d+)?$/
const TIME = /\d\d:\d\d:\d\d/

const toWholeSeconds = (seconds: number) =>
  Number.isFinite(seconds)
    ? Math.min(Math.max(Math.ceil(seconds), 0), LONGEST_RETRY_AFTER)
    : undefined

function parseAnswer(text: string): unknown {
  try {
    return parseExact(text.includes('\\u') ? mendEscapes(text) : text)
  } catch (cause) {
    throw unreadable(cause)
  }
}

// A long answer is read in turns, so that no other call waits for it.
async function parseLongAnswer(text: string): Promise<unknown> {
  try {
    return await parseLargeJson(text.includes('\\u') ? mendEscapes(text) : text)
  } catch (cause) {
    throw unreadable(cause)
  }
}

const unreadable = (cause?: unknown) =>
  new GatewayError('provider_unavailable', 'Provider returned error', { cause })

/** The limits of one attempt, in milliseconds. */
interface Limits {
  firstByte: number
  idle: number
  total: number
}

interface DeadlineOptions {
  /** Who is waited for. */
  provider?: Provider
  /** Called for each read that brings bytes, with their number. */
  onBytes?: ((size: number) => void) | undefined
  /** Steady milliseconds. */
  now?: () => number
}

/** In milliseconds: after a shorter pause the clock of silence goes on. */
const SHORT_PAUSE = 1

/** In milliseconds: a pause of the reader after which an upstream may rightly hang up. */
const LONG_PAUSE = 10_000

/**
 * The time limits of one attempt. Cancels the attempt when its call is cancelled, or when the
 * upstream is silent for too long. It starts with the wait for the first byte. A pause of the reader
 * is no silence of the upstream, and no time that it takes.
 */
export class Deadline {
  /** Cancelled when the attempt must end. */
  readonly attempt = new Cancellation()
  readonly #call: Cancellation
  readonly #limits: Limits
  readonly #provider: Provider | null
  readonly #now: () => number
  #endsAt: number
  #pausedAt = 0
  #longestPause = 0
  readonly #timeout: Timeout
  readonly #onBytes: ((size: number) => void) | undefined
  #isPaused = false
  #isSilent = false

  constructor(
    call: Cancellation,
    limits: Limits,
    { provider, onBytes, now = getSteadyTime }: DeadlineOptions = {},
  ) {
    this.#onBytes = onBytes
    this.#now = now
    this.#call = call
    this.#limits = limits
    this.#provider = provider ?? null
    this.#endsAt = now() + limits.total
    this.#timeout = new Timeout(Math.min(limits.firstByte, limits.total), this.#expire)
    call.listen(reason => this.attempt.cancel(reason))
  }

  /** Notes that bytes arrived. The total is checked here, so that one timer serves both limits. */
  touch(size: number): void {
    this.#onBytes?.(size)
    if (this.#now() > this.#endsAt) this.#expire()
    else this.#timeout.restart(this.#limits.idle)
  }

  /** Stops the clock of silence: what has arrived is not read on, so the upstream has to wait. */
  pause(): void {
    this.#isPaused = true
    this.#pausedAt = this.#now()
  }

  /** Starts the clock of silence anew after a pause, which is no part of the total. */
  resume(): void {
    if (!this.#isPaused) return
    this.#isPaused = false
    const pause = this.#now() - this.#pausedAt
    this.#endsAt += pause
    this.#longestPause = Math.max(this.#longestPause, pause)
    if (this.#isSilent) this.#timeout.restart(this.#limits.idle)
    else if (pause >= SHORT_PAUSE) this.#timeout.restart()
    this.#isSilent = false
  }

  /** Stops the limits after a whole answer. The connection may serve another call. */
  close(): void {
    this.#timeout.stop()
    this.#call.listen(null)
  }

  /** Ends the attempt and closes its connection. */
  abort(): void {
    this.close()
    this.attempt.cancel(GIVEN_UP)
  }

  /**
   * Converts a failure of the upstream: to the reason of the cancellation if there was one,
   * otherwise to `provider_unavailable` with the failure as its cause, or to `unavailable` if it is
   * this process that has no descriptor left. An upstream that hangs up after it had to wait for long
   * has not failed: its reader was too slow. The error's reason loses the provider's own credentials.
   */
  toGatewayError(thrown: unknown): GatewayError {
    const reason = this.attempt.reason ?? thrown
    if (reason instanceof ConnectionFailed && reason.code === NO_DESCRIPTOR)
      return new GatewayError('unavailable', 'The gateway has too many connections', {
        retryAfter: 1,
        cause: reason,
      })
    if (reason instanceof GatewayError) return cleanReason(reason, this.#provider)
    if (this.#longestPause >= LONG_PAUSE) return readsTooSlowly(reason)
    return reason instanceof ConnectionFailed
      ? describeConnectionFailure(reason)
      : new GatewayError('provider_unavailable', 'Provider returned error', { cause: reason })
  }

  readonly #expire = (): void => {
    this.#isSilent = true
    if (this.#isPaused) return
    this.attempt.cancel(new GatewayError('timeout', 'Request timed out. Please try again later.'))
  }
}

/** What the system's codes of failed connections mean to a person. */
const CONNECTION_CAUSES: Record<string, string> = {
  ENOTFOUND: 'name not found',
  EAI_AGAIN: 'name not found',
  ECONNREFUSED: 'connection refused',
  ETIMEDOUT: 'no connection in time',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'host unreachable',
  EPROTO: 'TLS failed',
}

const TLS_CODE = /CERT|TLS|SSL|ISSUER|SIGNATURE|CRL|HOSTNAME/

/** Says why a connection failed, to the caller and to the record, which has the system's code too. */
function describeConnectionFailure(failure: ConnectionFailed): GatewayError {
  const { code } = failure
  const cause =
    getOwn(CONNECTION_CAUSES, code) ?? (TLS_CODE.test(code) ? 'TLS failed' : 'connection lost')
  return new GatewayError('provider_unavailable', `Provider returned error: ${cause}`, {
    metadata: { cause },
    reason: { code, message: cause },
    cause: failure,
  })
}

const getSteadyTime = (): number => performance.now()

/** The client took so little of its answer that the upstream hung up. */
const readsTooSlowly = (cause: unknown) =>
  new GatewayError('cancelled', 'The client read too slowly', { cause })

/** The reason of an attempt that is no longer needed. */
const GIVEN_UP = new GatewayError('unmapped', 'The attempt was given up')
