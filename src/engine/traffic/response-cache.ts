import type { Config } from '../../config.ts'
import type { Kind } from '../../language/work.ts'

/** An answer that can be given again. */
export interface KeptAnswer {
  /** The id of the generation that it comes from. */
  source_id: string
  kind: Kind
  model: string
  provider: string
  isWhole: boolean
  /** The parameters and tools that were left out. */
  ignored: string[]
  /** Its parts as they streamed, in batches, without counts and receipt. */
  batches: unknown[][]
  /** What its parts take, in bytes. */
  size: number
  finish: { reason: string; native: string | null } | null
  /** The config that held for it: under another it is not given again. */
  config: Config
  /** Milliseconds since the epoch. */
  kept_at: number
  expires_at: number
}

/** Answers that several servers keep together: none of them waits for what it cannot have. */
export interface SharedAnswers {
  /** Finds an answer under the config that is in effect, within a few milliseconds. */
  find(name: string): Promise<KeptAnswer | null>
  keep(name: string, answer: KeptAnswer): void
  /** Has all servers forget one. */
  forget(name: string): void
}

/** What an entry takes beside its texts, in bytes. */
const OVERHEAD = 1_000

/**
 * Remembers whole answers in memory, for a while and within a bound of bytes: what was used longest
 * ago goes first. Nothing of it outlives the process.
 */
export class ResponseCache {
  /** In the order of use: a map keeps that of insertion. */
  readonly #entries = new Map<string, { answer: KeptAnswer; size: number }>()
  #size = 0
  /** What other servers keep too; null where there are none. */
  shared: SharedAnswers | null = null

  /** The bytes of all answers. */
  get size(): number {
    return this.#size
  }

  /** Finds an answer that is not over. */
  find(name: string, config: Config, now: number): KeptAnswer | null {
    const entry = this.#entries.get(name)
    if (!entry) return null
    this.delete(name)
    const { answer, size } = entry
    if (answer.expires_at <= now || answer.config !== config) return null
    this.#entries.set(name, entry)
    this.#size += size
    return answer
  }

  /** Keeps an answer within a bound of bytes: not at all if it alone is larger. */
  keep(name: string, answer: KeptAnswer, most: number): void {
    this.delete(name)
    const size = OVERHEAD + name.length + answer.size
    if (size > most) return
    this.#entries.set(name, { answer, size })
    this.#size += size
    this.trim(most)
  }

  delete(name: string): void {
    const entry = this.#entries.get(name)
    if (!entry) return
    this.#entries.delete(name)
    this.#size -= entry.size
  }

  /** Forgets an answer here, and wherever it is kept. */
  forget(name: string): void {
    this.delete(name)
    this.shared?.forget(name)
  }

  /** Removes what was used longest ago until the rest takes at most so many bytes. */
  trim(most: number): void {
    for (const name of this.#entries.keys()) {
      if (this.#size <= most) return
      this.delete(name)
    }
  }
}
