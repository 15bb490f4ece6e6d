import { dialects } from '../core/dialects/registry.ts'
import { invalid } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { type Actor, identify } from '../core/identity/actor.ts'
import type { KeptCall } from '../core/identity/idempotency/calls.ts'
import {
  beginChange,
  checkSameRequest,
  endChange,
  isWorthRetrying,
  type KeptResponse,
  stillRunning,
} from '../core/identity/idempotency.ts'
import { readWholeBody } from './body.ts'
import { findConnection } from './connections.ts'
import { createErrorResponse } from './errors.ts'
import { readRequestId } from './headers.ts'
import { Recording } from './idempotency/recording.ts'
import { readPath } from './request-target.ts'

type Handle = (request: Request) => Response | Promise<Response>

/** A request under a client's key. */
interface Keyed {
  name: string
  fingerprint: string
  /** The request without its key and without its connection, so that a client who leaves does not end it. */
  inner: Request
}

const HEADER = 'idempotency-key'
const REPLAYED = { 'idempotency-replayed': 'true' }
const MIB = 1024 * 1024

const originals = new WeakMap<Request, Request>()

/** Returns the request as it came over the network. */
export const findOriginal = (request: Request): Request => originals.get(request) ?? request

/**
 * Extends a handler of requests by `Idempotency-Key`: a change or call that is repeated within 24
 * hours gets the same answer and is not done again. Answers 409 while the first one runs, 422 for
 * another request under the same key, and 400 for a key that is none. Changes are remembered in the
 * store, calls in memory. Requests without a valid API key are handled as usual.
 */
export function withIdempotency(gateway: Gateway, handle: Handle): Handle {
  return request => {
    if (!request.headers.has(HEADER) || request.method === 'GET' || request.method === 'HEAD')
      return handle(request)
    return respondOnce(gateway, { handle, request })
  }
}

interface Keeping {
  handle: Handle
  request: Request
}

async function respondOnce(gateway: Gateway, keeping: Keeping): Promise<Response> {
  const { request, handle } = keeping
  const actor = await findKeyHolder(gateway, request)
  if (!actor) return handle(request)
  const connection = findConnection(request)
  connection?.startWork()
  try {
    if (isCall(request)) await connection?.admitCall(actor.key_hash ?? actor.kind)
    const keyed = await readKeyed(request, actor)
    return await (isCall(request)
      ? callOnce(gateway, keeping, keyed)
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
const isCall = (request: Request): boolean => CALLS.has(readPath(request))

async function readKeyed(request: Request, actor: Actor): Promise<Keyed> {
  const key = request.headers.get(HEADER) ?? ''
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw invalid('Idempotency-Key: expected 1 to 255 letters, digits and signs', HEADER)
  if (request.headers.get('content-type')?.startsWith('multipart/'))
    throw invalid('Idempotency-Key: expected none with an upload', HEADER)
  const { method, url } = request
  const body = await readWholeBody(request)
  const headers = new Headers(request.headers)
  headers.delete(HEADER)
  const inner = new Request(url, { method, headers, ...(body.length > 0 ? { body } : {}) })
  originals.set(inner, request)
  const asked = new Bun.CryptoHasher('sha256').update(`${method} ${url}\n`).update(body)
  return {
    name: Bun.CryptoHasher.hash('sha256', JSON.stringify([actor.key_hash, key]), 'hex'),
    fingerprint: asked.digest('hex'),
    inner,
  }
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

/** Makes a call once, and reads its answer to the end, also if its client leaves. */
async function callOnce(
  gateway: Gateway,
  { handle }: Keeping,
  { name, fingerprint, inner }: Keyed,
): Promise<Response> {
  const { keptCalls } = gateway.traffic
  const most = gateway.config.idempotency.max_mib * MIB
  if (most === 0)
    throw invalid('Idempotency-Key: expected none, as answers are not kept here', HEADER)
  const known = await keptCalls.begin(name, fingerprint, gateway.clock.now().getTime())
  if (known) return replay(known, fingerprint)
  try {
    const response = await handle(inner)
    const recording = new Recording(response)
    void recording
      .record(response.body)
      .then(answer => keptCalls.end(name, isWorthRetrying(answer.status) ? null : answer, most))
    return recording.play()
  } catch (thrown) {
    keptCalls.end(name, null, most)
    throw thrown
  }
}

async function replay(known: KeptCall, fingerprint: string): Promise<Response> {
  checkSameRequest(known.fingerprint, fingerprint)
  await known.arriving
  if (!known.answer) throw stillRunning()
  return Recording.of(known.answer).play(REPLAYED)
}
