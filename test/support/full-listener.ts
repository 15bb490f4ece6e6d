import { createConnection, type Socket } from 'node:net'

// From the headers of Linux.
const AF_INET = 2
const SOCK_STREAM = 1
const LOOPBACK = [127, 0, 0, 1]
/** More connections than a queue of none takes. */
const FILLING = 4

/**
 * Listens at a port of this host whose queue is full and that nobody accepts from: the system drops
 * every further request for a connection, as a dead host does. On Linux only.
 */
export async function startFullListener(): Promise<{ url: string } & Disposable> {
  const { dlopen, ptr } = await import('bun:ffi')
  const { symbols } = dlopen('libc.so.6', {
    socket: { args: ['i32', 'i32', 'i32'], returns: 'i32' },
    bind: { args: ['i32', 'ptr', 'u32'], returns: 'i32' },
    listen: { args: ['i32', 'i32'], returns: 'i32' },
    getsockname: { args: ['i32', 'ptr', 'ptr'], returns: 'i32' },
    close: { args: ['i32'], returns: 'i32' },
  })
  const address = Buffer.alloc(16)
  address.writeUInt16LE(AF_INET)
  address.set(LOOPBACK, 4)
  const descriptor = symbols.socket(AF_INET, SOCK_STREAM, 0)
  if (symbols.bind(descriptor, ptr(address), address.length) !== 0) throw new Error('bind')
  if (symbols.listen(descriptor, 0) !== 0) throw new Error('listen')
  symbols.getsockname(descriptor, ptr(address), ptr(new Uint32Array([address.length])))
  const port = address.readUInt16BE(2)
  const fillers = await fillQueue(port)
  return {
    url: `http://127.0.0.1:${port}/`,
    [Symbol.dispose]: () => {
      for (const filler of fillers) filler.destroy()
      symbols.close(descriptor)
    },
  }
}

/** Opens connections until one has been taken and the others wait. */
async function fillQueue(port: number): Promise<Socket[]> {
  const fillers: Socket[] = []
  const taken = Promise.withResolvers<void>()
  for (let i = 0; i < FILLING; i++) {
    const filler = createConnection(port, '127.0.0.1', taken.resolve)
    filler.on('error', () => undefined)
    fillers.push(filler)
  }
  await taken.promise
  return fillers
}
