import type { Counter } from '../../kinds.ts'
import { ruleOfThumb } from '../../tokenizers/rule-of-thumb.ts'

/** Characters of an answer that are kept until it is known whether its provider counts. One that comes in one piece is kept whole. */
const MOST_KEPT = 1024 * 1024
/** What goes beyond is counted in pieces of this many. */
const PIECE = 4096

/** What a client was given, as it came: joined only where it has to be counted. */
export class Delivered {
  readonly #choices = new Map<number, string[]>()
  #kept = 0
  #characters = 0
  #piece = ''
  #overflow = 0

  get isEmpty(): boolean {
    return this.#kept === 0
  }

  get characters(): number {
    return this.#characters
  }

  /** Takes the next piece of one of the alternatives, which come mingled. */
  add(choice: number, delta: string): void {
    if (delta === '') return
    this.#characters += delta.length
    if (this.#kept + delta.length > MOST_KEPT && this.#kept > 0) this.#overflowWith(delta)
    else this.#keep(choice, delta)
  }

  /** The tokens of all of it. What was not kept adds what a rule of thumb made of it when it passed. */
  async count(count: Counter): Promise<number> {
    const texts = [...this.#choices.values()].map(deltas => deltas.join(''))
    const kept = texts.length === 0 ? 0 : await count(texts)
    return kept + this.#overflow + ruleOfThumb([this.#piece])
  }

  #keep(choice: number, delta: string): void {
    this.#kept += delta.length
    const deltas = this.#choices.get(choice)
    if (deltas) deltas.push(delta)
    else this.#choices.set(choice, [delta])
  }

  #overflowWith(delta: string): void {
    this.#piece += delta
    if (this.#piece.length < PIECE) return
    this.#overflow += ruleOfThumb([this.#piece])
    this.#piece = ''
  }
}
