import { LiveSet } from '../../kernel/live-set.ts'

/** The most answers that are read on at once: clients may leave by the thousand. */
const MAX_READ_ONS = 64

/** An answer that is read on after its client has left. */
interface ReadOn {
  /** Ends it at once. */
  cut(): void
}

/** The answers that are read on at this moment. */
export class ReadOns {
  readonly #running = new LiveSet<ReadOn>()
  #isOver = false

  /** Lists one and returns a function that removes it; null if there are too many, or at the end. */
  tryAdd(readOn: ReadOn): (() => void) | null {
    const isFull = this.#isOver || this.#running.size === MAX_READ_ONS
    return isFull ? null : this.#running.add(readOn)
  }

  /** Ends all of them for good: no client waits, so a stopping gateway does not wait either. */
  cutAll(): void {
    this.#isOver = true
    for (const readOn of [...this.#running]) readOn.cut()
  }
}
