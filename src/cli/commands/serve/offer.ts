import { createConnection, type Socket } from 'node:net'
import type { Gateway } from '../../../app/gateway.ts'
import { hasBefore } from '../../../app/handover/before.ts'
import { Channel } from '../../../app/handover/channel.ts'
import type { Handed, Predecessor } from '../../../app/handover/predecessor.ts'
import { conflict, invalid } from '../../../base/errors.ts'
import { type ListenerCalls, openListenerCalls } from '../../../base/listener-calls.ts'
import { VERSION } from '../../../base/version.ts'
import type { Log } from '../../log.ts'
import { openShortPath } from '../../status-socket.ts'
import { getCause } from './log.ts'
import { CHANNEL_SOCKET, HANDOVER_FORM, SOCKET_BOX } from './takeover.ts'

/** In milliseconds: how long the start of the other server may slow this one down. */
const START = 20_000

/** What a running server hands over, and how it stops and goes on. */
export interface Offering {
  gateway: Gateway
  data: string
  predecessor: Predecessor
  log: Log
  /** The ports that it listens on. */
  ports: number[]
  /** Stops what it does beside calls. */
  pauseWork(): Promise<void>
  resumeWork(): Promise<void>
  /** Ends the connections of clients as they are answered, and stops telling its state. */
  turnAway(): void
}

/** A running server’s readiness to hand over to the next one. */
export class Offer {
  readonly #offering: Offering
  readonly #left = Promise.withResolvers<void>()
  #channel: Channel | null = null
  #giving: Promise<Handed> | null = null
  #hasLeft = false

  constructor(offering: Offering) {
    this.#offering = offering
  }

  /** Resolves when another server has taken over. */
  get left(): Promise<void> {
    return this.#left.promise
  }

  /** Gives the sockets to the process that asks. Throws 409 where it cannot take over now. */
  async begin({ form }: Record<string, unknown>): Promise<object> {
    const { data, gateway } = this.#offering
    if (form !== HANDOVER_FORM)
      throw conflict(`The running server (version ${VERSION}) hands over in another form: stop it`)
    if (gateway.traffic.calls.draining) throw conflict('The running server is stopping')
    if (this.#channel) throw conflict('The running server hands over to another one already')
    if (hasBefore(data))
      throw conflict('The server before the running one still finishes its answers: try later')
    const calls = await openListenerCalls()
    if (!calls) throw invalid('Sockets can be taken over on Linux only')
    // The other process starts on the same machine.
    gateway.traffic.admission.bePatient(START)
    await this.#connect(calls)
    return { version: VERSION, pid: process.pid }
  }

  async #connect(calls: ListenerCalls): Promise<void> {
    const { data, ports } = this.#offering
    const sockets = ports.map(port => calls.findListener(port)).filter(found => found !== null)
    const [channelPath, boxPath] = [
      openShortPath(data, CHANNEL_SOCKET),
      openShortPath(data, SOCKET_BOX),
    ]
    try {
      const channel = new Channel(await connect(channelPath.path), {
        handover: () => this.#give(),
        serving: () => this.#leave(calls, sockets),
      })
      this.#channel = channel
      void channel.closed.then(() => this.#cutOff())
      calls.send(boxPath.path, 'sockets', sockets)
    } finally {
      channelPath.close()
      boxPath.close()
    }
  }

  #give(): Promise<Handed> {
    const { predecessor, pauseWork } = this.#offering
    this.#giving ??= pauseWork().then(() => predecessor.give())
    return this.#giving
  }

  #leave(calls: ListenerCalls, sockets: number[]): boolean {
    const { predecessor, turnAway } = this.#offering
    if (!this.#channel || !this.#giving) throw conflict('Nothing was handed over')
    this.#hasLeft = true
    predecessor.leave(this.#channel)
    for (const socket of sockets) calls.letGo(socket)
    turnAway()
    this.#left.resolve()
    return true
  }

  /** The other server has ended, or was killed. */
  async #cutOff(): Promise<void> {
    const { predecessor, resumeWork, log } = this.#offering
    if (this.#hasLeft) return
    const giving = this.#giving
    this.#giving = null
    try {
      if (giving) await giving.catch(() => undefined)
      if (giving) await predecessor.takeBack()
      if (giving) await resumeWork()
      log('warn', 'handover.failed', { consequence: 'this server goes on as before' })
      this.#channel = null
    } catch (thrown) {
      const consequence = 'this server finishes its answers; the next start charges them'
      log('error', 'handover.lost', { cause: getCause(thrown), consequence })
      predecessor.abandon()
      this.#left.resolve()
    }
  }
}

function connect(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(path, () => resolve(socket))
    socket.on('error', reject)
  })
}
