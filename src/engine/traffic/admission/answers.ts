import type { Supply } from '../admission.ts'

/** What one answer takes of the memory, with its copies. */
export interface LargeAnswer {
  key: string
  /** The call that it is for: one may have several at once, such as turns and what is kept of all. */
  owner: object
  bytes: number
}

interface Waiting {
  answer: LargeAnswer
  bytes: number
  enter(): void
}

/**
 * Large answers take memory as they turn out to be large. One for which there is none is not read
 * on until there is: its provider waits. The call that has most is always read on, so that each ends
 * some time.
 */
export class LargeAnswers {
  readonly #memory: Supply
  readonly #open = new Set<LargeAnswer>()
  readonly #waiting = new Set<Waiting>()
  readonly #byOwner = new Map<object, number>()

  constructor(memory: Supply) {
    this.#memory = memory
  }

  /** Begins an answer for a call of a key, which takes nothing yet. */
  begin(key: string, owner: object): LargeAnswer {
    const answer = { key, owner, bytes: 0 }
    this.#open.add(answer)
    return answer
  }

  /** Resolves once there is memory for so many bytes of the answer. It has it until its end. */
  grow(answer: LargeAnswer, bytes: number): Promise<void> {
    const isBehind = !this.#byOwner.has(answer.owner) && this.#waiting.size > 0
    if (isBehind || !this.#fits(answer, bytes))
      return new Promise(enter => this.#waiting.add({ answer, bytes, enter }))
    this.#take(answer, bytes)
    return Promise.resolve()
  }

  /** The answer is over, and waits no longer. Returns how many bytes are to be given back. */
  end(answer: LargeAnswer): number {
    this.#open.delete(answer)
    for (const waiting of this.#waiting) if (waiting.answer === answer) this.#enter(waiting)
    const { bytes, owner } = answer
    answer.bytes = 0
    const rest = (this.#byOwner.get(owner) ?? 0) - bytes
    if (rest > 0) this.#byOwner.set(owner, rest)
    else this.#byOwner.delete(owner)
    return bytes
  }

  /**
   * Lets those go on for which there is memory now. One that has none yet waits behind those before
   * it; one that grows does not, as it gives back more when it ends.
   */
  wake(): void {
    let isBehind = false
    for (const waiting of this.#waiting) {
      const hasSome = this.#byOwner.has(waiting.answer.owner)
      if ((isBehind && !hasSome) || !this.#fits(waiting.answer, waiting.bytes)) isBehind = true
      else this.#enter(waiting)
    }
  }

  #enter(waiting: Waiting): void {
    this.#waiting.delete(waiting)
    this.#take(waiting.answer, waiting.bytes)
    waiting.enter()
  }

  #take(answer: LargeAnswer, bytes: number): void {
    const more = bytes - answer.bytes
    if (more <= 0 || !this.#open.has(answer)) return
    this.#memory.add(answer.key, more)
    answer.bytes = bytes
    this.#byOwner.set(answer.owner, (this.#byOwner.get(answer.owner) ?? 0) + more)
  }

  #fits(answer: LargeAnswer, bytes: number): boolean {
    const { used, limit } = this.#memory
    if (used === 0 || used + bytes - answer.bytes <= limit) return true
    const own = this.#byOwner.get(answer.owner) ?? 0
    for (const others of this.#byOwner.values()) if (others > own) return false
    return true
  }
}
