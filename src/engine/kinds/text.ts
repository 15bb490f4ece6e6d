import { GatewayError } from '../../base/errors.ts'
import { isObject, type Json, parseObject, readObjects } from '../../base/json.ts'
import { runAtOnce } from '../../base/turns.ts'
import type { TextCall } from '../../language/call.ts'
import { TEXT_DIALECTS } from '../../language/dialect.ts'
import type { Message } from '../../language/message.ts'
import type { Params } from '../../language/params.ts'
import type { TextPart } from '../../language/part.ts'
import type { TextRewrite } from '../../language/text-segment.ts'
import type { Tool, ToolChoice } from '../../language/tool.ts'
import { createTextUsage, type Usage } from '../../language/usage.ts'
import type { FilterSet } from '../../limits/filters/filter-set.ts'
import type { Match } from '../../limits/filters/rule.ts'
import { type CountTokens, estimatePrompt } from '../../translation/tokenizers/prompt.ts'
import { estimateByRuleOfThumb } from '../../translation/tokenizers/rule-of-thumb.ts'
import { answerBlocked, type Filtering, filterFailure } from '../filtering.ts'
import type { AnswerFilter, ContentFiltering, Meter } from '../kind.ts'
import { defineKind } from './define-kind.ts'
import {
  type Rewriter,
  rewriteBlocks,
  rewriteEach,
  rewriteExtra,
  rewriteText,
  rewriteValue,
} from './rewrite.ts'
import { ChoiceFilter } from './text/choice-filter.ts'
import {
  costing,
  findHighestCount,
  matchesModalities,
  offersTools,
  readApiType,
  understanding,
} from './text/understanding.ts'

const filtering: ContentFiltering<'text'> = {
  rewriteTexts,
  filterAnswer: (call, filtering, filterSet) => new TextFilter(call, filtering, filterSet),
}

/**
 * Rewrites every text that may have been typed: messages and names, predictions, response formats,
 * descriptions of tools. Does not change the call that it gets.
 */
async function rewriteTexts(call: TextCall, rewriteSegment: TextRewrite): Promise<TextCall> {
  const messages = await rewriteEach(call.messages, message =>
    rewriteMessage(message, rewriteSegment),
  )
  const rewrite = (tool: Tool) => rewriteTool(tool, { role: 'system', rewriteSegment })
  const tools = call.tools.length > 0 ? await rewriteEach(call.tools, rewrite) : call.tools
  const extra = await rewriteValue(call.extra, { role: 'user', rewriteSegment })
  return {
    ...call,
    messages,
    tools,
    extra,
    params: await rewriteParams(call.params, rewriteSegment),
  }
}

async function rewriteMessage(message: Message, rewriteSegment: TextRewrite): Promise<Message> {
  const rewriter: Rewriter = { role: message.role, rewriteSegment }
  const rewritten = { ...message, blocks: await rewriteBlocks(message.blocks, rewriter) }
  if (message.tool_call_id !== undefined)
    rewritten.tool_call_id = await rewriteText(message.tool_call_id, rewriter)
  if (message.name !== undefined) rewritten.name = await rewriteText(message.name, rewriter)
  return rewriteExtra(rewritten, rewriter)
}

// The type is ours: a pattern such as `function` must not change it.
async function rewriteTool(tool: Tool, rewriter: Rewriter): Promise<Tool> {
  if (tool.type === 'other') return { ...tool, value: await rewriteValue(tool.value, rewriter) }
  const { type, ...members } = tool
  return { type, ...(await rewriteValue(members, rewriter)) }
}

/** Parameters that hold words, each with the role whose words they are. */
const SPOKEN = [
  ['prediction', 'assistant'],
  ['response_format', 'system'],
] as const

async function rewriteParams(params: Params, rewriteSegment: TextRewrite): Promise<Params> {
  const rewritten: Record<string, unknown> = { ...params }
  for (const [name, role] of SPOKEN)
    if (name in params)
      rewritten[name] = await rewriteValue(rewritten[name], { role, rewriteSegment })
  return rewriteNames(rewritten as Params, { role: 'system', rewriteSegment })
}

/**
 * Rewrites what is not spoken but typed all the same. A tool must have the same name everywhere, so
 * what names it is rewritten here, before a protocol looks for it.
 */
async function rewriteNames(params: Params, rewriter: Rewriter): Promise<Params> {
  const rewritten = { ...params }
  const rewrite = (text: string) => rewriteText(text, rewriter)
  const { stop, tool_choice, prompt_cache_key } = params
  if (stop) rewritten.stop = await rewriteEach(stop, rewrite)
  if (prompt_cache_key !== undefined) rewritten.prompt_cache_key = await rewrite(prompt_cache_key)
  if (isFunctionChoice(tool_choice)) {
    const name = await rewrite(tool_choice.function.name)
    rewritten.tool_choice = { type: 'function', function: { name } }
  } else if (isAllowance(tool_choice))
    rewritten.tool_choice = await rewriteAllowance(tool_choice, rewriter)
  return rewritten
}

type Allowance = { type: string; allowed_tools: Json }

const isAllowance = (choice: ToolChoice | undefined): choice is Allowance =>
  isObject(choice) && 'allowed_tools' in choice && isObject(choice.allowed_tools)

// Its own words stay, as `rewriteTool` has it: only what names tools is typed.
async function rewriteAllowance(choice: Allowance, rewriter: Rewriter): Promise<Allowance> {
  const { allowed_tools } = choice
  const tools = await rewriteEach(readObjects(allowed_tools.tools), async ({ type, ...named }) => ({
    type,
    ...(await rewriteValue(named, rewriter)),
  }))
  return { ...choice, allowed_tools: { ...allowed_tools, tools } }
}

const isFunctionChoice = (
  choice: ToolChoice | undefined,
): choice is Extract<ToolChoice, { function: unknown }> =>
  typeof choice === 'object' && 'function' in choice

/**
 * Filters an answer of text as it streams: words, refusals, reasoning and arguments of tools, each
 * choice by itself. An answer that is not streamed is held back until its end, so that a blocked
 * one gives nothing at all.
 */
export class TextFilter implements AnswerFilter<TextPart> {
  readonly #isStreamed: boolean
  readonly #filtering: Filtering
  readonly #filterSet: FilterSet
  readonly #choices = new Map<number, ChoiceFilter>()
  readonly #heldBack: TextPart[] = []
  blocked: GatewayError | null = null

  constructor({ stream }: TextCall, filtering: Filtering, filterSet: FilterSet) {
    this.#isStreamed = stream
    this.#filtering = filtering
    this.#filterSet = filterSet
  }

  async read(parts: TextPart[]): Promise<TextPart[]> {
    const out: TextPart[] = []
    const passed = this.#isStreamed ? out : this.#heldBack
    for (const part of parts) {
      if (!('choice' in part)) out.push(this.readHead(part))
      else if (!this.blocked) passed.push(...(await this.#getChoiceFilter(part.choice).read(part)))
    }
    return out
  }

  // What a provider says of itself before it answers is short.
  readHead(part: TextPart): TextPart {
    if (part.type !== 'start') return part
    const { value, found } = runAtOnce(this.#filterSet.filterUnread(part))
    for (const { match } of found) this.#noteMatch(match)
    return this.#filterSet.alters ? value : part
  }

  async end(): Promise<TextPart[]> {
    const out = this.#heldBack
    for (const choice of this.#choices.values()) out.push(...(await choice.end()))
    return this.blocked && !this.#isStreamed ? [] : out
  }

  readFailure(thrown: unknown): GatewayError {
    return filterFailure(this.#filtering, GatewayError.from(thrown))
  }

  #getChoiceFilter(index: number): ChoiceFilter {
    const existing = this.#choices.get(index)
    if (existing) return existing
    const filter = new ChoiceFilter(this.#filterSet, match => this.#noteMatch(match))
    this.#choices.set(index, filter)
    return filter
  }

  #noteMatch({ rule }: Match): void {
    this.#filtering.noteMatch(rule, 'output')
    if (rule.action === 'block') this.blocked ??= answerBlocked(rule)
  }
}

/** Conversations and completions: text in, text out, and whatever else models accept or return. */
export const text = defineKind<'text'>({
  apiType: 'completions',
  readApiType,
  outputName: 'text',
  matchesModalities,
  isMeaningful,
  needsWhole: ({ dialect, stream }) => !stream && !TEXT_DIALECTS[dialect].showsPart,
  isFailure: part => part.type === 'finish' && part.reason === 'error',
  understanding,
  costing,
  metering: {
    startMeter: call => new TextMeter(call),
    countInput: estimatePrompt,
    countShares: call => Math.max(1, findHighestCount(call, 'answers')),
  },
  filtering,
})

function isMeaningful(part: TextPart): boolean {
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
