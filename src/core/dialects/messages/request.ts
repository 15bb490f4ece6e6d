import type { Actor } from '../../identity/actor.ts'
import { isObject } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Turn } from '../../language/message.ts'
import type { Params, Reasoning } from '../../language/params.ts'
import type { Tool, ToolChoice } from '../../language/tool.ts'
import type { CallContext } from '../dialect.ts'
import { callBase } from '../routing.ts'
import { keepExtra, keepMarker, readUnknown } from '../schema.ts'
import type { DialectWorld } from '../world.ts'
import {
  type ContentBlock,
  type CustomTool,
  type Document,
  type Image,
  type Message,
  MessagesRequest,
  type ToolResult,
} from './schema.ts'
import { reasoningOf, redactedOf } from './thinking.ts'

/** Translates a checked body into a call. Throws 400 if fields contradict each other. */
export function understand(
  gateway: DialectWorld,
  actor: Actor,
  body: MessagesRequest,
  context: CallContext,
): TextCall {
  const { models = [], fallbacks, metadata } = body
  const wanted = [...models, ...(fallbacks ?? []).map(fallback => fallback.model)]
  return {
    ...callBase(
      gateway,
      actor,
      { ...body, models: wanted, user: body.user ?? metadata?.user_id ?? null },
      context,
    ),
    kind: 'text',
    dialect: 'messages',
    turns: turnsOf(body),
    tools: (body.tools ?? []).map(toolOf),
    params: paramsOf(body),
    extra: extraOf(body),
    betas: context.betas,
  }
}

function turnsOf({ system, messages }: MessagesRequest): Turn[] {
  const turns = messages.flatMap(turnsOfMessage)
  const instructions = contentOf(system ?? [])
  return instructions.length > 0
    ? [{ role: 'system', blocks: blocksOf(instructions) }, ...turns]
    : turns
}

const MESSAGE_FIELDS = new Set(['role', 'content', 'model'])

// Each tool result becomes a message of its own, before the rest: providers want results first.
function turnsOfMessage(message: Message): Turn[] {
  const content = contentOf(message.content)
  const results = content.filter(block => isResult(block))
  const said = content.filter(block => !isResult(block))
  const turns = results.map(resultTurn)
  if (said.length === 0 && turns.length > 0) return turns
  return [
    ...turns,
    {
      role: message.role,
      blocks: blocksOf(said),
      ...speakerOf(message),
      ...keepExtra(readUnknown(message, MESSAGE_FIELDS) ?? {}),
    },
  ]
}

// Only routers read the model of a message. Providers have no such field.
function speakerOf({ role, model }: Message & { model?: unknown }): Pick<Turn, 'model'> {
  return role === 'assistant' && typeof model === 'string' ? { model } : {}
}

const contentOf = (content: string | ContentBlock[]): ContentBlock[] =>
  typeof content === 'string' ? [{ type: 'text', text: content }] : content

const isResult = (block: ContentBlock): block is ToolResult => block.type === 'tool_result'

function resultTurn({ tool_use_id, content, is_error, cache_control }: ToolResult): Turn {
  return {
    role: 'tool',
    tool_call_id: tool_use_id,
    blocks: blocksOf(contentOf((content ?? []) as string | ContentBlock[])),
    ...(is_error ? { is_error } : {}),
    ...keepMarker(cache_control),
  }
}

function blocksOf(content: ContentBlock[]): Block[] {
  let thoughts = 0
  return content.map(block => blockOf(block, () => thoughts++))
}

function blockOf(block: ContentBlock, nextThought: () => number): Block {
  switch (block.type) {
    case 'text':
      return textOf(block as Known<'text'>)
    case 'image':
      return imageOf(block as Image)
    case 'document':
      return documentOf(block as Document)
    case 'tool_use':
      return toolCallOf(block as Known<'tool_use'>)
    case 'thinking': {
      const { thinking, signature } = block as Known<'thinking'>
      return reasoningOf(thinking, signature, nextThought())
    }
    case 'redacted_thinking':
      return redactedOf((block as Known<'redacted_thinking'>).data, nextThought())
    default:
      return native(block)
  }
}

type Known<Type extends string> = Extract<ContentBlock, { type: Type }>

const native = (value: unknown): Block => ({ type: 'other', dialect: 'messages', value })

// Tool calls by the model itself are sent to clients with a `caller`, whatever the provider. Not
// every provider accepts that field back.
function toolCallOf({
  type: _,
  id,
  name,
  input,
  cache_control,
  ...extra
}: Known<'tool_use'>): Block {
  const { caller, ...others } = extra as { caller?: unknown }
  const besides = isObject(caller) && caller.type === 'direct' ? others : extra
  return {
    type: 'tool-call',
    id,
    name,
    input: JSON.stringify(input ?? {}),
    ...keepMarker(cache_control),
    ...keepExtra(besides),
  }
}

function textOf({ type, text, cache_control, ...extra }: Known<'text'>): Block {
  const { citations, ...others } = extra as { citations?: unknown }
  const known = Array.isArray(citations) ? citations.filter(isProvable) : []
  return {
    type,
    text,
    ...keepMarker(cache_control),
    ...keepExtra(known.length > 0 ? { ...others, citations: known } : others),
  }
}

// A source without proof has an empty index, and no provider accepts it back.
const isProvable = (citation: unknown) => !(isObject(citation) && citation.encrypted_index === '')

function imageOf(block: Image): Block {
  const { source, cache_control } = block
  if (source.type === 'file') return native(block)
  const url = source.type === 'url' ? source.url : dataUrl(source.media_type, source.data)
  return { type: 'image', url, ...keepMarker(cache_control) }
}

/**
 * Converts a document into a file: by its URL, by the provider's file id, or whole. A document made
 * of blocks stays in its own form.
 */
function documentOf(block: Document): Block {
  const { source, title, context, citations, cache_control } = block
  const file = fileOf(source)
  if (!file) return native(block)
  return {
    type: 'file',
    file: { ...file, ...(title == null ? {} : { filename: title }) },
    ...(citations?.enabled ? { citations: true } : {}),
    ...keepMarker(cache_control),
    ...(context == null ? {} : { extra: { context } }),
  }
}

function fileOf(
  source: Document['source'],
): { file_data: string } | { file_id: string } | undefined {
  switch (source.type) {
    case 'base64':
      return { file_data: dataUrl(source.media_type, source.data) }
    case 'url':
      return { file_data: source.url }
    case 'file':
      return { file_id: source.file_id }
    case 'text':
      return { file_data: plainText(source.data) }
    default:
      return typeof source.content === 'string'
        ? { file_data: plainText(source.content) }
        : undefined
  }
}

const dataUrl = (mediaType: string, base64: string) => `data:${mediaType};base64,${base64}`

const plainText = (text: string) => dataUrl('text/plain', Buffer.from(text).toString('base64'))

const TOOL_FIELDS = new Set([
  'type',
  'name',
  'description',
  'input_schema',
  'strict',
  'cache_control',
])

/** Converts a tool into the gateway's form. */
export function toolOf(tool: NonNullable<MessagesRequest['tools']>[number]): Tool {
  if (tool.type != null && tool.type !== 'custom')
    return { type: 'other', dialect: 'messages', value: tool }
  const { name, description, input_schema, strict, cache_control } = tool as CustomTool
  return {
    type: 'function',
    name,
    ...(description === undefined ? {} : { description }),
    parameters: input_schema,
    ...(strict == null ? {} : { strict }),
    ...keepMarker(cache_control),
    ...keepExtra(readUnknown(tool, TOOL_FIELDS) ?? {}),
  }
}

/** Converts the parameters into the gateway's form. */
export function paramsOf(body: MessagesRequest): Params {
  const params: Params = {}
  if (body.max_tokens != null) params.max_tokens = body.max_tokens
  if (body.temperature != null) params.temperature = body.temperature
  if (body.top_p != null) params.top_p = body.top_p
  // Zero means no limit, as in the chat dialect.
  if (body.top_k) params.top_k = body.top_k
  if (body.stop_sequences && body.stop_sequences.length > 0) params.stop = body.stop_sequences
  if (body.service_tier != null)
    params.service_tier = TIERS.get(body.service_tier) ?? body.service_tier
  if (body.cache_control) params.cache_control = body.cache_control
  return { ...params, ...choiceOf(body), ...formatOf(body), ...effortOf(body) }
}

/** The service tiers that Anthropic names differently. */
const TIERS = new Map([
  ['standard_only', 'default'],
  ['fast', 'priority'],
])

function choiceOf({ tool_choice }: MessagesRequest): Params {
  if (!tool_choice) return {}
  const single = tool_choice.type !== 'none' && tool_choice.disable_parallel_tool_use === true
  return { tool_choice: wantedOf(tool_choice), ...(single ? { parallel_tool_calls: false } : {}) }
}

function wantedOf(choice: NonNullable<MessagesRequest['tool_choice']>): ToolChoice {
  if (choice.type === 'tool') return { type: 'function', function: { name: choice.name } }
  return choice.type === 'any' ? 'required' : choice.type
}

function formatOf({ output_config }: MessagesRequest): Params {
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
function effortOf({ thinking, output_config }: MessagesRequest): Params {
  const effort = output_config?.effort ?? undefined
  if (!thinking || thinking.type === 'adaptive') {
    const reasoning = {
      ...(thinking ? { enabled: true, ...shown(thinking.display) } : {}),
      ...(effort ? { effort } : {}),
    }
    return thinking || effort ? { reasoning } : {}
  }
  const reasoning: Reasoning =
    thinking.type === 'disabled'
      ? { enabled: false }
      : { enabled: true, max_tokens: thinking.budget_tokens, ...shown(thinking.display) }
  return { reasoning, ...(effort ? { verbosity: effort } : {}) }
}

function shown(display: string | null | undefined): Reasoning {
  if (display === 'omitted') return { exclude: true }
  return display === 'summarized' ? { summary: 'auto' } : {}
}

const OURS = new Set(Object.keys(MessagesRequest.properties))

/** Reads the fields that only providers of the same dialect understand. */
function extraOf(body: MessagesRequest): Record<string, unknown> {
  const extra = readUnknown(body, OURS) ?? {}
  const { effort: _, format: __, ...output_config } = body.output_config ?? {}
  if (Object.keys(output_config).length > 0) extra.output_config = output_config
  const { user_id: ___, ...metadata } = body.metadata ?? {}
  if (Object.keys(metadata).length > 0) extra.metadata = metadata
  if (body.speed != null) extra.speed = body.speed
  return extra
}
