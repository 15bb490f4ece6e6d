import type { Endpoint } from '../../catalog/models.ts'
import { type Json, objects, text } from '../../kernel/json.ts'
import type { TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { type Item, type Items, pieceOf } from './items.ts'
import { BETWEEN, formatOf } from './reasoning.ts'

/** The reasoning of one answer: words to show, and entries to send back, each block of it with a number of its own. */
export class Thoughts {
  readonly #items: Items
  readonly #format: string
  #blocks = 0
  /** Whether a block has had words. */
  #worded = false

  constructor(items: Items, endpoint: Endpoint) {
    this.#items = items
    this.#format = formatOf(endpoint)
  }

  /** A piece of a part of the summary. */
  summary(item: Item, place: Json, given: unknown): TextPart[] {
    return this.#block(item, pieceOf('summary', place.summary_index), given, said => ({ type: 'reasoning.summary', summary: said }))
  }

  /** A piece of the thinking itself, which servers of open models show. */
  thinking(item: Item, place: Json, given: unknown): TextPart[] {
    return this.#block(item, pieceOf('thinking', place.content_index), given, said => ({ type: 'reasoning.text', text: said }))
  }

  /** What a whole item holds that was not streamed; its encrypted content comes only now. */
  done(item: Item, given: Json): TextPart[] {
    const parts: TextPart[] = []
    if (item.given.size === 0) {
      for (const [summary_index, one] of objects(given.summary).entries()) parts.push(...this.summary(item, { summary_index }, one.text))
      for (const [content_index, one] of objects(given.content).entries()) parts.push(...this.thinking(item, { content_index }, one.text))
    }
    const data = text(given.encrypted_content)
    if (data) parts.push(this.#thought(item, '', { type: 'reasoning.encrypted', data }, this.#blocks++))
    return parts
  }

  // All blocks but the first begin apart from the one before.
  #block(item: Item, piece: string, given: unknown, entry: (said: string) => ReasoningDetail): TextPart[] {
    const said = text(given)
    if (!said) return []
    const known = item.given.get(piece)
    const index = known ?? this.#blocks++
    this.#items.give(item, piece, index)
    const apart = known === undefined && this.#worded ? BETWEEN + said : said
    this.#worded = true
    return [this.#thought(item, apart, entry(apart), index)]
  }

  #thought({ id }: Item, said: string, entry: ReasoningDetail, index: number): TextPart {
    const detail = { ...entry, format: this.#format, index, ...(id === null ? {} : { id }) }
    return { type: 'reasoning-delta', choice: 0, text: said, details: [detail] }
  }
}
