import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'

/** A socket that listens, with the address that it was bound to. */
export interface BoundSocket {
  descriptor: number
  /** The address, without brackets. */
  host: string
  port: number
}

/** Calls of the system on sockets that listen: Bun serves only on those that it opens itself. */
export interface ListenerCalls {
  /** Reads where a descriptor listens. Null unless it is a TCP socket that listens. */
  readBound(descriptor: number): BoundSocket | null
  /** Finds the descriptor that listens on this port; null if there is none. */
  findListener(port: number): number | null
  /**
   * Puts a listening socket in the place of another one, which this process serves and which is
   * closed; connections that wait at the new one are accepted from now on. Frees the descriptor.
   */
  replace(served: number, descriptor: number): void
  /** Counts the connections that were accepted at this port. */
  countConnections(port: number): number
  /** Has a served socket accept nothing more: who else has it may. */
  pause(served: number): void
  /** Lets a served socket go: this process accepts nothing more, and who else has it may. */
  letGo(served: number): void
  /** Sends a datagram, with descriptors, to a local socket. A name with `@` is abstract. */
  send(path: string, text: string, descriptors?: number[]): void
  /** Opens a local socket at a path for datagrams. */
  openMailbox(path: string): Mailbox
}

/** Where datagrams arrive. */
export interface Mailbox {
  /** Takes the next datagram; null if none has arrived. */
  receive(): { text: string; descriptors: number[] } | null
  close(): void
}

// From the headers of Linux: bits/socket.h, asm-generic/socket.h, sys/epoll.h and fcntl.h.
const [AF_UNIX, AF_INET, AF_INET6] = [1, 2, 10]
const SOCK_DGRAM = 2
const SOCK_CLOEXEC = 0o2000000
const [SOL_SOCKET, SO_ACCEPTCONN, SO_DOMAIN, SO_PROTOCOL] = [1, 30, 39, 38]
const IPPROTO_TCP = 6
const SCM_RIGHTS = 1
const [MSG_DONTWAIT, MSG_CMSG_CLOEXEC] = [0x40, 0x40000000]
const [EPOLL_CTL_ADD, EPOLL_CTL_DEL] = [1, 2]
const [F_GETFL, F_SETFL, O_NONBLOCK] = [3, 4, 0o4000]
const O_CLOEXEC = 0o2000000

/** In bytes: the head of a control message, and the longest path of a local socket. */
const CONTROL_HEAD = 16
const LONGEST_PATH = 107

/** In bytes: the longest text of a datagram here. */
const LONGEST_TEXT = 1_024

/** Descriptors that a datagram may carry here. */
const MOST_DESCRIPTORS = 8

/** How a descriptor is watched by the event loop. */
interface Watched {
  epoll: number
  events: number
  data: bigint
}

/** Opens the calls. Resolves to null on other systems than Linux. */
export async function openListenerCalls(): Promise<ListenerCalls | null> {
  if (process.platform !== 'linux') return null
  const { dlopen, ptr } = await import('bun:ffi')
  const { symbols: libc } = dlopen('libc.so.6', {
    getsockname: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
    getsockopt: { args: ['i32', 'i32', 'i32', 'ptr', 'ptr'], returns: 'i32' },
    dup3: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
    close: { args: ['i32'], returns: 'i32' },
    fcntl: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
    epoll_ctl: { args: ['i32', 'i32', 'i32', 'ptr'], returns: 'i32' },
    socket: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
    bind: { args: ['i32', 'ptr', 'u32'], returns: 'i32' },
    sendmsg: { args: ['i32', 'ptr', 'i32'], returns: 'i64' },
    recvmsg: { args: ['i32', 'ptr', 'i32'], returns: 'i64' },
  })
  function readOption(descriptor: number, option: number): number | null {
    const [value, size] = [new Int32Array(1), new Uint32Array([4])]
    const failed = libc.getsockopt(descriptor, SOL_SOCKET, option, ptr(value), ptr(size)) !== 0
    return failed ? null : (value[0] ?? null)
  }

  function readBound(descriptor: number): BoundSocket | null {
    const family = readOption(descriptor, SO_DOMAIN)
    if (family !== AF_INET && family !== AF_INET6) return null
    if (readOption(descriptor, SO_PROTOCOL) !== IPPROTO_TCP) return null
    if (readOption(descriptor, SO_ACCEPTCONN) !== 1) return null
    const [address, size] = [Buffer.alloc(128), new Uint32Array([128])]
    if (libc.getsockname(descriptor, ptr(address), ptr(size)) !== 0) return null
    const host = family === AF_INET ? renderV4(address) : renderV6(address)
    return { descriptor, host, port: address.readUInt16BE(2) }
  }

  function countConnections(port: number): number {
    let count = 0
    const [address, size] = [Buffer.alloc(128), new Uint32Array(1)]
    for (const name of readdirSync('/proc/self/fd')) {
      size[0] = address.length
      if (libc.getsockname(Number(name), ptr(address), ptr(size)) !== 0) continue
      const family = address.readUInt16LE(0)
      const isOurs = family === AF_INET || family === AF_INET6
      if (isOurs && address.readUInt16BE(2) === port) count += 1
    }
    return count
  }

  function control(epoll: number, operation: number, descriptor: number, event: Buffer): void {
    if (libc.epoll_ctl(epoll, operation, descriptor, ptr(event)) !== 0)
      throw new Error('A socket that the event loop does not take')
  }

  function watch(descriptor: number, watched: Watched): void {
    control(watched.epoll, EPOLL_CTL_ADD, descriptor, buildEvent(watched))
  }

  function send(path: string, text: string, descriptors: number[] = []): void {
    const socket = libc.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
    try {
      const message = buildMessage(ptr, Buffer.from(text), descriptors, buildAddress(path))
      if (libc.sendmsg(socket, ptr(message.head), MSG_DONTWAIT) < 0)
        throw new Error(`${path}: nobody takes what is sent there`)
    } finally {
      libc.close(socket)
    }
  }

  function openMailbox(path: string): Mailbox {
    const socket = libc.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
    const address = buildAddress(path)
    if (libc.bind(socket, ptr(address), address.length) !== 0) {
      libc.close(socket)
      throw new Error(`${path}: no socket can be made there`)
    }
    return {
      receive() {
        const text = Buffer.alloc(LONGEST_TEXT)
        const message = buildMessage(ptr, text, Array(MOST_DESCRIPTORS).fill(-1))
        const size = libc.recvmsg(socket, ptr(message.head), MSG_DONTWAIT | MSG_CMSG_CLOEXEC)
        if (size < 0) return null
        return {
          text: text.toString('utf8', 0, Number(size)),
          descriptors: readDescriptors(message),
        }
      },
      close: () => void libc.close(socket),
    }
  }

  return {
    readBound,
    countConnections,
    findListener(port) {
      for (const name of readdirSync('/proc/self/fd'))
        if (readBound(Number(name))?.port === port) return Number(name)
      return null
    },
    replace(served, descriptor) {
      const watched = findWatched(served)
      libc.fcntl(descriptor, F_SETFL, libc.fcntl(descriptor, F_GETFL, 0) | O_NONBLOCK)
      if (libc.dup3(descriptor, served, O_CLOEXEC) < 0)
        throw new Error('A socket that cannot be used')
      libc.close(descriptor)
      watch(served, watched)
    },
    pause(served) {
      const watched = findWatched(served)
      control(watched.epoll, EPOLL_CTL_DEL, served, buildEvent(watched))
    },
    letGo(served) {
      const watched = findWatched(served)
      control(watched.epoll, EPOLL_CTL_DEL, served, buildEvent(watched))
      // Its number stays taken: the server closes it when it stops.
      const nothing = openSync('/dev/null', 'r')
      libc.dup3(nothing, served, O_CLOEXEC)
      closeSync(nothing)
    },
    send,
    openMailbox,
  }
}

const renderV4 = (address: Buffer): string => address.subarray(4, 8).join('.')

function renderV6(address: Buffer): string {
  const groups = Array.from({ length: 8 }, (_, i) => address.readUInt16BE(8 + 2 * i).toString(16))
  return new URL(`http://[${groups.join(':')}]`).hostname.slice(1, -1)
}

/** Finds how the event loop watches a descriptor, as Linux tells it: proc_pid_fdinfo(5). */
function findWatched(descriptor: number): Watched {
  for (const name of readdirSync('/proc/self/fdinfo')) {
    const [, events, data] =
      new RegExp(`^tfd: +${descriptor} events: +(\\w+) data: +(\\w+)`, 'm').exec(readInfo(name)) ??
      []
    if (events === undefined || data === undefined) continue
    return { epoll: Number(name), events: Number.parseInt(events, 16), data: BigInt(`0x${data}`) }
  }
  throw new Error('A socket that this process does not serve')
}

// What was open when they were listed may be closed.
function readInfo(name: string): string {
  try {
    return readFileSync(`/proc/self/fdinfo/${name}`, 'utf8')
  } catch {
    return ''
  }
}

/** Builds a `struct epoll_event`, which has no gap on x86 alone. */
function buildEvent({ events, data }: Watched): Buffer {
  const event = Buffer.alloc(16)
  event.writeUInt32LE(events, 0)
  event.writeBigUInt64LE(data, process.arch === 'x64' ? 4 : 8)
  return event
}

/** Builds a `struct sockaddr_un`. Throws for a path that is too long. */
function buildAddress(path: string): Buffer {
  const name = Buffer.from(path)
  if (name.length > LONGEST_PATH) throw new Error(`${path}: the path of a socket is too long`)
  const isAbstract = path.startsWith('@')
  const address = Buffer.alloc(2 + name.length + (isAbstract ? 0 : 1))
  address.writeUInt16LE(AF_UNIX, 0)
  name.copy(address, 2)
  if (isAbstract) address[2] = 0
  return address
}

/** A `struct msghdr`, and what it points to, which has to live as long. */
interface Message {
  head: Buffer
  control: Buffer
  parts: Buffer[]
}

function buildMessage(
  ptr: (buffer: Buffer) => number,
  text: Buffer,
  descriptors: number[],
  address?: Buffer,
): Message {
  const control = Buffer.alloc(Math.ceil((CONTROL_HEAD + 4 * descriptors.length) / 8) * 8)
  control.writeBigUInt64LE(BigInt(CONTROL_HEAD + 4 * descriptors.length), 0)
  control.writeInt32LE(SOL_SOCKET, 8)
  control.writeInt32LE(SCM_RIGHTS, 12)
  for (const [i, descriptor] of descriptors.entries())
    control.writeInt32LE(descriptor, CONTROL_HEAD + 4 * i)
  const vector = Buffer.alloc(16)
  vector.writeBigUInt64LE(BigInt(ptr(text)), 0)
  vector.writeBigUInt64LE(BigInt(text.length), 8)
  const head = Buffer.alloc(56)
  if (address) {
    head.writeBigUInt64LE(BigInt(ptr(address)), 0)
    head.writeUInt32LE(address.length, 8)
  }
  head.writeBigUInt64LE(BigInt(ptr(vector)), 16)
  head.writeBigUInt64LE(1n, 24)
  if (descriptors.length > 0) {
    head.writeBigUInt64LE(BigInt(ptr(control)), 32)
    head.writeBigUInt64LE(BigInt(control.length), 40)
  }
  return { head, control, parts: [text, vector, ...(address ? [address] : [])] }
}

function readDescriptors({ head, control }: Message): number[] {
  if (Number(head.readBigUInt64LE(40)) < CONTROL_HEAD) return []
  if (control.readInt32LE(8) !== SOL_SOCKET || control.readInt32LE(12) !== SCM_RIGHTS) return []
  const count = (Number(control.readBigUInt64LE(0)) - CONTROL_HEAD) / 4
  return Array.from({ length: count }, (_, i) => control.readInt32LE(CONTROL_HEAD + 4 * i))
}
