import { chmodSync, closeSync, existsSync, openSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseObject } from '../base/json.ts'
import { giveToOwner } from '../base/owner.ts'
import { listWorkers } from './data-directory.ts'

/** The socket on which a server tells its state to those who may read its data directory. */
const NAME = 'serve.sock'

/** In bytes: the longest path of a socket that every system takes. */
const LONGEST_PATH = 100

/** In characters: the longest request that a server reads. */
const LONGEST_REQUEST = 10_000

/** Batches of lines for one reader, each line as JSON. `return` ends them. */
export type Lines = AsyncIterator<string[]>

/** What a server tells over its socket. */
interface Told {
  /** Its state, on one line: the first thing that every reader gets. */
  describe(): string
  /** Answers a request, which is one line of JSON. Undefined: it is not understood. */
  answer(request: Record<string, unknown>): Lines | undefined
}

/** One reader: what it has sent so far, and what waits until it can take more. */
interface Reader {
  decoder: TextDecoder
  request: string
  lines: Lines | undefined
  wake: (() => void) | null
  isClosed: boolean
}

/**
 * Answers each connection to the socket of a data directory with one line, and then a request of
 * it, and returns the function that stops this. A socket that a killed server has left is replaced:
 * the lock says that no other server is running. Throws what the system throws where there can be
 * no socket.
 */
export function serveStatus(data: string, told: Told): () => void {
  const path = join(data, NAME)
  rmSync(path, { force: true })
  const { path: short, close } = openShortPath(data)
  try {
    const server = Bun.listen<Reader>({
      unix: short,
      socket: {
        open(socket) {
          const decoder = new TextDecoder()
          socket.data = { decoder, request: '', lines: undefined, wake: null, isClosed: false }
          // The reader closes: what is written to a socket that is closed at once may not be read.
          socket.write(`${told.describe()}\n`)
        },
        data: (socket, bytes) => readRequest(socket, bytes, told),
        drain: ({ data }) => data.wake?.(),
        close: ({ data }) => endReader(data),
        error: ({ data }) => endReader(data),
      },
    })
    chmodSync(path, 0o600)
    giveToOwner(path)
    return () => {
      server.stop(true)
      rmSync(path, { force: true })
    }
  } finally {
    close()
  }
}

function endReader(reader: Reader): void {
  reader.isClosed = true
  reader.wake?.()
  void reader.lines?.return?.()
}

function readRequest(socket: Bun.Socket<Reader>, bytes: Uint8Array, told: Told): void {
  const reader = socket.data
  if (reader.lines) return
  reader.request += reader.decoder.decode(bytes, { stream: true })
  const end = reader.request.indexOf('\n')
  if (end === -1 && reader.request.length <= LONGEST_REQUEST) return
  const request = end === -1 ? undefined : parseObject(reader.request.slice(0, end))
  reader.lines = request && told.answer(request)
  if (reader.lines) void pumpLines(socket, reader, reader.lines)
  else socket.end()
}

/** Writes lines as the reader takes them. One that takes none makes nothing else wait. */
async function pumpLines(socket: Bun.Socket<Reader>, reader: Reader, lines: Lines): Promise<void> {
  for (let step = await lines.next(); !step.done; step = await lines.next()) {
    if (!(await writeAll(socket, reader, `${step.value.join('\n')}\n`))) return
  }
  socket.end()
}

async function writeAll(
  socket: Bun.Socket<Reader>,
  reader: Reader,
  text: string,
): Promise<boolean> {
  let rest = Buffer.from(text)
  while (!reader.isClosed) {
    const written = socket.write(rest)
    if (written < 0) return false
    rest = rest.subarray(written)
    if (rest.length === 0) return true
    const { promise, resolve } = Promise.withResolvers<void>()
    reader.wake = resolve
    await promise
  }
  return false
}

/** In milliseconds. A server that is busy answers within a turn of its event loop. */
const LONGEST_WAIT = 5_000

/**
 * Reads what the server of a data directory tells. Undefined where none answers: nothing listens,
 * or not within five seconds.
 */
export async function readStatus(data: string): Promise<string | undefined> {
  const conversation = await openConversation(data)
  conversation?.close()
  return conversation?.status
}

/** Returns the address of the server of a data directory. Undefined as for `readStatus`. */
export async function readServerUrl(data: string): Promise<string | undefined> {
  const status = await readStatus(data)
  const url = status === undefined ? undefined : parseObject(status)?.url
  return typeof url === 'string' ? url : undefined
}

/**
 * Returns the config file that the server of a data directory started with; null for the defaults.
 * Undefined as for `readStatus`.
 */
export async function readServedConfig(data: string): Promise<string | null | undefined> {
  const isThere = existsSync(join(data, NAME)) || listWorkers(data).length > 0
  const status = isThere ? await readStatus(data) : undefined
  const config = status === undefined ? undefined : parseObject(status)?.config
  return (config as { file: string | null } | undefined)?.file
}

/**
 * Returns where the server of a data directory has its data: there, or in Postgres. Undefined as for
 * `readStatus`, and for a server that does not tell.
 */
export async function readStore(data: string): Promise<unknown> {
  const status = await readStatus(data)
  return status === undefined ? undefined : parseObject(status)?.store
}

/** A connection to the server of a data directory. */
export interface Conversation {
  /** What the server tells about itself. */
  status: string
  /** The lines of its answer as they come together, until it ends or is closed. */
  batches: AsyncGenerator<string[], void>
  close(): void
}

/**
 * Connects to the server of a data directory, or to all that are beneath it, and sends a request, if
 * there is one. Undefined as for `readStatus`.
 */
export async function openConversation(
  data: string,
  request?: Record<string, unknown>,
): Promise<Conversation | undefined> {
  const conversation = await converse(data, request && (() => request))
  if (conversation || listWorkers(data).length === 0) return conversation
  const { openWorkers } = await import('./status-socket/workers.ts')
  return openWorkers(data, request, converse)
}

async function converse(data: string, request?: () => object): Promise<Conversation | undefined> {
  const { path, close } = openShortPath(data)
  const incoming = new IncomingLines()
  const timer = setTimeout(() => incoming.end(), LONGEST_WAIT)
  try {
    const socket = await Bun.connect({
      unix: path,
      socket: {
        data: (_, bytes) => incoming.add(bytes),
        close: () => incoming.end(),
        error: () => incoming.end(),
      },
    })
    const batches = incoming.read()
    const { value: [status, ...more] = [] } = await batches.next()
    if (status === undefined) {
      socket.end()
      return undefined
    }
    incoming.putBack(more)
    if (request) socket.write(`${JSON.stringify(request())}\n`)
    const end = () => {
      incoming.end()
      socket.end()
    }
    return { status, batches, close: end }
  } catch {
    return undefined
  } finally {
    clearTimeout(timer)
    close()
  }
}

/** Lines as they arrive. */
class IncomingLines {
  readonly #decoder = new TextDecoder()
  #waiting: string[] = []
  #begun = ''
  #isEnded = false
  #wake: (() => void) | null = null

  add(bytes: Uint8Array): void {
    const [first = '', ...others] = this.#decoder.decode(bytes, { stream: true }).split('\n')
    this.#begun += first
    for (const text of others) {
      this.#waiting.push(this.#begun)
      this.#begun = text
    }
    this.#wake?.()
  }

  end(): void {
    this.#isEnded = true
    this.#wake?.()
  }

  putBack(lines: string[]): void {
    this.#waiting.unshift(...lines)
  }

  async *read(): AsyncGenerator<string[], void> {
    for (;;) {
      const lines = this.#waiting
      this.#waiting = []
      if (lines.length > 0) yield lines
      if (this.#waiting.length > 0) continue
      if (this.#isEnded) return
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#wake = resolve
      await promise
    }
  }
}

/** Opens a path to a socket that is short enough: a deep one goes through the open directory. */
export function openShortPath(data: string, name = NAME): { path: string; close(): void } {
  const path = join(data, name)
  if (Buffer.byteLength(path) <= LONGEST_PATH || process.platform !== 'linux')
    return { path, close: () => undefined }
  const directory = openSync(data, 'r')
  return { path: `/proc/self/fd/${directory}/${name}`, close: () => closeSync(directory) }
}
