import type { Static, TSchema } from '@sinclair/typebox'
import { GatewayError, tooLarge } from '../core/errors.ts'
import { parseBody, requireValid } from '../core/kernel/body.ts'
import { yieldToEventLoop } from '../core/kernel/clock.ts'
import { LARGEST_BODY } from '../core/kernel/schema-builders.ts'

/** The bytes from which a body is large: parsing it and using it are two turns of the event loop. */
const LARGE_BODY = 1024 * 1024

/**
 * Reads and checks a JSON body. Throws 408 if it takes too long, and what `parseBody` throws.
 * Others get their turn after a large one has been parsed.
 */
export async function readBody<T extends TSchema>(request: Request, schema: T): Promise<Static<T>> {
  const bytes = await readBytes(request)
  const isLarge = bytes.length > LARGE_BODY
  if (isLarge) await yieldToEventLoop()
  const body = parseBody(schema, bytes)
  if (isLarge) await yieldToEventLoop()
  return body
}

/** Reads and checks a query, with its numbers as numbers. Throws 400 naming the parameter. */
export function readQuery<T extends TSchema>(url: string, schema: T): Static<T> {
  const query: Record<string, unknown> = {}
  const properties: Record<string, TSchema> = schema.properties ?? {}
  for (const [name, text] of new URL(url).searchParams) {
    query[name] = NUMBERS[properties[name]?.type]?.test(text) ? Number(text) : text
  }
  return requireValid(schema, query)
}

const NUMBERS: Record<string, RegExp> = {
  integer: /^-?\d{1,15}$/,
  number: /^-?\d{1,15}(\.\d{1,15})?$/,
}

/** How many milliseconds a small body may take. A large one gets another second for each KiB. */
const BODY_TIMEOUT = 30_000

function readBytes(request: Request): Promise<Uint8Array> {
  const length = Number(request.headers.get('content-length') ?? Number.NaN)
  if (length > LARGEST_BODY) throw tooLarge()
  const bytes = length >= 0 ? request.bytes() : readLimitedBytes(request)
  return limitTime(bytes, length >= 0 ? length : LARGEST_BODY)
}

function limitTime(bytes: Promise<Uint8Array>, length: number): Promise<Uint8Array> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>()
  const rejectLate = () =>
    reject(new GatewayError('invalid_request', 'The body took too long to arrive', { status: 408 }))
  const timer = setTimeout(rejectLate, BODY_TIMEOUT + length / 1.024)
  bytes.then(
    bytes => {
      clearTimeout(timer)
      resolve(bytes)
    },
    thrown => {
      clearTimeout(timer)
      reject(thrown)
    },
  )
  return promise
}

async function readLimitedBytes(request: Request): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const bytes of request.body ?? []) {
    size += bytes.length
    if (size > LARGEST_BODY) throw tooLarge()
    pieces.push(bytes)
  }
  return Buffer.concat(pieces)
}
