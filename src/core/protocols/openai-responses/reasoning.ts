import type { Endpoint } from '../../catalog/models.ts'
import { type Json, own } from '../../kernel/json.ts'
import type { Block } from '../../language/message.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { ownDetails } from '../reasoning.ts'
import { capabilitiesOf } from './capabilities.ts'

/** Whose reasoning an entry is: encrypted content is for the one who made it. */
const FORMATS: Record<string, string> = {
  openai: 'openai-responses-v1',
  azure: 'azure-openai-responses-v1',
  xai: 'xai-responses-v1',
  bedrock: 'bedrock-openai-responses-v1',
  meta: 'meta-responses-v1',
}

/** The name for the reasoning of this endpoint. Of the names that clients know, OpenAI's is the one for a server of one's own. */
export const formatOf = ({ provider }: Endpoint): string => own(FORMATS, provider.slug) ?? 'openai-responses-v1'

/** What stands between two blocks of reasoning, each of which begins with a heading. It belongs to neither, and is taken away again. */
export const BETWEEN = '\n\n'

/**
 * The reasoning items that this endpoint made, from the entries of one block, in order (translation trap 97): entries with one id
 * are one item, and entries without an id belong to the item that is being told. As nothing is kept at the provider, an item
 * without its encrypted content would only name what nobody knows; it is left out. Servers that do not encrypt get the thinking.
 */
export function reasoningItems({ details }: Extract<Block, { type: 'reasoning' }>, endpoint: Endpoint): Json[] {
  const items: Item[] = []
  for (const detail of ownDetails(details, [formatOf(endpoint)])) add(itemFor(items, detail), detail)
  const { encrypted } = capabilitiesOf(endpoint)
  return items.filter(item => item.encrypted !== null || (item.content.length > 0 && !encrypted)).map(shown)
}

interface Item {
  id: string | null
  summary: Json[]
  content: Json[]
  encrypted: string | null
}

function itemFor(items: Item[], detail: ReasoningDetail): Item {
  const id = typeof detail.id === 'string' && detail.id !== '' ? detail.id : null
  const last = items.at(-1)
  if (last && continues(last, id)) {
    last.id ??= id
    return last
  }
  const item: Item = { id, summary: [], content: [], encrypted: null }
  items.push(item)
  return item
}

// The encrypted content is what ends an item where no id tells.
const continues = (last: Item, id: string | null) => (id !== null && last.id !== null ? last.id === id : last.encrypted === null)

function add(item: Item, detail: ReasoningDetail): void {
  const { type, summary, text, data } = detail
  if (type === 'reasoning.summary' && typeof summary === 'string') item.summary.push({ type: 'summary_text', text: block(summary, detail) })
  if (type === 'reasoning.text' && typeof text === 'string') item.content.push({ type: 'reasoning_text', text: block(text, detail) })
  if (type === 'reasoning.encrypted' && typeof data === 'string') item.encrypted = data
}

const block = (text: string, { index }: ReasoningDetail) => (index !== 0 && text.startsWith(BETWEEN) ? text.slice(BETWEEN.length) : text)

const shown = ({ id, summary, content, encrypted }: Item): Json => ({
  type: 'reasoning',
  ...(id === null ? {} : { id }),
  summary,
  ...(content.length > 0 ? { content } : {}),
  ...(encrypted === null ? {} : { encrypted_content: encrypted }),
})
