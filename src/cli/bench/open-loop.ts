import { Caller } from './caller.ts'
import { type Loop, type LoopResult, MOST_ERRORS, note, PATIENCE_MS, summarize } from './load.ts'
import { renderRequest, type Target } from './wire.ts'

/** The limits of an open loop: how many calls begin in a second, whatever happens to them. */
export type OpenLimit = { rate: number; seconds: number }

/** So many connections carry the calls. Further calls wait for one. */
const CONNECTIONS = 256

/**
 * Sends calls at a rate, whatever happens to those before. A call that finds no connection free
 * waits, and its wait counts: what a client would see.
 */
export async function runOpenLoop(
  target: Target,
  limit: OpenLimit,
  request = renderRequest(target, false),
): Promise<LoopResult> {
  const began = performance.now()
  const queue = new CallQueue(target, request)
  await beginCalls(queue, limit, began)
  await queue.end()
  return {
    ...summarize(queue.loop, began),
    callsPerSecond: queue.loop.waits.length / limit.seconds,
  }
}

/** Puts calls into the queue at their time. Calls of the same millisecond come together. */
async function beginCalls(
  queue: CallQueue,
  { rate, seconds }: OpenLimit,
  began: number,
): Promise<void> {
  const end = began + seconds * 1000
  for (let begun = 0; performance.now() < end; await Bun.sleep(1)) {
    const now = performance.now()
    for (; begun < ((now - began) / 1000) * rate; begun++) queue.add(now)
    queue.flush()
  }
}

/** Calls that wait for a connection, and those that are under way. */
class CallQueue {
  readonly loop: Loop = { waits: [], errors: 0 }
  readonly #request: Buffer
  readonly #callers: Caller[]
  readonly #idle: Caller[]
  readonly #waiting: number[] = []

  constructor(target: Target, request: Buffer) {
    this.#request = request
    this.#callers = Array.from({ length: CONNECTIONS }, () => new Caller(target.url))
    this.#idle = [...this.#callers]
  }

  /** Adds a call that is due at a time. */
  add(dueAt: number): void {
    this.#waiting.push(dueAt)
  }

  /** Sends what waits, as far as connections are free. */
  flush(): void {
    while (this.#waiting.length > 0 && this.#idle.length > 0 && this.loop.errors < MOST_ERRORS)
      this.#send(this.#idle.pop() as Caller, this.#waiting.shift() ?? 0)
  }

  /** Waits for the answers, as long as they may take. What waits for a connection has failed. */
  async end(): Promise<void> {
    this.loop.errors += this.#waiting.splice(0).length
    const deadline = performance.now() + PATIENCE_MS
    while (this.#idle.length < CONNECTIONS && performance.now() < deadline) await Bun.sleep(5)
    for (const caller of this.#callers) caller.leave()
  }

  #send(caller: Caller, dueAt: number): void {
    caller.call(this.#request, isGood => {
      note(this.loop, isGood, dueAt)
      this.#idle.push(caller)
      this.flush()
    })
  }
}
