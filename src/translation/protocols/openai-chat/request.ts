import { isObject } from '../../../base/json.ts'
import type { Quirks } from '../../../config/quirks.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Params, Reasoning, ResponseFormat } from '../../../language/params.ts'
import type { Tool, ToolChoice } from '../../../language/tool.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { ANSWER_IN_JSON, buildSchemaInstruction, mentionsJson } from '../json-answer.ts'
import { foreignTool, isNative, omitParameters, readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import { toReasoningEffort } from '../reasoning.ts'
import { NATIVE, renderCacheMarker, renderMessages, toChatCall } from './messages.ts'

/**
 * Builds an OpenAI chat request for the call. Unknown parameters come first, so that none of them
 * can replace a known one.
 */
export function buildRequest(clientCall: TextCall, endpoint: Endpoint): UpstreamRequest {
  const { quirks } = endpoint.provider
  const call = toChatCall(clientCall)
  const { max_tokens, reasoning, response_format, cache_control, stop, ...otherParams } =
    call.params
  const { tool_choice, parallel_tool_calls, ...params } = otherParams
  const { format, instruction } = renderFormat(response_format, call, quirks)
  const body: Record<string, unknown> = {
    ...readOwnExtra(call, endpoint),
    model: endpoint.upstreamModel,
    messages: renderMessages(
      call.messages,
      instruction,
      quirks,
      NEEDS_THOUGHTS.has(quirks.reasoning) && mayThink(call),
    ),
    ...params,
  }
  if (stop !== undefined) body.stop = stop.slice(0, quirks.most_stops ?? stop.length)
  if (format) body.response_format = format
  if (max_tokens !== undefined) body[quirks.output_bound] = max_tokens
  if (cache_control) Object.assign(body, renderCacheMarker(cache_control, quirks))
  if (reasoning) Object.assign(body, renderReasoning(reasoning, call, quirks))
  // Servers refuse what is said of tools if there are none.
  if (call.tools.length > 0) {
    body.tools = call.tools.map((tool, i) => renderTool(tool, i, quirks))
    if (tool_choice !== undefined) body.tool_choice = renderToolChoice(tool_choice, quirks)
    if (parallel_tool_calls !== undefined) body.parallel_tool_calls = parallel_tool_calls
  }
  if (call.user !== null) body.user = call.user
  if (call.stream) body.stream = true
  if (call.stream && quirks.counts_stream) body.stream_options = { include_usage: true }
  return {
    path: buildPath(endpoint, '/chat/completions'),
    body: applyParameterQuirks(body, quirks),
  }
}

/** The styles of servers that think unasked, and refuse a call without the thought before it. */
const NEEDS_THOUGHTS = new Set<Quirks['reasoning']>(['thinking', 'enable_thinking'])

const mayThink = ({ params: { reasoning, max_tokens } }: TextCall): boolean =>
  reasoning === undefined || toReasoningEffort(reasoning, max_tokens) !== 'none'

/**
 * Returns the unknown parameters without those of the public API that only some servers have:
 * xAI its search, and OpenRouter all of them. `structured_outputs` names what a model can do, but
 * vLLM has an object of that name.
 */
function readOwnExtra(call: TextCall, { provider: { slug } }: Endpoint): Record<string, unknown> {
  const extra = readExtra(call, NATIVE)
  if (slug === 'openrouter') return extra
  const foreign = isObject(extra.structured_outputs) ? [] : ['structured_outputs']
  if (slug !== 'xai') foreign.push('x_search_filter')
  return omitParameters(extra, foreign)
}

const renderToolChoice = (choice: ToolChoice, { required_tool }: Quirks) =>
  choice === 'required' ? required_tool : choice

function renderReasoning(
  reasoning: Reasoning | undefined,
  { params, extra }: TextCall,
  { reasoning: style }: Quirks,
): Record<string, unknown> {
  if (!reasoning || style === 'none') return {}
  if (style === 'object') return { reasoning }
  const effort = toReasoningEffort(reasoning, params.max_tokens)
  if (effort === undefined) return {}
  return REASONING_RENDERERS[style](effort, reasoning, params, extra)
}

type ReasoningRenderer = (
  effort: string,
  reasoning: Reasoning,
  params: Params,
  extra: Record<string, unknown>,
) => Record<string, unknown>

/** Renders the reasoning effort for each style of server. */
const REASONING_RENDERERS: Record<
  Exclude<Quirks['reasoning'], 'none' | 'object'>,
  ReasoningRenderer
> = {
  effort: effort => ({ reasoning_effort: effort }),
  thinking: effort => ({ thinking: { type: effort === 'none' ? 'disabled' : 'enabled' } }),
  enable_thinking: (effort, { max_tokens }) => ({
    enable_thinking: effort !== 'none',
    ...(max_tokens === undefined ? {} : { thinking_budget: max_tokens }),
  }),
  template: (effort, _, __, { chat_template_kwargs: clientKwargs }) => ({
    reasoning_effort: effort,
    chat_template_kwargs: {
      enable_thinking: effort !== 'none',
      ...(isObject(clientKwargs) ? clientKwargs : {}),
    },
  }),
}

function renderTool(tool: Tool, position: number, quirks: Quirks): unknown {
  if (tool.type === 'other') {
    if (isNative(tool, NATIVE)) return tool.value
    throw foreignTool(tool.value, position)
  }
  const { extra, type, cache_control, ...definition } = tool
  return { ...extra, type, function: definition, ...renderCacheMarker(cache_control, quirks) }
}

/** The answer format that the server is asked for, and an instruction in words if it needs one. */
interface AnswerFormat {
  format: ResponseFormat | null
  instruction: string | null
}

/**
 * Renders the requested answer format. Servers without `json_schema` get `json_object` and the
 * schema as an instruction. Some servers refuse `json_object` unless the conversation mentions JSON
 * (translation trap 45).
 */
function renderFormat(
  requested: ResponseFormat | undefined,
  call: TextCall,
  { json_schema, json_word }: Quirks,
): AnswerFormat {
  if (!requested) return { format: null, instruction: null }
  if ('json_schema' in requested && !json_schema)
    return {
      format: { type: 'json_object' },
      instruction: buildSchemaInstruction(ONE_JSON_OBJECT, requested.json_schema),
    }
  const needsInstruction = requested.type === 'json_object' && json_word && !mentionsJson(call)
  return { format: requested, instruction: needsInstruction ? ANSWER_IN_JSON : null }
}

const ONE_JSON_OBJECT = 'Answer with one JSON object and nothing else.'

/** Renames parameters to the server's own names and removes those that it refuses. */
export function applyParameterQuirks(
  body: Record<string, unknown>,
  { renamed, dropped }: Quirks,
): Record<string, unknown> {
  for (const name in renamed) {
    if (!(name in body)) continue
    body[renamed[name] ?? name] = body[name]
    delete body[name]
  }
  for (const name of dropped) delete body[name]
  return body
}

/** Builds an operation's path. Azure's dated API has the model's deployment in the path. */
export function buildPath(
  { upstreamModel, provider: { quirks } }: Endpoint,
  operation:
    | '/chat/completions'
    | '/embeddings'
    | '/rerank'
    | `/images/${string}`
    | `/audio/${string}`,
): string {
  if (quirks.api_version === null) return operation
  const deployment = `/deployments/${encodeURIComponent(upstreamModel)}`
  return `${deployment}${operation}?api-version=${encodeURIComponent(quirks.api_version)}`
}
