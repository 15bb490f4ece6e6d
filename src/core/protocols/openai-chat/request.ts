import type { Endpoint } from '../../catalog/models.ts'
import type { Quirks } from '../../config/quirks.ts'
import { isObject } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Params, Reasoning, ResponseFormat } from '../../language/params.ts'
import type { Tool, ToolChoice } from '../../language/tool.ts'
import { ANSWER_IN_JSON, mentionsJson, schemaInWords } from '../json-answer.ts'
import { foreignTool, isNative, readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import { effortOf } from '../reasoning.ts'
import { inChatWords, marker, messagesOf, NATIVE } from './messages.ts'

/**
 * Builds an OpenAI chat request for the call. Unknown parameters come first, so that none of them
 * can replace a known one.
 */
export function request(given: TextCall, endpoint: Endpoint): UpstreamRequest {
  const { quirks } = endpoint.provider
  const call = inChatWords(given)
  const { max_tokens, reasoning, response_format, tool_choice, cache_control, stop, ...params } =
    call.params
  const { format, instruction } = formatOf(response_format, call, quirks)
  const body: Record<string, unknown> = {
    ...readExtra(call, NATIVE),
    model: endpoint.upstreamModel,
    messages: messagesOf(call.turns, instruction, quirks),
    ...params,
    ...(stop === undefined ? {} : { stop: stop.slice(0, quirks.most_stops ?? stop.length) }),
    ...(format ? { response_format: format } : {}),
    ...(tool_choice === undefined ? {} : { tool_choice: choiceOf(tool_choice, quirks) }),
    ...(max_tokens === undefined ? {} : { [quirks.output_bound]: max_tokens }),
    ...marker(cache_control, quirks),
    ...reasoningWish(reasoning, call, quirks),
  }
  if (call.tools.length > 0) body.tools = call.tools.map((tool, i) => toolOf(tool, i, quirks))
  if (call.user !== null) body.user = call.user
  if (call.stream) body.stream = true
  if (call.stream && quirks.counts_stream) body.stream_options = { include_usage: true }
  return { path: pathOf(endpoint, '/chat/completions'), body: inItsWords(body, quirks) }
}

const choiceOf = (choice: ToolChoice, { required_tool }: Quirks) =>
  choice === 'required' ? required_tool : choice

function reasoningWish(
  reasoning: Reasoning | undefined,
  { params, extra }: TextCall,
  { reasoning: way }: Quirks,
): Record<string, unknown> {
  if (!reasoning || way === 'none') return {}
  if (way === 'object') return { reasoning }
  const effort = effortOf(reasoning, params.max_tokens)
  if (effort === undefined) return {}
  return WISHES[way](effort, reasoning, params, extra)
}

type Wish = (
  effort: string,
  reasoning: Reasoning,
  params: Params,
  extra: Record<string, unknown>,
) => Record<string, unknown>

/** Renders the reasoning effort for each style of server. */
const WISHES: Record<Exclude<Quirks['reasoning'], 'none' | 'object'>, Wish> = {
  effort: effort => ({ reasoning_effort: effort }),
  thinking: effort => ({ thinking: { type: effort === 'none' ? 'disabled' : 'enabled' } }),
  enable_thinking: (effort, { max_tokens }) => ({
    enable_thinking: effort !== 'none',
    ...(max_tokens === undefined ? {} : { thinking_budget: max_tokens }),
  }),
  template: (effort, _, __, { chat_template_kwargs: given }) => ({
    reasoning_effort: effort,
    chat_template_kwargs: { enable_thinking: effort !== 'none', ...(isObject(given) ? given : {}) },
  }),
}

function toolOf(given: Tool, at: number, quirks: Quirks): unknown {
  if (given.type === 'other') {
    if (isNative(given, NATIVE)) return given.value
    throw foreignTool(given.value, at)
  }
  const { extra, type, cache_control, ...definition } = given
  return { ...extra, type, function: definition, ...marker(cache_control, quirks) }
}

/** The answer format that the server is asked for, and an instruction in words if it needs one. */
interface Format {
  format: ResponseFormat | null
  instruction: string | null
}

/**
 * Renders the requested answer format. Servers without `json_schema` get `json_object` and the
 * schema as an instruction. Some servers refuse `json_object` unless the conversation mentions JSON
 * (translation trap 45).
 */
function formatOf(
  wish: ResponseFormat | undefined,
  call: TextCall,
  { json_schema, json_word }: Quirks,
): Format {
  if (!wish) return { format: null, instruction: null }
  if ('json_schema' in wish && !json_schema)
    return {
      format: { type: 'json_object' },
      instruction: schemaInWords(ONE_OBJECT, wish.json_schema),
    }
  const silent = wish.type === 'json_object' && json_word && !mentionsJson(call)
  return { format: wish, instruction: silent ? ANSWER_IN_JSON : null }
}

const ONE_OBJECT = 'Answer with one JSON object and nothing else.'

/** Renames parameters to the server's own names and removes those that it refuses. */
export function inItsWords(
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
export function pathOf(
  { upstreamModel, provider: { quirks } }: Endpoint,
  operation: '/chat/completions' | '/embeddings',
): string {
  if (quirks.api_version === null) return operation
  const deployment = `/deployments/${encodeURIComponent(upstreamModel)}`
  return `${deployment}${operation}?api-version=${encodeURIComponent(quirks.api_version)}`
}
