import type { Supply } from './supply.ts'

/** What one answer takes of the memory, with its copies. */
export interface LargeAnswer {
  key: string
  bytes: number
}

interface Waiting {
  answer: LargeAnswer
  bytes: number
  enter(): void
}

/**
 * Large answers take memory as they turn out to be large. One for which there is none is not read
 * on until there is: its provider waits. The largest is always read on, so that each ends some time.
 */
export class LargeAnswers {
  readonly #memory: Supply
  readonly #open = new Set<LargeAnswer>()
  readonly #waiting = new Set<Waiting>()

  constructor(memory: Supply) {
    this.#memory = memory
  }

  /** Begins an answer of a key, which takes nothing yet. */
  begin(key: string): LargeAnswer {
    const answer = { key, bytes: 0 }
    this.#open.add(answer)
    return answer
  }

  /** Resolves once there is memory for so many bytes of the answer. It has it until its end. */
  grow(answer: LargeAnswer, bytes: number): Promise<void> {
    const isBehind = answer.bytes === 0 && this.#waiting.size > 0
    if (isBehind || !this.#fits(answer, bytes))
      return new Promise(enter => this.#waiting.add({ answer, bytes, enter }))
    this.#take(answer, bytes)
    return Promise.resolve()
  }

  /** The answer is over. Returns how many bytes are to be given back. */
  end(answer: LargeAnswer): number {
    this.#open.delete(answer)
    const { bytes } = answer
    answer.bytes = 0
    return bytes
  }

  /**
   * Lets those go on for which there is memory now. One that has none yet waits behind those before
   * it; one that grows does not, as it gives back more when it ends.
   */
  wake(): void {
    let isBehind = false
    for (const waiting of this.#waiting) {
      if ((isBehind && waiting.answer.bytes === 0) || !this.#fits(waiting.answer, waiting.bytes)) {
        isBehind = true
        continue
      }
      this.#waiting.delete(waiting)
      this.#take(waiting.answer, waiting.bytes)
      waiting.enter()
    }
  }

  #take(answer: LargeAnswer, bytes: number): void {
    const more = bytes - answer.bytes
    if (more <= 0 || !this.#open.has(answer)) return
    this.#memory.add(answer.key, more)
    answer.bytes = bytes
  }

  #fits(answer: LargeAnswer, bytes: number): boolean {
    const { used, limit } = this.#memory
    if (used === 0 || used + bytes - answer.bytes <= limit) return true
    return answer.bytes > 0 && [...this.#open].every(other => other.bytes <= answer.bytes)
  }
}
