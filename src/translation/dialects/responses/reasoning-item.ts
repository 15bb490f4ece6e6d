import type { Json } from '../../../base/json.ts'
import { GrowingText } from '../../../base/turns.ts'
import {
  isResponsesFormat,
  type ReasoningDetail,
  stripSeparator,
} from '../../../language/reasoning.ts'
import {
  type ItemEvent,
  type ItemPlace,
  type ItemStatus,
  type OpenItem,
  renderAdded,
  renderDone,
} from './events.ts'
import { findTextField, pickList, readText, sealEntries } from './seal.ts'

/** The lists of a reasoning item, and the names in their events. */
const KINDS = {
  summary: { type: 'summary_text', position: 'summary_index' },
  content: { type: 'reasoning_text', position: 'content_index' },
} as const
type Kind = keyof typeof KINDS

/** One entry of the reasoning, and the text that clients see of it. */
interface OpenEntry {
  entry: ReasoningDetail
  kind: Kind
  text: { type: string; text: string }
  /** What the text will be once it is whole. */
  growing: GrowingText
  /** Its position in its list; null until it has a text, which empty ones never have. */
  position: number | null
}

/** The reasoning of a model while it is made. */
export class ReasoningItem implements OpenItem {
  readonly value: Json
  readonly #place: ItemPlace
  readonly #lists: Record<Kind, { type: string; text: string }[]> = { summary: [], content: [] }
  readonly #entries: ReasoningDetail[] = []
  #id: unknown
  #open: OpenEntry | null = null

  constructor(place: ItemPlace, id: unknown) {
    this.#place = place
    this.#id = id
    this.value = {
      type: 'reasoning',
      id: place.item_id,
      status: 'in_progress',
      summary: this.#lists.summary,
    }
  }

  /** Returns the event with which the reasoning begins. */
  begin(): ItemEvent {
    return renderAdded(this.#place, { ...this.value, summary: [] })
  }

  /**
   * Whether an entry is of this item: of the same maker, and of the same id, or before the data
   * that end it.
   */
  takes({ id, format }: ReasoningDetail): boolean {
    const last = this.#entries.at(-1)
    if (last && last.format !== format) return false
    const hasEnded = last?.type === 'reasoning.encrypted'
    const isSame = id != null && this.#id != null ? id === this.#id : !hasEnded
    if (isSame) this.#id ??= id
    return isSame
  }

  /** Adds an entry, or a piece of the last one. */
  add(piece: ReasoningDetail): ItemEvent[] {
    const field = findTextField(piece)
    if (!field) {
      const events = this.#close()
      this.#entries.push(piece)
      return events
    }
    const events = this.#continues(piece) ? [] : this.#openEntry(piece)
    const open = this.#open as OpenEntry
    const { [field]: _, ...rest } = piece
    for (const [name, value] of Object.entries(rest)) if (value != null) open.entry[name] = value
    return [...events, ...this.#addText(open, readText(piece))]
  }

  /** Ends the reasoning. */
  end(status: ItemStatus): ItemEvent[] {
    const events = this.#close()
    if (this.#lists.content.length > 0) this.value.content = this.#lists.content
    this.value.status = status
    Object.assign(this.value, renderProof(this.#entries))
    return [...events, renderDone(this.#place, this.value)]
  }

  // A signature ends the entry that it signs.
  #continues({ type, index }: ReasoningDetail): boolean {
    const entry = this.#open?.entry
    return entry?.type === type && entry.index === index && entry.signature === undefined
  }

  #openEntry(piece: ReasoningDetail): ItemEvent[] {
    const events = this.#close()
    const kind = pickList(piece)
    const entry: ReasoningDetail = { type: piece.type }
    this.#entries.push(entry)
    this.#open = {
      entry,
      kind,
      text: { type: KINDS[kind].type, text: '' },
      position: null,
      growing: new GrowingText(),
    }
    return events
  }

  #addText(open: OpenEntry, given: string): ItemEvent[] {
    const isFirst = open.position === null
    const delta =
      isFirst && isResponsesFormat(open.entry.format) ? stripSeparator(given, open.entry) : given
    if (delta === '') return []
    const events = isFirst ? this.#begin(open) : []
    open.growing.add(delta)
    const name = open.kind === 'summary' ? 'reasoning_summary_text' : 'reasoning_text'
    events.push({ type: `response.${name}.delta`, ...this.#at(open), delta })
    return events
  }

  #begin(open: OpenEntry): ItemEvent[] {
    open.position = this.#lists[open.kind].push(open.text) - 1
    if (open.kind === 'content') return []
    const part = { ...open.text }
    return [{ type: 'response.reasoning_summary_part.added', ...this.#at(open), part }]
  }

  #close(): ItemEvent[] {
    const open = this.#open
    this.#open = null
    if (!open) return []
    open.text.text = open.growing.text
    const field = findTextField(open.entry)
    if (field) open.entry[field] = open.text.text
    if (open.position === null) return []
    const at = this.#at(open)
    const { text } = open.text
    if (open.kind === 'content') return [{ type: 'response.reasoning_text.done', ...at, text }]
    return [
      { type: 'response.reasoning_summary_text.done', ...at, text },
      { type: 'response.reasoning_summary_part.done', ...at, part: { ...open.text } },
    ]
  }

  #at({ kind, position }: OpenEntry) {
    return { ...this.#place, [KINDS[kind].position]: position }
  }
}

const OPENAI_FORMAT = 'openai-responses-v1'

/** The formats that clients know (wire reference D.3). */
const PUBLIC_FORMATS = new Set([
  'unknown',
  OPENAI_FORMAT,
  'azure-openai-responses-v1',
  'bedrock-openai-responses-v1',
  'bedrock-xai-responses-v1',
  'xai-responses-v1',
  'meta-responses-v1',
  'anthropic-claude-v1',
  'google-gemini-v1',
])

/**
 * Renders what the provider wants back. OpenAI's own form needs no seal: a client that leaves out
 * the format sends it back as OpenAI's. All else is sealed, with the format inside.
 */
function renderProof(entries: ReasoningDetail[]): Json {
  const [first] = entries
  const format = first?.format
  const named = PUBLIC_FORMATS.has(String(format)) ? { format } : {}
  if (format !== OPENAI_FORMAT) return { encrypted_content: sealEntries(entries), ...named }
  const data = entries.find(({ type }) => type === 'reasoning.encrypted')?.data
  return data === undefined ? named : { encrypted_content: data, ...named }
}
