import { isObject, type Json, readString } from '../../../base/json.ts'
import { GrowingText } from '../../../base/turns.ts'
import type { Logprobs, OutputItem } from '../../../language/part.ts'
import {
  type ItemEvent,
  type ItemPlace,
  type ItemStatus,
  type OpenItem,
  renderAdded,
  renderDone,
} from './events.ts'

type TextContent = {
  type: 'output_text'
  text: string
  annotations: unknown[]
  logprobs: unknown[]
}
type RefusalContent = { type: 'refusal'; refusal: string }

/** A message of the model while it is made: texts with their sources, and refusals. */
export class MessageItem implements OpenItem {
  readonly value: Json
  readonly #place: ItemPlace
  /** The provider's own item that the message is, if it has items. */
  readonly #owner: string | null
  readonly #content: (TextContent | RefusalContent)[] = []
  #block: number | undefined
  /** The content part that pieces are added to; null between two. */
  #open: TextContent | RefusalContent | null = null
  /** The text of that content part. */
  #text = new GrowingText()

  constructor(place: ItemPlace, owner: OutputItem | undefined) {
    this.#place = place
    this.#owner = owner?.id ?? null
    this.value = {
      type: 'message',
      id: place.item_id,
      role: 'assistant',
      status: 'in_progress',
      content: this.#content,
      ...(owner?.phase === undefined ? {} : { phase: owner.phase }),
    }
  }

  /** Whether a piece of this item of the provider belongs here. */
  belongsTo(owner: OutputItem | undefined): boolean {
    return (owner?.id ?? null) === this.#owner
  }

  /** Whether the model has refused. */
  get refused(): boolean {
    return this.#content.some(({ type }) => type === 'refusal')
  }

  /** Returns the event with which the message begins. */
  begin(): ItemEvent {
    return renderAdded(this.#place, { ...this.value, content: [] })
  }

  /** Adds a piece of text. A text of another block of the provider is another content part. */
  addText(delta: string, block: number | undefined, given: Logprobs | undefined): ItemEvent[] {
    const events = this.#openText(block)
    const open = this.#open as TextContent
    const logprobs = given?.content ?? []
    this.#text.add(delta)
    for (const entry of logprobs) open.logprobs.push(entry)
    events.push({ type: 'response.output_text.delta', ...this.#at(), delta, logprobs })
    return events
  }

  /** Adds a piece of a refusal. */
  addRefusal(delta: string): ItemEvent[] {
    const events =
      this.#open?.type === 'refusal' ? [] : this.#begin({ type: 'refusal', refusal: '' })
    this.#text.add(delta)
    events.push({ type: 'response.refusal.delta', ...this.#at(), delta })
    return events
  }

  /** Adds a source to the text of a block. */
  addAnnotation(source: Json, block: number | undefined): ItemEvent[] {
    const events = this.#openText(block ?? this.#block)
    const open = this.#open as TextContent
    const annotation = completeRange(source, this.#text.text.length)
    const annotation_index = open.annotations.push(annotation) - 1
    events.push({
      type: 'response.output_text.annotation.added',
      ...this.#at(),
      annotation_index,
      annotation,
    })
    return events
  }

  /** Ends the message. */
  end(status: ItemStatus): ItemEvent[] {
    this.value.status = status
    return [...this.#close(), renderDone(this.#place, this.value)]
  }

  #openText(block: number | undefined): ItemEvent[] {
    const isSame = this.#open?.type === 'output_text' && block === this.#block
    this.#block = block
    return isSame
      ? []
      : this.#begin({ type: 'output_text', text: '', annotations: [], logprobs: [] })
  }

  #begin(part: TextContent | RefusalContent): ItemEvent[] {
    const events = this.#close()
    this.#content.push(part)
    this.#open = part
    this.#text = new GrowingText()
    return [...events, { type: 'response.content_part.added', ...this.#at(), part: copyPart(part) }]
  }

  #close(): ItemEvent[] {
    const part = this.#open
    if (!part) return []
    const at = this.#at()
    this.#open = null
    const { text } = this.#text
    Object.assign(part, part.type === 'refusal' ? { refusal: text } : { text })
    const done: ItemEvent =
      part.type === 'refusal'
        ? { type: 'response.refusal.done', ...at, refusal: part.refusal }
        : { type: 'response.output_text.done', ...at, text: part.text, logprobs: part.logprobs }
    return [done, { type: 'response.content_part.done', ...at, part: copyPart(part) }]
  }

  #at() {
    return { ...this.#place, content_index: this.#content.length - 1 }
  }
}

// A part changes after the event that shows it.
const copyPart = (part: TextContent | RefusalContent): Json =>
  part.type === 'refusal'
    ? { ...part }
    : { ...part, annotations: [...part.annotations], logprobs: [...part.logprobs] }

// The format requires a title, and the range of the text that a source supports: all of it, if none
// is known.
const completeRange = (source: Json, length: number): Json =>
  source.type === 'url_citation'
    ? {
        ...source,
        title: source.title ?? '',
        start_index: source.start_index ?? 0,
        end_index: source.end_index ?? length,
      }
    : source

/**
 * Converts a source in Anthropic's form into the citation of a file; undefined for any other than a
 * document of the caller. Documents without an id are counted from 0.
 */
export function toFileSource(citation: unknown): Json | undefined {
  if (!isObject(citation) || !Number.isInteger(citation.document_index)) return undefined
  const { document_index: index, document_title, file_id } = citation
  return {
    type: 'file_citation',
    file_id: readString(file_id) ?? `document_${index}`,
    filename: readString(document_title) ?? '',
    index,
  }
}

/** Converts a source in the chat API's form. Undefined for what this format cannot express. */
export function toSource(annotation: unknown): Json | undefined {
  const citation =
    isObject(annotation) && isObject(annotation.url_citation) ? annotation.url_citation : undefined
  const url = readString(citation?.url)
  if (!citation || !url) return undefined
  const { title, content, start_index, end_index } = citation
  return {
    type: 'url_citation',
    url,
    title: readString(title) ?? '',
    ...(typeof content === 'string' ? { content } : {}),
    ...(Number.isInteger(start_index) ? { start_index } : {}),
    ...(Number.isInteger(end_index) ? { end_index } : {}),
  }
}
