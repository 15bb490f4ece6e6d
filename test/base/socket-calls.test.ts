import { afterAll, beforeAll, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { findLowestFree } from '../../src/base/descriptors.ts'
import { openSocketCalls, type SocketCalls } from '../../src/base/socket-calls.ts'

const isLinux = process.platform === 'linux'

let calls: SocketCalls
beforeAll(async () => {
  calls = (await openSocketCalls()) as SocketCalls
})

/** Answers every line with itself. */
const server = Bun.listen({
  hostname: '127.0.0.1',
  port: 0,
  socket: { data: (socket, bytes) => void socket.write(bytes) },
})
afterAll(() => server.stop(true))

/** Lists the descriptors of this process that are connections without an answer, by peer. */
function findAll(): Map<number, number> {
  const found = new Map<number, number>()
  for (let descriptor = 0; descriptor < findLowestFree() + 256; descriptor++) {
    const socket = calls.findUnanswered(descriptor, server.port)
    if (socket) found.set(socket.peerPort, descriptor)
  }
  return found
}

async function open(): Promise<ReturnType<typeof connect>> {
  const client = connect(server.port, '127.0.0.1')
  await new Promise<void>(resolve => client.on('connect', () => resolve()))
  return client
}

const seesData = (client: ReturnType<typeof connect>) =>
  new Promise<void>(resolve => client.once('data', () => resolve()))

const portOf = ({ localPort }: { localPort?: number | undefined }): number => localPort ?? 0

test.skipIf(!isLinux)(
  'an accepted connection is found until it has got an answer, and no other',
  async () => {
    using clients = new DisposableStack()
    const [silent, answered] = await Promise.all([open(), open()])
    for (const client of [silent, answered]) clients.defer(() => client.destroy())
    answered.write('a\n')
    await seesData(answered)
    const found = findAll()
    expect([found.has(portOf(silent)), found.has(portOf(answered))]).toEqual([true, false])
    const age = calls.findUnanswered(found.get(portOf(silent)) ?? -1, server.port)?.age
    expect(age).toBeGreaterThanOrEqual(0)
    expect(calls.findUnanswered(found.get(portOf(silent)) ?? -1, 1)).toBeNull()
    expect([-1, 0, 1_000_000].map(other => calls.findUnanswered(other, server.port))).toEqual([
      null,
      null,
      null,
    ])
  },
)

test.skipIf(!isLinux)('a connection that is shut down closes at the other end', async () => {
  const client = await open()
  const closed = new Promise<void>(resolve => client.on('close', () => resolve()))
  client.resume()
  calls.shutDown(findAll().get(portOf(client)) ?? -1)
  await closed
  expect(client.destroyed).toBe(true)
})
