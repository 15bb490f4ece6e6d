import { isObject, type Json, readObject, readString } from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { ResponseFormat } from '../../language/params.ts'
import type { Tool, ToolChoice } from '../../language/tool.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { checkCalls } from './calls.ts'
import { ANSWER_IN_JSON, mentionsJson } from './json-answer.ts'
import { foreignTool, isForwarded, isNative, readExtra } from './native.ts'
import { readFailure } from './openai-chat/failure.ts'
import { type Capabilities, getCapabilities } from './openai-responses/capabilities.data.ts'
import { createToolNames, NATIVE, renderMessages } from './openai-responses/messages.ts'
import { EventReader, parseAnswer } from './openai-responses/reader.ts'
import {
  hasOnlySearchOptions,
  type IsLacking,
  type Lacks,
  type Protocol,
  type UpstreamRequest,
} from './protocol.ts'
import { toReasoningEffort } from './reasoning.ts'
import type { ToolNames } from './tools.ts'

/**
 * Renders the tools and what the model may do with them. Throws 400 naming a tool that the provider
 * does not have. Without tools no choice is sent, because OpenAI refuses one.
 */
function renderTools(call: TextCall, names: ToolNames): Json {
  const { tool_choice, parallel_tool_calls } = call.params
  const tools = [
    ...call.tools.map((tool, i) => renderTool(tool, i, call, names)),
    ...renderHostedTools(call),
  ]
  if (tools.length === 0) return {}
  return {
    tools,
    ...(tool_choice === undefined ? {} : { tool_choice: renderToolChoice(tool_choice, names) }),
    ...(parallel_tool_calls === undefined ? {} : { parallel_tool_calls }),
  }
}

function renderTool(tool: Tool, position: number, call: TextCall, names: ToolNames): Json {
  if (tool.type === 'other') return renderOtherTool(tool, position)
  const { name, description, parameters, strict, extra } = tool
  const isOwn = isNative(call, NATIVE)
  return {
    ...(isOwn ? extra : {}),
    type: 'function',
    name: names.toWire(name),
    ...(description === undefined ? {} : { description }),
    parameters: parameters ?? { type: 'object', properties: {} },
    // Here strict is the default, unlike elsewhere, and would change a schema not meant to be
    // strict.
    ...(isOwn && strict === undefined ? {} : { strict: isOwn ? strict : strict === true }),
  }
}

function renderOtherTool(tool: Extract<Tool, { type: 'other' }>, position: number): Json {
  const { value } = tool
  if (isObject(value) && isNative(tool, NATIVE)) return value
  const type = isObject(value) ? readString(value.type) : null
  // The shorthand for a search by any provider that can search.
  if (isForwarded(tool) && type?.startsWith('web_search')) return renderWebSearch(value, type)
  throw foreignTool(value, position)
}

/** Renders the provider's own tools for what other dialects request by a parameter. */
function renderHostedTools({ params, tools }: TextCall): Json[] {
  const hosted: Json[] = []
  if (params.web_search_options !== undefined && !hasTool(tools, 'web_search'))
    hosted.push(
      renderWebSearch(params.web_search_options),
      ...renderXSearch(params.web_search_options),
    )
  if (params.modalities?.includes('image') && !hasTool(tools, 'image_generation'))
    hosted.push({ type: 'image_generation' })
  return hosted
}

const hasTool = (tools: Tool[], type: string) =>
  tools.some(
    tool =>
      tool.type === 'other' &&
      isObject(tool.value) &&
      (readString(tool.value.type) ?? '').startsWith(type),
  )

function renderWebSearch(options: unknown, type = 'web_search'): Json {
  const { search_context_size, user_location, filters, allowed_domains } = isObject(options)
    ? options
    : {}
  const allowed = filters ?? (allowed_domains == null ? undefined : { allowed_domains })
  return {
    type,
    ...(search_context_size == null ? {} : { search_context_size }),
    ...(isObject(user_location) ? { user_location: renderLocation(user_location) } : {}),
    ...(allowed == null ? {} : { filters: allowed }),
  }
}

/** Whether the call asks for a search of X, in a form that can be rendered. */
const hasXSearch = ({ params: { web_search_options: options } }: TextCall): boolean =>
  isObject(options) && isObject(options.x_search)

// A tool of its own (xAI, "X Search").
const renderXSearch = (options: unknown): Json[] =>
  isObject(options) && isObject(options.x_search) ? [{ type: 'x_search', ...options.x_search }] : []

// The chat API has the location in an object of its own.
function renderLocation({ approximate, ...rest }: Json): Json {
  return { type: 'approximate', ...rest, ...(isObject(approximate) ? approximate : {}) }
}

function renderToolChoice(choice: ToolChoice, names: ToolNames): unknown {
  if (typeof choice === 'string') return choice
  if ('function' in choice) return { type: 'function', name: names.toWire(choice.function.name) }
  return 'allowed_tools' in choice ? renderAllowedTools(choice.allowed_tools, names) : choice
}

function renderAllowedTools(allowed: unknown, names: ToolNames): Json {
  const { mode, tools } = isObject(allowed) ? allowed : {}
  return {
    type: 'allowed_tools',
    mode,
    tools: Array.isArray(tools) ? tools.map(tool => renderAllowedTool(tool, names)) : [],
  }
}

function renderAllowedTool(tool: unknown, names: ToolNames): unknown {
  if (!isObject(tool) || !isObject(tool.function)) return tool
  return { type: 'function', name: names.toWire(readString(tool.function.name) ?? '') }
}

/**
 * Builds a Responses request for the call. Unknown parameters come first, so that none of them can
 * replace a known one.
 */
export function buildRequest(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const { params, stream, user } = call
  const capabilities = getCapabilities(endpoint)
  const names = createToolNames(call)
  const body: Json = {
    ...omitStateful(readExtra(call, NATIVE)),
    model: endpoint.upstreamModel,
    input: [...renderJsonInstruction(call, capabilities), ...renderMessages(call, endpoint, names)],
    // The client keeps the conversation and sends all of it each time, so the provider stores
    // nothing.
    store: false,
    ...renderTools(call, names),
    ...renderTextOptions(call, capabilities),
    ...renderSampling(call, capabilities),
    ...renderReasoning(call, capabilities),
    ...renderInclude(call, capabilities),
  }
  for (const name of PASSED_THROUGH) if (params[name] !== undefined) body[name] = params[name]
  if (params.max_tokens !== undefined)
    body.max_output_tokens = Math.max(params.max_tokens, capabilities.leastOutput)
  if (user !== null) body[capabilities.user] = user
  if (stream) body.stream = true
  return { path: '/responses', body }
}

/**
 * Parameters that keep their names. Those that this API does not have are left out (specification,
 * rule 5).
 */
const PASSED_THROUGH = ['service_tier', 'prompt_cache_key', 'prompt_cache_options'] as const

/**
 * Parameters by which the provider would store the conversation, continue a stored one, begin with a
 * stored prompt, or answer later.
 */
const STATEFUL_PARAMETERS = new Set([
  'store',
  'metadata',
  'previous_response_id',
  'conversation',
  'background',
  'prompt',
  'include',
  'stream_options',
])

const omitStateful = (parameters: Json): Json =>
  Object.fromEntries(Object.entries(parameters).filter(([name]) => !STATEFUL_PARAMETERS.has(name)))

/** Returns the same with what is read again: a client of this dialect may name what to include. */
function pickExtra(call: TextCall): Json {
  const kept = omitStateful(readExtra(call, NATIVE))
  return isNative(call, NATIVE) ? { include: call.extra.include, ...kept } : kept
}

const renderJsonInstruction = (call: TextCall, { developer }: Capabilities): Json[] =>
  needsJsonInstruction(call)
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
function renderSampling(call: TextCall, capabilities: Capabilities): Json {
  if (!acceptsSampling(call, capabilities)) return {}
  const { temperature, top_p } = call.params
  return {
    ...(temperature === undefined ? {} : { temperature }),
    ...(top_p === undefined ? {} : { top_p }),
  }
}

const acceptsSampling = (call: TextCall, capabilities: Capabilities) =>
  capabilities.sampling === 'always' ||
  (capabilities.sampling === 'without-reasoning' && pickEffort(call, capabilities) === 'none')

function renderReasoning(call: TextCall, capabilities: Capabilities): Json {
  if (capabilities.efforts === null) return {}
  const effort = pickEffort(call, capabilities)
  const summary = pickSummary(call, capabilities)
  const fields = {
    ...readOwnField(call, 'reasoning'),
    ...(effort === undefined ? {} : { effort }),
    ...(summary === undefined ? {} : { summary }),
  }
  return Object.keys(fields).length > 0 ? { reasoning: fields } : {}
}

// A client of this dialect that wants to see reasoning says so. All others see it unasked.
function pickSummary(call: TextCall, { summary }: Capabilities): string | undefined {
  const { reasoning, max_tokens } = call.params
  if (!reasoning) return undefined
  const isHidden = reasoning.exclude || toReasoningEffort(reasoning, max_tokens) === 'none'
  if (isHidden) return undefined
  return reasoning.summary ?? (isNative(call, NATIVE) ? undefined : (summary ?? undefined))
}

/** Returns what a client of this dialect sent in an object that the gateway knows in part. */
const readOwnField = (call: TextCall, name: string): Json =>
  isNative(call, NATIVE) ? readObject(call.extra, name) : {}

/**
 * Requests what is only sent on request: the reasoning to send back, as the provider stores
 * nothing, and the log probabilities.
 */
function renderInclude(call: TextCall, capabilities: Capabilities): Json {
  const { logprobs, top_logprobs } = call.params
  const included = new Set(readIncludes(call))
  if (capabilities.encrypted) included.add('reasoning.encrypted_content')
  const hasLogprobs = (logprobs || (top_logprobs ?? 0) > 0) && acceptsLogprobs(call, capabilities)
  if (hasLogprobs) included.add('message.output_text.logprobs')
  return {
    ...(included.size > 0 ? { include: [...included] } : {}),
    ...(hasLogprobs ? { top_logprobs: top_logprobs ?? 0 } : {}),
  }
}

const acceptsLogprobs = (call: TextCall, capabilities: Capabilities) =>
  capabilities.logprobs || acceptsSampling(call, capabilities)

function readIncludes(call: TextCall): string[] {
  const { include } = call.extra
  if (!isNative(call, NATIVE) || !Array.isArray(include)) return []
  return include.filter(name => typeof name === 'string')
}

/**
 * Returns the effort for the model: the requested one, or if the model does not know it, the next
 * higher one, or its highest. Undefined if none was requested or the model does not reason.
 */
function pickEffort({ params }: TextCall, { efforts }: Capabilities): string | undefined {
  const requested = params.reasoning && toReasoningEffort(params.reasoning, params.max_tokens)
  if (requested === undefined || efforts === null) return undefined
  if (efforts === 'any' || efforts.includes(requested) || !EFFORTS.includes(requested))
    return requested
  return (
    efforts.find(effort => EFFORTS.indexOf(effort) > EFFORTS.indexOf(requested)) ?? efforts.at(-1)
  )
}

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

/**
 * Renders the options for the text. Here they are one object, and a schema has no nested one
 * (translation trap 44).
 */
function renderTextOptions(call: TextCall, { verbosity }: Capabilities): Json {
  const { params } = call
  const text: Json = { ...readOwnField(call, 'text') }
  if (params.response_format) text.format = renderFormat(params.response_format)
  if (params.verbosity !== undefined && verbosity) text.verbosity = params.verbosity
  return Object.keys(text).length > 0 ? { text } : {}
}

function renderFormat(format: ResponseFormat): unknown {
  if (!('json_schema' in format)) return format
  const { name, description, schema, strict } = format.json_schema
  return {
    type: 'json_schema',
    name,
    ...(description === undefined ? {} : { description }),
    schema: schema ?? { type: 'object' },
    ...(strict == null ? {} : { strict }),
  }
}

/** `json_object` is refused unless the input contains the word JSON (translation trap 45). */
const needsJsonInstruction = (call: TextCall): boolean =>
  call.params.response_format?.type === 'json_object' && !mentionsJson(call)

const lacksSampling: IsLacking = (call, endpoint) =>
  !acceptsSampling(call, getCapabilities(endpoint))

const lacksLogprobs: IsLacking = (call, endpoint) =>
  !acceptsLogprobs(call, getCapabilities(endpoint))

const LACKS: Lacks = {
  temperature: lacksSampling,
  top_p: lacksSampling,
  top_k: true,
  min_p: true,
  top_a: true,
  frequency_penalty: true,
  presence_penalty: true,
  repetition_penalty: true,
  seed: true,
  stop: true,
  logit_bias: true,
  logprobs: lacksLogprobs,
  top_logprobs: lacksLogprobs,
  prediction: true,
  reasoning: (_, endpoint) => getCapabilities(endpoint).efforts === null,
  verbosity: (_, endpoint) => !getCapabilities(endpoint).verbosity,
  modalities: ({ params }) => !params.modalities?.includes('image'),
  audio: true,
  image_config: true,
  cache_control: true,
}

/**
 * OpenAI Responses: `POST {base_url}/responses`, at OpenAI, Azure, xAI and servers of the Open
 * Responses specification.
 */
export const openaiResponses: Protocol<'text'> = checkCalls({
  framing: 'sse',
  acceptsNames: false,
  nativeDialect: 'responses',
  urlMedia: ['image', 'file'],
  // Only xAI searches X.
  supportsWebSearch: (call, { provider: { slug } }) =>
    hasOnlySearchOptions(call, [
      ...['search_context_size', 'user_location', 'filters', 'allowed_domains'],
      ...(slug === 'xai' && hasXSearch(call) ? ['x_search'] : []),
    ]),
  lacks: LACKS,
  pickExtra,
  buildRequest,
  parseAnswer,
  createReader: (call, endpoint) => new EventReader(call, endpoint),
  readFailure,
})
