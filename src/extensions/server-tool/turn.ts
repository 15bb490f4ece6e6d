import { GatewayError } from '../../base/errors.ts'
import type { Block, Message } from '../../language/message.ts'
import type { FinishReason, TextPart } from '../../language/part.ts'
import { appendDetail } from '../../language/reasoning.ts'

/** A call of one of the gateway's own tools, or of an unknown function. */
export interface PendingCall {
  id: string
  name: string
  /** The arguments as the model wrote them, which may be no JSON. */
  input: string
}

/** The most characters of one turn: it is sent back to the model. */
const MAX_HELD = 64 * 1024 * 1024

/**
 * One turn of the model as it is read: what it said, for the conversation that goes on, and which
 * functions it called. Calls that are for the gateway are kept back; all others pass.
 */
export class Turn {
  /** What the model said and called, in its order. */
  readonly blocks: Block[] = []
  /** The calls that are for the gateway, in the model's order. */
  readonly calls: PendingCall[] = []
  /** Whether the model called a function of the client. */
  hasClientCalls = false
  finish: FinishReason | null = null
  readonly #isForGateway: (name: string) => boolean
  /** The calls by their index: those for the gateway, and the index of others as clients see it. */
  readonly #gatewayCalls = new Map<number, CallBlock>()
  readonly #clientCalls = new Map<number, { block: CallBlock; index: number }>()
  #held = 0

  constructor(isForGateway: (name: string) => boolean) {
    this.#isForGateway = isForGateway
  }

  /** Reads one part and returns it as the client may see it; null if it is for the gateway. */
  read(part: TextPart): TextPart | null {
    if (!('choice' in part) || part.choice !== 0) return part
    switch (part.type) {
      case 'tool-call-start':
        return this.#beginCall(part)
      case 'tool-call-delta':
        return this.#continueCall(part)
      case 'finish':
        this.finish ??= part.reason
        return part
      default:
        this.#addContent(part)
        return part
    }
  }

  /**
   * Gives every call for the gateway an id that no other call of the turn has, and none of the
   * messages before it: some providers send none, one for all, or the same in every answer, which
   * others refuse.
   */
  separateIds(before: Message[]): void {
    const taken = new Set(
      before.flatMap(({ blocks }) =>
        blocks.flatMap(block => (block.type === 'tool-call' ? block.id : [])),
      ),
    )
    for (const { block } of this.#clientCalls.values()) taken.add(block.id)
    for (const call of this.calls) {
      const given = call.id || 'call'
      for (let n = taken.size; call.id === '' || taken.has(call.id); n++) call.id = `${given}_${n}`
      taken.add(call.id)
    }
  }

  #beginCall(part: Extract<TextPart, { type: 'tool-call-start' }>): TextPart | null {
    const { id, name, extra } = part
    const block: CallBlock = { type: 'tool-call', id, name, input: '', ...(extra ? { extra } : {}) }
    this.blocks.push(block)
    if (this.#isForGateway(name)) {
      this.#gatewayCalls.set(part.index, block)
      this.#clientCalls.delete(part.index)
      this.calls.push(block)
      return null
    }
    // Clients collect calls by their index, and expect no gaps.
    const index = this.#clientCalls.get(part.index)?.index ?? this.#clientCalls.size
    this.hasClientCalls = true
    this.#gatewayCalls.delete(part.index)
    this.#clientCalls.set(part.index, { block, index })
    return { ...part, index }
  }

  #continueCall(part: Extract<TextPart, { type: 'tool-call-delta' }>): TextPart | null {
    this.#hold(part.input)
    const own = this.#gatewayCalls.get(part.index)
    if (own) {
      own.input += part.input
      return null
    }
    const call = this.#clientCalls.get(part.index)
    if (!call) return part
    call.block.input += part.input
    return { ...part, index: call.index }
  }

  #addContent(part: TextPart): void {
    switch (part.type) {
      case 'text-delta':
        this.#addText('text', part.text)
        break
      case 'refusal-delta':
        this.#addText('refusal', part.text)
        break
      case 'reasoning-delta':
        this.#addReasoning(part)
        break
      case 'image':
        this.#hold(part.url)
        this.blocks.push({ type: 'image', url: part.url })
        break
      case 'other':
        if (!part.isPreview)
          this.blocks.push({ type: 'other', dialect: part.dialect, value: part.value })
    }
  }

  #addText(type: 'text' | 'refusal', text: string): void {
    this.#hold(text)
    const last = this.blocks.at(-1)
    if (last?.type === type) last.text += text
    else if (text !== '') this.blocks.push({ type, text })
  }

  #addReasoning({ text, details }: Extract<TextPart, { type: 'reasoning-delta' }>): void {
    this.#hold(text)
    const last = this.blocks.at(-1)
    const block: ReasoningBlock =
      last?.type === 'reasoning' ? last : { type: 'reasoning', text: null, details: null }
    if (last !== block) this.blocks.push(block)
    if (text !== '') block.text = (block.text ?? '') + text
    if (details.length === 0) return
    block.details ??= []
    for (const detail of details) appendDetail(block.details, detail)
  }

  #hold(text: string): void {
    this.#held += text.length
    if (this.#held > MAX_HELD)
      throw new GatewayError('provider_unavailable', 'The answer is too long')
  }
}

type CallBlock = Extract<Block, { type: 'tool-call' }>
type ReasoningBlock = Extract<Block, { type: 'reasoning' }>
