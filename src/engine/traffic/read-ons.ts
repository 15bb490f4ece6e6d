/** The most answers that are read on at once: clients may leave by the thousand. */
const MAX_READ_ONS = 64

/** An answer that is read on after its client has left. */
interface ReadOn {
  /** Ends it at once, and gives its place back. */
  cut(): void
}

/**
 * The answers that are read on at this moment. Keys share the places: one gets none only while
 * no other has two more than it has, however many calls others abandon.
 */
export class ReadOns {
  /** The answers of each key that has some, the newest last. */
  readonly #byKey = new Map<string, ReadOn[]>()
  #size = 0
  #isOver = false

  get size(): number {
    return this.#size
  }

  /**
   * Lists an answer to a call of this key, and returns a function that removes it. When all places
   * are taken, the key with the most gives its newest back. Returns null if there is no place for
   * another answer of this key, or at the end.
   */
  tryAdd(key: string, readOn: ReadOn): (() => void) | null {
    if (this.#isOver || !this.#makeRoom(key)) return null
    const ofKey = this.#byKey.get(key) ?? []
    ofKey.push(readOn)
    this.#byKey.set(key, ofKey)
    this.#size += 1
    return () => this.#remove(key, readOn)
  }

  /** Ends all of them for good: no client waits, so a stopping gateway does not wait either. */
  cutAll(): void {
    this.#isOver = true
    for (const ofKey of [...this.#byKey.values()]) for (const readOn of [...ofKey]) readOn.cut()
  }

  #makeRoom(key: string): boolean {
    if (this.#size < MAX_READ_ONS) return true
    const most = this.#findLargest()
    if (most.length < (this.#byKey.get(key)?.length ?? 0) + 2) return false
    most.at(-1)?.cut()
    return this.#size < MAX_READ_ONS
  }

  #findLargest(): ReadOn[] {
    return [...this.#byKey.values()].reduce((most, ofKey) =>
      ofKey.length > most.length ? ofKey : most,
    )
  }

  #remove(key: string, readOn: ReadOn): void {
    const ofKey = this.#byKey.get(key) ?? []
    const at = ofKey.indexOf(readOn)
    if (at === -1) return
    ofKey.splice(at, 1)
    this.#size -= 1
    if (ofKey.length === 0) this.#byKey.delete(key)
  }
}
