import { isObject, type Json } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { TextDialect } from '../../../language/dialect.ts'
import type { Params } from '../../../language/params.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { protocols } from '../../../translation/protocols/registry.ts'

/**
 * The parameters of a call that an endpoint's protocol has no form for. They are left out of its
 * body and named in the answer (specification, rule 5).
 */

/**
 * Lists what is left out of the call at the endpoint, as its client wrote it. A value that asks for
 * nothing is not named, as nothing is missed.
 */
export function listForeignParameters(call: TextCall, endpoint: Endpoint): string[] {
  return [...listForeignParams(call, endpoint), ...listForeignExtra(call, endpoint)]
}

function listForeignParams(call: TextCall, endpoint: Endpoint): string[] {
  const { lacks = {} } = protocols.text[endpoint.protocol] ?? {}
  const names: string[] = []
  for (const name in call.params) {
    const isLacking = lacks[name as keyof Params]
    if (isLacking === undefined || isIdleParameter(name as keyof Params, call)) continue
    if (isLacking === true || isLacking(call, endpoint))
      names.push(...nameParameter(name as keyof Params | 'tools', call))
  }
  return names
}

/** Values of parameters that ask for what every model does without them. */
const IDLE: Json = {
  temperature: 1,
  top_p: 1,
  min_p: 0,
  top_a: 0,
  frequency_penalty: 0,
  presence_penalty: 0,
  repetition_penalty: 1,
  logit_bias: {},
  logprobs: false,
  top_logprobs: 0,
  response_format: { type: 'text' },
  tool_choice: 'auto',
  parallel_tool_calls: true,
  verbosity: 'medium',
  modalities: ['text'],
  n: 1,
  best_of: 1,
  echo: false,
  store: false,
  suffix: '',
  truncation: 'disabled',
}

/** The tiers that mean the usual one. */
const USUAL_TIERS = ['auto', 'default', 'standard', 'standard_only']

function isIdleParameter(name: keyof Params, { params, tools }: TextCall): boolean {
  const { reasoning = {}, service_tier = '' } = params
  switch (name) {
    case 'reasoning':
      return isUndemanding(reasoning)
    case 'service_tier':
      return USUAL_TIERS.includes(service_tier)
    case 'tool_choice':
    case 'parallel_tool_calls':
      return tools.length === 0 || isIdle(name, params[name])
    default:
      return isIdle(name, params[name])
  }
}

// A model that cannot reason does not, and the gateway hides what is not to be shown.
const isUndemanding = ({ effort, max_tokens, enabled }: NonNullable<Params['reasoning']>) =>
  effort === undefined && max_tokens === undefined
    ? !enabled
    : effort === 'none' || max_tokens === 0 || enabled === false

function isIdle(name: string, value: unknown): boolean {
  if (value == null || (Array.isArray(value) && value.length === 0)) return true
  return Object.hasOwn(IDLE, name) && Bun.deepEquals(value, IDLE[name])
}

/** The names of a parameter in a body of the client's API, where they are not ours. */
type Names = Partial<Record<keyof Params | 'tools', string | ((call: TextCall) => string[])>>

const NAMES: Record<TextDialect, Names> = {
  chat: {},
  messages: {
    stop: 'stop_sequences',
    response_format: 'output_config.format',
    parallel_tool_calls: 'tool_choice.disable_parallel_tool_use',
    reasoning: ({ params: { reasoning = {} } }) => [
      ...(reasoning.enabled === undefined ? [] : ['thinking']),
      ...(reasoning.effort === undefined ? [] : ['output_config.effort']),
    ],
    verbosity: 'output_config.effort',
    service_tier: ({ extra }) => [extra.speed === 'fast' ? 'speed' : 'service_tier'],
  },
  responses: {
    max_tokens: 'max_output_tokens',
    response_format: 'text.format',
    verbosity: 'text.verbosity',
    logprobs: ({ params }) => [params.top_logprobs ? 'top_logprobs' : 'include'],
  },
  gemini: {
    temperature: 'generationConfig.temperature',
    top_p: 'generationConfig.topP',
    top_k: 'generationConfig.topK',
    frequency_penalty: 'generationConfig.frequencyPenalty',
    presence_penalty: 'generationConfig.presencePenalty',
    max_tokens: 'generationConfig.maxOutputTokens',
    seed: 'generationConfig.seed',
    stop: 'generationConfig.stopSequences',
    logprobs: 'generationConfig.responseLogprobs',
    top_logprobs: 'generationConfig.logprobs',
    response_format: ({ params }) => [
      `generationConfig.${
        params.response_format?.type === 'json_schema' ? 'responseSchema' : 'responseMimeType'
      }`,
    ],
    tool_choice: 'toolConfig.functionCallingConfig',
    reasoning: 'generationConfig.thinkingConfig',
    modalities: 'generationConfig.responseModalities',
    image_config: 'generationConfig.imageConfig',
    web_search_options: 'googleSearch',
  },
}

/** Returns the names under which a client of the call's API gave a parameter. */
export function nameParameter(name: keyof Params | 'tools', call: TextCall): string[] {
  const named = NAMES[call.dialect][name] ?? name
  return typeof named === 'string' ? [named] : named(call)
}

/**
 * Fields that no provider need get. Some name the caller or the request, which the gateway records,
 * some it heeds itself, and an answer's format says already what `structured_outputs` asks for.
 */
const HEEDED = new Set([
  ...['user', 'safety_identifier', 'metadata', 'client_metadata', 'stream_options'],
  ...['max_tool_calls', 'structured_outputs', 'speed'],
])

/** What is included in every answer, or on demand by a parameter of its own. */
const INCLUDED = ['reasoning.encrypted_content', 'message.output_text.logprobs']

/** The objects of which a part may be left out. */
const CONTAINERS = new Set(['generationConfig', 'output_config', 'reasoning', 'text'])

function listForeignExtra(call: TextCall, endpoint: Endpoint): string[] {
  const { extra } = call
  for (const _ in extra) {
    const kept = protocols.text[endpoint.protocol]?.pickExtra?.(call, endpoint) ?? {}
    return Object.keys(extra)
      .filter(name => !HEEDED.has(name) && !isIdleField(name, extra[name]))
      .flatMap(name => listLost(name, extra[name], kept[name]))
      .map(name => fitName(call.dialect === 'gemini' && name === 'n' ? COUNT : name))
  }
  return []
}

const COUNT = 'generationConfig.candidateCount'

const isIdleField = (name: string, value: unknown): boolean =>
  name === 'include' && Array.isArray(value)
    ? value.every(one => INCLUDED.includes(one))
    : isIdle(name, value)

function listLost(name: string, given: unknown, kept: unknown): string[] {
  if (!CONTAINERS.has(name) || !isObject(given)) return kept === undefined ? [name] : []
  const known = isObject(kept) ? kept : {}
  const lost = Object.keys(given).filter(one => known[one] === undefined && given[one] != null)
  return lost.map(one => `${name}.${one}`)
}

const LONGEST_NAME = 64

/** Returns a name that a header can hold. */
const fitName = (name: string): string =>
  name.replace(/[^\x21-\x2b\x2d-\x7e]/g, '_').slice(0, LONGEST_NAME)
