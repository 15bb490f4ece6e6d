import type { BoundSocket, ListenerCalls } from '../../base/listener-calls.ts'

/** A socket that somebody else has opened, and what puts it into use. */
export interface GivenSocket {
  socket: BoundSocket
  calls: ListenerCalls
}

/**
 * Has a server accept at a given socket in place of its own. Bun has no setting for a socket that is
 * open, so the server opens one of its own that makes place for it.
 */
export function useSocket({ socket, calls }: GivenSocket, server: Bun.Server<undefined>): void {
  const served = calls.findListener(server.port ?? 0)
  if (served === null) throw new Error('The socket of the server cannot be found')
  calls.replace(served, socket.descriptor)
}
