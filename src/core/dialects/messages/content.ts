import type { ReasoningDetail, TextPart } from '../../inference/call.ts'
import { isObject, type Json, member, text } from '../../kernel/json.ts'
import { JsonText } from './json-text.ts'
import { dataOf, isWords, signatureOf, wordsOf } from './thinking.ts'

/** What a block gains while it is open. */
export type Delta =
  | { type: 'text_delta'; text: string }
  | { type: 'citations_delta'; citation: Json }
  | { type: 'thinking_delta'; thinking: string }
  | { type: 'signature_delta'; signature: string }
  | { type: 'input_json_delta'; partial_json: string }

/** One step in the making of a message's content: what the events of a stream say, and what a whole answer is made of. */
export type Step =
  | { type: 'content_block_start'; index: number; content_block: Json }
  | { type: 'content_block_delta'; index: number; delta: Delta }
  | { type: 'content_block_stop'; index: number }

/** A block on its way. Those that are not open yet keep what they have gained. */
interface Lane {
  /** Pieces of the same name that follow each other belong together. */
  name: string
  block: Json
  started: boolean
  kept: Delta[]
  /** The arguments of a tool, followed to their end, and what of them is no object. */
  input?: JsonText
  odd?: string
  /** The entry of the reasoning that the words belong to, without the words. */
  thought?: Json
}

/**
 * The parts of an answer as the content of a message. Anthropic's clients know one open block at a time, counted from zero:
 * what comes for another block while a tool's arguments are still incomplete waits for its turn (translation trap 61).
 */
export class Content {
  /** What the content says of why the message ended. */
  calledTool = false
  refused = false
  /** How many pages the provider has fetched for it. */
  webFetches = 0
  readonly #hidesThinking: boolean
  #open: Lane | null = null
  #waiting: Lane[] = []
  readonly #tools = new Map<number, Lane>()
  #index = -1
  #steps: Step[] = []

  constructor(hidesThinking: boolean) {
    this.#hidesThinking = hidesThinking
  }

  /** The steps that a part takes. Alternatives beside the first have no place in a message. */
  read(part: TextPart): Step[] {
    if ('choice' in part && part.choice === 0) this.#see(part)
    return this.#taken()
  }

  /** The steps that are left when nothing more will come. */
  end(): Step[] {
    while (this.#open) {
      this.#close(this.#open)
      this.#advance()
    }
    return this.#taken()
  }

  #taken(): Step[] {
    const steps = this.#steps
    if (steps.length > 0) this.#steps = []
    return steps
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
    if (said) this.#gain(this.#textLane(block), { type: 'text_delta', text: said })
  }

  #citation({ annotation, citation, block }: Extract<TextPart, { type: 'annotation' }>): void {
    const shown = isObject(citation) ? citation : sourceOf(annotation)
    if (shown) this.#gain(this.#textLane(block), { type: 'citations_delta', citation: shown })
  }

  // What a provider has cut stays cut: a citation is about the block that it stands in.
  #textLane(block?: number): Lane {
    const name = `text ${block ?? ''}`
    return this.#last(name) ?? this.#begin({ name, block: { type: 'text', text: '', citations: null } })
  }

  // The words stand in the entries too, where there are any that hold words.
  #reasoning(words: string, details: ReasoningDetail[]): void {
    for (const entry of details) {
      if (isWords(entry)) this.#thought(`thinking ${typeof entry.index === 'number' ? entry.index : ''}`, entry)
      else this.#begin({ name: '', block: { type: 'redacted_thinking', data: dataOf(entry) } })
    }
    if (words && !details.some(isWords)) this.#thought('thinking', { text: words })
  }

  #thought(name: string, { text: said, summary, ...rest }: Json): void {
    const lane = this.#thinkingLane(name)
    lane.thought = { ...lane.thought, ...Object.fromEntries(Object.entries(rest).filter(([, value]) => value != null)) }
    const words = this.#hidesThinking ? '' : wordsOf({ text: said, summary })
    if (words) this.#gain(lane, { type: 'thinking_delta', thinking: words })
  }

  // A signature is the end of what it signs.
  #thinkingLane(name: string): Lane {
    const last = this.#last(name)
    if (last && last.thought?.signature === undefined) return last
    return this.#begin({ name, block: { type: 'thinking', thinking: '', signature: '' }, thought: {} })
  }

  #toolCall({ index, id, name, extra }: Extract<TextPart, { type: 'tool-call-start' }>): void {
    this.calledTool = true
    const block = { caller: { type: 'direct' }, ...extra, type: 'tool_use', id, name, input: {} }
    this.#tools.set(index, this.#begin({ name: '', block, input: new JsonText() }))
  }

  #toolInput(index: number, piece: string): void {
    const lane = this.#tools.get(index)
    if (!lane?.input) return
    const partial_json = lane.input.read(piece)
    if (lane.input.isObject === false) lane.odd = (lane.odd ?? '') + partial_json
    else if (partial_json) this.#gain(lane, { type: 'input_json_delta', partial_json })
    if (lane === this.#open && lane.input.complete) this.#close(lane)
    this.#advance()
  }

  // A tool that the provider runs is told like any other: its name first, and then its input.
  #native(block: Json): void {
    const { type, input } = block
    if (typeof type !== 'string') return
    if (type === 'web_fetch_tool_result' && member(block, 'content').type === 'web_fetch_result') this.webFetches += 1
    if (!isObject(input)) this.#begin({ name: '', block })
    else this.#begin({ name: '', block: { ...block, input: {} } }, [{ type: 'input_json_delta', partial_json: JSON.stringify(input) }])
  }

  /** The block that the newest piece went to, if it is of this name. */
  #last(name: string): Lane | undefined {
    const last = this.#waiting.at(-1) ?? this.#open
    return last?.name === name ? last : undefined
  }

  #begin(given: Pick<Lane, 'name' | 'block' | 'input' | 'thought'>, kept: Delta[] = []): Lane {
    const lane: Lane = { ...given, started: false, kept }
    this.#waiting.push(lane)
    this.#advance()
    return lane
  }

  #gain(lane: Lane, delta: Delta): void {
    if (lane === this.#open) this.#tell(lane, delta)
    else lane.kept.push(delta)
  }

  /** Opens what waits, one after the other, until one of them is a tool whose arguments are still coming. */
  #advance(): void {
    let opened = 0
    for (const lane of this.#waiting) {
      if (isBusy(this.#open)) break
      if (this.#open) this.#close(this.#open)
      this.#take(lane)
      opened += 1
    }
    if (opened > 0) this.#waiting = this.#waiting.slice(opened)
  }

  #take(lane: Lane): void {
    this.#open = lane
    // A thought that is hidden and not signed leaves no trace.
    if (!lane.thought) this.#start(lane)
    for (const delta of lane.kept) this.#tell(lane, delta)
  }

  #close(lane: Lane): void {
    if (lane.thought) this.#sign(lane, signatureOf(lane.thought))
    if (lane.odd !== undefined) this.#tell(lane, { type: 'input_json_delta', partial_json: JSON.stringify(oddInput(lane.odd)) })
    if (lane.started) this.#steps.push({ type: 'content_block_stop', index: this.#index })
    this.#open = null
  }

  #sign(lane: Lane, signature: string): void {
    if (signature) this.#tell(lane, { type: 'signature_delta', signature })
  }

  #tell(lane: Lane, delta: Delta): void {
    this.#start(lane)
    this.#steps.push({ type: 'content_block_delta', index: this.#index, delta })
  }

  #start(lane: Lane): void {
    if (lane.started) return
    lane.started = true
    this.#index += 1
    this.#steps.push({ type: 'content_block_start', index: this.#index, content_block: lane.block })
  }
}

// Only a tool whose arguments are still coming keeps the others waiting.
const isBusy = (lane: Lane | null): boolean => lane?.input !== undefined && !lane.input.complete

/** Arguments that are no JSON object, in one: the form that Anthropic's documentation gives them. Its clients take nothing else. */
export const oddInput = (raw: string): Json => ({ INVALID_JSON: raw })

/** A source in OpenAI's form. It proves nothing, so there is no index to send back. */
function sourceOf(annotation: unknown): Json | undefined {
  const source = isObject(annotation) && isObject(annotation.url_citation) ? annotation.url_citation : undefined
  const url = text(source?.url)
  if (!source || !url) return undefined
  const { title, content } = source
  return { type: 'web_search_result_location', cited_text: text(content) ?? '', encrypted_index: '', title: text(title), url }
}
