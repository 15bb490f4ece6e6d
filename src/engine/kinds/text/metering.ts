import { isObject, parseObject } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { TextPart } from '../../../language/part.ts'
import type { Tool } from '../../../language/tool.ts'
import { createTextUsage, type Usage } from '../../../language/usage.ts'
import { type CountTokens, estimatePrompt } from '../../../translation/tokenizers/prompt.ts'
import { estimateByRuleOfThumb } from '../../../translation/tokenizers/rule-of-thumb.ts'
import type { Meter, Metering } from '../../kind.ts'
import { findHighestCount, offersTools } from './understanding.ts'

export const metering: Partial<Metering<'text'>> = {
  startMeter: call => new TextMeter(call),
  countInput: estimatePrompt,
  countShares: call => Math.max(1, findHighestCount(call, 'answers')),
}

export function isMeaningful(part: TextPart): boolean {
  if (part.type === 'text-delta' || part.type === 'refusal-delta') return part.text !== ''
  // An answer that ends in an error before any content does not count: another endpoint may do
  // better.
  if (part.type === 'finish') return part.reason !== 'error'
  return !COMMON.has(part.type)
}

const COMMON = new Set<TextPart['type']>(['start', 'usage', 'echo', 'error'])

const CHARACTERS_PER_TOKEN = 4

class TextMeter implements Meter<TextPart> {
  usage: Usage | null = null
  /** The finish of the first choice stands for the answer. */
  finish: { reason: string; native: string | null; isUnknown?: true } | null = null
  start: { upstream_id: string | null; service_tier: string | null } = NOT_STARTED
  readonly #call: TextCall
  readonly #text = new DeliveredText()
  readonly #reasoning = new DeliveredText()
  /** Null if the call offers no tools. */
  readonly #toolCalls: ToolCalls | null
  #imageCount = 0
  /** Characters of base64. */
  #audioLength = 0
  /**
   * Whether the client got something that has no tokens of its own, such as search results of the
   * provider.
   */
  #hasOther = false

  constructor(call: TextCall) {
    this.#call = call
    this.#toolCalls = offersTools(call) ? new ToolCalls(call) : null
  }

  read(parts: TextPart[]): void {
    // Most parts of most answers.
    for (const part of parts)
      if (part.type === 'text-delta') this.#text.add(part.choice, part.text)
      else this.#readPart(part)
  }

  get delivered(): boolean {
    const hasWords = !this.#text.isEmpty || !this.#reasoning.isEmpty
    return hasWords || this.#imageCount > 0 || this.#audioLength > 0 || this.#hasOther
  }

  get tokensSoFar(): number {
    const { image, audio } = this.#mediaTokens
    const characters = this.#text.characters + this.#reasoning.characters
    return Math.ceil(characters / CHARACTERS_PER_TOKEN) + image + audio
  }

  hasValidToolCalls(broken: boolean): boolean | null {
    if (!this.#toolCalls) return null
    return !broken && this.#toolCalls.areValid(this.finish?.reason ?? null, this.delivered)
  }

  async estimate(count: CountTokens): Promise<Usage> {
    const [input, text, reasoning] = await Promise.all([
      estimatePrompt(this.#call, count),
      this.#text.count(count),
      this.#reasoning.count(count),
    ])
    const usage = createTextUsage(input.text, text)
    const output = { ...usage.output, reasoning, ...this.#mediaTokens }
    return { ...usage, input: { ...usage.input, ...input }, output }
  }

  /** Images and audio, in tokens. */
  get #mediaTokens() {
    const { audio } = this.#call.params
    const format = isObject(audio) ? audio.format : undefined
    return {
      image: estimatePictureTokens(this.#imageCount),
      audio: estimateSoundTokens(this.#audioLength, format),
    }
  }

  #readPart(part: TextPart): void {
    switch (part.type) {
      case 'start':
        this.start = part
        break
      case 'usage':
        this.usage = part.usage
        break
      case 'finish':
        this.finish ??= part
        break
      case 'refusal-delta':
        this.#text.add(part.choice, part.text)
        break
      case 'reasoning-delta':
        this.#reasoning.add(part.choice, part.text)
        break
      case 'tool-call-start':
        this.#text.add(part.choice, part.name)
        this.#toolCalls?.startCall(part)
        break
      case 'tool-call-delta':
        this.#text.add(part.choice, part.input)
        this.#toolCalls?.continueCall(part)
        break
      case 'annotation':
      case 'other':
        this.#hasOther = true
        break
      case 'image':
        this.#imageCount += 1
        break
      case 'audio-delta':
        this.#text.add(part.choice, part.audio.transcript ?? '')
        this.#audioLength += part.audio.data?.length ?? 0
        break
    }
  }
}

const NOT_STARTED = { upstream_id: null, service_tier: null }

/**
 * Characters of an answer that are kept until it is known whether its provider counts. An answer
 * that comes in one piece is kept whole.
 */
const MAX_KEPT = 1024 * 1024
/** What exceeds them is counted in pieces of this many characters. */
const PIECE = 4096

// Google's guide, "Image generation": 1,290 tokens for a picture of up to 1024 by 1024 pixels.
const PICTURE = 1_290
// Google's guide, "Speech generation": 25 tokens a second; OpenAI's are 20. A second is 48 KB of
// PCM, 24 kHz and 16 bits, or 16 KB of any compressed format.
const PER_SECOND = 25
const PCM_BYTES = 48_000
const COMPRESSED_BYTES = 16_000

/** Estimates the tokens of this many images. */
const estimatePictureTokens = (count: number): number => count * PICTURE

/**
 * Estimates the tokens of this many characters of base64 audio, in the format that the call asks
 * for.
 */
function estimateSoundTokens(characters: number, format: unknown): number {
  const isCompressed = typeof format === 'string' && format !== 'wav' && !format.startsWith('pcm')
  const seconds = (characters * 3) / 4 / (isCompressed ? COMPRESSED_BYTES : PCM_BYTES)
  return Math.ceil(seconds * PER_SECOND)
}

const NO_PIECES: string[] = []

/** What a client received, in pieces: joined only if it has to be counted. */
class DeliveredText {
  #choices: Map<number, string[]> | null = null
  /** The choice of the last piece, and its pieces: most answers have one choice. */
  #last: number | null = null
  #pieces = NO_PIECES
  #kept = 0
  #characters = 0
  #pending = ''
  #overflow = 0

  get isEmpty(): boolean {
    return this.#kept === 0
  }

  get characters(): number {
    return this.#characters
  }

  /** Adds the next piece of one choice; the choices may be interleaved. */
  add(choice: number, delta: string): void {
    if (delta === '') return
    this.#characters += delta.length
    if (this.#kept + delta.length > MAX_KEPT && this.#kept > 0) this.#countOverflow(delta)
    else {
      this.#kept += delta.length
      if (choice !== this.#last) this.#pieces = this.#findPieces(choice)
      this.#last = choice
      this.#pieces.push(delta)
    }
  }

  /** Counts all of it. What was not kept counts by a rule of thumb, as it passed. */
  async count(count: CountTokens): Promise<number> {
    const texts = [...(this.#choices?.values() ?? [])].map(deltas => deltas.join(''))
    const kept = texts.length === 0 ? 0 : await count(texts)
    return kept + this.#overflow + estimateByRuleOfThumb([this.#pending])
  }

  #findPieces(choice: number): string[] {
    this.#choices ??= new Map()
    const known = this.#choices.get(choice)
    if (known) return known
    const pieces: string[] = []
    this.#choices.set(choice, pieces)
    return pieces
  }

  #countOverflow(delta: string): void {
    this.#pending += delta
    if (this.#pending.length < PIECE) return
    this.#overflow += estimateByRuleOfThumb([this.#pending])
    this.#pending = ''
  }
}

/** Characters of arguments that are kept for judging. An answer that has more is not judged. */
const MAX_INPUT = 1024 * 1024

interface ToolCall {
  choice: number
  index: number
  name: string
  input: string[]
}

/**
 * How an answer calls the tools that it was offered. This is no schema validation. A call must name
 * one of the tools and have an object of arguments with the required members: that separates
 * providers whose templates and parsers work from others.
 */
class ToolCalls {
  readonly #call: TextCall
  readonly #toolCalls: ToolCall[] = []
  /** The last call of each choice and index: pieces belong to it. */
  readonly #latest = new Map<string, ToolCall>()
  #kept = 0

  constructor(call: TextCall) {
    this.#call = call
  }

  startCall({ choice, index, name }: Extract<TextPart, { type: 'tool-call-start' }>): void {
    const started = { choice, index, name, input: [] }
    this.#toolCalls.push(started)
    this.#latest.set(`${choice} ${index}`, started)
  }

  continueCall({ choice, index, input }: Extract<TextPart, { type: 'tool-call-delta' }>): void {
    this.#kept += input.length
    if (this.#kept > MAX_INPUT) return
    this.#latest.get(`${choice} ${index}`)?.input.push(input)
  }

  /**
   * Tells whether all of them are valid, in an answer with this finish reason that has delivered
   * anything or not. Null if it does not tell: it was cut, it called tools of another kind, or it
   * said something else and was free to.
   */
  areValid(reason: string | null, delivered: boolean): boolean | null {
    if (reason === 'error') return false
    if (reason === 'length' || reason === 'content_filter' || this.#kept > MAX_INPUT) return null
    if (this.#toolCalls.length === 0) return mustCallTool(this.#call) || !delivered ? false : null
    const verdicts = this.#toolCalls.map(call => isValidCall(call, this.#call.tools))
    return verdicts.includes(false) ? false : verdicts.includes(null) ? null : true
  }
}

const mustCallTool = ({ params: { tool_choice } }: TextCall): boolean =>
  tool_choice === 'required' || (typeof tool_choice === 'object' && tool_choice.type === 'function')

/** Null for a call of anything but a function, which has its own rules. */
function isValidCall({ name, input }: ToolCall, tools: Tool[]): boolean | null {
  const tool = tools.find(candidate => candidate.type === 'function' && candidate.name === name)
  if (tool?.type !== 'function')
    return tools.some(candidate => candidate.type === 'other') ? null : false
  const text = input.join('').trim()
  // Some models send no arguments at all for a function without parameters, and clients accept
  // that.
  const args = text === '' ? {} : parseObject(text)
  return (
    args !== undefined && listRequired(tool.parameters).every(member => Object.hasOwn(args, member))
  )
}

function listRequired(parameters: unknown): string[] {
  const required = isObject(parameters) ? parameters.required : undefined
  return Array.isArray(required) ? required.filter(member => typeof member === 'string') : []
}
