import type { Endpoint, Model } from '../../../catalog/models.ts'
import type { Ability, TextCall } from '../../../language/call.ts'
import { namesInText, type Turn } from '../../../language/message.ts'
import type { Params, Reasoning } from '../../../language/params.ts'
import { protocols } from '../../../protocols/registry.ts'
import type { KindDefinition } from '../define-kind.ts'

export const understanding: KindDefinition<'text'>['understanding'] = {
  readContents: ({ turns }) => turns.map(({ blocks }) => blocks),
  replaceContents(call, contents) {
    const turns = call.turns.map((turn, i) => ({ ...turn, blocks: contents[i] ?? [] }))
    return { ...call, turns }
  },
  listVariants,
  applyVariant,
  serves,
  suits: (call, endpoint) => !listUnsupported(endpoint, call).some(name => MISSED.includes(name)),
  listIgnored: (call, endpoint) => listUnsupported(endpoint, call),
  fitToEndpoint,
  removeNames: call => ({ ...call, turns: namesInText(call.turns) }),
  identifyConversation,
  offersTools,
}

export function isGivenBy(outputModalities: string[]): boolean {
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
  const reasoning = switchOn(call.params.reasoning)
  return addNeed('reasoning', { ...call, params: { ...call.params, reasoning } })
}

// Does not override a caller who turns reasoning on or off.
const switchOn = (wish: Reasoning = {}): Reasoning =>
  wish.enabled === undefined && wish.effort !== 'none' ? { ...wish, enabled: true } : wish

/** Returns the call restricted to endpoints with this capability. */
export function addNeed(ability: Ability, call: TextCall): TextCall {
  return { ...call, needs: [...(call.needs ?? []), ability] }
}

function serves(call: TextCall, endpoint: Endpoint): string | true {
  const { require_parameters } = call.routing
  if (require_parameters && listUnsupported(endpoint, call).length > 0) return 'require_parameters'
  return findMissing(call, endpoint) ?? (fitsTheContext(call, endpoint) || 'context_length')
}

/** Finds a capability that the call requires and the endpoint lacks. */
const findMissing = (call: TextCall, endpoint: Endpoint): Ability | undefined =>
  call.needs?.find(ability => {
    if (listUnsupported(endpoint, call).includes(PARAMETERS[ability])) return true
    return ability === 'web_search' && !searches(call, endpoint)
  })

const PARAMETERS: Record<Ability, string> = {
  reasoning: 'reasoning',
  web_search: 'web_search_options',
}

function searches(call: TextCall, endpoint: Endpoint): boolean {
  return protocols.text[endpoint.protocol]?.searches?.(call, endpoint) ?? false
}

const fitsTheContext = ({ params: { max_tokens } }: TextCall, { context_length }: Endpoint) =>
  max_tokens === undefined || context_length === null || max_tokens < context_length

const MISSED = ['tools', 'response_format', 'verbosity']

/** Drops parameters that are ignored if unsupported; the rest are forwarded (rule 5). */
export function fitToEndpoint(call: TextCall, endpoint: Endpoint): TextCall {
  const unsupported = listUnsupported(endpoint, call)
  if (unsupported.length === 0) return call
  const params = Object.entries(call.params).filter(([name]) => !unsupported.includes(name))
  const tools = unsupported.includes('tools') ? [] : call.tools
  return { ...call, params: Object.fromEntries(params), tools }
}

type ParametersOfCall = Pick<TextCall, 'params' | 'tools'>

/** Lists the parameters of the call that the endpoint does not support. */
export function listUnsupported(endpoint: Endpoint, call: ParametersOfCall): string[] {
  const { supported_parameters: supported } = endpoint
  if (!supported) return []
  const sent = Object.keys(call.params) as (keyof Params | 'tools')[]
  if (call.tools.length > 0) sent.push('tools')
  return sent.filter(name => PUBLIC_NAMES[name]?.every(publicName => !supported.has(publicName)))
}

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
  max_tokens: ['max_tokens', 'max_completion_tokens'],
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
function identifyConversation({ params: { prompt_cache_key }, turns }: TextCall): string {
  if (prompt_cache_key !== undefined) return `key ${Bun.hash(prompt_cache_key)}`
  const opening = [turns.find(isInstruction), turns.find(turn => !isInstruction(turn))]
  return `opening ${opening.reduce<number | bigint>(hashOn, 0n)}`
}

const isInstruction = ({ role }: Turn) => role === 'system' || role === 'developer'

function hashOn(hash: number | bigint, turn: Turn | undefined): number | bigint {
  let sum = hash
  const texts = turn?.blocks.filter(block => block.type === 'text') ?? []
  for (const { text } of texts) sum = Bun.hash(text, BigInt(sum))
  return sum
}

export function offersTools({ tools, params: { tool_choice } }: TextCall): boolean {
  return tools.length > 0 && tool_choice !== 'none'
}
