import type { Gateway } from '../app/gateway.ts'
import { conflict, invalid } from '../base/errors.ts'
import { runInTurns, type Work } from '../base/turns.ts'
import type { Region } from '../language/call.ts'
import { type Actor, identify } from '../resources/actor.ts'
import type { KeptAnswer, KeptCall } from '../resources/idempotency/calls.ts'
import {
  beginCall,
  beginChange,
  checkSameRequest,
  endCall,
  endChange,
  type KeptResponse,
  stillRunning,
} from '../resources/idempotency.ts'
import { dialects } from '../translation/dialects/registry.ts'
import { bindWholeBody, readWholeBody } from './body.ts'
import { createByteStream } from './byte-stream.ts'
import { type Connection, findConnection } from './connections.ts'
import { isBehindDoor } from './doors.ts'
import { createErrorResponse } from './errors.ts'
import { readPath, readRequestId, resolveRegion } from './headers.ts'

/** Handles a request. A call gets the id of its generation where that is known before. */
type Handle = (request: Request, generation?: string) => Response | Promise<Response>

/** A request under a client's key. */
interface Keyed {
  name: string
  fingerprint: string
  /** The request without its key and without its connection, so that a client who leaves does not end it. */
  inner: Request
}

/** The header of a client's own key for a change or call. */
export const IDEMPOTENCY_KEY = 'idempotency-key'
const REPLAYED = { 'idempotency-replayed': 'true' }
const MIB = 1024 * 1024

const originals = new WeakMap<Request, Request>()
const generations = new WeakMap<Request, string>()

/** Returns the request as it came over the network. */
export const findOriginal = (request: Request): Request => originals.get(request) ?? request

/** Returns the id that the generation of a call under a client's key has before it is made. */
export const findGenerationId = (request: Request): string | undefined => generations.get(request)

/**
 * Extends a handler of requests by `Idempotency-Key`: a change or call that is repeated within 24
 * hours gets the same answer and is not done again. Answers 409 while the first one runs, 422 for
 * another request under the same key, and 400 for a key that is none. Changes are remembered in the
 * store, and of calls that they were made; their answers are in memory. Requests without a valid API
 * key are handled as usual.
 */
export function withIdempotency(
  gateway: Gateway,
  handle: Handle,
  findPeer: (request: Request) => string | null = () => null,
): Handle {
  return request => {
    if (
      !request.headers.has(IDEMPOTENCY_KEY) ||
      request.method === 'GET' ||
      request.method === 'HEAD'
    )
      return handle(request)
    return respondOnce(gateway, { handle, request, findPeer })
  }
}

interface Keeping {
  handle: Handle
  request: Request
  findPeer: (request: Request) => string | null
}

async function respondOnce(gateway: Gateway, keeping: Keeping): Promise<Response> {
  const { request, handle, findPeer } = keeping
  const actor = await findKeyHolder(gateway, request)
  if (!actor) return handle(request)
  const connection = findConnection(request)
  connection?.startWork()
  try {
    if (isCall(request)) await connection?.admitCall(actor.key_hash ?? actor.kind)
    const region = resolveRegion(gateway.config, request.headers.get('host'), () =>
      findPeer(request),
    )
    const keyed = await readKeyed(request, actor, region)
    const holder = actor.key_hash ?? actor.kind
    return await (isCall(request)
      ? callOnce(gateway, { ...keeping, connection, holder }, keyed)
      : changeOnce(gateway, keeping, keyed))
  } catch (thrown) {
    return createErrorResponse(thrown, readRequestId(request, gateway.ids.uuid()))
  } finally {
    connection?.finishWork()
  }
}

const findKeyHolder = (gateway: Gateway, { headers }: Request): Promise<Actor | null> => {
  const key = headers.get('x-api-key')
  const authorization = headers.get('authorization') || (key === null ? null : `Bearer ${key}`)
  return identify(gateway, authorization).catch(() => null)
}

const CALLS = new Set(dialects.map(({ path }) => `/api/v1${path}`))
const isCall = (request: Request): boolean =>
  CALLS.has(readPath(request)) || isBehindDoor(readPath(request))

async function readKeyed(request: Request, actor: Actor, region: Region): Promise<Keyed> {
  const key = request.headers.get(IDEMPOTENCY_KEY) ?? ''
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw invalid('Idempotency-Key: expected 1 to 255 letters, digits and signs', IDEMPOTENCY_KEY)
  if (request.headers.get('content-type')?.startsWith('multipart/'))
    throw invalid('Idempotency-Key: expected none with an upload', IDEMPOTENCY_KEY)
  const { method, url } = request
  const body = await readWholeBody(request)
  const headers = new Headers(request.headers)
  headers.delete(IDEMPOTENCY_KEY)
  const inner = new Request(url, { method, headers })
  originals.set(inner, request)
  bindWholeBody(inner, body)
  // Not the host: one that retries may reach us by another name.
  const { pathname, search } = new URL(url)
  const asked = `${method} ${pathname}${search} ${region}\n`
  return {
    name: Bun.CryptoHasher.hash('sha256', JSON.stringify([actor.key_hash, key]), 'hex'),
    fingerprint: await runInTurns(computeFingerprint(asked, body)),
    inner,
  }
}

/** In bytes: after so many others get their turn. */
const HASHED_AT_ONCE = MIB

function* computeFingerprint(asked: string, body: Uint8Array): Work<string> {
  const hasher = new Bun.CryptoHasher('sha256').update(asked)
  for (let from = 0; from < body.length; from += HASHED_AT_ONCE) {
    hasher.update(body.subarray(from, from + HASHED_AT_ONCE))
    yield
  }
  return hasher.digest('hex')
}

/** Makes a change once. Its answer is on disk before its client gets it. */
async function changeOnce(gateway: Gateway, { handle }: Keeping, keyed: Keyed): Promise<Response> {
  const kept = await beginChange(gateway, keyed)
  if (kept) return render(kept, REPLAYED)
  const response = await handle(keyed.inner)
  const answer = {
    status: response.status,
    headers: [...response.headers],
    body: await response.text(),
  }
  await endChange(gateway, keyed.name, answer)
  return render(answer)
}

// What has no body must not have one.
const render = ({ status, headers, body }: KeptResponse, more: Record<string, string> = {}) =>
  new Response(body === '' ? null : body, {
    status,
    headers: [...headers, ...Object.entries(more)],
  })

/** A call, the connection that it came by, and whose memory its answer takes. */
interface CallKeeping extends Keeping {
  connection: Connection | undefined
  holder: string
}

/**
 * Makes a call once, and reads its answer to the end, also if its client leaves. Meanwhile it has its
 * place among the calls in flight, and what is recorded takes memory.
 */
async function callOnce(
  gateway: Gateway,
  keeping: CallKeeping,
  { name, fingerprint, inner }: Keyed,
): Promise<Response> {
  const { keptCalls } = gateway.traffic
  const most = gateway.config.idempotency.max_mib * MIB
  if (most === 0)
    throw invalid('Idempotency-Key: expected none, as answers are not kept here', IDEMPOTENCY_KEY)
  const known = await keptCalls.begin(name, fingerprint, gateway.clock.now().getTime())
  if (known) return replay(gateway, keeping, known, fingerprint)
  const leavePlace = keeping.connection?.keepPlace()
  const end = (answer: KeptAnswer | null) => {
    leavePlace?.()
    keptCalls.end(name, answer, most)
  }
  const generation = gateway.ids.generation(gateway.clock.now())
  generations.set(inner, generation)
  const note = await noteCall(gateway, { name, fingerprint }, generation).catch(thrown => {
    end(null)
    throw thrown
  })
  try {
    keeping.connection?.startCall()
    const response = await keeping.handle(inner, generation)
    const recording = new Recording(response, takeMemory(gateway, keeping), most)
    const played = play(recording, keeping.connection)
    void recording.record(response.body).then(async answer => {
      const { status, headers } = response
      const isPaid = headers.get('x-should-retry') === 'false'
      const isKept = isPaid || !isWorthRetrying(status)
      // A refusal costs nothing: the next process may find it out anew.
      await note(isPaid || status < 400 ? status : null)
      end(isKept ? (answer ?? (await answerTooLong(gateway))) : null)
    })
    return played
  } catch (thrown) {
    await note(null)
    end(null)
    throw thrown
  }
}

/** Whether the same call may end otherwise later: it was not made. */
const isWorthRetrying = (status: number): boolean =>
  status >= 500 || [401, 402, 403, 408, 409, 413, 429].includes(status)

/**
 * Notes in the store that a call begins. Returns what notes its status; null: it may be made again.
 * Where that cannot be written it stays one that was interrupted, which is not made again either.
 */
async function noteCall(
  gateway: Gateway,
  call: Pick<Keyed, 'name' | 'fingerprint'>,
  generation: string,
): Promise<(status: number | null) => Promise<void>> {
  const made = await beginCall(gateway, call, generation)
  return status => endCall(gateway, made, status).catch(() => undefined)
}

const takeMemory = (
  { traffic: { admission } }: Gateway,
  { holder }: CallKeeping,
): RecordingMemory => ({
  take: bytes => admission.memory.take(holder, bytes),
  giveBack: bytes => admission.giveBack(holder, bytes),
})

function play(
  recording: Recording,
  connection: Connection | undefined,
  more: Record<string, string> = {},
): Response {
  const { status } = recording
  const headers = new Headers(recording.headers)
  for (const [name, value] of Object.entries(more)) headers.set(name, value)
  return new Response(createByteStream(recording.read(), connection), { status, headers })
}

async function replay(
  gateway: Gateway,
  keeping: CallKeeping,
  known: KeptCall,
  fingerprint: string,
): Promise<Response> {
  checkSameRequest(known.fingerprint, fingerprint)
  await known.arriving
  if (!known.answer) throw stillRunning()
  const recording = Recording.of(known.answer, takeMemory(gateway, keeping))
  if (!recording.claim()) throw gateway.traffic.admission.refuse('memory')
  return play(recording, keeping.connection, REPLAYED)
}

/** Returns what the same request gets instead of an answer that was not kept: it is not made again. */
async function answerTooLong({ ids }: Gateway): Promise<KeptAnswer> {
  const error = conflict('The call was made, but its answer is too long to be given again')
  const response = createErrorResponse(error, ids.uuid())
  const { status, headers } = response
  return { status, headers: [...headers], pieces: [await response.bytes()] }
}

/** Memory for what has come of an answer. */
interface RecordingMemory {
  /** Takes so many bytes. Returns false, and takes nothing, if they are not there. */
  take(bytes: number): boolean
  giveBack(bytes: number): void
}

/** In bytes: pieces are put into pages, as thousands of small ones take several times their size. */
const PAGE = 16 * 1024

/** In bytes: each time that so many more have come, they take memory. */
const STEP = 128 * 1024

/** In bytes: an answer is not read on while its client has so much to take. */
const MOST_AHEAD = 512 * 1024

interface Page {
  bytes: Uint8Array
  filled: number
  next: Page | null
}

const createPage = (): Page => ({ bytes: new Uint8Array(PAGE), filled: 0, next: null })

/**
 * The answer to one request as it comes: it is read to its end whether or not its client stays, so
 * that the same request can have it again. One that is too long to be kept, or for which there is no
 * memory, only passes.
 */
class Recording {
  readonly status: number
  readonly headers: Headers
  readonly #memory: RecordingMemory
  readonly #most: number
  /** The first page; null of an answer that only passes. */
  #first: Page | null
  #last: Page
  #size = 0
  #counted = 0
  #readers = 0
  /** How many bytes its client has taken while it is recorded. */
  #taken = 0
  #moved = Promise.withResolvers<void>()
  #isOver = false

  /** `most` is how many bytes are kept. */
  constructor(
    { status, headers }: Pick<Response, 'status' | 'headers'>,
    memory: RecordingMemory,
    most: number,
  ) {
    this.status = status
    this.headers = new Headers(headers)
    this.#memory = memory
    this.#most = most
    this.#last = createPage()
    this.#first = this.#last
  }

  /** Returns the recording of an answer that has ended. */
  static of({ status, headers, pieces }: KeptAnswer, memory: RecordingMemory): Recording {
    const recording = new Recording({ status, headers: new Headers(headers) }, memory, Infinity)
    for (const bytes of pieces) recording.#addPage({ bytes, filled: bytes.length, next: null })
    recording.#isOver = true
    return recording
  }

  /** Takes the memory of all of it until its readers are gone. Returns false if that is not there. */
  claim(): boolean {
    return this.#count()
  }

  /**
   * Reads the answer to its end, and returns it; null if it only passed. Never throws: one that
   * breaks off ends there.
   */
  async record(body: ReadableStream<Uint8Array> | null): Promise<KeptAnswer | null> {
    try {
      for await (const piece of body ?? []) await this.#add(piece)
    } catch {
      // What has come is the answer.
    }
    this.#isOver = true
    this.#move()
    const pieces = this.#first && listPieces(this.#first)
    this.#release()
    return pieces && { status: this.status, headers: [...this.headers], pieces }
  }

  /** Reads the answer from its beginning on. An early return is a client who leaves. */
  read(): AsyncIterableIterator<Uint8Array> {
    let page = this.#first
    let offset = 0
    this.#readers += 1
    const leave = () => {
      if (!page) return
      page = null
      this.#readers -= 1
      this.#move()
      this.#release()
    }
    const reader: AsyncIterableIterator<Uint8Array> = {
      next: async () => {
        for (;;) {
          if (!page) return { done: true, value: undefined }
          if (offset < page.filled) break
          if (page.next) [page, offset] = [page.next, 0]
          else if (this.#isOver) leave()
          else await this.#moved.promise
        }
        const value = page.bytes.subarray(offset, page.filled)
        offset = page.filled
        this.#taken += value.length
        this.#move()
        return { done: false, value }
      },
      async return() {
        leave()
        return { done: true, value: undefined }
      },
      [Symbol.asyncIterator]: () => reader,
    }
    return reader
  }

  async #add(piece: Uint8Array): Promise<void> {
    if (piece.length >= PAGE) this.#addPage({ bytes: piece, filled: piece.length, next: null })
    else this.#fill(piece)
    if (this.#first && this.#size - this.#counted >= STEP && !this.#count()) this.#letPass()
    this.#move()
    while (this.#readers > 0 && this.#size - this.#taken > MOST_AHEAD) await this.#moved.promise
  }

  #fill(piece: Uint8Array): void {
    const room = this.#last.bytes.length - this.#last.filled
    const begin = piece.subarray(0, room)
    this.#last.bytes.set(begin, this.#last.filled)
    this.#last.filled += begin.length
    this.#size += begin.length
    if (begin.length === piece.length) return
    this.#addPage(createPage())
    this.#fill(piece.subarray(begin.length))
  }

  #addPage(page: Page): void {
    this.#last.next = page
    this.#last = page
    this.#size += page.filled
  }

  /** Takes memory for what has come. Returns false if there is none, or it is too much. */
  #count(): boolean {
    const more = this.#size - this.#counted
    if (this.#size > this.#most || (more > STEP / 2 && !this.#memory.take(more))) return false
    if (more > STEP / 2) this.#counted = this.#size
    return true
  }

  // What its client has taken is garbage from now on: nothing else leads to it.
  #letPass(): void {
    this.#first = null
    this.#memory.giveBack(this.#counted)
    this.#counted = 0
  }

  #release(): void {
    if (!this.#isOver || this.#readers > 0 || this.#counted === 0) return
    this.#memory.giveBack(this.#counted)
    this.#counted = 0
  }

  #move(): void {
    this.#moved.resolve()
    this.#moved = Promise.withResolvers()
  }
}

// The last page is often nearly empty: of thousands of small answers none keeps more than it needs.
function listPieces(first: Page): Uint8Array[] {
  const pieces: Uint8Array[] = []
  for (let page: Page | null = first; page; page = page.next) {
    const { bytes, filled } = page
    if (filled > 0) pieces.push(filled < bytes.length ? bytes.slice(0, filled) : bytes)
  }
  return pieces
}
