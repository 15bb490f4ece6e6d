import { refuseIssue } from '../../../base/body.ts'
import { toTextUrl } from '../../../base/data-url.ts'
import { invalid } from '../../../base/errors.ts'
import { isObject, type Json } from '../../../base/json.ts'
import { findSchemaIssue } from '../../../base/schema.ts'
import type { TextCall } from '../../../language/call.ts'
import { separateCallIds } from '../../../language/call-ids.ts'
import type { Block, Message } from '../../../language/message.ts'
import type { Params, Reasoning } from '../../../language/params.ts'
import type { Tool, ToolChoice } from '../../../language/tool.ts'
import type { Actor } from '../../../resources/actor.ts'
import type { CallContext } from '../dialect.ts'
import { buildCallBase, readExtraFields } from '../routing.ts'
import { MAX_TOOLS, readUnknownFields, toCacheControlField, toExtraField } from '../schema.ts'
import { readServerTools } from '../server-tools.ts'
import type { DialectWorld } from '../world.ts'
import {
  type AnthropicContentBlock,
  type AnthropicCustomTool,
  type AnthropicDocument,
  type AnthropicImage,
  type AnthropicMessage,
  type AnthropicToolResult,
  ChangedTool,
  MessagesRequest,
} from './schema.ts'
import { toReasoningBlock, toRedactedBlock } from './thinking.ts'
import { SERVER_TOOL_ID } from './tool-blocks.ts'

/** Translates a checked body into a call. Throws 400 if fields contradict each other. */
export function toMessagesCall(
  world: DialectWorld,
  actor: Actor,
  given: MessagesRequest,
  context: CallContext,
): TextCall {
  const body = declareTools(given)
  const { models = [], fallbacks, metadata } = body
  const { tools, serverTools } = readServerTools(world, actor, body, 'messages')
  const allModels = [...models, ...(fallbacks ?? []).map(fallback => fallback.model)]
  return {
    ...buildCallBase(
      world,
      actor,
      { ...body, models: allModels, user: body.user ?? metadata?.user_id ?? null },
      context,
    ),
    kind: 'text',
    dialect: 'messages',
    messages: toMessages(body),
    tools: tools.map(toTool),
    ...serverTools,
    params: toParams(body),
    extra: readExtra(body),
    betas: context.betas,
  }
}

/**
 * Returns the body with tools that others run among its `tools`, where rules and prices are applied
 * to them: those that a system message defines (`tool_addition`). What offers them refers to them.
 * Throws 400 naming a change of tools that is none: what takes a tool away is a rule.
 */
function declareTools(body: MessagesRequest): MessagesRequest {
  const tools = [...(body.tools ?? [])]
  const known = new Set<unknown>(tools.map(tool => 'name' in tool && tool.name))
  let count = tools.length
  const declare = (block: AnthropicContentBlock, field: string): AnthropicContentBlock => {
    if (block.type !== 'tool_addition' && block.type !== 'tool_removal') return block
    const tool: { type: string; name?: unknown } = checkChangedTool(block, field)
    if (tool.type === 'tool_definition' && block.type === 'tool_removal')
      throw invalid(`${field}.tool: expected a tool_reference, found a tool_definition`, field)
    if (tool.type === 'tool_reference' && !known.has(tool.name))
      throw invalid(`${field}.tool.name: expected the name of a tool of the call`, field)
    if (tool.type !== 'tool_definition') return block
    const { definition } = tool as unknown as Extract<ChangedTool, { definition: unknown }>
    const { name } = definition as Json
    known.add(name)
    if (++count > MAX_TOOLS) throw invalid(`${field}: expected at most ${MAX_TOOLS} tools`, field)
    if ((definition.type ?? 'custom') === 'custom') return block
    tools.push(Object.assign({}, definition, { defer_loading: true }))
    return Object.assign({}, block, { tool: { type: 'tool_reference', name } })
  }
  const messages = body.messages.map((message, i) =>
    message.role === 'system' && typeof message.content !== 'string'
      ? {
          ...message,
          content: message.content.map((one, j) => declare(one, `messages.${i}.content.${j}`)),
        }
      : message,
  )
  return count === (body.tools?.length ?? 0) ? body : { ...body, messages, tools }
}

function checkChangedTool(block: object, field: string): ChangedTool {
  const { tool } = block as { tool?: unknown }
  const issue = findSchemaIssue(ChangedTool, tool)
  if (issue) {
    const path = issue.path === '' ? '' : `.${issue.path}`
    throw refuseIssue(issue, `${field}.tool${path}`)
  }
  return tool as ChangedTool
}

/** Throws 400 for fallbacks beside `models`, and for more than three (specification E6). */
export function checkFallbacks({ models, fallbacks }: MessagesRequest): void {
  if (!fallbacks || fallbacks.length === 0) return
  if (models && models.length > 0)
    throw invalid('fallbacks: expected either fallbacks or models, found both', 'fallbacks')
  if (fallbacks.length > MAX_FALLBACKS)
    throw invalid(`fallbacks: expected at most ${MAX_FALLBACKS} items`, 'fallbacks')
  const at = fallbacks.findIndex(fallback => Object.keys(fallback).some(name => name !== 'model'))
  if (at !== -1) throw invalid(`fallbacks.${at}: expected only a model`, `fallbacks.${at}`)
}

const MAX_FALLBACKS = 3

function toMessages({ system, messages }: MessagesRequest): Message[] {
  let conversation = messages.flatMap(splitMessage)
  for (const { role } of conversation)
    if (role === 'tool') {
      conversation = separateCallIds(conversation)
      break
    }
  const instructions = listContent(system ?? [])
  return instructions.length > 0
    ? [{ role: 'system', blocks: toBlocks(instructions) }, ...conversation]
    : conversation
}

const MESSAGE_FIELDS = new Set(['role', 'content', 'model'])

// Each tool result becomes a message of its own, before the rest: providers want results first.
function splitMessage(message: AnthropicMessage): Message[] {
  const toolMessages: Message[] = []
  const otherBlocks: AnthropicContentBlock[] = []
  for (const block of listContent(message.content))
    if (isToolResult(block)) toolMessages.push(toToolMessage(block))
    else otherBlocks.push(block)
  if (otherBlocks.length === 0 && toolMessages.length > 0) return toolMessages
  return [
    ...toolMessages,
    {
      role: message.role,
      blocks: toBlocks(otherBlocks),
      ...readSpeaker(message),
      ...toExtraField(readUnknownFields(message, MESSAGE_FIELDS) ?? {}),
    },
  ]
}

// Only routers read the model of a message. Providers have no such field.
function readSpeaker({
  role,
  model,
}: AnthropicMessage & { model?: unknown }): Pick<Message, 'model'> {
  return role === 'assistant' && typeof model === 'string' ? { model } : {}
}

const listContent = (content: string | AnthropicContentBlock[]): AnthropicContentBlock[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content

const isToolResult = (block: AnthropicContentBlock): block is AnthropicToolResult =>
  block.type === 'tool_result'

function toToolMessage({
  tool_use_id,
  content,
  is_error,
  cache_control,
}: AnthropicToolResult): Message {
  return {
    role: 'tool',
    tool_call_id: tool_use_id,
    blocks: toBlocks(listContent((content ?? []) as string | AnthropicContentBlock[])),
    ...(is_error ? { is_error } : {}),
    ...toCacheControlField(cache_control),
  }
}

function toBlocks(content: AnthropicContentBlock[]): Block[] {
  let reasoningCount = 0
  const blocks: Block[] = []
  for (const block of content)
    if (!isServerToolBlock(block)) blocks.push(toBlock(block, () => reasoningCount++))
  return blocks
}

// No provider knows the tools that the gateway has run, and the answer that was made of them follows.
const isServerToolBlock = (block: AnthropicContentBlock): boolean => {
  const { id, tool_use_id } = block as { id?: unknown; tool_use_id?: unknown }
  return isServerToolId(id) || isServerToolId(tool_use_id) || SERVICE_BLOCK.test(block.type)
}

/** Results of commands that the public service has run (wire reference F.4). */
const SERVICE_BLOCK = /^openrouter_[a-z_]+_tool_result$/

const isServerToolId = (id: unknown): boolean =>
  typeof id === 'string' && id.startsWith(SERVER_TOOL_ID)

function toBlock(block: AnthropicContentBlock, nextReasoningIndex: () => number): Block {
  switch (block.type) {
    case 'text':
      return toTextBlock(block as BlockOfType<'text'>)
    case 'image':
      return toImageBlock(block as AnthropicImage)
    case 'document':
      return toFileBlock(block as AnthropicDocument)
    case 'tool_use':
      return toToolCall(block as BlockOfType<'tool_use'>)
    case 'thinking': {
      const { thinking, signature } = block as BlockOfType<'thinking'>
      return toReasoningBlock(thinking, signature, nextReasoningIndex())
    }
    case 'redacted_thinking':
      return toRedactedBlock((block as BlockOfType<'redacted_thinking'>).data, nextReasoningIndex())
    default:
      return toOtherBlock(block)
  }
}

type BlockOfType<Type extends string> = Extract<AnthropicContentBlock, { type: Type }>

const toOtherBlock = (value: unknown): Block => ({ type: 'other', dialect: 'messages', value })

// Tool calls by the model itself are sent to clients with a `caller`, whatever the provider. Not
// every provider accepts that field back.
function toToolCall({
  type: _,
  id,
  name,
  input,
  cache_control,
  ...extra
}: BlockOfType<'tool_use'>): Block {
  const { caller, ...others } = extra as { caller?: unknown }
  const kept = isObject(caller) && caller.type === 'direct' ? others : extra
  return {
    type: 'tool-call',
    id,
    name,
    input: JSON.stringify(input ?? {}),
    ...toCacheControlField(cache_control),
    ...toExtraField(kept),
  }
}

function toTextBlock({ type, text, cache_control, ...extra }: BlockOfType<'text'>): Block {
  const { citations, ...others } = extra as { citations?: unknown }
  const provable = Array.isArray(citations) ? citations.filter(isProvable) : []
  return {
    type,
    text,
    ...toCacheControlField(cache_control),
    ...toExtraField(provable.length > 0 ? { ...others, citations: provable } : others),
  }
}

// A source of the web without proof has no index, or an empty one, and no provider accepts it back.
const isProvable = (citation: unknown) =>
  !isObject(citation) ||
  (citation.encrypted_index !== '' &&
    (citation.type !== 'web_search_result_location' || citation.encrypted_index != null))

function toImageBlock(block: AnthropicImage): Block {
  const { source, cache_control } = block
  if (source.type === 'file') return toOtherBlock(block)
  const url = source.type === 'url' ? source.url : toDataUrl(source.media_type, source.data)
  return { type: 'image', url, ...toCacheControlField(cache_control) }
}

/**
 * Converts a document into a file: by its URL, by the provider's file id, or whole. A document made
 * of blocks stays in its own form.
 */
function toFileBlock(block: AnthropicDocument): Block {
  const { source, title, context, citations, cache_control } = block
  const file = toFileSource(source)
  if (!file) return toOtherBlock(block)
  return {
    type: 'file',
    file: { ...file, ...(title == null ? {} : { filename: title }) },
    ...(citations?.enabled ? { citations: true } : {}),
    ...toCacheControlField(cache_control),
    ...(context == null ? {} : { extra: { context } }),
  }
}

function toFileSource(
  source: AnthropicDocument['source'],
): { file_data: string } | { file_id: string } | undefined {
  switch (source.type) {
    case 'base64':
      return { file_data: toDataUrl(source.media_type, source.data) }
    case 'url':
      return { file_data: source.url }
    case 'file':
      return { file_id: source.file_id }
    case 'text':
      return { file_data: toTextUrl(source.data) }
    default:
      return typeof source.content === 'string'
        ? { file_data: toTextUrl(source.content) }
        : undefined
  }
}

const toDataUrl = (mediaType: string, base64: string) => `data:${mediaType};base64,${base64}`

const TOOL_FIELDS = new Set([
  'type',
  'name',
  'description',
  'input_schema',
  'strict',
  'cache_control',
])

/** Converts a tool into the gateway's form. */
export function toTool(tool: NonNullable<MessagesRequest['tools']>[number]): Tool {
  if (tool.type != null && tool.type !== 'custom')
    return { type: 'other', dialect: 'messages', value: tool }
  const { name, description, input_schema, strict, cache_control } = tool as AnthropicCustomTool
  return {
    type: 'function',
    name,
    ...(description === undefined ? {} : { description }),
    parameters: input_schema,
    ...(strict == null ? {} : { strict }),
    ...toCacheControlField(cache_control),
    ...toExtraField(readUnknownFields(tool, TOOL_FIELDS) ?? {}),
  }
}

/** Converts the parameters into the gateway's form. */
export function toParams(body: MessagesRequest): Params {
  const params: Params = {}
  if (body.max_tokens != null) params.max_tokens = body.max_tokens
  if (body.temperature != null) params.temperature = body.temperature
  if (body.top_p != null) params.top_p = body.top_p
  // Zero means no limit, as in the chat dialect.
  if (body.top_k) params.top_k = body.top_k
  if (body.stop_sequences && body.stop_sequences.length > 0) params.stop = body.stop_sequences
  if (body.service_tier != null)
    params.service_tier = TIER_NAMES.get(body.service_tier) ?? body.service_tier
  if (body.speed === 'fast') params.service_tier = 'priority'
  if (body.cache_control) params.cache_control = body.cache_control
  return { ...params, ...readToolChoice(body), ...readFormat(body), ...readEffort(body) }
}

/** The service tiers that Anthropic names differently. */
const TIER_NAMES = new Map([
  ['standard_only', 'default'],
  ['fast', 'priority'],
])

function readToolChoice({ tool_choice }: MessagesRequest): Params {
  if (!tool_choice) return {}
  const single = tool_choice.type !== 'none' && tool_choice.disable_parallel_tool_use === true
  return {
    tool_choice: toToolChoice(tool_choice),
    ...(single ? { parallel_tool_calls: false } : {}),
  }
}

function toToolChoice(choice: NonNullable<MessagesRequest['tool_choice']>): ToolChoice {
  if (choice.type === 'tool') return { type: 'function', function: { name: choice.name } }
  return choice.type === 'any' ? 'required' : choice.type
}

function readFormat({ output_config }: MessagesRequest): Params {
  const schema = output_config?.format?.schema
  return schema
    ? {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'answer', strict: true, schema },
        },
      }
    : {}
}

/**
 * Reads how much to reason and how much effort to make. If thinking is off or has a budget, the
 * effort applies to the answer alone, which is the meaning of `verbosity` for Claude (wire
 * reference C.1).
 */
function readEffort({ thinking, output_config }: MessagesRequest): Params {
  const effort = output_config?.effort ?? undefined
  if (!thinking || thinking.type === 'adaptive') {
    const reasoning = {
      ...(thinking ? { enabled: true, ...readDisplay(thinking.display) } : {}),
      ...(effort ? { effort } : {}),
    }
    return thinking || effort ? { reasoning } : {}
  }
  const reasoning: Reasoning =
    thinking.type === 'disabled'
      ? { enabled: false }
      : { enabled: true, max_tokens: thinking.budget_tokens, ...readDisplay(thinking.display) }
  return { reasoning, ...(effort ? { verbosity: effort } : {}) }
}

function readDisplay(display: string | null | undefined): Reasoning {
  if (display === 'omitted') return { exclude: true }
  return display === 'summarized' ? { summary: 'auto' } : {}
}

const KNOWN_FIELDS = new Set(Object.keys(MessagesRequest.properties))

/** Reads the fields that only providers of the same dialect understand. */
function readExtra(body: MessagesRequest): Record<string, unknown> {
  const extra = readExtraFields(body, KNOWN_FIELDS)
  const { effort: _, format: __, ...output_config } = body.output_config ?? {}
  if (Object.keys(output_config).length > 0) extra.output_config = output_config
  const { user_id: ___, ...metadata } = body.metadata ?? {}
  if (Object.keys(metadata).length > 0) extra.metadata = metadata
  if (body.speed != null) extra.speed = body.speed
  return extra
}
