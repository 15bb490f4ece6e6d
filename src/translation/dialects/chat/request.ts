import { invalid } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import { separateCallIds } from '../../../language/call-ids.ts'
import type { Block, Message } from '../../../language/message.ts'
import type { Params, Reasoning } from '../../../language/params.ts'
import { appendDetail, type ReasoningDetail } from '../../../language/reasoning.ts'
import type { Tool } from '../../../language/tool.ts'
import type { Actor } from '../../../resources/actor.ts'
import type { CallContext } from '../dialect.ts'
import { buildCallBase, readExtraFields } from '../routing.ts'
import { readUnknownFields, toCacheControlField, toExtraField } from '../schema.ts'
import { readServerTools } from '../server-tools.ts'
import type { DialectWorld } from '../world.ts'
import { type ChatFunctionTool, type ChatMessage, ChatRequest } from './schema.ts'
import { restoreToolUses } from './server-tool-details.ts'

/** Translates a checked body into a call. Throws 400 if fields contradict each other. */
export function toChatCall(
  world: DialectWorld,
  actor: Actor,
  request: ChatRequest,
  context: CallContext,
): TextCall {
  const body = modernizeRequest(request)
  const { tools, serverTools } = mentionsTools(body)
    ? readServerTools(world, actor, body, 'chat')
    : NO_TOOLS
  const base = buildCallBase(world, actor, body, context)
  const { thinking, ...extra } = readExtraFields(body, KNOWN_FIELDS, FOREIGN_FIELDS)
  return {
    ...base,
    ...readTransforms(body, base),
    kind: 'text',
    dialect: 'chat',
    messages: toMessages(body),
    tools: tools.map(toTool),
    ...serverTools,
    params: toParams(body, isThinking(thinking) ? thinking : null),
    echoUpstreamBody: body.debug?.echo_upstream_body ?? false,
    extra: thinking === undefined || isThinking(thinking) ? extra : { ...extra, thinking },
    betas: context.betas,
  }
}

const mentionsTools = (body: ChatRequest & { max_tool_calls?: unknown }): boolean =>
  (body.tools?.length ?? 0) > 0 ||
  body.max_tool_calls != null ||
  body.stop_server_tools_when != null

const NO_TOOLS = { tools: [], serverTools: {} }

/**
 * The fields that providers do not get, or get in another form. All other fields of a body are
 * forwarded unchanged.
 */
const KNOWN_FIELDS = new Set([
  ...Object.keys(ChatRequest.properties),
  // Legacy names that the public service still reads and no provider knows.
  'usage',
  'transforms',
])

/** What is expected in place of fields that other APIs have at the top of their bodies. */
const FOREIGN_FIELDS = {
  system: 'a message with the role system; /messages takes this field',
  stop_sequences: 'stop; /messages takes this field',
  max_output_tokens: 'max_tokens; /responses takes this field',
  instructions: 'a message with the role system; /responses takes this field',
  contents: 'messages: bodies in the shape of Gemini’s own API are not taken',
  generationConfig: 'temperature, max_tokens and their like: Gemini’s own shape is not taken',
  systemInstruction: 'a message with the role system: Gemini’s own shape is not taken',
}

/**
 * Reads the older name of the plugin `context-compression`: a list with `middle-out` asks for it, and
 * an empty one switches it off. An entry of `plugins` takes precedence.
 */
function readTransforms(
  { transforms }: ChatRequest & { transforms?: unknown },
  { plugins }: Pick<TextCall, 'plugins'>,
): Pick<TextCall, 'plugins'> {
  if (transforms == null || plugins?.['context-compression'] !== undefined) return {}
  if (!Array.isArray(transforms) || transforms.some(name => name !== 'middle-out'))
    throw invalid('transforms: expected a list of middle-out, or an empty one', 'transforms')
  const options = transforms.length > 0 ? { engine: 'middle-out' } : null
  return { plugins: { ...plugins, 'context-compression': options } }
}

function toMessages({ messages, prompt, tools }: ChatRequest): Message[] {
  const hasTools = (tools?.length ?? 0) > 0
  if (messages && prompt !== undefined)
    throw invalid('messages: expected either messages or prompt, found both', 'messages')
  if (messages) {
    const read: Message[] = []
    for (const one of messages) {
      const message = toMessage(one)
      if (message.blocks[0]?.type !== 'reasoning') read.push(message)
      else read.push(...restoreToolUses(message, hasTools))
    }
    for (const { role } of read) if (role === 'tool') return separateCallIds(read)
    return read
  }
  if (prompt === undefined)
    throw invalid('messages: expected either messages or prompt, found neither', 'messages')
  return [{ role: 'user', blocks: [{ type: 'text', text: prompt }] }]
}

// Most messages are a role and a text, and are read in one step.
function toMessage(wireMessage: ChatMessage): Message {
  const { role, content } = wireMessage
  for (const name in wireMessage)
    if (name !== 'role' && name !== 'content') return toWholeMessage(wireMessage)
  if (typeof content !== 'string' || role === 'function') return toWholeMessage(wireMessage)
  return { role, blocks: [{ type: 'text', text: content }] }
}

function toWholeMessage(wireMessage: ChatMessage): Message {
  const fields = wireMessage as ChatMessage & AssistantFields & { tool_call_id?: string }
  const message: Message = {
    role: wireMessage.role === 'function' ? 'tool' : wireMessage.role,
    blocks: toBlocks(fields),
  }
  if (fields.name !== undefined) message.name = fields.name
  if (fields.tool_call_id !== undefined) message.tool_call_id = fields.tool_call_id
  if (fields.model && message.role === 'assistant') message.model = fields.model
  const extra = readUnknownFields(
    wireMessage,
    wireMessage.role === 'assistant' ? ASSISTANT_FIELDS : MESSAGE_FIELDS,
  )
  if (extra) message.extra = extra
  return message
}

type AssistantFields = Omit<
  Extract<ChatMessage, { role: 'assistant' }>,
  'role' | 'content' | 'name'
>

const MESSAGE_FIELDS = new Set(['role', 'content', 'name', 'tool_call_id'])
const ASSISTANT_FIELDS = new Set([
  ...MESSAGE_FIELDS,
  'model',
  'tool_calls',
  'images',
  'refusal',
  'reasoning',
  'reasoning_content',
  'reasoning_details',
])

function toBlocks(message: ChatMessage & AssistantFields): Block[] {
  if (typeof message.content === 'string' && message.role !== 'assistant')
    return [{ type: 'text', text: message.content }]
  const blocks: Block[] = []
  if (message.role === 'assistant')
    pushReasoning(
      blocks,
      message.reasoning ?? message.reasoning_content ?? null,
      message.reasoning_details,
    )
  for (const part of listParts(message.content)) blocks.push(toBlock(part))
  if (message.role !== 'assistant') return blocks
  for (const { image_url } of message.images ?? [])
    blocks.push({ type: 'image', url: image_url.url })
  if (message.refusal) blocks.push({ type: 'refusal', text: message.refusal })
  for (const { id, type: _, function: called, ...extra } of message.tool_calls ?? [])
    blocks.push({
      type: 'tool-call',
      id,
      name: called.name,
      input: called.arguments,
      ...toExtraField(extra),
    })
  return blocks
}

function pushReasoning(
  blocks: Block[],
  text: string | null,
  details: ReasoningDetail[] | null | undefined,
): void {
  if (text === null && !details) return
  blocks.push({ type: 'reasoning', text, details: details ? joinDetails(details) : null })
}

// A client may have kept the entries as they streamed, in pieces.
function joinDetails(pieces: ReasoningDetail[]): ReasoningDetail[] {
  if (pieces.length < 2) return pieces
  const details: ReasoningDetail[] = []
  for (const piece of pieces) appendDetail(details, piece)
  return details
}

type Part = Exclude<NonNullable<ChatMessage['content']>, string>[number]

const listParts = (content: ChatMessage['content']): Part[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : (content ?? [])

function toBlock(part: Part): Block {
  switch (part.type) {
    case 'text': {
      const { type, text, cache_control, ...extra } = part
      return { type, text, ...toCacheControlField(cache_control), ...toExtraField(extra) }
    }
    case 'image_url': {
      const { type: _, image_url, cache_control, ...extra } = part
      const { url, detail } = image_url
      return {
        type: 'image',
        url,
        ...(detail === undefined ? {} : { detail }),
        ...toCacheControlField(cache_control),
        ...toExtraField(extra),
      }
    }
    case 'input_audio':
      return { type: 'audio', data: part.input_audio.data, format: part.input_audio.format }
    case 'file':
      return { type: 'file', file: part.file, ...toCacheControlField(part.cache_control) }
    case 'video_url':
    case 'input_video': {
      const { url, ...extra } = part.video_url
      return { type: 'video', url, ...toExtraField(extra) }
    }
    default:
      return { type: 'other', dialect: 'chat', value: part }
  }
}

function toTool(tool: NonNullable<ChatRequest['tools']>[number]): Tool {
  if (!('function' in tool) || tool.type !== 'function')
    return { type: 'other', dialect: 'chat', value: tool }
  const { type: _, function: definition, cache_control, ...extra } = tool as ChatFunctionTool
  return {
    ...(definition as Omit<Extract<Tool, { type: 'function' }>, 'type'>),
    type: 'function',
    ...toCacheControlField(cache_control),
    ...toExtraField(extra),
  }
}

/** The parameters that keep their names. */
const UNCHANGED_PARAMS = [
  'temperature',
  'top_p',
  'min_p',
  'top_a',
  'frequency_penalty',
  'presence_penalty',
  'repetition_penalty',
  'seed',
  'logit_bias',
  'logprobs',
  'top_logprobs',
  'response_format',
  'prediction',
  'tool_choice',
  'parallel_tool_calls',
  'verbosity',
  'modalities',
  'audio',
  'image_config',
  'web_search_options',
  'cache_control',
  'prompt_cache_key',
  'prompt_cache_options',
] as const satisfies readonly (keyof Params & keyof ChatRequest)[]

function toParams(body: ChatRequest, thinking: Thinking | null): Params {
  const params: Record<string, unknown> = {}
  for (const name of UNCHANGED_PARAMS) if (body[name] != null) params[name] = body[name]
  requireToolChoice(body)
  // As the clients of texts ask for them: how many alternatives of each token are shown.
  if (typeof body.logprobs === 'number')
    Object.assign(params, { logprobs: true, top_logprobs: body.top_logprobs ?? body.logprobs })
  const max_tokens = body.max_completion_tokens ?? body.max_tokens
  if (max_tokens != null) params.max_tokens = max_tokens
  // Zero is the public API's way to say "no limit".
  if (body.top_k) params.top_k = body.top_k
  if (body.stop != null && body.stop.length > 0)
    params.stop = typeof body.stop === 'string' ? [body.stop] : body.stop
  if (body.service_tier != null)
    params.service_tier = body.service_tier === 'fast' ? 'priority' : body.service_tier
  const reasoning = readReasoning(body, thinking)
  if (reasoning) params.reasoning = reasoning
  return params as Params
}

/** Forms of a choice that Anthropic's API has. Throws 400 for one of them. */
const CHOICES_OF_MESSAGES = ['tool', 'any', 'auto', 'none']

function requireToolChoice({ tool_choice: choice }: ChatRequest): void {
  if (choice == null || typeof choice === 'string') return
  if (CHOICES_OF_MESSAGES.includes(choice.type))
    throw invalid(
      'tool_choice: expected none, auto, required or a function; /messages takes this form',
      'tool_choice',
    )
}

/**
 * Reads `reasoning`, merged with its flat alias, its legacy switch and the `thinking` of DeepSeek's,
 * Moonshot's and Z.ai's own APIs. Throws 400 if it has both an effort and a budget.
 */
function readReasoning(body: ChatRequest, thinking: Thinking | null): Reasoning | undefined {
  const { reasoning_effort, include_reasoning } = body
  const reasoning = body.reasoning ?? (thinking ? toReasoning(thinking) : undefined)
  if (reasoning == null && reasoning_effort == null && include_reasoning == null) return undefined
  if (reasoning?.effort != null && reasoning.max_tokens != null)
    throw invalid('reasoning: expected either effort or max_tokens, found both', 'reasoning')
  const merged: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(reasoning ?? {}))
    if (value !== null) merged[name] = value
  if (reasoning_effort != null && merged.effort === undefined && merged.max_tokens === undefined)
    merged.effort = reasoning_effort
  if (include_reasoning === false) merged.exclude ??= true
  if (include_reasoning === true) merged.enabled ??= true
  return Object.keys(merged).length > 0 ? (merged as Reasoning) : undefined
}

/** What DeepSeek, Moonshot and Z.ai call reasoning. */
interface Thinking {
  type: string
  budget_tokens?: number | null
}

const isThinking = (value: unknown): value is Thinking =>
  isObject(value) &&
  ['enabled', 'disabled', 'auto', 'adaptive'].includes(String(value.type)) &&
  (value.budget_tokens == null || Number.isSafeInteger(value.budget_tokens))

const toReasoning = ({ type, budget_tokens }: Thinking): Reasoning => ({
  enabled: type !== 'disabled',
  ...(budget_tokens == null || type === 'disabled' ? {} : { max_tokens: budget_tokens }),
})

/**
 * Returns the body with tools in place of legacy functions: `functions`, `function_call` and
 * messages of role `function`, which old clients still send. Returns the body itself if it has
 * none.
 */
export function modernizeRequest(body: ChatRequest): ChatRequest {
  if (body.functions || body.function_call != null) return replaceFunctions(body)
  for (const message of body.messages ?? [])
    if (
      message.role === 'function' ||
      ('function_call' in message && message.function_call != null)
    )
      return replaceFunctions(body)
  return body
}

function replaceFunctions(body: ChatRequest): ChatRequest {
  const { functions, function_call, messages, ...rest } = body
  const tools = [
    ...(rest.tools ?? []),
    ...(functions ?? []).map(definition => ({ type: 'function' as const, function: definition })),
  ]
  const toolChoice = rest.tool_choice ?? toToolChoice(function_call)
  return {
    ...rest,
    ...(messages ? { messages: modernizeMessages(messages) } : {}),
    ...(tools.length > 0 ? { tools } : {}),
    ...(toolChoice === undefined ? {} : { tool_choice: toolChoice }),
  }
}

const toToolChoice = (choice: ChatRequest['function_call']) =>
  typeof choice === 'object' && choice !== null
    ? { type: 'function' as const, function: choice }
    : (choice ?? undefined)

// Function calls had no ids: a result belongs to the last call of the same name.
function modernizeMessages(messages: ChatMessage[]): ChatMessage[] {
  const lastCallIds = new Map<string, string>()
  return messages.map((message, index) => {
    if (message.role === 'function') {
      const { name, content, ...rest } = message
      return {
        ...rest,
        role: 'tool',
        content: content ?? '',
        tool_call_id: lastCallIds.get(name) ?? `call_${name}`,
      }
    }
    if (message.role !== 'assistant' || message.function_call == null) return message
    const { function_call, ...rest } = message
    const id = `call_${index}`
    lastCallIds.set(function_call.name, id)
    return {
      ...rest,
      tool_calls: [...(rest.tool_calls ?? []), { id, type: 'function', function: function_call }],
    }
  })
}
