import { type Json, parseObject, text } from '../../kernel/json.ts'
import type { Block } from '../../language/message.ts'
import type { ReasoningDetail } from '../../language/reasoning.ts'
import { ownDetails } from '../reasoning.ts'

/** The mark of reasoning entries that only Google reads. */
export const FORMAT = 'google-gemini-v1'

/** What the signature of a turn's picture or sound belongs to, as those have no ids: the first is 0. */
export const mediaId = (at: number): string => `media_${at}`

/**
 * What Google gave with its earlier answer and wants back on the very part: signatures, signed thoughts, and what it ran itself.
 * See ai.google.dev/gemini-api/docs/thought-signatures.
 */
export class Signatures {
  /** The parts that open the turn: signed thoughts, and calls that Google ran itself with their outcome. */
  readonly opening: Json[] = []
  readonly #byId = new Map<string, string>()
  readonly #ofTexts: string[] = []

  constructor(blocks: Block[]) {
    const details = blocks.flatMap(block => (block.type === 'reasoning' ? ownDetails(block.details, [FORMAT]) : []))
    for (const detail of details) if (detail.type === 'reasoning.encrypted') this.#addSignature(detail)
    for (const detail of details) this.#addOpening(detail)
  }

  /** The signature of the call, picture or sound with this id. */
  of(id: string): string | undefined {
    return this.#byId.get(id)
  }

  /** The signatures of texts, in order. */
  get ofTexts(): readonly string[] {
    return this.#ofTexts
  }

  #addSignature({ id, data }: ReasoningDetail): void {
    if (typeof data !== 'string' || data === '') return
    if (typeof id === 'string' && id !== '') this.#byId.set(id, data)
    else this.#ofTexts.push(data)
  }

  // Thoughts without a signature are for people: Google does not ask for them.
  #addOpening(detail: ReasoningDetail): void {
    const { type, signature } = detail
    if (type === 'reasoning.text' && typeof signature === 'string' && signature !== '')
      this.opening.push({ text: text(detail.text) ?? '', thought: true, thoughtSignature: signature })
    if (type === 'reasoning.server_tool_call') this.opening.push(...this.#serverCall(detail))
  }

  #serverCall({ tool_name, tool_call_id, arguments: input, result }: ReasoningDetail): Json[] {
    const given = parseObject(text(input) ?? '') ?? {}
    const outcome = parseObject(text(result) ?? '')
    const id = text(tool_call_id) ?? ''
    const signature = this.#byId.get(id)
    const signed = signature === undefined ? {} : { thoughtSignature: signature }
    if (tool_name === 'code_execution')
      return [{ executableCode: given, ...signed }, ...(outcome ? [{ codeExecutionResult: outcome }] : [])]
    const call = { toolCall: { toolType: tool_name, args: given, id }, ...signed }
    return outcome ? [call, { toolResponse: { toolType: tool_name, response: outcome, id } }] : []
  }
}

/** What Google documents for a call whose signature the client has lost. */
export const LOST_SIGNATURE = 'skip_thought_signature_validator'
