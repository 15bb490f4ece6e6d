import type { Endpoint } from '../../catalog/models.ts'
import { isObject } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import { namesInText } from '../../language/message.ts'
import type { TextPart } from '../../language/part.ts'
import { textUsage, type Usage } from '../../language/usage.ts'
import type { Counter } from '../../tokenizers/prompt.ts'
import { largestPrompt, promptBound, promptEstimate } from '../../tokenizers/prompt.ts'
import type { KindOfWork, Meter } from '../kinds.ts'
import { fitted, unsupportedBy } from '../parameters.ts'
import { TextFilter } from './text/answer-filter.ts'
import { conversation } from './text/conversation.ts'
import { Delivered, picturesIn, soundIn } from './text/delivered.ts'
import { named, withUrls } from './text/media.ts'
import { asksForMore, leastOutput, outputBound, outputRate, surcharge, withOutputBound } from './text/output.ts'
import { reworded } from './text/passages.ts'
import { offersTools, ToolCalls } from './text/tool-calls.ts'
import { asked, missing, variantsOf } from './text/variants.ts'

/** Conversations and completions: text in, text out, whatever else comes with it. */
export const text: KindOfWork<'text'> = {
  apiType: 'completions',
  gives: 'text',
  isGivenBy: modalities => modalities.some(modality => ['text', 'image', 'audio'].includes(modality)),
  variantsOf,
  asked,
  serves,
  suits: (call, endpoint) => !unsupportedBy(endpoint, call).some(name => MISSED.includes(name)),
  offersTools,
  ignored: (call, endpoint) => unsupportedBy(endpoint, call),
  conversation,
  isMeaningful,
  fitted,
  withoutNames: call => ({ ...call, turns: namesInText(call.turns) }),
  named,
  withUrls,
  expectedInput: promptBound,
  largestInput: largestPrompt,
  outputBound,
  leastOutput,
  asksForMore,
  withOutputBound,
  outputRate,
  surcharge,
  meter: call => new TextMeter(call),
  reworded,
  answerFilter: (call, filtering, screen) => new TextFilter(call, filtering, screen),
}

function serves(call: TextCall, endpoint: Endpoint): string | true {
  if (call.routing.require_parameters && unsupportedBy(endpoint, call).length > 0) return 'require_parameters'
  return missing(call, endpoint) ?? (fitsTheContext(call, endpoint) || 'context_length')
}

const MISSED = ['tools', 'response_format', 'verbosity']

const fitsTheContext = ({ params: { max_tokens } }: TextCall, { context_length }: Endpoint) =>
  max_tokens === undefined || context_length === null || max_tokens < context_length

function isMeaningful(part: TextPart): boolean {
  if (part.type === 'text-delta' || part.type === 'refusal-delta') return part.text !== ''
  // An answer that ends in an error before it says anything is none: somebody else may do better.
  if (part.type === 'finish') return part.reason !== 'error'
  return part.type !== 'start' && part.type !== 'usage' && part.type !== 'echo' && part.type !== 'error'
}

const CHARACTERS_PER_TOKEN = 4

class TextMeter implements Meter<TextPart> {
  usage: Usage | null = null
  /** The first choice's reason stands for the answer. */
  finish: { reason: string; native: string | null } | null = null
  start: { upstream_id: string | null; service_tier: string | null } = NOT_STARTED
  readonly #call: TextCall
  readonly #said = new Delivered()
  readonly #thought = new Delivered()
  /** Null where it was offered none. */
  readonly #toolCalls: ToolCalls | null
  #pictures = 0
  /** Characters of base64. */
  #sound = 0
  /** Whether a client has seen what has no tokens of its own: what the provider found, and where. */
  #hasFound = false

  constructor(call: TextCall) {
    this.#call = call
    this.#toolCalls = offersTools(call) ? new ToolCalls(call) : null
  }

  read(parts: TextPart[]): void {
    for (const part of parts) this.#see(part)
  }

  get delivered(): boolean {
    return !this.#said.isEmpty || !this.#thought.isEmpty || this.#pictures > 0 || this.#sound > 0 || this.#hasFound
  }

  get soFar(): number {
    const { image, audio } = this.#shown
    return Math.ceil((this.#said.characters + this.#thought.characters) / CHARACTERS_PER_TOKEN) + image + audio
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
    return { ...usage, input: { ...usage.input, ...input }, output: { ...usage.output, reasoning, ...this.#shown } }
  }

  /** What was given that is no text, in tokens. */
  get #shown() {
    const { audio } = this.#call.params
    return { image: picturesIn(this.#pictures), audio: soundIn(this.#sound, isObject(audio) ? audio.format : undefined) }
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
