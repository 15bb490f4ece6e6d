import { readPlainText } from '../../../base/data-url.ts'
import { isObject } from '../../../base/json.ts'
import type { Quirks } from '../../../config/quirks.ts'
import type { TextCall } from '../../../language/call.ts'
import {
  type Block,
  type CacheControl,
  type Message,
  moveNamesIntoText,
} from '../../../language/message.ts'
import type { Params, Reasoning, ResponseFormat } from '../../../language/params.ts'
import type { ReasoningDetail } from '../../../language/reasoning.ts'
import type { Tool, ToolChoice } from '../../../language/tool.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { ANSWER_IN_JSON, buildSchemaInstruction, mentionsJson } from '../json-answer.ts'
import { foreignContent, foreignTool, isNative, omitParameters, readExtra } from '../native.ts'
import type { IsLacking, Lacks, UpstreamRequest } from '../protocol.ts'
import { toReasoningEffort } from '../reasoning.ts'
import { offerAllowed, renderInputJson, toMistralCallId } from '../tools.ts'

/**
 * Builds an OpenAI chat request for the call. Unknown parameters come first, so that none of them
 * can replace a known one.
 */
export function buildRequest(clientCall: TextCall, endpoint: Endpoint): UpstreamRequest {
  const { quirks } = endpoint.provider
  const asked = toChatCall(clientCall)
  const isChoice = typeof asked.params.tool_choice === 'object'
  const call = isChoice ? fitChoice(asked, endpoint) : asked
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

/** The providers whose `tool_choice` may be one among several tools. Other servers refuse that. */
const HAVE_ALLOWANCES = new Set(['openai', 'azure', 'openrouter'])

const fitChoice = (call: TextCall, { provider: { slug } }: Endpoint): TextCall =>
  HAVE_ALLOWANCES.has(slug) ? call : offerAllowed(call)

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
  let hasAny = false
  for (const _ in call.extra) hasAny = true
  // As most calls: there is nothing to leave out.
  if (!hasAny) return call.extra
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

const isDropped = (name: string, { renamed, dropped }: Quirks): boolean =>
  dropped.includes(renamed[name] ?? name)

/** Returns what the server gets of the fields that the gateway does not know. */
export function pickExtra(call: TextCall, endpoint: Endpoint): Record<string, unknown> {
  const { quirks } = endpoint.provider
  const extra = readOwnExtra(call, endpoint)
  return omitParameters(
    extra,
    Object.keys(extra).filter(name => isDropped(name, quirks)),
  )
}

/** The parameters that keep their names, and that a server may refuse. */
const REFUSABLE = [
  ...['temperature', 'top_p', 'top_k', 'min_p', 'top_a', 'seed', 'stop'],
  ...['frequency_penalty', 'presence_penalty', 'repetition_penalty'],
  ...['logit_bias', 'logprobs', 'top_logprobs', 'prediction', 'response_format'],
  ...['tool_choice', 'parallel_tool_calls', 'verbosity', 'modalities', 'audio', 'image_config'],
  ...['service_tier', 'web_search_options', 'prompt_cache_options'],
] as const satisfies (keyof Params)[]

const refuses =
  (name: string): IsLacking =>
  (_, { provider: { quirks } }) =>
    isDropped(name, quirks)

/** What of the chat API single servers do not have. */
export const LACKS: Lacks = {
  ...Object.fromEntries(REFUSABLE.map(name => [name, refuses(name)])),
  max_tokens: (_, { provider: { quirks } }) => isDropped(quirks.output_bound, quirks),
  reasoning: (call, { provider: { quirks } }) =>
    Object.keys(renderReasoning(call.params.reasoning, call, quirks)).every(name =>
      isDropped(name, quirks),
    ),
  cache_control: (_, { provider: { quirks } }) =>
    !quirks.cache_markers || isDropped('cache_control', quirks),
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

/**
 * The client dialect that matches this API. Its own fields pass through unchanged in both
 * directions.
 */
export const NATIVE = 'chat'

type ChatMessage = Record<string, unknown> & { role: string }

/**
 * Returns the messages in the form that this server accepts. The gateway's `instruction` comes
 * first. `isThinking` says that the model thinks, and is to be shown its earlier thoughts.
 */
function renderMessages(
  messages: Message[],
  instruction: string | null,
  quirks: Quirks,
  isThinking = false,
): ChatMessage[] {
  const namedMessages = quirks.names ? messages : moveNamesIntoText(messages)
  const instructed: Message[] =
    instruction === null
      ? namedMessages
      : [{ role: 'system', blocks: [{ type: 'text', text: instruction }] }, ...namedMessages]
  const textOnly = hasMediaResults(instructed) ? moveMediaToUser(instructed) : instructed
  const merged = quirks.alternating ? mergeSameRole(textOnly) : textOnly
  const rendered: ChatMessage[] = []
  for (const message of merged) rendered.push(renderMessage(message, quirks))
  markPrefill(rendered, quirks)
  if (isThinking) addLostThoughts(rendered, quirks)
  return rendered
}

// DeepSeek and Moonshot refuse a history whose calls have no `reasoning_content`, which clients of
// other APIs lose. They take any text for it but an empty one.
function addLostThoughts(rendered: ChatMessage[], { reasoning_back }: Quirks): void {
  if (reasoning_back !== 'reasoning_content') return
  for (const message of rendered)
    if (message.tool_calls !== undefined) message.reasoning_content ||= ' '
}

const isPlain = ({ type }: Block) => type === 'text' || type === 'other'

function hasMediaResults(messages: Message[]): boolean {
  for (const message of messages) if (message.role === 'tool' && hasMedia(message)) return true
  return false
}

const hasMedia = ({ role, blocks }: Message) => role === 'tool' && !blocks.every(isPlain)

// Tool results are text there. The user sends the images and files of results, after the last of
// these.
function moveMediaToUser(messages: Message[]): Message[] {
  const moved: Message[] = []
  let media: Block[] = []
  for (const message of messages) {
    if (message.role !== 'tool' && media.length > 0) {
      moved.push({ role: 'user', blocks: media })
      media = []
    }
    moved.push(hasMedia(message) ? { ...message, blocks: message.blocks.filter(isPlain) } : message)
    if (hasMedia(message))
      for (const block of message.blocks) if (!isPlain(block)) media.push(block)
  }
  return media.length > 0 ? [...moved, { role: 'user', blocks: media }] : moved
}

/** Merges consecutive messages of one role. Every tool result stays a message of its own. */
function mergeSameRole(messages: Message[]): Message[] {
  const groups: Message[][] = []
  for (const message of messages) {
    const group = groups.at(-1)
    if (group && group[0]?.role === message.role && message.role !== 'tool') group.push(message)
    else groups.push([message])
  }
  return groups.map(mergeMessages)
}

// Of a field that several have, the last counts.
function mergeMessages(group: Message[]): Message {
  const [only] = group
  if (only && group.length === 1) return only
  const merged = Object.assign({}, ...group) as Message
  return { ...merged, blocks: group.flatMap(({ blocks }) => blocks) }
}

// A conversation that ends with an assistant message is to be continued. Some servers need a flag
// for that.
function markPrefill(messages: ChatMessage[], { prefill }: Quirks): void {
  const last = messages.at(-1)
  if (prefill !== 'plain' && last?.role === 'assistant' && last.tool_calls === undefined)
    last[prefill] = true
}

function renderMessage(message: Message, quirks: Quirks): ChatMessage {
  const rendered: ChatMessage = message.extra ? { ...message.extra, role: '' } : { role: '' }
  rendered.role = message.role === 'developer' && !quirks.developer_role ? 'system' : message.role
  const [only] = message.blocks
  // As most messages are: nothing stands beside its content.
  if (only?.type === 'text' && message.blocks.length === 1)
    rendered.content =
      only.extra || only.cache_control ? renderContent(message.blocks, quirks) : only.text
  else {
    const isAnswer = message.role === 'assistant'
    rendered.content = renderContent(
      isAnswer ? message.blocks.filter(isNotImage) : message.blocks,
      quirks,
    )
    Object.assign(rendered, renderSiblingFields(message, quirks))
  }
  if (message.name !== undefined) rendered.name = message.name
  if (message.tool_call_id !== undefined)
    rendered.tool_call_id = fitCallId(message.tool_call_id, quirks)
  return rendered
}

// The model's own images stand in `images`, not in the content.
const isNotImage = ({ type }: Block) => type !== 'image'

// A single plain text is sent as a string, the only form that every server reads.
function renderContent(blocks: Block[], quirks: Quirks): unknown {
  const visible = blocks.filter(block => isInContent(block, quirks))
  if (visible.length === 0) return blocks.length === 0 ? '' : null
  const [only] = visible
  if (
    visible.length === 1 &&
    only?.type === 'text' &&
    !only.extra &&
    !(only.cache_control && quirks.cache_markers)
  )
    return only.text
  return visible.map(block => renderPart(block, quirks))
}

function isInContent(block: Block, { reasoning_back }: Quirks): boolean {
  if (block.type === 'reasoning') return reasoning_back === 'content' && Boolean(block.text)
  if (block.type === 'other') return isNative(block, NATIVE)
  return block.type !== 'tool-call' && block.type !== 'refusal'
}

function renderPart(block: Block, quirks: Quirks): unknown {
  switch (block.type) {
    case 'text':
      return {
        ...block.extra,
        type: 'text',
        text: block.text,
        ...renderCacheMarker(block.cache_control, quirks),
      }
    case 'image':
      return {
        ...block.extra,
        type: 'image_url',
        image_url: {
          url: block.url,
          ...(block.detail === undefined ? {} : { detail: block.detail }),
        },
        ...renderCacheMarker(block.cache_control, quirks),
      }
    case 'audio':
      return { type: 'input_audio', input_audio: { data: block.data, format: block.format } }
    case 'file':
      return { type: 'file', file: block.file, ...renderCacheMarker(block.cache_control, quirks) }
    case 'video':
      return { type: 'video_url', video_url: { ...block.extra, url: block.url } }
    case 'reasoning':
      return { type: 'thinking', thinking: [{ type: 'text', text: block.text ?? '' }] }
    case 'other':
      return block.value
    default:
      return undefined
  }
}

/** Returns the fields of a message beside its content. */
function renderSiblingFields({ role, blocks }: Message, quirks: Quirks): Record<string, unknown> {
  const fields: Record<string, unknown> = {}
  const calls = blocks.filter(block => block.type === 'tool-call')
  if (calls.length > 0)
    fields.tool_calls = calls.map(({ id, name, input, extra }) => ({
      ...pickExtraContent(extra),
      id: fitCallId(id, quirks),
      type: 'function',
      function: { name, arguments: renderInputJson(input) },
    }))
  const images = role === 'assistant' ? blocks.filter(block => block.type === 'image') : []
  if (images.length > 0) fields.images = images.map(image => renderPart(image, quirks))
  for (const block of blocks) {
    if (block.type === 'refusal') fields.refusal = block.text
    if (block.type === 'reasoning') Object.assign(fields, renderThoughts(block, quirks))
  }
  return fields
}

// Google's chat API signs calls there, and some relays do as it does.
const pickExtraContent = (extra: Record<string, unknown> | undefined): Record<string, unknown> =>
  extra?.extra_content === undefined ? {} : { extra_content: extra.extra_content }

function renderThoughts(
  { text, details }: Extract<Block, { type: 'reasoning' }>,
  { reasoning_back, reasoning: style }: Quirks,
): Record<string, unknown> {
  if (reasoning_back === 'none' || reasoning_back === 'content') return {}
  const texts =
    text === null ? {} : { [reasoning_back === 'details' ? 'reasoning' : reasoning_back]: text }
  if (reasoning_back !== 'details' || details === null) return texts
  return { ...texts, reasoning_details: details, ...renderThinkingBlocks(details, style) }
}

/** The format of thoughts that Claude has signed, whichever host runs it. */
export const CLAUDE_FORMAT = 'anthropic-claude-v1'

// A gateway such as LiteLLM has Claude's signed thoughts in a field of its own, and takes them back
// there. OpenRouter has them in the details.
function renderThinkingBlocks(
  details: ReasoningDetail[],
  style: Quirks['reasoning'],
): { thinking_blocks?: unknown[] } {
  if (style === 'object') return {}
  const thinking_blocks = details.flatMap<unknown>(({ type, format, text, signature, data }) => {
    if (format !== CLAUDE_FORMAT) return []
    if (type === 'reasoning.encrypted') return [{ type: 'redacted_thinking', data }]
    return signature ? [{ type: 'thinking', thinking: text ?? '', signature }] : []
  })
  return thinking_blocks.length > 0 ? { thinking_blocks } : {}
}

/**
 * Returns the id as this server accepts it. It is always the same for the same id, so a call and
 * its result stay together.
 */
const fitCallId = (id: string, { tool_call_ids }: Quirks): string =>
  tool_call_ids === 'any' ? id : toMistralCallId(id)

/**
 * Returns the marker up to which the server caches the conversation, for servers that support it.
 */
const renderCacheMarker = (cache_control: CacheControl | undefined, { cache_markers }: Quirks) =>
  cache_control && cache_markers ? { cache_control } : {}

/**
 * Converts a call of another dialect to the call that a chat client would have made. Fields of the
 * other dialect are removed, a plain-text document becomes text, and all reasoning of a message is
 * merged. Results of another provider's own tools are left out of the model's messages. What a user
 * said is never left out. Throws 400 for content that chat has no form for.
 */
function toChatCall(call: TextCall): TextCall {
  if (isNative(call, NATIVE)) return call
  return { ...call, messages: call.messages.map(toChatMessage), tools: call.tools.map(toChatTool) }
}

function toChatMessage(given: Message): Message {
  const [only] = given.blocks
  if (!given.extra && given.blocks.length === 1 && only?.type === 'text' && !only.extra)
    return given
  const { extra: _, ...message } = given
  const isKnown = (block: Block) => block.type !== 'other' || isNative(block, NATIVE)
  const kept = message.role === 'assistant' ? message.blocks.filter(isKnown) : message.blocks
  return { ...message, blocks: mergeReasoning(kept.map(toChatBlock)) }
}

function toChatBlock(block: Block): Block {
  if (block.type === 'other' && !isNative(block, NATIVE)) throw foreignContent(block)
  if (block.type === 'file') return toTextBlock(block)
  if (!('extra' in block)) return block
  const { extra, ...known } = block
  return known.type === 'tool-call' ? { ...known, extra: pickExtraContent(extra) } : known
}

function toTextBlock(block: Extract<Block, { type: 'file' }>): Block {
  const { file, extra, cache_control } = block
  const text = readPlainText(file.file_data ?? '', 'messages')
  if (text === undefined) return block
  const heading = [file.filename, extra?.context].filter(line => typeof line === 'string')
  return {
    type: 'text',
    text: [...heading, text].join('\n\n'),
    ...(cache_control ? { cache_control } : {}),
  }
}

// In chat a message has one piece of reasoning, before its content.
function mergeReasoning(blocks: Block[]): Block[] {
  const thoughts = blocks.filter(block => block.type === 'reasoning')
  if (thoughts.length < 2) return blocks
  const texts = thoughts.flatMap(({ text }) => text ?? [])
  const details = thoughts.flatMap(thought => thought.details ?? [])
  const thought: Block = {
    type: 'reasoning',
    text: texts.length > 0 ? texts.join('\n\n') : null,
    details: details.length > 0 ? details : null,
  }
  return [thought, ...blocks.filter(block => block.type !== 'reasoning')]
}

function toChatTool(tool: Tool): Tool {
  if (tool.type === 'other') return tool
  const { extra: _, ...known } = tool
  return known
}
