import { isObject, type Json, readObject, readString } from '../../../base/json.ts'
import type { TextPart } from '../../../language/part.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import { type BlockEvent, BlockQueue, type PendingBlock } from './block-queue.ts'
import { isReadableEntry, readEntryText, renderRedactedData } from './thinking.ts'
import { toToolResultBlock, toToolUseBlock } from './tool-blocks.ts'

/** Converts a picture into a block. Null for one that has no block. */
export type ToPictureBlock = (url: string) => Json | null

/**
 * Turns the parts of an answer into the content blocks of a message. Messages have no block for
 * pictures that a model makes: they become text, unless it is said what else they are.
 */
export class MessageContent {
  /** What the content tells about why the message ended. */
  calledTool = false
  refused = false
  /** The number of pages that the provider has fetched. */
  webFetches = 0
  readonly #hidesThinking: boolean
  readonly #toPictureBlock: ToPictureBlock | undefined
  readonly #queue = new BlockQueue()
  readonly #tools = new Map<number, PendingBlock>()

  constructor(hidesThinking: boolean, toPictureBlock?: ToPictureBlock) {
    this.#hidesThinking = hidesThinking
    this.#toPictureBlock = toPictureBlock
  }

  /** Returns the events of a part. A message has only the first of an answer's alternatives. */
  read(part: TextPart): BlockEvent[] {
    if ('choice' in part && part.choice === 0) this.#addPart(part)
    return this.#queue.takeEvents()
  }

  /** Returns the remaining events at the end of the answer. */
  end(): BlockEvent[] {
    this.#queue.end()
    return this.#queue.takeEvents()
  }

  #addPart(part: TextPart): void {
    switch (part.type) {
      case 'text-delta':
        this.#addText(part.text, part.block)
        break
      case 'refusal-delta':
        this.refused = true
        this.#addText(part.text)
        break
      case 'reasoning-delta':
        this.#addReasoning(part.text, part.details)
        break
      case 'tool-call-start':
        this.#beginToolCall(part)
        break
      case 'tool-call-delta':
        this.#addToolInput(part.index, part.input)
        break
      case 'annotation':
        this.#addCitation(part)
        break
      case 'image': {
        const block = this.#toPictureBlock?.(part.url)
        if (block) this.#queue.beginBlock({ name: '', block })
        else this.#addText(`![image](${part.url})`)
        break
      }
      // Nor is there one for sounds.
      case 'audio-delta':
        this.#addText(part.audio.transcript ?? '')
        break
      case 'server-tool-start':
        this.#addInputBlock(toToolUseBlock(part))
        break
      case 'server-tool-end':
        this.#addToolResult(toToolResultBlock(part))
        break
      case 'other':
        if (part.dialect === 'messages' && isObject(part.value)) this.#addNativeBlock(part.value)
        break
    }
  }

  #addText(text: string, block?: number): void {
    if (text) this.#queue.addDelta(this.#getTextBlock(block), { type: 'text_delta', text })
  }

  #addCitation({ annotation, citation, block }: Extract<TextPart, { type: 'annotation' }>): void {
    const source = isObject(citation) ? citation : toSearchResultCitation(annotation)
    if (source)
      this.#queue.addDelta(this.#getTextBlock(block), { type: 'citations_delta', citation: source })
  }

  // The provider's blocks are kept: a citation refers to the block that it is in.
  #getTextBlock(block?: number): PendingBlock {
    const name = `text ${block ?? ''}`
    return (
      this.#queue.findLast(name) ??
      this.#queue.beginBlock({ name, block: { type: 'text', text: '', citations: [] } })
    )
  }

  // The text repeats what readable entries contain, so it counts only without them.
  #addReasoning(words: string, details: ReasoningDetail[]): void {
    for (const entry of details) {
      if (isReadableEntry(entry))
        this.#addReasoningEntry(
          `thinking ${typeof entry.index === 'number' ? entry.index : ''}`,
          entry,
        )
      else
        this.#queue.beginBlock({
          name: '',
          block: { type: 'redacted_thinking', data: renderRedactedData(entry) },
        })
    }
    if (words && !details.some(isReadableEntry))
      this.#addReasoningEntry('thinking', { text: words })
  }

  #addReasoningEntry(name: string, { text, summary, ...rest }: Json): void {
    const pending = this.#getThinkingBlock(name)
    pending.reasoningEntry = {
      ...pending.reasoningEntry,
      ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value != null)),
    }
    const words = this.#hidesThinking ? '' : readEntryText({ text, summary })
    if (words) this.#queue.addDelta(pending, { type: 'thinking_delta', thinking: words })
  }

  // A signature ends the block that it signs.
  #getThinkingBlock(name: string): PendingBlock {
    const last = this.#queue.findLast(name)
    if (last && last.reasoningEntry?.signature === undefined) return last
    return this.#queue.beginBlock({
      name,
      block: { type: 'thinking', thinking: '', signature: '' },
      reasoningEntry: {},
    })
  }

  #beginToolCall({ index, id, name, extra }: Extract<TextPart, { type: 'tool-call-start' }>): void {
    this.calledTool = true
    const block = { caller: { type: 'direct' }, ...extra, type: 'tool_use', id, name, input: {} }
    this.#tools.set(index, this.#queue.beginTool(block))
  }

  #addToolInput(index: number, piece: string): void {
    const pending = this.#tools.get(index)
    if (pending) this.#queue.addInput(pending, piece)
  }

  // Clients read the summary from its delta, which sets it.
  #addCompaction({ content = null, encrypted_content, ...block }: Json): void {
    const hasSeal = encrypted_content !== undefined
    const compaction = { content, ...(hasSeal ? { encrypted_content } : {}) }
    const empty = { content: null, ...(hasSeal ? { encrypted_content: null } : {}) }
    this.#queue.beginBlock({ name: '', block: { ...block, ...empty } }, [
      { type: 'compaction_delta', ...compaction },
    ])
  }

  // A tool that the provider runs streams like any other: its name first, then its input.
  #addNativeBlock(block: Json): void {
    const { type } = block
    if (typeof type !== 'string') return
    if (
      type === 'web_fetch_tool_result' &&
      readObject(block, 'content').type === 'web_fetch_result'
    )
      this.webFetches += 1
    if (type === 'compaction') this.#addCompaction(block)
    else this.#addInputBlock(block)
  }

  #addInputBlock(block: Json): void {
    const { input } = block
    if (!isObject(input)) this.#queue.beginBlock({ name: '', block })
    else
      this.#queue.beginBlock({ name: '', block: { ...block, input: {} } }, [
        { type: 'input_json_delta', partial_json: JSON.stringify(input) },
      ])
  }

  #addToolResult(block: Json | null): void {
    if (block) this.#queue.beginBlock({ name: '', block })
  }
}

/** Converts a source in OpenAI's form. It has no proof, so it has no index to send back. */
function toSearchResultCitation(annotation: unknown): Json | undefined {
  const source =
    isObject(annotation) && isObject(annotation.url_citation) ? annotation.url_citation : undefined
  const url = readString(source?.url)
  if (!source || !url) return undefined
  const { title, content } = source
  return {
    type: 'web_search_result_location',
    cited_text: readString(content) ?? '',
    encrypted_index: '',
    title: readString(title),
    url,
  }
}
