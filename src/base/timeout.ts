/**
 * Limits the time that something else may take: a provider, a client, a worker. What has come by the
 * end of that time is read before it is called late, since this process may have stood still itself:
 * stopped, suspended with its machine, or kept from the processor.
 */
export class Timeout {
  readonly #onTimeout: () => void
  #milliseconds: number
  #timer: ReturnType<typeof setTimeout>
  /** What has changed since it began: a change while it looks again makes it look in vain. */
  #changes = 0
  #isRunning = true

  /** Begins now. `onTimeout` is called after so many milliseconds, unless it is stopped before. */
  constructor(milliseconds: number, onTimeout: () => void) {
    this.#onTimeout = onTimeout
    this.#milliseconds = milliseconds
    this.#timer = setTimeout(this.#look, milliseconds)
  }

  /** Begins again: what was awaited has come, and the next has as long, or so long. */
  restart(milliseconds = this.#milliseconds): void {
    this.#changes += 1
    if (this.#isRunning && milliseconds === this.#milliseconds) {
      this.#timer.refresh()
      return
    }
    clearTimeout(this.#timer)
    this.#milliseconds = milliseconds
    this.#isRunning = true
    this.#timer = setTimeout(this.#look, milliseconds)
  }

  /** Stops for good, or until it is restarted. */
  stop(): void {
    this.#changes += 1
    this.#isRunning = false
    clearTimeout(this.#timer)
  }

  // In the turn after the next one, all that had come has been read.
  readonly #look = (): void => {
    const changes = this.#changes
    this.#isRunning = false
    const end = () => {
      if (this.#changes === changes) this.#onTimeout()
    }
    setImmediate(() => setImmediate(end))
  }
}
