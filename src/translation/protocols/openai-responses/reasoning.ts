import { getOwn, type Json, readObjects, readString } from '../../../base/json.ts'
import type { Block } from '../../../language/message.ts'
import type { TextPart } from '../../../language/part.ts'
import {
  BLOCK_SEPARATOR,
  type ReasoningDetail,
  stripSeparator,
} from '../../../language/reasoning.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { filterOwnDetails } from '../reasoning.ts'
import { getCapabilities } from './capabilities.data.ts'
import { buildPieceKey, type ItemState, type Items } from './items.ts'

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
const getReasoningFormat = ({ provider }: Endpoint): string =>
  getOwn(FORMATS, provider.slug) ?? 'openai-responses-v1'

/**
 * Returns the reasoning items that this endpoint made, from the entries of one block, in order
 * (translation trap 97). Entries with the same id form one item, and entries without an id continue
 * the current one. The provider stores nothing, so an item without its encrypted content would name
 * one that does not exist; it is left out. Servers that do not encrypt get the thinking itself.
 */
export function renderReasoningItems(
  { details }: Extract<Block, { type: 'reasoning' }>,
  endpoint: Endpoint,
): Json[] {
  const items: ReasoningItem[] = []
  for (const detail of filterOwnDetails(details, [getReasoningFormat(endpoint)]))
    addDetail(findOrAddItem(items, detail), detail)
  const { encrypted } = getCapabilities(endpoint)
  return items
    .filter(item => item.encrypted !== null || (item.content.length > 0 && !encrypted))
    .map(renderItem)
}

interface ReasoningItem {
  id: string | null
  summary: Json[]
  content: Json[]
  encrypted: string | null
}

function findOrAddItem(items: ReasoningItem[], detail: ReasoningDetail): ReasoningItem {
  const id = typeof detail.id === 'string' && detail.id !== '' ? detail.id : null
  const last = items.at(-1)
  if (last && isSameItem(last, id)) {
    last.id ??= id
    return last
  }
  const item: ReasoningItem = { id, summary: [], content: [], encrypted: null }
  items.push(item)
  return item
}

// Without ids, the encrypted content ends an item.
const isSameItem = (last: ReasoningItem, id: string | null) =>
  id !== null && last.id !== null ? last.id === id : last.encrypted === null

function addDetail(item: ReasoningItem, detail: ReasoningDetail): void {
  const { type, summary, text, data } = detail
  if (type === 'reasoning.summary' && typeof summary === 'string')
    item.summary.push({ type: 'summary_text', text: stripSeparator(summary, detail) })
  if (type === 'reasoning.text' && typeof text === 'string')
    item.content.push({ type: 'reasoning_text', text: stripSeparator(text, detail) })
  if (type === 'reasoning.encrypted' && typeof data === 'string') item.encrypted = data
}

const renderItem = ({ id, summary, content, encrypted }: ReasoningItem): Json => ({
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
export class ReasoningReader {
  readonly #items: Items
  readonly #format: string
  #blockCount = 0
  /** Whether any block has had text. */
  #hasText = false

  constructor(items: Items, endpoint: Endpoint) {
    this.#items = items
    this.#format = getReasoningFormat(endpoint)
  }

  /** Reads a piece of one part of the summary. */
  readSummary(item: ItemState, position: Json, value: unknown): TextPart[] {
    return this.#readBlock(
      item,
      buildPieceKey('summary', position.summary_index),
      value,
      content => ({
        type: 'reasoning.summary',
        summary: content,
      }),
    )
  }

  /** Reads a piece of the thinking itself, which servers of open models show. */
  readThinking(item: ItemState, position: Json, value: unknown): TextPart[] {
    return this.#readBlock(
      item,
      buildPieceKey('thinking', position.content_index),
      value,
      content => ({
        type: 'reasoning.text',
        text: content,
      }),
    )
  }

  /** Reads what was not streamed of a whole item. Its encrypted content comes only now. */
  readDoneItem(item: ItemState, value: Json): TextPart[] {
    const parts: TextPart[] = []
    if (item.pieces.size === 0) {
      for (const [summary_index, part] of readObjects(value.summary).entries())
        parts.push(...this.readSummary(item, { summary_index }, part.text))
      for (const [content_index, part] of readObjects(value.content).entries())
        parts.push(...this.readThinking(item, { content_index }, part.text))
    }
    const data = readString(value.encrypted_content)
    if (data)
      parts.push(
        this.#buildPart(item, '', { type: 'reasoning.encrypted', data }, this.#blockCount++),
      )
    return parts
  }

  // Every block with text but the first begins with the separator.
  #readBlock(
    item: ItemState,
    piece: string,
    value: unknown,
    entry: (content: string) => ReasoningDetail,
  ): TextPart[] {
    const content = readString(value)
    if (!content) return []
    const existing = item.pieces.get(piece)
    const index = existing ?? this.#blockCount++
    this.#items.markReturned(item, piece, index)
    const separated = existing === undefined && this.#hasText ? BLOCK_SEPARATOR + content : content
    this.#hasText = true
    return [this.#buildPart(item, separated, entry(separated), index)]
  }

  #buildPart({ id }: ItemState, content: string, entry: ReasoningDetail, index: number): TextPart {
    const detail = { ...entry, format: this.#format, index, ...(id === null ? {} : { id }) }
    return { type: 'reasoning-delta', choice: 0, text: content, details: [detail] }
  }
}
