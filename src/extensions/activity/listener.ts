/** How many entries wait for a listener, and how many characters they may have. */
const MOST_ENTRIES = 2_000
const MOST_CHARACTERS = 1_000_000

/** In milliseconds, between two batches: what happens meanwhile goes into one. */
const PAUSE = 25

/** What a listener may see. */
export interface Viewer {
  /** Entries of this workspace alone; null for all entries. */
  workspace_id: string | null
  /** Entries about this member’s calls alone; null for everybody’s. */
  user_id: string | null
  /** Whether it sees providers' reasons, which may be about the operator's account there. */
  isOperator: boolean
}

/**
 * One listener of the feed: an iterator of batches of entries, each entry as JSON. What it does not
 * read in time is dropped and counted; nothing waits for it.
 */
export class ActivityListener implements AsyncIterator<string[]> {
  readonly viewer: Viewer
  readonly #describeLoss: (count: number) => string
  readonly #onEnd: (listener: ActivityListener) => void
  #waiting: string[] = []
  #characters = 0
  #lost = 0
  #isEnded = false
  #wake: ((isEnded: boolean) => void) | null = null
  #pause: Promise<unknown> | null = null

  constructor(
    viewer: Viewer,
    describeLoss: (count: number) => string,
    onEnd: (listener: ActivityListener) => void,
  ) {
    this.viewer = viewer
    this.#describeLoss = describeLoss
    this.#onEnd = onEnd
  }

  /** Whether an entry can wait for it. Without room it need not be built. */
  get hasRoom(): boolean {
    return (
      this.#lost === 0 && this.#waiting.length < MOST_ENTRIES && this.#characters < MOST_CHARACTERS
    )
  }

  /** Counts an entry that was not built for it. */
  lose(): void {
    this.#lost += 1
  }

  /** Adds an entry, or counts it as lost. */
  add(json: string): void {
    if (!this.hasRoom) {
      this.#lost += 1
      return
    }
    this.#waiting.push(json)
    this.#characters += json.length
    this.#wake?.(false)
    this.#wake = null
  }

  /**
   * Waits for entries. Returns all that wait, and how many were lost after them: at once after a
   * quiet moment, else with what comes in the next milliseconds, as each batch costs.
   */
  async next(): Promise<IteratorResult<string[], undefined>> {
    if (!this.#isEnded) await this.#pause
    if (this.#waiting.length === 0 && !this.#isEnded) await this.#sleep()
    if (this.#waiting.length === 0) return { done: true, value: undefined }
    const value = this.#waiting
    if (this.#lost > 0) value.push(this.#describeLoss(this.#lost))
    this.#waiting = []
    this.#characters = 0
    this.#lost = 0
    this.#pause = Bun.sleep(PAUSE)
    return { done: false, value }
  }

  /** Ends it: a waiting `next` returns what is there. */
  async return(): Promise<IteratorResult<string[], undefined>> {
    this.#isEnded = true
    this.#onEnd(this)
    this.#wake?.(true)
    this.#wake = null
    return { done: true, value: undefined }
  }

  #sleep(): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    this.#wake = resolve
    return promise
  }
}
