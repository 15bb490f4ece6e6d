import type { Socket } from 'node:net'
import { type ErrorType, GatewayError, STATUS, unavailable } from '../../base/errors.ts'

/*
 * Values as they cross between two servers: JSON, with a tag for what JSON has no form for. Both may
 * be of different versions, so the form depends on none of the runtime.
 */

/** Writes a value on one line. Throws a TypeError for a function. */
const writeValue = (value: unknown): string => JSON.stringify(tag(value))

/** Reads what `writeValue` has written. */
const readValue = (line: string): unknown => untag(JSON.parse(line))

function tag(value: unknown): unknown {
  if (typeof value === 'bigint') return { $n: String(value) }
  if (typeof value === 'function') throw new TypeError('A function that cannot be sent')
  if (typeof value === 'number' && !Number.isFinite(value)) return { $f: String(value) }
  if (typeof value !== 'object' || value === null) return value
  if (value instanceof Uint8Array) return { $b: Buffer.from(value).toString('base64') }
  if (value instanceof Date) return { $d: value.toISOString() }
  if (value instanceof Map) return { $m: [...value].map(tag) }
  if (value instanceof Set) return { $s: [...value].map(tag) }
  if (Array.isArray(value)) return value.map(tag)
  const entries = Object.entries(value).map(([name, one]) => [name, tag(one)] as const)
  const plain = Object.fromEntries(entries)
  // What looks like a tag is wrapped, so that it is read as it is.
  return entries.length === 1 && entries[0]?.[0].startsWith('$') ? { $o: plain } : plain
}

const READERS: Record<string, (value: never) => unknown> = {
  $n: (text: string) => BigInt(text),
  $f: (text: string) => Number(text),
  $b: (text: string) => new Uint8Array(Buffer.from(text, 'base64')),
  $d: (text: string) => new Date(text),
  $m: (entries: [unknown, unknown][]) => new Map(untag(entries) as [unknown, unknown][]),
  $s: (items: unknown[]) => new Set(untag(items) as unknown[]),
  $o: (plain: object) => untagFields(plain),
}

function untag(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(untag)
  const names = Object.keys(value)
  const read = names.length === 1 ? READERS[names[0] as string] : undefined
  return read ? read(Object.values(value)[0] as never) : untagFields(value)
}

const untagFields = (value: object): object =>
  Object.fromEntries(Object.entries(value).map(([name, one]) => [name, untag(one)]))

/** What one side answers, by the name of the request. */
type Answers = Record<string, (...parameters: never[]) => unknown>

/** One line: a request with a number, or the answer to it. */
interface Line {
  n?: number
  ask?: string
  with?: unknown[]
  is?: unknown
  error?: { type: string; message: string; metadata: Record<string, unknown> }
}

/**
 * Two servers that ask each other, over a local socket. Requests are begun in the order in which
 * they were sent.
 */
export class Channel {
  readonly #socket: Socket
  readonly #waiting = new Map<number, { resolve(value: unknown): void; reject(e: unknown): void }>()
  readonly #closed = Promise.withResolvers<void>()
  #answers: Answers
  #count = 0
  #begun = ''
  #isClosed = false

  constructor(socket: Socket, answers: Answers = {}) {
    this.#socket = socket
    this.#answers = answers
    socket.setEncoding('utf8')
    socket.on('data', text => this.#receive(String(text)))
    socket.on('error', () => this.#end())
    socket.on('close', () => this.#end())
  }

  /** Resolves when the other side has left. */
  get closed(): Promise<void> {
    return this.#closed.promise
  }

  /** Sets what this side answers from now on. */
  answer(answers: Answers): void {
    this.#answers = answers
  }

  /** Asks the other side. Throws what it throws, and 503 when it has left. */
  ask(name: string, ...parameters: unknown[]): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(hasLeft())
    const n = ++this.#count
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    this.#waiting.set(n, { resolve, reject })
    this.#write({ n, ask: name, with: parameters })
    return promise
  }

  /** Tells the other side, and waits for nothing. */
  tell(name: string, ...parameters: unknown[]): void {
    if (!this.#isClosed) this.#write({ ask: name, with: parameters })
  }

  close(): void {
    this.#socket.end()
    this.#end()
  }

  #write(line: Line): void {
    this.#socket.write(`${writeValue(line)}\n`)
  }

  #receive(text: string): void {
    const [first = '', ...others] = text.split('\n')
    this.#begun += first
    for (const next of others) {
      const line = this.#begun
      this.#begun = next
      this.#take(readValue(line) as Line)
    }
  }

  #take({ n, ask, with: parameters = [], is, error }: Line): void {
    if (ask !== undefined) return void this.#answerOne(n, ask, parameters)
    const waiting = this.#waiting.get(n ?? 0)
    this.#waiting.delete(n ?? 0)
    if (error) waiting?.reject(toError(error))
    else waiting?.resolve(is)
  }

  async #answerOne(n: number | undefined, ask: string, parameters: unknown[]): Promise<void> {
    const answer = this.#answers[ask]
    try {
      if (!answer) throw unavailable(`The other server does not know ${ask}`)
      const is = await answer(...(parameters as never[]))
      if (n !== undefined && !this.#isClosed) this.#write({ n, is })
    } catch (thrown) {
      const { type, message, metadata } = GatewayError.from(thrown)
      if (n !== undefined && !this.#isClosed) this.#write({ n, error: { type, message, metadata } })
    }
  }

  #end(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#closed.resolve()
    for (const { reject } of this.#waiting.values()) reject(hasLeft())
    this.#waiting.clear()
  }
}

const hasLeft = (): GatewayError => unavailable('The server that has taken over has left')

const toError = ({ type, message, metadata }: NonNullable<Line['error']>): GatewayError =>
  new GatewayError(Object.hasOwn(STATUS, type) ? (type as ErrorType) : 'server', message, {
    metadata,
  })
