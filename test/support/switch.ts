import type { Socket } from 'bun'

/** A way to databases. */
export interface Switch extends AsyncDisposable {
  url: string
  /** How often something was sent to a database. */
  readonly trips: number
  /**
   * Leads new connections to the database of a URL. Those that are open stay until that before ends
   * them, but no byte passes: as where the machine behind an address is replaced.
   */
  lead(url: string): void
}

/** Opens a way that leads to the database of a URL, with its name and user. */
export function openSwitch(url: string): Switch {
  let target = new URL(url)
  let turns = 0
  let trips = 0
  type Line = { turn: number; server?: Socket<undefined>; early: Buffer[] }
  const way = Bun.listen<Line>({
    hostname: '127.0.0.1',
    port: 0,
    socket: {
      async open(client) {
        const turn = turns
        client.data = { turn, early: [] }
        const server = await Bun.connect({
          ...{ hostname: target.hostname, port: Number(target.port) },
          socket: {
            data: (_, bytes) => void (turn === turns && client.write(bytes)),
            close: () => void client.end(),
          },
        }).catch(() => null)
        if (!server) return void client.end()
        for (const bytes of client.data.early) server.write(bytes)
        client.data.server = server
      },
      data({ data: { turn, server, early } }, bytes) {
        if (turn !== turns) return
        trips += 1
        if (server) server.write(bytes)
        else early.push(Buffer.from(bytes))
      },
      close: ({ data }) => void data.server?.end(),
    },
  })
  return {
    url: url.replace(`:${target.port}`, `:${way.port}`),
    get trips() {
      return trips
    },
    lead(other) {
      target = new URL(other)
      turns += 1
    },
    async [Symbol.asyncDispose]() {
      way.stop(true)
    },
  }
}
