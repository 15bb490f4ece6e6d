import type { Socket } from 'bun'

/** One side of a relay, and the other side of it. */
interface End {
  peer: Socket<End> | undefined
  /** What the other side has sent and this socket does not take yet. */
  waiting: Buffer[]
}

/**
 * Serves a relay, a process of its own: bytes go from socket to socket, unread. What a proxy costs
 * below this is the kernel's, and what it costs above is its own.
 */
export function serveSockets(): void {
  const { hostname, port } = new URL(process.env.UPSTREAM_URL ?? '')
  const behaviour = {
    data: (socket: Socket<End>, bytes: Buffer) => {
      const { peer } = socket.data
      if (peer) send(peer, bytes)
      else socket.data.waiting.push(Buffer.from(bytes))
    },
    drain: flush,
    close: (socket: Socket<End>) => void socket.data.peer?.terminate(),
    error: (socket: Socket<End>) => void socket.terminate(),
  }
  const open = async (client: Socket<End>) => {
    client.data = { peer: undefined, waiting: [] }
    const data: End = { peer: client, waiting: [] }
    const provider = await Bun.connect({ hostname, port: Number(port), data, socket: behaviour })
    // What the client has sent meanwhile waits at its own side.
    const early = client.data.waiting.splice(0)
    client.data.peer = provider
    for (const bytes of early) send(provider, bytes)
  }
  const fail = (client: Socket<End>) => void client.terminate()
  const server = Bun.listen<End>({
    hostname: '127.0.0.1',
    port: 0,
    socket: { ...behaviour, open: client => void open(client).catch(() => fail(client)) },
  })
  const url = `http://127.0.0.1:${server.port}`
  process.stdout.write(`${JSON.stringify({ event: 'listening', url })}\n`)
}

function send(socket: Socket<End>, bytes: Buffer): void {
  const { waiting } = socket.data
  if (waiting.length > 0) return void waiting.push(Buffer.from(bytes))
  const written = Math.max(0, socket.write(bytes))
  if (written < bytes.length) waiting.push(Buffer.from(bytes.subarray(written)))
}

function flush(socket: Socket<End>): void {
  const rest = Buffer.concat(socket.data.waiting.splice(0))
  if (rest.length > 0) send(socket, rest)
}
