import type { Cancellation } from '../base/cancellation.ts'
import type { IncomingResponse, Send } from '../network/egress.ts'

/** A gateway elsewhere, as its API shows it to one key. */
export interface Remote {
  url: string
  /** Sends a request and returns the JSON of the answer. Throws what the gateway refuses it with. */
  ask(
    method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
    path: string,
    body?: object,
  ): Promise<unknown>
  /** Sends a call and opens its answer, however long that takes. Throws as `ask`. */
  post(path: string, body: object, cancellation: Cancellation): Promise<IncomingResponse>
  /** Reads the events of a stream as they come together, until it ends or is closed. Throws as `ask`. */
  stream(path: string): Promise<{ events: AsyncGenerator<string[], void>; close(): void }>
}

/** In milliseconds: how long a gateway elsewhere may take to answer. */
const LONGEST_ANSWER = 15_000

/** In bytes. */
const LARGEST_ANSWER = 50_000_000

/**
 * Opens a gateway elsewhere by the address of its site, `https://gateway.example.com`, or of its
 * API. Throws 400 for what is no address of HTTP. Nothing is sent yet.
 */
export async function openRemote(address: string, key: string): Promise<Remote> {
  const url = await parseAddress(address)
  const { openEgress } = await import('../network/egress.ts')
  const { createDefaultConfig } = await import('../config.ts')
  const config = createDefaultConfig()
  const send = openEgress(() => config)
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  return {
    url,
    ask: (method, path, body) => ask(send, { method, url: url + path, headers }, body),
    post: (path, body, cancellation) =>
      post(send, { method: 'POST', url: url + path, headers }, body, cancellation),
    stream: path => stream(send, { method: 'GET', url: url + path, headers }),
  }
}

async function parseAddress(address: string): Promise<string> {
  const { invalid } = await import('../base/errors.ts')
  if (!URL.canParse(address) || !/^https?:$/.test(new URL(address).protocol))
    throw invalid('--url: expected an address such as https://gateway.example.com')
  const trimmed = address.replace(/\/+$/, '')
  return trimmed.endsWith('/api/v1') ? trimmed : `${trimmed}/api/v1`
}

interface Request {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  url: string
  headers: Record<string, string>
}

async function ask(send: Send, request: Request, body?: object): Promise<unknown> {
  const { Cancellation } = await import('../base/cancellation.ts')
  const { GatewayError } = await import('../base/errors.ts')
  const cancellation = new Cancellation()
  const late = new GatewayError('timeout', `${new URL(request.url).host} did not answer in time`)
  const timer = setTimeout(() => cancellation.cancel(late), LONGEST_ANSWER)
  try {
    const outgoing = { ...request, body: body ? JSON.stringify(body) : '' }
    const incoming = await send(outgoing, cancellation).catch(describeFailure(request.url))
    const text = await incoming.text(LARGEST_ANSWER, () => undefined)
    if (incoming.status >= 300) throw await readRefusal(incoming.status, text)
    return text === '' ? undefined : JSON.parse(text)
  } finally {
    clearTimeout(timer)
  }
}

async function post(
  send: Send,
  request: Request,
  body: object,
  cancellation: Cancellation,
): Promise<IncomingResponse> {
  // A command ends with its answer, and a connection that is kept would hold it back.
  const headers = { ...request.headers, connection: 'close' }
  const outgoing = { ...request, headers, body: JSON.stringify(body) }
  const incoming = await send(outgoing, cancellation).catch(describeFailure(request.url))
  if (incoming.status === 200) return incoming
  throw await readRefusal(incoming.status, await incoming.text(LARGEST_ANSWER, () => undefined))
}

async function stream(send: Send, request: Request) {
  const { Cancellation } = await import('../base/cancellation.ts')
  const { GatewayError } = await import('../base/errors.ts')
  const cancellation = new Cancellation()
  const incoming = await send({ ...request, body: '' }, cancellation).catch(
    describeFailure(request.url),
  )
  if (incoming.status !== 200)
    throw await readRefusal(incoming.status, await incoming.text(LARGEST_ANSWER, () => undefined))
  return {
    events: readEvents(incoming, () => cancellation.reason !== null),
    close: () => cancellation.cancel(new GatewayError('unmapped', 'Closed')),
  }
}

async function* readEvents(
  incoming: IncomingResponse,
  isClosed: () => boolean,
): AsyncGenerator<string[], void> {
  const { SseScanner } = await import('../network/sse.ts')
  const scanner = new SseScanner()
  try {
    for (let bytes = await incoming.read(); bytes; bytes = await incoming.read())
      yield Array.from(scanner.feed(bytes), ({ data }) => data)
  } catch (thrown) {
    if (!isClosed()) throw thrown
  }
}

const describeFailure =
  (url: string) =>
  async (thrown: unknown): Promise<never> => {
    const { GatewayError } = await import('../base/errors.ts')
    if (thrown instanceof GatewayError && thrown.type === 'timeout') throw thrown
    throw new Error(`No gateway answers at ${new URL(url).host}`, { cause: thrown })
  }

/** The types of refusals by status, for the exit code. */
const TYPES = {
  400: 'invalid_request',
  401: 'authentication',
  402: 'payment_required',
  403: 'permission_denied',
  404: 'not_found',
  409: 'conflict',
} as const

async function readRefusal(status: number, text: string) {
  const { GatewayError } = await import('../base/errors.ts')
  const { isObject, parseObject } = await import('../base/json.ts')
  const error = parseObject(text)?.error
  const message = isObject(error) && typeof error.message === 'string' ? error.message : null
  const type = TYPES[status as keyof typeof TYPES] ?? 'unavailable'
  return new GatewayError(type, message ?? `It answered with the status ${status}`)
}
