import type { ListenerCalls } from '../../../base/listener-calls.ts'
import type { GivenSocket } from '../../../server/listen/given-socket.ts'

/** The first descriptor that systemd passes: sd_listen_fds(3). */
const FIRST = 3

/**
 * Takes the socket that systemd has opened for this process; null if there is none. Throws for
 * sockets that a gateway cannot use, and where the command says another address.
 */
export async function takeSystemdSocket(flag: string | undefined): Promise<GivenSocket | null> {
  const { LISTEN_PID, LISTEN_FDS } = process.env
  if (LISTEN_FDS === undefined) return null
  for (const name of ['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES']) delete process.env[name]
  if (LISTEN_PID === undefined) throw new Error('LISTEN_FDS: expected LISTEN_PID beside it')
  // Meant for another process, whose environment this one has inherited.
  if (LISTEN_PID !== String(process.pid)) return null
  if (LISTEN_FDS !== '1')
    throw new Error(`LISTEN_FDS=${LISTEN_FDS}: expected 1, since a gateway has one socket`)
  if (flag !== undefined)
    throw new Error(`${flag}: systemd has opened the socket (LISTEN_FDS), and its unit says where`)
  const calls = await openCalls('LISTEN_FDS')
  const socket = calls.readBound(FIRST)
  if (!socket)
    throw new Error(
      `LISTEN_FDS=1: descriptor ${FIRST} is no TCP socket that listens ` +
        '(ListenStream= in the socket’s unit, with an address and a port)',
    )
  return { socket, calls }
}

/** Opens the calls that take sockets over. Throws on other systems than Linux. */
export async function openCalls(what: string): Promise<ListenerCalls> {
  const { openListenerCalls } = await import('../../../base/listener-calls.ts')
  const calls = await openListenerCalls()
  if (!calls) throw new Error(`${what}: sockets can be taken over on Linux only`)
  return calls
}

/**
 * Tells systemd that the server is ready, or whatever else of sd_notify(3). Does nothing where
 * it was not asked to.
 */
export async function notifySystemd(text: string): Promise<void> {
  const path = process.env.NOTIFY_SOCKET
  if (!path) return
  const { openListenerCalls } = await import('../../../base/listener-calls.ts')
  const calls = await openListenerCalls()
  calls?.send(path, text)
}
