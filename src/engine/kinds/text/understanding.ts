import { detectImageType } from '../../../base/data-url.ts'
import { invalid } from '../../../base/errors.ts'
import {
  isObject,
  type Json,
  parseCount,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import { multiplyPrice, pickLarger } from '../../../base/money.ts'
import type { Capability, TextCall } from '../../../language/call.ts'
import { TEXT_DIALECTS } from '../../../language/dialect.ts'
import { type Block, type Message, moveNamesIntoText } from '../../../language/message.ts'
import type { Params, Reasoning } from '../../../language/params.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import { SERVICE_TIERS, type ServiceTier } from '../../../language/routing.ts'
import type { Units } from '../../../language/usage.ts'
import type { Kind, Work } from '../../../language/work.ts'
import type { Endpoint, Model } from '../../../resources/models/catalog.ts'
import { getDearest, type Prices } from '../../../resources/prices.ts'
import { askForSummary, isCompacting } from '../../../translation/compaction.ts'
import { protocols } from '../../../translation/protocols/registry.ts'
import {
  boundJsonTokens,
  CALL_EXTRA,
  computeLargestPrompt,
  computePromptBound,
  getFacts,
  NAMES,
  OTHER,
  REASONING,
  RICH,
} from '../../../translation/tokenizers/prompt.ts'
import { applyToolChanges } from '../../../translation/tool-changes.ts'
import type { Costing } from '../../kind.ts'
import type { KindDefinition } from '../define-kind.ts'
import { listForeignParameters, nameParameter } from './foreign-parameters.ts'
import { isAtHome, listIgnoredTools, replaceTools } from './foreign-tools.ts'
import { replaceNativeItems } from './native-items.ts'

const readContents = ({ messages }: TextCall): Block[][] => messages.map(({ blocks }) => blocks)

export const understanding: KindDefinition<'text'>['understanding'] = {
  readContents,
  readRichContents: call => (getFacts(call.messages).features & RICH ? readContents(call) : []),
  replaceContents(call, contents) {
    const messages = call.messages.map((message, i) => ({ ...message, blocks: contents[i] ?? [] }))
    return { ...call, messages }
  },
  checkCounts,
  listVariants,
  applyVariant,
  checkEndpoint,
  supportsPreferred: (call, endpoint) =>
    !listUnsupported(endpoint, call).some(name => MISSED.includes(name)) &&
    listIgnoredTools(call, endpoint).length === 0,
  getServiceTier,
  listIgnored,
  fitToEndpoint,
  removeNames: call =>
    getFacts(call.messages).features & NAMES
      ? { ...call, messages: moveNamesIntoText(call.messages) }
      : call,
  identifyConversation,
  offersTools,
}

export function matchesModalities(outputModalities: string[]): boolean {
  return outputModalities.some(modality => GIVEN.includes(modality))
}

const GIVEN = ['text', 'image', 'audio']

const THINKING = ':thinking'
const ONLINE = ':online'

function listVariants({ reasoning }: Model): string[] {
  return reasoning ? [THINKING, ONLINE] : [ONLINE]
}

/** `:online` asks for the plugin that searches the web. */
function applyVariant(call: TextCall, variant: string): TextCall {
  if (variant === THINKING) return askToReason(call)
  if (variant !== ONLINE || call.plugins?.web !== undefined) return call
  return { ...call, plugins: { ...call.plugins, web: {} } }
}

function askToReason(call: TextCall): TextCall {
  const reasoning = enableReasoning(call.params.reasoning)
  return addRequiredCapability('reasoning', { ...call, params: { ...call.params, reasoning } })
}

// Does not override a caller who turns reasoning on or off.
const enableReasoning = (reasoning: Reasoning = {}): Reasoning =>
  reasoning.enabled === undefined && reasoning.effort !== 'none'
    ? { ...reasoning, enabled: true }
    : reasoning

/** Returns the call restricted to endpoints with this capability. */
export function addRequiredCapability(ability: Capability, call: TextCall): TextCall {
  const { requiredCapabilities: required = [] } = call
  return required.includes(ability)
    ? call
    : { ...call, requiredCapabilities: [...required, ability] }
}

function checkEndpoint(call: TextCall, endpoint: Endpoint): string | true {
  const { require_parameters } = call.routing
  if (require_parameters && !supportsAll(call, endpoint)) return 'require_parameters'
  return findMissing(call, endpoint) ?? (fitsContext(call, endpoint) || 'context_length')
}

const supportsAll = (call: TextCall, endpoint: Endpoint): boolean =>
  listIgnored(call, endpoint).length === 0

/** The most names of what was left out. */
const MOST_IGNORED = 64

/**
 * Lists the parameters, and then the tools, that are left out at the endpoint, as the client wrote
 * them.
 */
function listIgnored(call: TextCall, endpoint: Endpoint): string[] {
  const names = [
    ...listUnsupported(endpoint, call).flatMap(name => nameParameter(name, call)),
    ...(call.leftOut ?? []),
    ...listLostTier(call, endpoint),
    ...listForeignParameters(call, endpoint),
    ...listIgnoredTools(call, endpoint),
  ]
  return [...new Set(names)].slice(0, MOST_IGNORED)
}

function listLostTier(call: TextCall, endpoint: Endpoint): string[] {
  const isLost =
    call.params.service_tier !== undefined &&
    fitServiceTier(call, endpoint).params.service_tier === undefined
  return isLost ? nameParameter('service_tier', call) : []
}

/** Finds a capability that the call requires and the endpoint lacks. */
const findMissing = (call: TextCall, endpoint: Endpoint): Capability | undefined =>
  call.requiredCapabilities?.find(ability => {
    if (listUnsupported(endpoint, call).includes(PARAMETERS[ability])) return true
    return ability === 'web_search' && !canSearch(call, endpoint)
  })

const PARAMETERS: Record<Capability, keyof Params> = {
  reasoning: 'reasoning',
  web_search: 'web_search_options',
}

function canSearch(call: TextCall, endpoint: Endpoint): boolean {
  return protocols.text[endpoint.protocol]?.supportsWebSearch?.(call, endpoint) ?? false
}

const fitsContext = (call: TextCall, { context_length }: Endpoint) =>
  context_length === null ||
  ((call.params.max_tokens ?? 0) < context_length &&
    getFacts(call.messages).leastTokens + (call.params.max_tokens ?? 0) <= context_length)

const MISSED = ['tools', 'response_format', 'verbosity']

/**
 * Drops parameters that are ignored if unsupported; the rest are forwarded (rule 5). Throws 400 for
 * an item of the conversation that the endpoint's provider does not take.
 */
export function fitToEndpoint(given: TextCall, endpoint: Endpoint): TextCall {
  const { features } = getFacts(given.messages)
  const own = features & REASONING ? dropForeignThoughts(given, endpoint) : given
  const call = fitForms(fitServiceTier(own, endpoint), endpoint, features)
  const unsupported: string[] = listUnsupported(endpoint, call)
  // A copy where something may be left out: only of a call that was changed is that listed.
  if (unsupported.length === 0) {
    if (call.leftOut) return { ...call }
    // Most calls have nothing of the kind.
    for (const _ in call.params) return copyIfCut(call, endpoint)
    for (const _ in call.extra) return copyIfCut(call, endpoint)
    return call
  }
  const params = Object.entries(call.params).filter(([name]) => !unsupported.includes(name))
  const tools = unsupported.includes('tools') ? [] : call.tools
  return { ...call, params: Object.fromEntries(params), tools }
}

const copyIfCut = (call: TextCall, endpoint: Endpoint): TextCall =>
  listForeignParameters(call, endpoint).length > 0 ? { ...call } : call

// Not every provider of the Responses API makes compactions.
const fitCompaction = (call: TextCall, endpoint: Endpoint): TextCall =>
  call.dialect === 'responses' && isCompacting(call) && !COMPACTING.has(endpoint.provider.slug)
    ? askForSummary(call)
    : call

const COMPACTING = new Set(['openai', 'azure'])

/** Returns the call without what the endpoint's provider has no form for, as it has another API. */
function fitForms(call: TextCall, endpoint: Endpoint, features: number): TextCall {
  const hasForms = hasOwnForms(call, features)
  if (!hasForms && call.dialect !== 'responses') return call
  if (isAtHome(call, endpoint)) return fitCompaction(call, endpoint)
  if (!hasForms) return call
  const own = restoreOwn(applyToolChanges(call), endpoint)
  return replaceNativeBlocks(replaceNativeItems(replaceTools(own, endpoint)))
}

const restoreOwn = (call: TextCall, { protocol }: Endpoint): TextCall =>
  call.dialect === 'responses' && protocol === 'gemini' ? restoreDrawn(call) : call

function hasOwnForms({ tools }: TextCall, features: number): boolean {
  if (features & (OTHER | CALL_EXTRA)) return true
  for (const { type } of tools) if (type === 'other') return true
  return false
}

type ParametersOfCall = Pick<TextCall, 'params' | 'tools'>

/** Lists the parameters of the call that the endpoint does not support. */
export function listUnsupported(
  endpoint: Endpoint,
  call: ParametersOfCall,
): (keyof Params | 'tools')[] {
  const { supported_parameters: supported } = endpoint
  if (!supported) return []
  const sent = Object.keys(call.params) as (keyof Params | 'tools')[]
  if (call.tools.length > 0) sent.push('tools')
  return sent.filter(name => PUBLIC_NAMES[name]?.every(publicName => !supported.has(publicName)))
}

/** The public names of a bound of the output. */
const OUTPUT_BOUNDS = ['max_tokens', 'max_completion_tokens']

/**
 * The public names under which each of our parameters is supported. What is not listed here is
 * always forwarded.
 */
const PUBLIC_NAMES: Partial<Record<keyof Params | 'tools', string[]>> = {
  temperature: ['temperature'],
  top_p: ['top_p'],
  top_k: ['top_k'],
  min_p: ['min_p'],
  top_a: ['top_a'],
  frequency_penalty: ['frequency_penalty'],
  presence_penalty: ['presence_penalty'],
  repetition_penalty: ['repetition_penalty'],
  max_tokens: OUTPUT_BOUNDS,
  seed: ['seed'],
  stop: ['stop'],
  logit_bias: ['logit_bias'],
  logprobs: ['logprobs'],
  top_logprobs: ['top_logprobs'],
  prediction: ['prediction'],
  response_format: ['response_format', 'structured_outputs'],
  tools: ['tools'],
  tool_choice: ['tool_choice', 'tools'],
  parallel_tool_calls: ['parallel_tool_calls', 'tools'],
  reasoning: ['reasoning', 'reasoning_effort', 'include_reasoning'],
  verbosity: ['verbosity'],
  web_search_options: ['web_search_options'],
}

/**
 * Returns what stays the same as a conversation goes on: the cache key that the caller gives, or a
 * hash of its first instructions and its first message (wire reference K.3).
 */
function identifyConversation({ params: { prompt_cache_key }, messages }: TextCall): string {
  if (prompt_cache_key !== undefined) return `key ${Bun.hash(prompt_cache_key)}`
  const opening = [messages.find(isInstruction), messages.find(message => !isInstruction(message))]
  return `opening ${opening.reduce<number | bigint>(hashMessage, 0n)}`
}

const isInstruction = ({ role }: Message) => role === 'system' || role === 'developer'

function hashMessage(hash: number | bigint, message: Message | undefined): number | bigint {
  let sum = hash
  const texts = message?.blocks.filter(block => block.type === 'text') ?? []
  for (const { text } of texts) sum = Bun.hash(text, BigInt(sum))
  return sum
}

export function offersTools({ tools, params: { tool_choice } }: TextCall): boolean {
  return tools.length > 0 && tool_choice !== 'none'
}

/** Returns the service tier that a call asks for, if endpoints may have it (wire reference K.5). */
function getServiceTier({ params: { service_tier } }: TextCall): ServiceTier | undefined {
  return service_tier === undefined ? undefined : SERVICE_TIERS.find(tier => tier === service_tier)
}

/**
 * Returns the call with the service tier of the endpoint. The usual endpoint is not asked for a tier
 * that costs more: what it charges then is not known. Nor for one that the model has an endpoint of.
 */
function fitServiceTier(call: TextCall, endpoint: Endpoint): TextCall {
  const { service_tier, tier_prices } = endpoint
  const requested = getServiceTier(call)
  if (service_tier === (requested ?? null)) return call
  if (service_tier !== null) return { ...call, params: { ...call.params, service_tier } }
  if (requested === 'flex' && tier_prices === null) return call
  const { service_tier: _, ...params } = call.params
  return { ...call, params, extra: omitSpeed(call.extra) }
}

// The word of `/messages` for priority (wire reference K.5).
function omitSpeed({ speed: _, ...extra }: TextCall['extra']): TextCall['extra'] {
  return extra
}

/** What a count of a request multiplies or bounds. */
type CountRole = 'answers' | 'output' | 'reasoning' | 'searches'

/**
 * Fields that the gateway does not interpret and that some provider reads as a count of what it
 * charges for, by name. They stand in the body or in one of the `CONTAINERS`.
 */
const COUNT_ROLES = new Map<string, CountRole>([
  ['n', 'answers'],
  ['best_of', 'answers'],
  ['num_generations', 'answers'],
  ['num_return_sequences', 'answers'],
  ['candidate_count', 'answers'],
  ['candidateCount', 'answers'],
  ['max_tokens', 'output'],
  ['maxTokens', 'output'],
  ['max_completion_tokens', 'output'],
  ['max_output_tokens', 'output'],
  ['maxOutputTokens', 'output'],
  ['max_new_tokens', 'output'],
  ['max_tokens_to_sample', 'output'],
  ['n_predict', 'output'],
  ['num_predict', 'output'],
  ['budget_tokens', 'reasoning'],
  ['thinking_budget', 'reasoning'],
  ['thinkingBudget', 'reasoning'],
  ['reasoning_budget', 'reasoning'],
  ['max_uses', 'searches'],
  ['max_tool_calls', 'searches'],
])

/** Objects of a body in which providers look for such fields. */
const CONTAINERS = new Set([
  'additionalModelRequestFields',
  'chat_template_kwargs',
  'extra_body',
  'generationConfig',
  'generation_config',
  'inferenceConfig',
  'options',
  'parameters',
  'reasoning',
  'reasoning_config',
  'sampling_params',
  'search_parameters',
  'thinking',
  'thinkingConfig',
  'thinking_config',
  'web_search_options',
])

/** A count of a request: where it stands, what it counts, and what the caller wrote. */
interface CountField {
  path: string
  role: CountRole
  value: unknown
}

/**
 * Checks every count that the cost of a call depends on. What is counted is what is sent: a count
 * that providers may read in different ways is refused. Throws 400 naming the field.
 */
export function checkCounts(call: TextCall): void {
  const { extra, tools, params } = call
  for (const { path, role, value } of listCounts(extra))
    checkCount(path, value, role === 'answers' ? 1 : 0)
  const { max_tokens, reasoning, web_search_options } = params
  if (max_tokens != null) checkCount(nameOutputBound(call), max_tokens)
  checkCount('reasoning.max_tokens', reasoning?.max_tokens)
  if (isObject(web_search_options))
    checkCount('web_search_options.max_uses', web_search_options.max_uses)
  for (const [index, tool] of tools.entries())
    if (tool.type === 'other' && isObject(tool.value))
      checkCount(`tools.${index}.max_uses`, tool.value.max_uses)
}

/** Returns the name of the bound of a call's output, as its client's API has it. */
export const nameOutputBound = (call: Work[Kind]['call']): string =>
  call.kind === 'text' && call.dialect === 'responses' ? 'max_output_tokens' : 'max_tokens'

// A call for no answer would be paid for nothing.
function checkCount(path: string, value: unknown, least = 0): void {
  if (value != null && !((parseCount(value) ?? -1) >= least))
    throw invalid(`${path}: expected a whole number from ${least} to 1000000000`, path)
}

/**
 * Returns the highest count of a role among the fields that the gateway does not interpret; 0
 * without any.
 */
export function findHighestCount({ extra }: TextCall, role: CountRole): number {
  // Most calls have no such field.
  for (const _ in extra) return pickHighest(collectCounts(extra, '', []), role)
  return 0
}

function pickHighest(counts: CountField[], role: CountRole): number {
  let highest = 0
  for (const field of counts)
    if (field.role === role) highest = Math.max(highest, parseCount(field.value) ?? 0)
  return highest
}

/** Returns the fields without the counts of these roles. */
function removeCounts(extra: Json, roles: CountRole[]): Json {
  if (!listCounts(extra).some(({ role }) => roles.includes(role))) return extra
  const kept: Json = {}
  for (const [name, value] of Object.entries(extra)) {
    const role = COUNT_ROLES.get(name)
    if (role && roles.includes(role)) continue
    kept[name] = CONTAINERS.has(name) && isObject(value) ? removeCounts(value, roles) : value
  }
  return kept
}

// Most calls have no such field.
function listCounts(extra: Json): CountField[] {
  for (const _ in extra) return collectCounts(extra, '', [])
  return NO_COUNTS
}

const NO_COUNTS: CountField[] = []

function collectCounts(extra: Json, prefix: string, found: CountField[]): CountField[] {
  for (const name in extra) {
    const value = extra[name]
    if (isObject(value) && CONTAINERS.has(name)) {
      collectCounts(value, `${prefix}${name}.`, found)
      continue
    }
    const role = COUNT_ROLES.get(name)
    if (role) found.push({ path: prefix + name, role, value })
  }
  return found
}

export const costing: Partial<Costing<'text'>> = {
  estimateInput: computePromptBound,
  boundInput: computeLargestPrompt,
  countPrompts: () => 1,
  estimateUnits: () => NO_SEARCHES,
  boundUnits,
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

function boundUnits(call: TextCall): Units {
  const search = countSearches(call)
  return search === 0 ? NO_SEARCHES : { search }
}

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
  const choices = findHighestCount(call, 'answers')
  const { output } = getDearest(prices)
  // Models that output images do so unasked; none outputs audio unasked.
  const isHeard = call.params.modalities?.includes('audio') ?? false
  const dearest = isHeard ? pickLarger(output, prices.audio_output) : output
  // The gateway has no field for several answers at once, but providers have, and charge for each.
  return choices < 2 ? dearest : multiplyPrice(choices, dearest)
}

/** OpenAI charges tokens of a prediction that does not come true like output. */
function priceSurcharge(call: TextCall, prices: Prices): bigint {
  const { prediction } = call.params
  if (prediction === undefined) return 0n
  return multiplyPrice(boundJsonTokens(prediction), priceOutputToken(call, prices))
}

const supportsBound = ({ supported_parameters: supported }: Endpoint): boolean =>
  !supported || OUTPUT_BOUNDS.some(name => supported.has(name))

function computeThinking({ params: { reasoning } }: TextCall): number {
  if (!reasoning || reasoning.enabled === false || reasoning.effort === 'none') return 0
  return Math.max(reasoning.max_tokens ?? 0, MIN_THINKING)
}

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

/** Returns the word of the record for what was asked. */
export const readApiType = ({ dialect, isToolCall }: TextCall): string =>
  isToolCall ? 'mcp' : TEXT_DIALECTS[dialect].apiType

/**
 * Returns the call with the pictures that its model has drawn as pictures. The Responses API shows
 * those of any model as items of OpenAI's own tool; where the model draws in its turns, they are a
 * part of what it has said.
 */
const restoreDrawn = (call: TextCall): TextCall => ({
  ...call,
  messages: call.messages.map(message =>
    message.role === 'assistant' && message.blocks.some(({ type }) => type === 'other')
      ? { ...message, blocks: message.blocks.map(restorePicture) }
      : message,
  ),
})

function restorePicture(block: Block): Block {
  const { type, result } = block.type === 'other' && isObject(block.value) ? block.value : {}
  if (type !== 'image_generation_call' || typeof result !== 'string') return block
  const media_type = detectImageType(result)
  return media_type ? { type: 'image', url: `data:${media_type};base64,${result}` } : block
}

/**
 * The models that sign or encrypt their thoughts in each format. Only they take them back: all
 * others refuse the conversation for a signature that they did not make (translation traps 93–97).
 */
const MAKERS: [format: RegExp, models: RegExp][] = [
  [/^anthropic-claude-/, /^anthropic\/|claude/i],
  [/^google-gemini-/, /^google\/|gemini/i],
  [/^((azure|bedrock)-)?openai-responses-/, /^openai\/|gpt|codex/i],
  [/^(bedrock-)?xai-responses-/, /^x-ai\/|grok/i],
  [/^meta-responses-/, /^meta(-llama)?\//i],
]

/** The authors of models that are known to make no thoughts but their own. */
const KNOWN_AUTHOR =
  /^(anthropic|google|openai|x-ai|meta|meta-llama|deepseek|mistralai|qwen|moonshotai|z-ai|minimax|cohere|amazon|nvidia|microsoft|xiaomi)\//

/**
 * Returns the call without thoughts that another model than the endpoint's has signed. Of a model
 * whose author is not known, as of a relay, nothing is: what it gets it may have made.
 */
function dropForeignThoughts(call: TextCall, endpoint: Endpoint): TextCall {
  if (!KNOWN_AUTHOR.test(endpoint.model)) return call
  const names = `${endpoint.model} ${endpoint.upstreamModel}`
  const isForeign = ({ format }: ReasoningDetail): boolean => {
    const maker = MAKERS.find(([pattern]) => pattern.test(String(format)))
    return maker !== undefined && !maker[1].test(names)
  }
  if (!call.messages.some(({ blocks }) => blocks.some(hasSome(isForeign)))) return call
  return { ...call, messages: call.messages.map(message => dropThoughts(message, isForeign)) }
}

type IsForeign = (detail: ReasoningDetail) => boolean

const hasSome = (isForeign: IsForeign) => (block: Block) =>
  block.type === 'reasoning' && (block.details?.some(isForeign) ?? false)

// What was thought may stay where words go back: it is a text as any other.
const dropThoughts = (message: Message, isForeign: IsForeign): Message => ({
  ...message,
  blocks: message.blocks.map(block => {
    if (block.type !== 'reasoning' || !block.details) return block
    const own = block.details.filter(detail => !isForeign(detail))
    return { ...block, details: own.length > 0 ? own : null }
  }),
})

/**
 * Returns the call with what other providers understand in place of blocks of Anthropic's API that
 * they have no form for. What a provider's own tools did is left out: the model's words after it
 * tell it. What has words says them. Anything else of the user stays, and protocols refuse it by its
 * name.
 */
export function replaceNativeBlocks(call: TextCall): TextCall {
  if (call.dialect !== 'messages' || !call.messages.some(hasNative)) return call
  return { ...call, messages: call.messages.flatMap(replaceInMessage) }
}

type NativeBlock = Extract<Block, { type: 'other' }> & { value: Json }

const isNative = (block: Block): block is NativeBlock =>
  block.type === 'other' && block.dialect === 'messages' && isObject(block.value)

const hasNative = ({ blocks }: Message): boolean => blocks.some(isNative)

function replaceInMessage(message: Message): Message[] {
  if (!hasNative(message)) return [message]
  const isOfModel = message.role === 'assistant'
  const blocks = message.blocks.flatMap((block): Block[] => {
    if (!isNative(block)) return [block]
    const words = WORDS[String(block.value.type)]?.(block.value)
    return words ?? (isOfModel ? [] : [block])
  })
  // A turn in which the model only used tools of its provider.
  return isOfModel && blocks.length === 0 ? [] : [{ ...message, blocks }]
}

const toText = (lines: unknown[]): Block[] => {
  const text = lines.filter(line => typeof line === 'string' && line !== '').join('\n')
  return text === '' ? [] : [{ type: 'text', text }]
}

const listTexts = (content: unknown): string[] =>
  typeof content === 'string'
    ? [content]
    : readObjects(content).flatMap(({ text }) => readString(text) ?? [])

const listPictures = (content: unknown): Block[] =>
  readObjects(content).flatMap(({ source: given }) => {
    const { type, url, media_type, data } = isObject(given) ? given : {}
    if (type === 'url' && typeof url === 'string') return [{ type: 'image', url }]
    return type === 'base64' ? [{ type: 'image', url: `data:${media_type};base64,${data}` }] : []
  })

/** What blocks of these types say, in the words and pictures of any model. */
const WORDS: Record<string, (block: Json) => Block[]> = {
  compaction: ({ content }) => toText([content]),
  search_result: ({ title, source, content }) => toText([title, source, ...listTexts(content)]),
  tool_reference: ({ tool_name }) => toText([tool_name]),
  document(block) {
    const { content } = readObject(block, 'source')
    const lines = [block.title, block.context, ...listTexts(content)]
    return [...toText(lines), ...listPictures(content)]
  },
}
