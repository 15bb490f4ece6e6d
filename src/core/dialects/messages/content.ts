import { isObject, type Json, member, text } from '../../kernel/json.ts'
import type { TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { type Lane, Lanes, type Step } from './lanes.ts'
import { dataOf, isWords, wordsOf } from './thinking.ts'

/** Turns the parts of an answer into the content blocks of a message. */
export class Content {
  /** What the content tells about why the message ended. */
  calledTool = false
  refused = false
  /** The number of pages that the provider has fetched. */
  webFetches = 0
  readonly #hidesThinking: boolean
  readonly #queue = new Lanes()
  readonly #tools = new Map<number, Lane>()

  constructor(hidesThinking: boolean) {
    this.#hidesThinking = hidesThinking
  }

  /** Returns the events of a part. A message has only the first of an answer's alternatives. */
  read(part: TextPart): Step[] {
    if ('choice' in part && part.choice === 0) this.#addPart(part)
    return this.#queue.taken()
  }

  /** Returns the remaining events at the end of the answer. */
  end(): Step[] {
    this.#queue.end()
    return this.#queue.taken()
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
      // Messages have no block for pictures and sounds that a model makes: they become text.
      case 'image':
        this.#addText(`![image](${part.url})`)
        break
      case 'audio-delta':
        this.#addText(part.audio.transcript ?? '')
        break
      case 'other':
        if (part.dialect === 'messages' && isObject(part.value)) this.#addNativeBlock(part.value)
        break
    }
  }

  #addText(text: string, block?: number): void {
    if (text) this.#queue.gain(this.#getTextBlock(block), { type: 'text_delta', text })
  }

  #addCitation({ annotation, citation, block }: Extract<TextPart, { type: 'annotation' }>): void {
    const source = isObject(citation) ? citation : sourceOf(annotation)
    if (source)
      this.#queue.gain(this.#getTextBlock(block), { type: 'citations_delta', citation: source })
  }

  // The provider's blocks are kept: a citation refers to the block that it is in.
  #getTextBlock(block?: number): Lane {
    const name = `text ${block ?? ''}`
    return (
      this.#queue.last(name) ??
      this.#queue.begin({ name, block: { type: 'text', text: '', citations: null } })
    )
  }

  // The text repeats what readable entries contain, so it counts only without them.
  #addReasoning(words: string, details: ReasoningDetail[]): void {
    for (const entry of details) {
      if (isWords(entry))
        this.#addReasoningEntry(
          `thinking ${typeof entry.index === 'number' ? entry.index : ''}`,
          entry,
        )
      else
        this.#queue.begin({ name: '', block: { type: 'redacted_thinking', data: dataOf(entry) } })
    }
    if (words && !details.some(isWords)) this.#addReasoningEntry('thinking', { text: words })
  }

  #addReasoningEntry(name: string, { text, summary, ...rest }: Json): void {
    const pending = this.#getThinkingBlock(name)
    pending.thought = {
      ...pending.thought,
      ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value != null)),
    }
    const words = this.#hidesThinking ? '' : wordsOf({ text, summary })
    if (words) this.#queue.gain(pending, { type: 'thinking_delta', thinking: words })
  }

  // A signature ends the block that it signs.
  #getThinkingBlock(name: string): Lane {
    const last = this.#queue.last(name)
    if (last && last.thought?.signature === undefined) return last
    return this.#queue.begin({
      name,
      block: { type: 'thinking', thinking: '', signature: '' },
      thought: {},
    })
  }

  #beginToolCall({ index, id, name, extra }: Extract<TextPart, { type: 'tool-call-start' }>): void {
    this.calledTool = true
    const block = { caller: { type: 'direct' }, ...extra, type: 'tool_use', id, name, input: {} }
    this.#tools.set(index, this.#queue.beginTool(block))
  }

  #addToolInput(index: number, piece: string): void {
    const pending = this.#tools.get(index)
    if (pending) this.#queue.input(pending, piece)
  }

  // A tool that the provider runs streams like any other: its name first, then its input.
  #addNativeBlock(block: Json): void {
    const { type, input } = block
    if (typeof type !== 'string') return
    if (type === 'web_fetch_tool_result' && member(block, 'content').type === 'web_fetch_result')
      this.webFetches += 1
    if (!isObject(input)) this.#queue.begin({ name: '', block })
    else
      this.#queue.begin({ name: '', block: { ...block, input: {} } }, [
        { type: 'input_json_delta', partial_json: JSON.stringify(input) },
      ])
  }
}

/** Converts a source in OpenAI's form. It has no proof, so it has no index to send back. */
function sourceOf(annotation: unknown): Json | undefined {
  const source =
    isObject(annotation) && isObject(annotation.url_citation) ? annotation.url_citation : undefined
  const url = text(source?.url)
  if (!source || !url) return undefined
  const { title, content } = source
  return {
    type: 'web_search_result_location',
    cited_text: text(content) ?? '',
    encrypted_index: '',
    title: text(title),
    url,
  }
}
