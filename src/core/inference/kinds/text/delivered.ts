import type { Counter } from '../../../tokenizers/prompt.ts'
import { ruleOfThumb } from '../../../tokenizers/rule-of-thumb.ts'

/** Characters of an answer that are kept until it is known whether its provider counts. One that comes in one piece is kept whole. */
const MOST_KEPT = 1024 * 1024
/** What goes beyond is counted in pieces of this many. */
const PIECE = 4096

// Google's guide, "Image generation": 1,290 tokens for a picture of up to 1024 by 1024 pixels.
const PICTURE = 1_290
// Google's guide, "Speech generation": 25 tokens a second; OpenAI's are 20. A second is 48 KB of PCM, 24 kHz and 16 bits, or 16 KB of anything compressed.
const PER_SECOND = 25
const PCM_BYTES = 48_000
const COMPRESSED_BYTES = 16_000

/** The tokens that so many pictures probably were. */
export const picturesIn = (count: number): number => count * PICTURE

/** The tokens that so many characters of base64 probably were, `format` being what the caller asked for. */
export function soundIn(characters: number, format: unknown): number {
  const isCompressed = typeof format === 'string' && format !== 'wav' && !format.startsWith('pcm')
  return Math.ceil(((characters * 3) / 4 / (isCompressed ? COMPRESSED_BYTES : PCM_BYTES)) * PER_SECOND)
}

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
