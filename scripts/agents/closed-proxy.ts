import type { AddressInfo } from 'node:net'
import { connect, createServer, type Server, type Socket } from 'node:net'

/** A proxy that leads to one address of this host, and refuses all others. */
export interface ClosedProxy {
  url: string
  stop(): void
}

const REFUSED = 'HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n'
const OPENED = 'HTTP/1.1 200 Connection established\r\n\r\n'

/**
 * Starts the proxy that agents are given, so that they reach the gateway and nobody else. Those that
 * honour `NO_PROXY` do not ask it for the gateway.
 */
export async function startClosedProxy(allowed: string): Promise<ClosedProxy> {
  const { host, port } = new URL(allowed)
  const server = createServer(socket => {
    socket.on('error', () => socket.destroy())
    socket.once('data', head => {
      if (!head.toString('latin1').startsWith(`CONNECT ${host} `)) socket.end(REFUSED)
      else joinTo(socket, Number(port))
    })
  })
  await listenOn(server)
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    stop: () => void server.close(),
  }
}

function joinTo(socket: Socket, port: number): void {
  const other = connect(port, '127.0.0.1', () => {
    socket.write(OPENED)
    socket.pipe(other).pipe(socket)
  })
  other.on('error', () => socket.destroy())
}

const listenOn = (server: Server): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
