import { dlopen, FFIType, ptr } from 'bun:ffi'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** In seconds: the silence before a client's system is asked, and between further questions. */
const IDLE = 30
const INTERVAL = 10

/** After so many questions without an answer the connection is over. */
const QUESTIONS = 3

// Numbers of Linux: socket(7) and tcp(7).
const SOL_SOCKET = 1
const OPTIONS = [
  [SOL_SOCKET, 9, 1],
  [6, 4, IDLE],
  [6, 5, INTERVAL],
  [6, 6, QUESTIONS],
] as const

/**
 * Has the system ask clients that are silent whether they are still there (TCP keep-alive, RFC 1122,
 * 4.2.3.6): one that has vanished gives its descriptor back after a minute. Bun has no setting for
 * it, but accepted connections inherit it from the socket that listens on the port. Returns false
 * where that is not possible: on other systems than Linux, or without glibc.
 */
export function keepConnectionsAlive(port: number): boolean {
  try {
    const sockets = findListening(port)
    for (const socket of sockets)
      for (const [level, name, value] of OPTIONS) setOption(socket, level, name, value)
    return sockets.length > 0
  } catch {
    return false
  }
}

function setOption(socket: number, level: number, name: number, value: number): void {
  const bytes = new Int32Array([value])
  const failed = getLibrary().symbols.setsockopt(socket, level, name, ptr(bytes), 4)
  if (failed) throw new Error('An option that the system refuses')
}

let library: ReturnType<typeof openLibrary> | undefined

function getLibrary(): ReturnType<typeof openLibrary> {
  library ??= openLibrary()
  return library
}

const { i32, u32, ptr: pointer } = FFIType

const openLibrary = () =>
  dlopen('libc.so.6', { setsockopt: { args: [i32, i32, i32, pointer, u32], returns: i32 } })

/** The state of a socket that listens, in `/proc/net/tcp`. */
const LISTENING = '0A'

/** Finds the descriptors of this process that listen on a port. */
function findListening(port: number): number[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  const inodes = ['/proc/self/net/tcp', '/proc/self/net/tcp6']
    .flatMap(readRows)
    .filter(row => row[1]?.endsWith(suffix) && row[3] === LISTENING)
    .map(row => `socket:[${row[9]}]`)
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter(fd => inodes.includes(readTarget(fd)))
}

const readRows = (path: string): string[][] => {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .map(line => line.trim().split(/\s+/))
  } catch {
    return []
  }
}

function readTarget(descriptor: number): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`)
  } catch {
    return ''
  }
}
