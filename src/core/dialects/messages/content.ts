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
  readonly #lanes = new Lanes()
  readonly #tools = new Map<number, Lane>()

  constructor(hidesThinking: boolean) {
    this.#hidesThinking = hidesThinking
  }

  /** Returns the events of a part. A message has only the first of an answer's alternatives. */
  read(part: TextPart): Step[] {
    if ('choice' in part && part.choice === 0) this.#see(part)
    return this.#lanes.taken()
  }

  /** Returns the remaining events at the end of the answer. */
  end(): Step[] {
    this.#lanes.end()
    return this.#lanes.taken()
  }

  #see(part: TextPart): void {
    switch (part.type) {
      case 'text-delta':
        this.#text(part.text, part.block)
        break
      case 'refusal-delta':
        this.refused = true
        this.#text(part.text)
        break
      case 'reasoning-delta':
        this.#reasoning(part.text, part.details)
        break
      case 'tool-call-start':
        this.#toolCall(part)
        break
      case 'tool-call-delta':
        this.#toolInput(part.index, part.input)
        break
      case 'annotation':
        this.#citation(part)
        break
      // Messages have no block for pictures and sounds that a model makes: they become text.
      case 'image':
        this.#text(`![image](${part.url})`)
        break
      case 'audio-delta':
        this.#text(part.audio.transcript ?? '')
        break
      case 'other':
        if (part.dialect === 'messages' && isObject(part.value)) this.#native(part.value)
        break
    }
  }

  #text(said: string, block?: number): void {
    if (said) this.#lanes.gain(this.#textLane(block), { type: 'text_delta', text: said })
  }

  #citation({ annotation, citation, block }: Extract<TextPart, { type: 'annotation' }>): void {
    const shown = isObject(citation) ? citation : sourceOf(annotation)
    if (shown) this.#lanes.gain(this.#textLane(block), { type: 'citations_delta', citation: shown })
  }

  // The provider's blocks are kept: a citation refers to the block that it is in.
  #textLane(block?: number): Lane {
    const name = `text ${block ?? ''}`
    return (
      this.#lanes.last(name) ??
      this.#lanes.begin({ name, block: { type: 'text', text: '', citations: null } })
    )
  }

  // The text repeats what readable entries contain, so it counts only without them.
  #reasoning(words: string, details: ReasoningDetail[]): void {
    for (const entry of details) {
      if (isWords(entry))
        this.#thought(`thinking ${typeof entry.index === 'number' ? entry.index : ''}`, entry)
      else
        this.#lanes.begin({ name: '', block: { type: 'redacted_thinking', data: dataOf(entry) } })
    }
    if (words && !details.some(isWords)) this.#thought('thinking', { text: words })
  }

  #thought(name: string, { text: said, summary, ...rest }: Json): void {
    const lane = this.#thinkingLane(name)
    lane.thought = {
      ...lane.thought,
      ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value != null)),
    }
    const words = this.#hidesThinking ? '' : wordsOf({ text: said, summary })
    if (words) this.#lanes.gain(lane, { type: 'thinking_delta', thinking: words })
  }

  // A signature ends the block that it signs.
  #thinkingLane(name: string): Lane {
    const last = this.#lanes.last(name)
    if (last && last.thought?.signature === undefined) return last
    return this.#lanes.begin({
      name,
      block: { type: 'thinking', thinking: '', signature: '' },
      thought: {},
    })
  }

  #toolCall({ index, id, name, extra }: Extract<TextPart, { type: 'tool-call-start' }>): void {
    this.calledTool = true
    const block = { caller: { type: 'direct' }, ...extra, type: 'tool_use', id, name, input: {} }
    this.#tools.set(index, this.#lanes.beginTool(block))
  }

  #toolInput(index: number, piece: string): void {
    const lane = this.#tools.get(index)
    if (lane) this.#lanes.input(lane, piece)
  }

  // A tool that the provider runs streams like any other: its name first, then its input.
  #native(block: Json): void {
    const { type, input } = block
    if (typeof type !== 'string') return
    if (type === 'web_fetch_tool_result' && member(block, 'content').type === 'web_fetch_result')
      this.webFetches += 1
    if (!isObject(input)) this.#lanes.begin({ name: '', block })
    else
      this.#lanes.begin({ name: '', block: { ...block, input: {} } }, [
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
