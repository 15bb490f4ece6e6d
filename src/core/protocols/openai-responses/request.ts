import type { Endpoint } from '../../catalog/models.ts'
import type { Json } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { ResponseFormat } from '../../language/params.ts'
import { ANSWER_IN_JSON, mentionsJson } from '../json-answer.ts'
import { isNative, readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import { effortOf } from '../reasoning.ts'
import { type Capabilities, capabilitiesOf } from './capabilities.data.ts'
import { inputOf, NATIVE, namesOf } from './messages.ts'
import { toolsOf } from './tools.ts'

/**
 * Builds a Responses request for the call. Unknown parameters come first, so that none of them can
 * replace a known one.
 */
export function request(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const { params, stream, user } = call
  const can = capabilitiesOf(endpoint)
  const names = namesOf(call)
  const body: Json = {
    ...stateless(readExtra(call, NATIVE)),
    model: endpoint.upstreamModel,
    input: [...spokenFor(call, can), ...inputOf(call, endpoint, names)],
    // The client keeps the conversation and sends all of it each time, so the provider stores
    // nothing.
    store: false,
    ...toolsOf(call, names),
    ...textOf(call, can),
    ...sampling(call, can),
    ...reasoningOf(call, can),
    ...include(call, can),
  }
  for (const name of PLAIN) if (params[name] !== undefined) body[name] = params[name]
  if (params.max_tokens !== undefined)
    body.max_output_tokens = Math.max(params.max_tokens, can.leastOutput)
  if (user !== null) body[can.user] = user
  if (stream) body.stream = true
  return { path: '/responses', body }
}

/**
 * Parameters that keep their names. Those that this API does not have are left out (specification,
 * rule 5).
 */
const PLAIN = ['service_tier', 'prompt_cache_key', 'prompt_cache_options'] as const

/**
 * Parameters by which the provider would store the conversation, continue a stored one, or answer
 * later.
 */
const STATEFUL = new Set([
  'store',
  'metadata',
  'previous_response_id',
  'conversation',
  'background',
  'include',
  'stream_options',
])

const stateless = (given: Json): Json =>
  Object.fromEntries(Object.entries(given).filter(([name]) => !STATEFUL.has(name)))

const spokenFor = (call: TextCall, { developer }: Capabilities): Json[] =>
  lacksJsonWord(call)
    ? [
        {
          type: 'message',
          role: developer ? 'developer' : 'system',
          content: [{ type: 'input_text', text: ANSWER_IN_JSON }],
        },
      ]
    : []

/**
 * Renders the sampling parameters. Reasoning models refuse them, though some accept them without
 * reasoning.
 */
function sampling(call: TextCall, can: Capabilities): Json {
  if (!samples(call, can)) return {}
  const { temperature, top_p } = call.params
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(top_p === undefined ? {} : { top_p }),
  }
}

const samples = (call: TextCall, can: Capabilities) =>
  can.sampling === 'always' ||
  (can.sampling === 'without-reasoning' && effortFor(call, can) === 'none')

function reasoningOf(call: TextCall, can: Capabilities): Json {
  const wish = call.params.reasoning
  if (!wish || can.efforts === null) return {}
  const effort = effortFor(call, can)
  const hidden = wish.exclude || effortOf(wish, call.params.max_tokens) === 'none'
  const summary = hidden ? undefined : (wish.summary ?? can.summary ?? undefined)
  if (effort === undefined && summary === undefined) return {}
  return {
    reasoning: {
      ...(effort === undefined ? {} : { effort }),
      ...(summary === undefined ? {} : { summary }),
    },
  }
}

/**
 * Requests what is only sent on request: the reasoning to send back, as the provider stores
 * nothing, and the log probabilities.
 */
function include(call: TextCall, can: Capabilities): Json {
  const { logprobs, top_logprobs } = call.params
  const wanted = new Set(readIncludes(call))
  if (can.encrypted) wanted.add('reasoning.encrypted_content')
  const counted = (logprobs || (top_logprobs ?? 0) > 0) && (can.logprobs || samples(call, can))
  if (counted) wanted.add('message.output_text.logprobs')
  return {
    ...(wanted.size > 0 ? { include: [...wanted] } : {}),
    ...(counted ? { top_logprobs: top_logprobs ?? 0 } : {}),
  }
}

function readIncludes(call: TextCall): string[] {
  const { include } = call.extra
  if (!isNative(call, NATIVE) || !Array.isArray(include)) return []
  return include.filter(name => typeof name === 'string')
}

/**
 * Returns the effort for the model: the requested one, or if the model does not know it, the next
 * higher one, or its highest. Undefined if none was requested or the model does not reason.
 */
function effortFor({ params }: TextCall, { efforts }: Capabilities): string | undefined {
  const wish = params.reasoning && effortOf(params.reasoning, params.max_tokens)
  if (wish === undefined || efforts === null) return undefined
  if (efforts === 'any' || efforts.includes(wish) || !EFFORTS.includes(wish)) return wish
  return efforts.find(effort => EFFORTS.indexOf(effort) > EFFORTS.indexOf(wish)) ?? efforts.at(-1)
}

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

/**
 * Renders the options for the text. Here they are one object, and a schema has no nested one
 * (translation trap 44).
 */
function textOf({ params }: TextCall, { verbosity }: Capabilities): Json {
  const text: Json = {}
  if (params.response_format) text.format = formatOf(params.response_format)
  if (params.verbosity !== undefined && verbosity) text.verbosity = params.verbosity
  return Object.keys(text).length > 0 ? { text } : {}
}

function formatOf(wish: ResponseFormat): unknown {
  if (!('json_schema' in wish)) return wish
  const { name, description, schema, strict } = wish.json_schema
  return {
    type: 'json_schema',
    name,
    ...(description === undefined ? {} : { description }),
    schema: schema ?? { type: 'object' },
    ...(strict == null ? {} : { strict }),
  }
}

/** `json_object` is refused unless the input contains the word JSON (translation trap 45). */
const lacksJsonWord = (call: TextCall): boolean =>
  call.params.response_format?.type === 'json_object' && !mentionsJson(call)
