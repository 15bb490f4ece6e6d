import { rmSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { Channel } from '../../../app/handover/channel.ts'
import type { Handed } from '../../../app/handover/predecessor.ts'
import { conflict } from '../../../base/errors.ts'
import { parseObject, readObject } from '../../../base/json.ts'
import type { BoundSocket, ListenerCalls } from '../../../base/listener-calls.ts'
import { giveToOwner } from '../../../base/owner.ts'
import type { GivenSocket } from '../../../server/listen/given-socket.ts'
import { lockFile } from '../../../store/sqlite/lock.ts'
import { openConversation, openShortPath, readStatus } from '../../status-socket.ts'
import { openCalls } from './systemd.ts'

/** Where the running server connects to, and where it puts its sockets. Only its owner may. */
export const CHANNEL_SOCKET = 'takeover.sock'
export const SOCKET_BOX = 'takeover.box'

/** The form of what is said in a handover. A server refuses another one. */
export const HANDOVER_FORM = 1

/** In milliseconds: how long the running server may take to answer. */
const PATIENCE = 10_000

/** Where the new server is to listen, as far as the operator has said so. */
interface WantedPlace {
  host: string
  port: number
}

/** What the running server has given: its sockets at once, the data directory when it is asked. */
export interface Taken {
  channel: Channel
  /** Finds the socket at a port; null if it has none. */
  findSocket(port: number): GivenSocket | null
  /** The socket of the API. */
  main: GivenSocket
  /** Has the running server give the data directory away. */
  takeData(): Promise<Handed>
  /** Has the running server stop accepting: this one does from now on. */
  serve(): Promise<void>
  /** Lets other takeovers begin. */
  close(): void
}

/**
 * Asks the server of a data directory to hand over to this process. Null where none runs. Throws 409
 * where it cannot: it listens elsewhere, knows no handover, or hands over to another one.
 */
export async function takeOver(data: string, place: WantedPlace): Promise<Taken | null> {
  const status = await readStatus(data)
  if (status === undefined) return null
  const running = parseObject(status) ?? {}
  requireSamePlace(running, place)
  const calls = await openCalls('--takeover')
  const unlock = lockFile(
    join(data, 'takeover.lock'),
    'Another takeover of this server is running, or the server before it still finishes its ' +
      'answers: wait until that has ended',
  )
  try {
    return await receive({ data, running, calls, unlock })
  } catch (thrown) {
    unlock()
    throw thrown
  }
}

const describeServer = ({ version, pid }: Record<string, unknown>): string =>
  `The running server (version ${version}, pid ${pid})`

// Port 0 wants any port: that of the running server is as good.
function requireSamePlace(running: Record<string, unknown>, { host, port }: WantedPlace): void {
  const url = String(running.url)
  const wanted = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
  if (port !== 0 && url !== wanted)
    throw conflict(
      `${describeServer(running)} listens at ${url}, this one would at ${wanted}: a takeover ` +
        'keeps the address, so give both the same host and port, or stop that server first',
    )
}

interface Receiving {
  data: string
  running: Record<string, unknown>
  calls: ListenerCalls
  unlock(): void
}

async function receive({ data, running, calls, unlock }: Receiving): Promise<Taken> {
  const [channelPath, boxPath] = [CHANNEL_SOCKET, SOCKET_BOX].map(name => {
    rmSync(join(data, name), { force: true })
    return openShortPath(data, name)
  }) as [ReturnType<typeof openShortPath>, ReturnType<typeof openShortPath>]
  const box = calls.openMailbox(boxPath.path)
  const { server, connected } = await openServer(channelPath.path)
  // The server that connects to them may be another user's.
  for (const name of [CHANNEL_SOCKET, SOCKET_BOX]) giveToOwner(join(data, name))
  try {
    await askServer(data, running)
    const channel = new Channel(await withPatience(connected, running))
    const sockets = (box.receive()?.descriptors ?? []).map(calls.readBound)
    return toTaken(channel, { calls, unlock, running, sockets })
  } finally {
    box.close()
    server.close()
    for (const { close } of [channelPath, boxPath]) close()
    for (const name of [CHANNEL_SOCKET, SOCKET_BOX]) rmSync(join(data, name), { force: true })
  }
}

interface Received extends Pick<Receiving, 'calls' | 'unlock' | 'running'> {
  sockets: (BoundSocket | null)[]
}

function toTaken(channel: Channel, { calls, unlock, running, sockets }: Received): Taken {
  const given = sockets.filter(socket => socket !== null).map(socket => ({ socket, calls }))
  const findSocket = (port: number) => given.find(({ socket }) => socket.port === port) ?? null
  const main = findSocket(Number(new URL(String(running.url)).port || 80))
  if (!main) throw conflict(`${describeServer(running)} has not given its socket`)
  return {
    channel,
    findSocket,
    main,
    takeData: async () => (await channel.ask('handover')) as Handed,
    serve: async () => void (await channel.ask('serving')),
    close: unlock,
  }
}

async function openServer(path: string): Promise<{ server: Server; connected: Promise<Socket> }> {
  const { promise: connected, resolve } = Promise.withResolvers<Socket>()
  const server = createServer(resolve)
  await new Promise<void>((listening, reject) => {
    server.on('error', reject)
    server.listen(path, listening)
  })
  return { server, connected }
}

async function askServer(data: string, running: Record<string, unknown>): Promise<void> {
  const conversation = await openConversation(data, { do: 'takeover', form: HANDOVER_FORM })
  try {
    const step = await withPatience(conversation?.batches.next(), running)
    const answer = parseObject(step?.value?.[0] ?? '')
    if (!answer)
      throw conflict(`${describeServer(running)} knows no handover: stop it, then start this one`)
    const { message } = readObject(answer, 'error')
    if (message !== undefined) throw conflict(String(message))
  } finally {
    conversation?.close()
  }
}

async function withPatience<T>(
  answer: Promise<T> | undefined,
  running: Record<string, unknown>,
): Promise<T> {
  const timer = Promise.withResolvers<never>()
  const timeout = setTimeout(
    () => timer.reject(conflict(`${describeServer(running)} does not answer`)),
    PATIENCE,
  )
  try {
    return await Promise.race([answer as Promise<T>, timer.promise])
  } finally {
    clearTimeout(timeout)
  }
}
