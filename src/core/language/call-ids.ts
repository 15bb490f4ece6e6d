/**
 * The ids of a conversation's calls of tools. Some providers begin anew in each turn, or give all
 * calls of a turn one id: a call whose id another has gets one of its own, the same whenever the
 * conversation is read. A result answers the first call of its id that waits for one, of the last
 * turn that has such a call.
 */
export class CallIds {
  readonly #taken = new Set<string>()
  /** How often each id came, so that many of one are told apart at once. */
  readonly #counts = new Map<string, number>()
  /** The calls that wait for a result, by the ids that they came with. */
  readonly #waiting = new Map<string, { turn: number; ids: string[] }>()
  /** Counts the turns of the model: one begins with a call after a result. */
  #turn = 0
  #hasResult = false

  /** Takes a call of the model, and returns its id. */
  takeCall(given: string): string {
    if (this.#hasResult) this.#turn += 1
    this.#hasResult = false
    const id = this.#makeUnique(given)
    const waiting = this.#waiting.get(given)
    if (waiting?.turn === this.#turn) waiting.ids.push(id)
    else this.#waiting.set(given, { turn: this.#turn, ids: [id] })
    return id
  }

  /** Takes a result, and returns the id of the call that it answers; undefined if none waits. */
  takeResult(given: string): string | undefined {
    this.#hasResult = true
    return this.#waiting.get(given)?.ids.shift()
  }

  /** Whether any call has this id. */
  has(id: string): boolean {
    return this.#taken.has(id)
  }

  /** The user says something: what the model calls next is of another turn. */
  endTurn(): void {
    this.#hasResult = true
  }

  #makeUnique(given: string): string {
    let id = given
    // A provider that repeats one id does so in each turn.
    let n = this.#counts.get(given) ?? 1
    for (; this.#taken.has(id); n++) id = `${given}_${n + 1}`
    this.#counts.set(given, n)
    this.#taken.add(id)
    return id
  }
}
