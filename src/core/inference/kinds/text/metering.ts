import { isObject } from '../../../kernel/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { TextPart } from '../../../language/part.ts'
import { textUsage, type Usage } from '../../../language/usage.ts'
import { type Counter, promptEstimate } from '../../../tokenizers/prompt.ts'
import { ruleOfThumb } from '../../../tokenizers/rule-of-thumb.ts'
import type { Meter, Metering } from '../../kinds.ts'
import { ToolCalls } from './tool-calls.ts'
import { offersTools } from './understanding.ts'

export const metering: Partial<Metering<'text'>> = {
  startMeter: call => new TextMeter(call),
  countInput: promptEstimate,
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
  finish: { reason: string; native: string | null } | null = null
  start: { upstream_id: string | null; service_tier: string | null } = NOT_STARTED
  readonly #call: TextCall
  readonly #said = new Delivered()
  readonly #thought = new Delivered()
  /** Null if the call offers no tools. */
  readonly #toolCalls: ToolCalls | null
  #pictures = 0
  /** Characters of base64. */
  #sound = 0
  /**
   * Whether the client got something that has no tokens of its own, such as search results of the
   * provider.
   */
  #hasFound = false

  constructor(call: TextCall) {
    this.#call = call
    this.#toolCalls = offersTools(call) ? new ToolCalls(call) : null
  }

  read(parts: TextPart[]): void {
    for (const part of parts) this.#see(part)
  }

  get delivered(): boolean {
    const hasWords = !this.#said.isEmpty || !this.#thought.isEmpty
    return hasWords || this.#pictures > 0 || this.#sound > 0 || this.#hasFound
  }

  get soFar(): number {
    const { image, audio } = this.#shown
    const characters = this.#said.characters + this.#thought.characters
    return Math.ceil(characters / CHARACTERS_PER_TOKEN) + image + audio
  }

  isSound(broken: boolean): boolean | null {
    if (!this.#toolCalls) return null
    return !broken && this.#toolCalls.areSound(this.finish?.reason ?? null, this.delivered)
  }

  async estimate(count: Counter): Promise<Usage> {
    const [input, text, reasoning] = await Promise.all([
      promptEstimate(this.#call, count),
      this.#said.count(count),
      this.#thought.count(count),
    ])
    const usage = textUsage(input.text, text)
    const output = { ...usage.output, reasoning, ...this.#shown }
    return { ...usage, input: { ...usage.input, ...input }, output }
  }

  /** Images and audio, in tokens. */
  get #shown() {
    const { audio } = this.#call.params
    const format = isObject(audio) ? audio.format : undefined
    return { image: picturesIn(this.#pictures), audio: soundIn(this.#sound, format) }
  }

  #see(part: TextPart): void {
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
      case 'text-delta':
      case 'refusal-delta':
        this.#said.add(part.choice, part.text)
        break
      case 'reasoning-delta':
        this.#thought.add(part.choice, part.text)
        break
      case 'tool-call-start':
        this.#said.add(part.choice, part.name)
        this.#toolCalls?.started(part)
        break
      case 'tool-call-delta':
        this.#said.add(part.choice, part.input)
        this.#toolCalls?.continued(part)
        break
      case 'annotation':
      case 'other':
        this.#hasFound = true
        break
      case 'image':
        this.#pictures += 1
        break
      case 'audio-delta':
        this.#said.add(part.choice, part.audio.transcript ?? '')
        this.#sound += part.audio.data?.length ?? 0
        break
    }
  }
}

const NOT_STARTED = { upstream_id: null, service_tier: null }

/**
 * Characters of an answer that are kept until it is known whether its provider counts. An answer
 * that comes in one piece is kept whole.
 */
const MOST_KEPT = 1024 * 1024
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
const picturesIn = (count: number): number => count * PICTURE

/**
 * Estimates the tokens of this many characters of base64 audio, in the format that the call asks
 * for.
 */
function soundIn(characters: number, format: unknown): number {
  const isCompressed = typeof format === 'string' && format !== 'wav' && !format.startsWith('pcm')
  const seconds = (characters * 3) / 4 / (isCompressed ? COMPRESSED_BYTES : PCM_BYTES)
  return Math.ceil(seconds * PER_SECOND)
}

/** What a client received, in pieces: joined only if it has to be counted. */
class Delivered {
  readonly #choices = new Map<number, string[]>()
  #kept = 0
  #characters = 0
  #piece = ''
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
    if (this.#kept + delta.length > MOST_KEPT && this.#kept > 0) this.#overflowWith(delta)
    else this.#keep(choice, delta)
  }

  /** Counts all of it. What was not kept counts by a rule of thumb, as it passed. */
  async count(count: Counter): Promise<number> {
    const texts = [...this.#choices.values()].map(deltas => deltas.join(''))
    const kept = texts.length === 0 ? 0 : await count(texts)
    return kept + this.#overflow + ruleOfThumb([this.#piece])
  }

  #keep(choice: number, delta: string): void {
    this.#kept += delta.length
    const deltas = this.#choices.get(choice)
    if (deltas) deltas.push(delta)
    else this.#choices.set(choice, [delta])
  }

  #overflowWith(delta: string): void {
    this.#piece += delta
    if (this.#piece.length < PIECE) return
    this.#overflow += ruleOfThumb([this.#piece])
    this.#piece = ''
  }
}
