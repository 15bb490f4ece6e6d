import { type AddressInfo, createServer, type Socket } from 'node:net'

/** A server that counts its connections and handles each as a test specifies. */
export interface RawServer extends AsyncDisposable {
  port: number
  url: string
  /** The number of connections so far, and of those that are still open. */
  readonly accepted: number
  readonly open: number
  /** All received bytes of all connections, as text. */
  readonly received: string
}

export async function startRawServer(
  converse: (socket: Socket, number: number) => void,
): Promise<RawServer> {
  const sockets = new Set<Socket>()
  let accepted = 0
  let received = ''
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => socket.destroy())
    socket.on('data', bytes => {
      received += bytes.toString('latin1')
    })
    converse(socket, ++accepted)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://127.0.0.1:${port}/`,
    get accepted() {
      return accepted
    },
    get open() {
      return sockets.size
    },
    get received() {
      return received
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise(resolve => server.close(resolve))
    },
  }
}

/** Waits until the condition holds. Throws after so long that no machine is that slow. */
export async function until(isSo: () => boolean): Promise<void> {
  const limit = performance.now() + 45_000
  while (!isSo()) {
    if (performance.now() > limit) throw new Error(`Still not so: ${isSo}`)
    await Bun.sleep(2)
  }
}
