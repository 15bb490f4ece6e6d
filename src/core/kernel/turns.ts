/** A work that can be interrupted wherever it yields. It returns a value at its end. */
export type Work<T> = Generator<undefined, T, undefined>

/** How long works may hold the event loop in one of its turns, in milliseconds. */
const TURN = 5

/**
 * Does a work without holding the event loop: after 5 milliseconds it waits for the next turn. All
 * works of the process share these milliseconds, so that a hundred at once are no worse than one.
 */
export async function runInTurns<T>(work: Work<T>): Promise<T> {
  for (;;) {
    if (eventLoop.isBusy) await eventLoop.waitForTurn()
    const startedAt = performance.now()
    const result = runUntil(work, startedAt + eventLoop.timeLeft)
    eventLoop.spend(performance.now() - startedAt)
    if (result) return result.value
  }
}

/** Does a work to its end at once. Only for short texts. */
export function runAtOnce<T>(work: Work<T>): T {
  for (let step = work.next(); ; step = work.next()) if (step.done) return step.value
}

function runUntil<T>(work: Work<T>, deadline: number): { value: T } | null {
  do {
    const step = work.next()
    if (step.done) return step
  } while (performance.now() < deadline)
  return null
}

/** What works have used of the event loop's current turn, and which wait for another one. */
class EventLoop {
  readonly #waiting: (() => void)[] = []
  #spent = 0

  get isBusy(): boolean {
    return this.timeLeft <= 0
  }

  get timeLeft(): number {
    return TURN - this.#spent
  }

  spend(milliseconds: number): void {
    this.#spent += milliseconds
  }

  waitForTurn(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    if (this.#waiting.push(resolve) === 1) setImmediate(this.#beginTurn)
    return promise
  }

  /** Continues the work that has waited longest. */
  readonly #beginTurn = (): void => {
    this.#spent = 0
    this.#waiting.shift()?.()
    if (this.#waiting.length > 0) setImmediate(this.#beginTurn)
  }
}

// A process has one event loop, however many gateways share it.
const eventLoop = new EventLoop()
