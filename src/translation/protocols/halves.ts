import { parseExact } from '../../base/json.ts'
import { HalfJoiner, stringifyWellFormed } from '../../base/printable.ts'
import type { TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'

type Piece = Extract<
  TextPart,
  { type: 'text-delta' | 'refusal-delta' | 'reasoning-delta' | 'tool-call-delta' }
>

/**
 * Keeps the texts of one streamed answer well-formed. Some servers cut a character of two units
 * between two events: its halves are joined. A half that stays alone becomes the replacement
 * character.
 */
export class PartMender {
  readonly #joiner = new HalfJoiner()

  /** Returns these parts with whole characters; what is cut at their end comes with the next. */
  read(parts: TextPart[]): TextPart[] {
    const mended: TextPart[] = []
    for (const part of parts) this.#readPart(part, mended)
    return mended
  }

  /** Returns what is left when nothing more comes. */
  end(): TextPart[] {
    return this.#flush('')
  }

  #readPart(part: TextPart, mended: TextPart[]): void {
    switch (part.type) {
      case 'text-delta':
      case 'refusal-delta':
        this.#push({ ...part, text: this.#joiner.join(nameText(part), part.text) }, mended)
        break
      case 'reasoning-delta':
        this.#push(this.#joinThought(part), mended)
        break
      case 'tool-call-delta':
        this.#push({ ...part, input: this.#joiner.join(nameText(part), part.input) }, mended)
        break
      case 'finish':
        mended.push(...this.#flush(`${part.choice} `), part)
        break
      case 'error':
        mended.push(part)
        break
      default:
        mended.push(parseExact(stringifyWellFormed(part)) as TextPart)
    }
  }

  #push(part: Piece, mended: TextPart[]): void {
    const hasMore = 'logprobs' in part || ('details' in part && part.details.length > 0)
    if (hasMore || ('input' in part ? part.input : part.text) !== '') mended.push(part)
  }

  #joinThought(part: Extract<TextPart, { type: 'reasoning-delta' }>): Piece {
    const { choice } = part
    const details = part.details.map((detail): ReasoningDetail => {
      const field = detail.type === 'reasoning.summary' ? 'summary' : 'text'
      const text = detail[field]
      if (typeof text !== 'string') return detail
      return { ...detail, [field]: this.#joiner.join(`${choice} entry ${detail.index}`, text) }
    })
    return { ...part, text: this.#joiner.join(nameText(part), part.text), details }
  }

  // A half of an entry is a half of the text beside it, too: one of them tells of it.
  #flush(beginning: string): TextPart[] {
    return this.#joiner.flush(beginning).flatMap(([name, text]): TextPart[] => {
      const [choice, type, index] = name.split(' ')
      const place = { choice: Number(choice), text }
      if (type === 'text-delta' || type === 'refusal-delta') return [{ type, ...place }]
      if (type === 'reasoning-delta') return [{ type, ...place, details: [] }]
      if (type !== 'tool-call-delta') return []
      return [{ type, choice: place.choice, index: Number(index), input: text }]
    })
  }
}

const nameText = (part: Piece): string =>
  `${part.choice} ${part.type} ${part.type === 'tool-call-delta' ? part.index : ''}`
