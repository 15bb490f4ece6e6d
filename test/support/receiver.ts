import { createServer, type Socket } from 'node:net'

/** A request that a receiver has got. */
export interface ReceivedRequest {
  method: string
  path: string
  headers: Record<string, string>
  body: string
}

/** How a receiver answers: a status, with headers and a body; or without an HTTP answer. */
export type ReceiverAnswer =
  | { status: number; headers?: Record<string, string>; body?: string }
  | 'reset'
  | 'hang'
  | 'endless'

/** A receiver of deliveries on loopback, whose answers a test decides. */
export interface Receiver {
  url: string
  /** `127.0.0.1:4318`, for `security.allow_private_urls`. */
  host: string
  readonly requests: ReceivedRequest[]
  /** How many connections have come in all. */
  connections: number
  /** Answers each request; 200 by default. */
  answer: (request: ReceivedRequest, index: number) => ReceiverAnswer
  /** Resolves when so many requests have come in all. */
  waitFor(count: number): Promise<void>
  /** Closes every connection, as servers do with idle ones. Resolves when the others know. */
  hangUp(): Promise<void>
  close(): Promise<void>
}

/** Starts a receiver. It speaks just enough HTTP/1.1, so that it can also break it. */
export async function startReceiver(): Promise<Receiver> {
  const sockets = new Set<Socket>()
  const waiting: { count: number; resolve: () => void }[] = []
  const server = createServer(socket => {
    sockets.add(socket)
    receiver.connections += 1
    let text = ''
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    socket.on('data', bytes => {
      text += bytes.toString('latin1')
      const request = parseRequest(text)
      if (!request) return
      text = ''
      receiver.requests.push(request)
      respond(socket, receiver.answer(request, receiver.requests.length - 1))
      for (const { count, resolve } of waiting) if (receiver.requests.length >= count) resolve()
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  const { port } = server.address() as { port: number }
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}`,
    host: `127.0.0.1:${port}`,
    requests: [],
    connections: 0,
    answer: () => ({ status: 200 }),
    waitFor: count =>
      new Promise(resolve => {
        if (receiver.requests.length >= count) resolve()
        else waiting.push({ count, resolve })
      }),
    async hangUp() {
      const open = [...sockets]
      const closed = open.map(socket => new Promise(resolve => socket.on('close', resolve)))
      for (const socket of open) socket.end()
      await Promise.all(closed)
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise<void>(resolve => server.close(() => resolve()))
    },
  }
  return receiver
}

function parseRequest(text: string): ReceivedRequest | null {
  const end = text.indexOf('\r\n\r\n')
  if (end === -1) return null
  const [line = '', ...lines] = text.slice(0, end).split('\r\n')
  const headers = Object.fromEntries(
    lines.map(header => {
      const colon = header.indexOf(':')
      return [header.slice(0, colon).toLowerCase(), header.slice(colon + 1).trim()]
    }),
  )
  const length = Number(headers['content-length'] ?? 0)
  const body = text.slice(end + 4)
  if (body.length < length) return null
  const [method = '', path = ''] = line.split(' ')
  return { method, path, headers, body: Buffer.from(body, 'latin1').toString('utf8') }
}

function respond(socket: Socket, answer: ReceiverAnswer): void {
  if (answer === 'hang') return
  if (answer === 'reset') socket.resetAndDestroy()
  else if (answer === 'endless') pour(socket)
  else writeAnswer(socket, answer)
}

function writeAnswer(socket: Socket, answer: Exclude<ReceiverAnswer, string>): void {
  const { status, headers = {}, body = '{}' } = answer
  const lines = Object.entries({ 'content-length': String(Buffer.byteLength(body)), ...headers })
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.write(`HTTP/1.1 ${status} X\r\n${head}\r\n${body}`)
}

/** Writes a hundred megabytes, or until nobody reads any more. */
function pour(socket: Socket): void {
  const size = 100 * 1024 * 1024
  const piece = Buffer.alloc(64 * 1024, 0x20)
  let left = size
  socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`)
  const write = () => {
    while (left > 0 && !socket.destroyed) {
      left -= piece.length
      if (!socket.write(piece)) return void socket.once('drain', write)
    }
  }
  write()
}
