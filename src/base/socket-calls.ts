/** A connection that was accepted and has got no answer yet. */
interface UnansweredSocket {
  /** The port of the other side. */
  peerPort: number
  /** Milliseconds since it was accepted. */
  age: number
}

/** Calls of the system on the descriptors of this process. */
export interface SocketCalls {
  /**
   * Looks at one descriptor. Returns null unless it is a connection that was accepted at this port
   * and that nothing has been sent on.
   */
  findUnanswered(descriptor: number, port: number): UnansweredSocket | null
  /** Tells whether a descriptor is a socket that listens on this port. */
  isListening(descriptor: number, port: number): boolean
  /** Sets an option of a socket to a number. Throws if the system refuses it. */
  setOption(descriptor: number, level: number, name: number, value: number): void
  /** Ends a connection. Its owner learns that it has closed, and frees the descriptor. */
  shutDown(descriptor: number): void
}

// From the headers of Linux: asm-generic/socket.h, netinet/in.h and linux/tcp.h.
export const SOL_SOCKET = 1
const SO_ACCEPTCONN = 30
export const IPPROTO_TCP = 6
const TCP_INFO = 11
const SHUT_RDWR = 2
const FAMILIES = [2, 10]
/** The places in `struct tcp_info`: milliseconds since data was sent, and bytes that have arrived. */
const LAST_DATA_SENT = 44
const BYTES_ACKED = 120
/** Some kernels count the start of the connection as a byte. */
const NO_BYTES = 1n

let opened: Promise<SocketCalls | null> | undefined

/** Opens the calls, once. Resolves to null on other systems than Linux, which name them otherwise. */
export function openSocketCalls(): Promise<SocketCalls | null> {
  opened ??= process.platform === 'linux' ? openLinuxCalls() : Promise.resolve(null)
  return opened
}

async function openLinuxCalls(): Promise<SocketCalls> {
  const { dlopen, ptr } = await import('bun:ffi')
  const { symbols } = dlopen('libc.so.6', {
    getsockname: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
    getpeername: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
    getsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'ptr'], returns: 'i32' },
    setsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'u32'], returns: 'i32' },
    shutdown: { args: ['i32', 'i32'], returns: 'i32' },
  })
  const address = Buffer.alloc(128)
  const info = Buffer.alloc(256)
  const size = new Uint32Array(1)
  const [addressAt, infoAt, sizeAt] = [ptr(address), ptr(info), ptr(size)]

  function readPort(read: (descriptor: number) => number, descriptor: number): number | null {
    size[0] = address.length
    if (read(descriptor) !== 0 || !FAMILIES.includes(address.readUInt16LE(0))) return null
    return address.readUInt16BE(2)
  }

  function readAge(descriptor: number): number | null {
    size[0] = info.length
    const failed = symbols.getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, infoAt, sizeAt) !== 0
    if (failed || (size[0] ?? 0) < BYTES_ACKED + 8) return null
    // Where nothing was sent, the kernel counts from the start of the connection.
    return info.readBigUInt64LE(BYTES_ACKED) > NO_BYTES ? null : info.readUInt32LE(LAST_DATA_SENT)
  }

  const readOwnPort = (at: number) => symbols.getsockname(at, addressAt, sizeAt)
  const readPeerPort = (at: number) => symbols.getpeername(at, addressAt, sizeAt)
  return {
    findUnanswered(descriptor, port) {
      if (readPort(readOwnPort, descriptor) !== port) return null
      const peerPort = readPort(readPeerPort, descriptor)
      const age = peerPort === null ? null : readAge(descriptor)
      return peerPort === null || age === null ? null : { peerPort, age }
    },
    isListening(descriptor, port) {
      size[0] = info.length
      const accepts = [descriptor, SOL_SOCKET, SO_ACCEPTCONN, infoAt, sizeAt] as const
      return (
        readPort(readOwnPort, descriptor) === port &&
        symbols.getsockopt(...accepts) === 0 &&
        info.readInt32LE(0) === 1
      )
    },
    setOption(descriptor, level, name, value) {
      info.writeInt32LE(value)
      if (symbols.setsockopt(descriptor, level, name, infoAt, 4) !== 0)
        throw new Error('An option that the system refuses')
    },
    shutDown: descriptor => void symbols.shutdown(descriptor, SHUT_RDWR),
  }
}
