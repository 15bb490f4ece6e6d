import { createConnection, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Channel } from '../../src/app/handover/channel.ts'

/** Opens two sides of a channel: that of the server that goes, and that of the one that comes. */
export async function openChannels(): Promise<{ old: Channel; next: Channel; close(): void }> {
  const path = join(tmpdir(), `gateway-channel-${crypto.randomUUID().slice(0, 8)}.sock`)
  const accepted = Promise.withResolvers<Socket>()
  const server = createServer(accepted.resolve)
  await new Promise<void>(listening => server.listen(path, listening))
  const socket = createConnection(path)
  const [old, next] = [new Channel(socket), new Channel(await accepted.promise)]
  server.close()
  return {
    old,
    next,
    close() {
      old.close()
      next.close()
    },
  }
}
