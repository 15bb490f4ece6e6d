import type { Endpoint } from '../../catalog/models.ts'
import { type Json, objects, own, text } from '../../kernel/json.ts'
import type { Block } from '../../language/message.ts'
import type { TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { ownDetails } from '../reasoning.ts'
import { capabilitiesOf } from './capabilities.data.ts'
import { type Item, type Items, pieceOf } from './items.ts'

/**
 * The format of reasoning entries by provider. Only the provider that encrypted content can read
 * it.
 */
const FORMATS: Record<string, string> = {
  openai: 'openai-responses-v1',
  azure: 'azure-openai-responses-v1',
  xai: 'xai-responses-v1',
  bedrock: 'bedrock-openai-responses-v1',
  meta: 'meta-responses-v1',
}

/**
 * Returns the reasoning format of this endpoint. For any other server it is OpenAI's, a name that
 * clients know.
 */
const formatOf = ({ provider }: Endpoint): string =>
  own(FORMATS, provider.slug) ?? 'openai-responses-v1'

/**
 * Separates two blocks of reasoning, each of which begins with a heading. It belongs to neither,
 * and is removed on the way back.
 */
const BETWEEN = '\n\n'

/**
 * Returns the reasoning items that this endpoint made, from the entries of one block, in order
 * (translation trap 97). Entries with the same id form one item, and entries without an id continue
 * the current one. The provider stores nothing, so an item without its encrypted content would name
 * one that does not exist; it is left out. Servers that do not encrypt get the thinking itself.
 */
export function reasoningItems(
  { details }: Extract<Block, { type: 'reasoning' }>,
  endpoint: Endpoint,
): Json[] {
  const items: ReasoningItem[] = []
  for (const detail of ownDetails(details, [formatOf(endpoint)]))
    add(itemFor(items, detail), detail)
  const { encrypted } = capabilitiesOf(endpoint)
  return items
    .filter(item => item.encrypted !== null || (item.content.length > 0 && !encrypted))
    .map(shown)
}

interface ReasoningItem {
  id: string | null
  summary: Json[]
  content: Json[]
  encrypted: string | null
}

function itemFor(items: ReasoningItem[], detail: ReasoningDetail): ReasoningItem {
  const id = typeof detail.id === 'string' && detail.id !== '' ? detail.id : null
  const last = items.at(-1)
  if (last && continues(last, id)) {
    last.id ??= id
    return last
  }
  const item: ReasoningItem = { id, summary: [], content: [], encrypted: null }
  items.push(item)
  return item
}

// Without ids, the encrypted content ends an item.
const continues = (last: ReasoningItem, id: string | null) =>
  id !== null && last.id !== null ? last.id === id : last.encrypted === null

function add(item: ReasoningItem, detail: ReasoningDetail): void {
  const { type, summary, text, data } = detail
  if (type === 'reasoning.summary' && typeof summary === 'string')
    item.summary.push({ type: 'summary_text', text: block(summary, detail) })
  if (type === 'reasoning.text' && typeof text === 'string')
    item.content.push({ type: 'reasoning_text', text: block(text, detail) })
  if (type === 'reasoning.encrypted' && typeof data === 'string') item.encrypted = data
}

const block = (text: string, { index }: ReasoningDetail) =>
  index !== 0 && text.startsWith(BETWEEN) ? text.slice(BETWEEN.length) : text

const shown = ({ id, summary, content, encrypted }: ReasoningItem): Json => ({
  type: 'reasoning',
  ...(id === null ? {} : { id }),
  summary,
  ...(content.length > 0 ? { content } : {}),
  ...(encrypted === null ? {} : { encrypted_content: encrypted }),
})

/**
 * Reads the reasoning of one answer: text to show and entries to send back. Each block has a number
 * of its own.
 */
export class Thoughts {
  readonly #items: Items
  readonly #format: string
  #blocks = 0
  /** Whether any block has had text. */
  #worded = false

  constructor(items: Items, endpoint: Endpoint) {
    this.#items = items
    this.#format = formatOf(endpoint)
  }

  /** Reads a piece of one part of the summary. */
  summary(item: Item, place: Json, given: unknown): TextPart[] {
    return this.#block(item, pieceOf('summary', place.summary_index), given, said => ({
      type: 'reasoning.summary',
      summary: said,
    }))
  }

  /** Reads a piece of the thinking itself, which servers of open models show. */
  thinking(item: Item, place: Json, given: unknown): TextPart[] {
    return this.#block(item, pieceOf('thinking', place.content_index), given, said => ({
      type: 'reasoning.text',
      text: said,
    }))
  }

  /** Reads what was not streamed of a whole item. Its encrypted content comes only now. */
  done(item: Item, given: Json): TextPart[] {
    const parts: TextPart[] = []
    if (item.given.size === 0) {
      for (const [summary_index, one] of objects(given.summary).entries())
        parts.push(...this.summary(item, { summary_index }, one.text))
      for (const [content_index, one] of objects(given.content).entries())
        parts.push(...this.thinking(item, { content_index }, one.text))
    }
    const data = text(given.encrypted_content)
    if (data)
      parts.push(this.#thought(item, '', { type: 'reasoning.encrypted', data }, this.#blocks++))
    return parts
  }

  // Every block with text but the first begins with the separator.
  #block(
    item: Item,
    piece: string,
    given: unknown,
    entry: (said: string) => ReasoningDetail,
  ): TextPart[] {
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
