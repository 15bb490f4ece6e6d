import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { status } from './upstream/answers.ts'
import { Connection } from './upstream/connection.ts'
import { Gates, keepsAlive, listSteps, play, type Script } from './upstream/steps.ts'
import { type Body, type Head, readBody, readHead } from './wire.ts'

export * from './upstream/answers.ts'
export * from './upstream/faults.ts'
export type { Script, Step } from './upstream/steps.ts'

/** A request as the provider received it. Times are `performance.now()`. */
export type Hit = {
  method: string
  path: string
  headers: Record<string, string>
  /** The body as bytes, as text, and parsed (`undefined` when it is not JSON). */
  bytes: Uint8Array
  body: string
  json: unknown
  /** 1 for the first accepted connection, 2 for the next. Requests with keep-alive share one. */
  connection: number
  at: number
  /** The bytes of this request's script that the kernel has accepted so far. */
  readonly sent: number
  /**
   * When the peer closed or reset before the end of the script; otherwise null, and never resolved.
   */
  leftAt: number | null
  clientLeft: Promise<number>
}

/**
 * Starts a fake provider on a free loopback port. It answers with scripts. The caller closes it.
 */
export async function startUpstream(): Promise<Upstream> {
  const upstream = new Upstream()
  await upstream.listen()
  return upstream
}

/** A fake provider that plays scripts on raw TCP. An HTTP server would repair broken framing. */
export class Upstream {
  /** Every request, in the order in which they were completely read. */
  readonly hits: Hit[] = []
  readonly #server: Server = createServer({ allowHalfOpen: true }, socket => this.#accept(socket))
  readonly #gates = new Gates()
  readonly #lines = new Set<Connection>()
  readonly #awaited: { count: number; resolve: (hit: Hit) => void }[] = []
  #emptied = Promise.withResolvers<void>()
  #connections = 0
  #script: (hit: Hit) => Script = () => status(501, 'No script was planned')

  listen(): Promise<void> {
    return new Promise(resolve => this.#server.listen(0, '127.0.0.1', () => resolve()))
  }

  /** The base URL to configure a provider with. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`
  }

  /** The number of open connections. */
  get live(): number {
    return this.#lines.size
  }

  /** Plays the scripts for the next requests in turn. The last one repeats. */
  plan(...scripts: [Script, ...Script[]]) {
    let next = 0
    this.#script = () => scripts[Math.min(next++, scripts.length - 1)] ?? []
  }

  /** Picks each script by the request instead of by turn. */
  answer(script: (hit: Hit) => Script) {
    this.#script = script
  }

  /** Opens a barrier for every script that waits at it, now or later. */
  open(gate: string) {
    this.#gates.open(gate)
  }

  /** Resolves when a script has reached the barrier: the kernel then has all its earlier bytes. */
  reached(gate: string): Promise<void> {
    return this.#gates.reached(gate)
  }

  /** Resolves with the `count`th request, counted from 1, once it was completely read. */
  async hit(count = 1): Promise<Hit> {
    return this.hits[count - 1] ?? new Promise(resolve => this.#awaited.push({ count, resolve }))
  }

  /** Resolves when no connection is open. */
  async emptied(): Promise<void> {
    if (this.live > 0) await this.#emptied.promise
  }

  /** Drops every connection and stops listening. */
  async close(): Promise<void> {
    const closed = new Promise(resolve => this.#server.close(resolve))
    for (const line of this.#lines) line.drop()
    await Promise.all([closed, this.emptied()])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #accept(socket: Socket) {
    const line = new Connection(socket, ++this.#connections)
    this.#lines.add(line)
    socket.on('close', () => this.#forget(line))
    this.#converse(line)
  }

  #forget(line: Connection) {
    this.#lines.delete(line)
    if (this.live > 0) return
    this.#emptied.resolve()
    this.#emptied = Promise.withResolvers()
  }

  // A script that throws is a mistake in the test, so the test runner shall report the rejection.
  async #converse(line: Connection): Promise<void> {
    while (await this.#exchange(line));
    if (!line.isOver) await line.hangUp('fin')
  }

  async #exchange(line: Connection): Promise<boolean> {
    const request = await readRequest(line)
    if (!request) return false
    const hit = record(request, line)
    this.#log(hit)
    const script = this.#script(hit)
    await play(listSteps(script), line, this.#gates)
    line.onLeft = () => {}
    return keepsAlive(script) && !line.isOver
  }

  #log(hit: Hit) {
    this.hits.push(hit)
    for (const awaited of this.#awaited)
      if (awaited.count === this.hits.length) awaited.resolve(hit)
  }
}

type Request = Head & { body: Body }

async function readRequest({ inbox }: Connection): Promise<Request | null> {
  const head = await readHead(inbox)
  if (!head) return null
  const body = (await readBody(inbox, head)) ?? { bytes: Buffer.alloc(0), complete: true }
  return body.complete ? { ...head, body } : null
}

function record(request: Request, line: Connection): Hit {
  const [method = '', path = ''] = request.line.split(' ')
  const { bytes } = request.body
  const left = Promise.withResolvers<number>()
  const before = line.sent
  const hit: Hit = {
    method,
    path,
    headers: request.headers,
    bytes,
    body: bytes.toString(),
    json: parseJson(bytes.toString()),
    connection: line.number,
    at: performance.now(),
    get sent() {
      return line.sent - before
    },
    leftAt: null,
    clientLeft: left.promise,
  }
  line.onLeft = () => {
    hit.leftAt = performance.now()
    left.resolve(hit.leftAt)
  }
  return hit
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
