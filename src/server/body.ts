import { isUtf8 } from 'node:buffer'
import type { Static, TSchema } from '@sinclair/typebox'
import {
  decodeBody,
  parseBodyInSteps,
  parseBodyText,
  releaseBytes,
  requireValid,
} from '../base/body.ts'
import { Timeout } from '../base/clock.ts'
import { GatewayError, invalid, tooLarge } from '../base/errors.ts'
import { findNearest } from '../base/nearest.ts'
import { lowerUuid } from '../base/schema.ts'
import { LARGEST_BODY } from '../base/schema-builders.ts'
import { runInTurns } from '../base/turns.ts'
import { SMALL_BODY } from '../engine/traffic/admission.ts'
import { type Connection, findConnection } from './connections.ts'
import { readSearchParams } from './headers.ts'

/**
 * Reads and checks a JSON body. Throws 408 if it takes too long, and what `parseBody` throws.
 * Others get their turn while one is parsed that is not small.
 */
export function readBody<T extends TSchema>(request: Request, schema: T): Promise<Static<T>> {
  return readBytes(request, bytes => {
    findConnection(request)?.finishBody()
    return bytes.length > SMALL_BODY
      ? runInTurns(parseBodyInSteps(schema, bytes))
      : parseBodyText(schema, decodeBody(bytes))
  })
}

/** Reads a body as it is. Throws 413 for a large one, and 408 for a slow one. */
export async function readWholeBody(request: Request): Promise<Uint8Array> {
  const bytes = await readBytes(request, asTheyCame)
  findConnection(request)?.finishBody()
  return bytes
}

const asTheyCame = (bytes: Uint8Array): Uint8Array => bytes

const wholeBodies = new WeakMap<Request, Uint8Array>()

/** Has a request, which no connection sent, read as its body what was read of another: no copy. */
export const bindWholeBody = (request: Request, bytes: Uint8Array): void => {
  wholeBodies.set(request, bytes)
}

/** The most bytes that are read of the body of a request that needs no key. */
const LARGEST_ANONYMOUS = 64 * 1024

const anonymousRequests = new WeakSet<Request>()

/** Bounds the body of a request that needs no key: anyone may send one. */
export const boundAnonymousBody = (request: Request): void => {
  anonymousRequests.add(request)
}

const getLargestBody = (request: Request): number =>
  anonymousRequests.has(request) ? LARGEST_ANONYMOUS : LARGEST_BODY

/**
 * Reads the fields of a form; one that is empty has none. Throws 413 for a large one, 400 for another
 * type, for bytes that are no UTF-8 and for a field that stands twice.
 */
export async function readForm(request: Request): Promise<Record<string, string>> {
  const [type] = (request.headers.get('content-type') ?? '').split(';')
  if (type?.trim().toLowerCase() !== 'application/x-www-form-urlencoded')
    throw invalid('Expected Content-Type: application/x-www-form-urlencoded')
  const bytes = await readBytes(request, asTheyCame)
  findConnection(request)?.finishBody()
  if (!isUtf8(bytes)) throw invalid('body: expected a form in UTF-8')
  const fields = [...new URLSearchParams(FORM_DECODER.decode(bytes))]
  const form = Object.fromEntries(fields)
  if (Object.keys(form).length < fields.length) throw invalid('Expected each field once')
  return form
}

const FORM_DECODER = new TextDecoder()

/**
 * Reads and checks a query, with its numbers as numbers. Parameters that its schema does not declare
 * are left out, as nothing has checked them; a closed one refuses them. Throws 400 naming the
 * parameter.
 */
export function readQuery<T extends TSchema>(request: Request, schema: T): Static<T> {
  const query: Record<string, unknown> = {}
  const properties: Record<string, TSchema> = schema.properties ?? {}
  const isClosed = schema.additionalProperties === false
  for (const [name, text] of readSearchParams(request)) {
    if (!Object.hasOwn(properties, name)) {
      if (isClosed) throw refuseParameter(name, Object.keys(properties))
      continue
    }
    query[name] = readParameter(properties[name], text)
  }
  return requireValid(schema, query)
}

/** Names what is known: another version of the gateway may know more. */
function refuseParameter(name: string, known: string[]): GatewayError {
  const nearest = findNearest(name, known)
  const field = nearest === undefined ? name.slice(0, LONGEST_FIELD) : name
  const meant = nearest === undefined ? '' : `; did you mean "${nearest}"?`
  const all = known.length === 0 ? 'none' : known.toSorted().join(', ')
  return invalid(
    `${field}: expected no such parameter; known to this version: ${all}${meant}`,
    field,
  )
}

/** The most characters of an unknown parameter's name that are repeated. */
const LONGEST_FIELD = 64

function readParameter(schema: TSchema | undefined, text: string): string | number {
  if (schema?.format === 'uuid') return lowerUuid(text)
  return NUMBERS[schema?.type]?.test(text) ? Number(text) : text
}

const NUMBERS: Record<string, RegExp> = {
  integer: /^-?\d{1,15}$/,
  number: /^-?\d{1,15}(\.\d{1,15})?$/,
}

/**
 * Reads the whole body, without its coding, and resolves with what `use` makes of it. Throws 413 for
 * a large one, 408 for a slow one, and what `decodeRequestBody` and `use` throw.
 */
function readBytes<Result>(request: Request, use: UseBytes<Result>): Promise<Result> {
  const length = Number(request.headers.get('content-length') ?? Number.NaN)
  if (length > LARGEST_ANONYMOUS && length > getLargestBody(request))
    return Promise.reject(tooLarge())
  const connection = findConnection(request)
  const whole = connection ? undefined : wholeBodies.get(request)
  if (whole) return Promise.resolve(whole).then(use)
  const seconds = connection?.bodySeconds ?? BODY_SECONDS
  const isCall = !connection || connection.isCall
  const pace = new Pace(seconds)
  if (isCall) return readPaced(request, length, pace, use)
  return readUncalled(connection, length, () => readPaced(request, length, pace, use))
}

type UseBytes<Result> = (bytes: Uint8Array) => Result | Promise<Result>

/** Reads the body of a request that is no call, beside those of calls. Throws 503 without memory. */
async function readUncalled<Result>(
  connection: Connection,
  length: number,
  read: () => Promise<Result>,
): Promise<Result> {
  if (length > SMALL_BODY) connection.admitBody(length)
  return await connection.runUnlimited(read)
}

function readPaced<Result>(
  request: Request,
  length: number,
  pace: Pace,
  use: UseBytes<Result>,
): Promise<Result> {
  if (request.headers.get('content-encoding') !== null)
    return pace.limit(readDecodedBytes(request, pace), use)
  const isSmall = length <= SMALL_BODY
  const bytes = isSmall ? request.bytes() : readLimitedBytes(request, request.body, length, pace)
  return pace.limit(bytes, use)
}

// Loaded on first use: few clients compress what they send.
async function readDecodedBytes(request: Request, pace: Pace): Promise<Uint8Array> {
  const { decodeRequestBody } = await import('./body/coding.ts')
  const body = decodeRequestBody(request, getLargestBody(request))
  return readLimitedBytes(request, body, Number.NaN, pace)
}

/** How many seconds a body may take without a server that says so. */
const BODY_SECONDS = 30

/** Until so much has arrived, no more memory is taken: a head can promise any length. */
const FIRST_BUFFER = 1024 * 1024

async function readLimitedBytes(
  request: Request,
  body: ReadableStream<Uint8Array> | null,
  length: number,
  pace: Pace,
): Promise<Uint8Array> {
  const largest = getLargestBody(request)
  const connection = findConnection(request)
  let bytes = new Uint8Array(Math.min(length || SMALL_BODY, FIRST_BUFFER))
  for await (const piece of body ?? []) {
    const size = pace.size + piece.length
    if (size > largest) throw tooLarge()
    if (size > bytes.length) {
      const room = Math.min(Math.max(length || 2 * size, size), largest)
      if (!(length > 0)) connection?.growBody(room)
      bytes = resize(bytes, room)
    }
    bytes.set(piece, pace.size)
    pace.size = size
    releaseBytes(piece)
  }
  return pace.size === bytes.length ? bytes : resize(bytes, pace.size)
}

const resize = ({ buffer }: Uint8Array<ArrayBuffer>, size: number) =>
  new Uint8Array(buffer.transfer(size))

/** What has arrived buys time: another second for each of so many bytes. */
const BYTES_PER_SECOND = 1024

/** No body may take longer than so many times the time of an empty one; a file not than so many. */
const LONGEST = 10
const LONGEST_FILE = 120

/**
 * The time that a body has: so many seconds, another one for each KiB that has arrived, and ten
 * times as many at most, or 120 times as many for a file.
 */
export class Pace {
  /** How many bytes have arrived. */
  size = 0
  readonly #start = performance.now()
  readonly #seconds: number
  readonly #longest: number
  #timeout: Timeout | undefined

  constructor(seconds: number, { isFile = false } = {}) {
    this.#seconds = seconds
    this.#longest = seconds * (isFile ? LONGEST_FILE : LONGEST)
  }

  /**
   * Waits for the body, and resolves with what `use` makes of it. Throws 408 when its time is over,
   * and what `use` throws.
   */
  limit<Bytes, Result = Bytes>(
    bytes: Promise<Bytes>,
    use: (bytes: Bytes) => Result | Promise<Result> = bytes => bytes as never,
  ): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#wait(reject)
      const lose = (lost: unknown) => {
        this.#timeout?.stop()
        reject(lost)
      }
      bytes.then(whole => {
        this.#timeout?.stop()
        try {
          resolve(use(whole))
        } catch (thrown) {
          reject(thrown)
        }
      }, lose)
    })
  }

  // What has arrived meanwhile has bought more time.
  #wait(reject: (late: GatewayError) => void): void {
    const left = this.#countMillisecondsLeft()
    if (left > 0) this.#timeout = new Timeout(left, () => this.#wait(reject))
    else reject(tooSlow())
  }

  #countMillisecondsLeft(): number {
    const seconds = Math.min(this.#seconds + this.size / BYTES_PER_SECOND, this.#longest)
    return Math.ceil(this.#start + seconds * 1000 - performance.now())
  }
}

const tooSlow = () =>
  new GatewayError('invalid_request', 'The body took too long to arrive', { status: 408 })
