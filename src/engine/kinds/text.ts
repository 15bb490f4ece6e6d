import { GatewayError } from '../../base/errors.ts'
import { isObject, type Json, parseCount } from '../../base/json.ts'
import { multiplyPrice, pickLarger } from '../../base/money.ts'
import { runAtOnce } from '../../base/turns.ts'
import type { TextCall } from '../../language/call.ts'
import { TEXT_DIALECTS } from '../../language/dialect.ts'
import type { Message } from '../../language/message.ts'
import type { Params } from '../../language/params.ts'
import type { TextPart } from '../../language/part.ts'
import type { TextRewrite } from '../../language/text-segment.ts'
import type { Tool, ToolChoice } from '../../language/tool.ts'
import type { FilterSet } from '../../limits/filters/filter-set.ts'
import type { Match } from '../../limits/filters/rule.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { Prices } from '../../resources/prices.ts'
import {
  boundJsonTokens,
  computeLargestPrompt,
  computePromptBound,
} from '../../translation/tokenizers/prompt.ts'
import { answerBlocked, type Filtering, filterFailure } from '../filtering.ts'
import type { AnswerFilter, ContentFiltering, Costing } from '../kind.ts'
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
import { isMeaningful, metering } from './text/metering.ts'
import {
  findHighestCount,
  listUnsupported,
  matchesModalities,
  removeCounts,
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
  }
  return rewritten
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

const costing: Partial<Costing<'text'>> = {
  estimateInput: computePromptBound,
  boundInput: computeLargestPrompt,
  countPrompts: () => 1,
  estimateUnits: () => NO_SEARCHES,
  boundUnits: call => ({ search: countSearches(call) }),
  boundOutput,
  computeLeastOutput,
  needsOutputLimit,
  limitUnits,
  limitOutput,
  priceOutputToken,
  priceSurcharge,
}

/** How often a model searches is its own choice: that is not expected, but bounded. */
const NO_SEARCHES = {}

/** No model makes use of less, and some refuse it. */
const MIN_OUTPUT = 16

/**
 * A model that reasons by budget uses at least this many tokens, whatever the call asks for
 * (Anthropic, "Extended thinking").
 */
const MIN_THINKING = 1024

/**
 * Returns the most tokens that an answer may have: what the caller asks for or the model gives,
 * plus what reasoning may take.
 */
function boundOutput(call: TextCall, endpoint: Endpoint): number | null {
  const isGiven = call.params.max_tokens !== undefined && supportsBound(endpoint)
  const requested = isGiven
    ? Math.max(findHighestBound(call), MIN_OUTPUT) + computeThinking(call)
    : null
  const most = endpoint.max_completion_tokens
  const output =
    requested === null || most === null ? (requested ?? most) : Math.min(requested, most)
  // Providers that read a budget in a field of their own may spend it beside the answer.
  return output === null ? null : output + findHighestCount(call, 'reasoning')
}

/**
 * Tells whether nothing bounds the answer, or the call asks for more than the endpoint is known to
 * give.
 */
function needsOutputLimit(call: TextCall, { max_completion_tokens: most }: Endpoint): boolean {
  return most === null ? call.params.max_tokens === undefined : findHighestBound(call) > most
}

/**
 * Returns the least output that makes the call worthwhile: infinite if the endpoint takes no bound.
 */
function computeLeastOutput(call: TextCall, endpoint: Endpoint): number {
  if (!supportsBound(endpoint)) return Number.POSITIVE_INFINITY
  return MIN_OUTPUT + (computeThinking(call) > 0 ? MIN_THINKING : 0)
}

/** Returns the call with this many tokens for its reasoning and its answer together. */
function limitOutput(call: TextCall, tokens: number): TextCall {
  const thinking = Math.min(computeThinking(call), Math.max(tokens - MIN_OUTPUT, 0))
  const { reasoning } = call.params
  const budget =
    reasoning?.max_tokens === undefined ? {} : { reasoning: { ...reasoning, max_tokens: thinking } }
  const params = { ...call.params, ...budget, max_tokens: Math.max(tokens - thinking, 1) }
  return { ...call, params, extra: removeCounts(call.extra, ['output', 'reasoning']) }
}

/** Returns the highest price of a token of the answer, times the number of answers. */
function priceOutputToken(call: TextCall, prices: Prices): bigint {
  const { completion, reasoning, audio_output, image_output } = prices
  // Models that output images do so unasked; none outputs audio unasked.
  const sound = call.params.modalities?.includes('audio') ? audio_output : undefined
  const dearest = pickLarger(
    pickLarger(completion, reasoning),
    pickLarger(image_output ?? 0n, sound),
  )
  return multiplyPrice(countChoices(call), dearest)
}

/** OpenAI charges tokens of a prediction that does not come true like output. */
function priceSurcharge(call: TextCall, prices: Prices): bigint {
  const { prediction } = call.params
  if (prediction === undefined) return 0n
  return multiplyPrice(boundJsonTokens(prediction), priceOutputToken(call, prices))
}

const supportsBound = (endpoint: Endpoint) => listUnsupported(endpoint, BOUND_ALONE).length === 0

const BOUND_ALONE = { params: { max_tokens: 1 }, tools: [] }

function computeThinking({ params: { reasoning } }: TextCall): number {
  if (!reasoning || reasoning.enabled === false || reasoning.effort === 'none') return 0
  return Math.max(reasoning.max_tokens ?? 0, MIN_THINKING)
}

// The gateway has no field for several answers at once, but providers have, and charge for each.
const countChoices = (call: TextCall): number => Math.max(findHighestCount(call, 'answers'), 1)

/** Returns the highest bound of the call, whatever its name; 0 if it has none. */
const findHighestBound = (call: TextCall): number =>
  Math.max(call.params.max_tokens ?? 0, findHighestCount(call, 'output'))

/** The searches that a provider may make if the call does not bound them. */
const SEARCHES = 10

function countSearches(call: TextCall): number {
  const { tools, params, extra, requiredCapabilities } = call
  const { web_search_options: options } = params
  let most = options === undefined ? 0 : countAskedSearches(options, requiredCapabilities)
  // Other servers switch on a search by fields of their own: `search_parameters`, `enable_search`.
  if (Object.keys(extra).some(name => name.includes('search')))
    most += Math.max(findHighestCount(call, 'searches'), SEARCHES)
  for (const tool of tools) if (tool.type === 'other') most += countToolSearches(tool.value)
  return most
}

// A bound holds only if every endpoint that may serve the call knows it. Otherwise it may be
// ignored.
function countAskedSearches(
  options: unknown,
  capabilities: TextCall['requiredCapabilities'],
): number {
  const maxUses = (isObject(options) && parseCount(options.max_uses)) || 0
  return capabilities?.includes('web_search') && maxUses > 0 ? maxUses : Math.max(maxUses, SEARCHES)
}

/**
 * Returns the call with the searches that its hold assumes, where it names no number and the
 * provider takes one (Anthropic, "Web search tool": `max_uses`).
 */
function limitUnits(call: TextCall, { protocol }: Endpoint): TextCall {
  if (!protocol.startsWith('anthropic-') || countSearches(call) === 0) return call
  const { web_search_options: options } = call.params
  const tools = call.tools.map(tool =>
    tool.type === 'other' && isObject(tool.value) && countToolSearches(tool.value) > 0
      ? { ...tool, value: addMaxUses(tool.value) }
      : tool,
  )
  if (!isObject(options)) return { ...call, tools }
  return { ...call, tools, params: { ...call.params, web_search_options: addMaxUses(options) } }
}

const addMaxUses = (fields: Json): Json => ({ ...fields, max_uses: fields.max_uses ?? SEARCHES })

function countToolSearches(tool: unknown): number {
  if (!isObject(tool) || !String(tool.type).includes('search')) return 0
  return parseCount(tool.max_uses) || SEARCHES
}

/** Conversations and completions: text in, text out, and whatever else models accept or return. */
export const text = defineKind<'text'>({
  apiType: 'completions',
  readApiType: ({ dialect, isToolCall }) => (isToolCall ? 'mcp' : TEXT_DIALECTS[dialect].apiType),
  outputName: 'text',
  matchesModalities,
  isMeaningful,
  needsWhole: ({ dialect, stream }) => !stream && !TEXT_DIALECTS[dialect].showsPart,
  isFailure: part => part.type === 'finish' && part.reason === 'error',
  understanding,
  costing,
  metering,
  filtering,
})
