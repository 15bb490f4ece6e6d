import type { SocketCalls } from '../core/kernel/socket-calls.ts'

/** How many milliseconds a connection may take for its first head while descriptors are scarce. */
const LONGEST_HEAD = 1_000

/** How many descriptors are looked at in one turn: each takes a few microseconds. */
const DESCRIPTORS_PER_TURN = 1_000

/** What is looked through. */
interface HalfHeadsOptions {
  calls: SocketCalls
  /** The port of the server. */
  port: number
  /** The first number that is no descriptor. */
  limit: number
  /** Lists the ports of clients whose requests are being answered. */
  listBusyPorts(): Iterable<number>
}

/**
 * Closes connections that hold a descriptor and have sent no whole head. Bun gives them twelve
 * seconds, without a setting, and tells no one of them before.
 */
export class HalfHeads {
  readonly #options: HalfHeadsOptions
  /** The descriptor that is looked at next. */
  #next = 0

  constructor(options: HalfHeadsOptions) {
    this.#options = options
  }

  /** Looks at the next descriptors, and closes what is too old. Takes a few milliseconds. */
  closeSome(): void {
    const { calls, port, limit } = this.#options
    let busy: Set<number> | undefined
    for (let turn = 0; turn < Math.min(DESCRIPTORS_PER_TURN, limit); turn++) {
      const descriptor = this.#next
      this.#next = (descriptor + 1) % limit
      const found = calls.findUnanswered(descriptor, port)
      if (!found || found.age < LONGEST_HEAD) continue
      busy ??= new Set(this.#options.listBusyPorts())
      if (!busy.has(found.peerPort)) calls.shutDown(descriptor)
    }
  }
}
