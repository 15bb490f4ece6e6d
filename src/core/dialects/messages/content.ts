import { isObject, type Json, member, text } from '../../kernel/json.ts'
import type { TextPart } from '../../language/part.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { type Lane, Lanes, type Step } from './lanes.ts'
import { dataOf, isWords, wordsOf } from './thinking.ts'

/** The parts of an answer as the content of a message: which piece belongs to which block. */
export class Content {
  /** What the content says of why the message ended. */
  calledTool = false
  refused = false
  /** How many pages the provider has fetched for it. */
  webFetches = 0
  readonly #hidesThinking: boolean
  readonly #lanes = new Lanes()
  readonly #tools = new Map<number, Lane>()

  constructor(hidesThinking: boolean) {
    this.#hidesThinking = hidesThinking
  }

  /** The steps that a part takes. Alternatives beside the first have no place in a message. */
  read(part: TextPart): Step[] {
    if ('choice' in part && part.choice === 0) this.#see(part)
    return this.#lanes.taken()
  }

  /** The steps that are left when nothing more will come. */
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
      // A message has no block for pictures and sounds that a model makes: their text form.
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

  // What a provider has cut stays cut: a citation is about the block that it stands in.
  #textLane(block?: number): Lane {
    const name = `text ${block ?? ''}`
    return (
      this.#lanes.last(name) ??
      this.#lanes.begin({ name, block: { type: 'text', text: '', citations: null } })
    )
  }

  // The words stand in the entries too, where there are any that hold words.
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

  // A signature is the end of what it signs.
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

  // A tool that the provider runs is told like any other: its name first, and then its input.
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

/** A source in OpenAI's form. It proves nothing, so there is no index to send back. */
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
