import type { Socket } from 'bun'

/** A way to Postgres by which no notification comes, as through a pooler of transactions. */
export interface DeafProxy extends AsyncDisposable {
  url: string
  /** How many notifications did not come. */
  readonly dropped: number
}

const NOTIFICATION = 'A'.charCodeAt(0)

/** Opens a way to the database of a URL that passes everything but its notifications. */
export function openDeafProxy(url: string): DeafProxy {
  const { hostname, port } = new URL(url)
  let dropped = 0
  type Line = { server?: Socket<Buffer>; early: Buffer[] }
  const proxy = Bun.listen<Line>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      async open(client) {
        client.data = { early: [] }
        client.data.server = (await Bun.connect({
          ...{ hostname, port: Number(port), data: Buffer.alloc(0) },
          socket: {
            data(server, bytes) {
              server.data = Buffer.concat([server.data as Buffer, bytes])
              for (let message = take(server); message; message = take(server))
                if (message[0] === NOTIFICATION) dropped += 1
                else client.write(message)
            },
            close: () => void client.end(),
          },
        })) as Socket<Buffer>
        for (const bytes of client.data.early) client.data.server.write(bytes)
      },
      data({ data: { server, early } }, bytes) {
        if (server) server.write(bytes)
        else early.push(Buffer.from(bytes))
      },
      close: ({ data }) => void data.server?.end(),
    },
  })
  return {
    url: url.replace(`:${port}`, `:${proxy.port}`),
    get dropped() {
      return dropped
    },
    async [Symbol.asyncDispose]() {
      proxy.stop(true)
    },
  }
}

/** Takes the next whole message of the server: a letter, its length and what it says. */
function take(server: { data: unknown }): Buffer | null {
  const waiting = server.data as Buffer
  if (waiting.length < 5) return null
  const size = 1 + waiting.readUInt32BE(1)
  if (waiting.length < size) return null
  server.data = waiting.subarray(size)
  return waiting.subarray(0, size)
}
