import { invalid } from '../../../base/errors.ts'
import { isObject, type Json, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import { renameThoughts } from '../../../language/call-ids.ts'
import type { Block, Message } from '../../../language/message.ts'
import type { Params, Reasoning, ResponseFormat } from '../../../language/params.ts'
import type { Actor } from '../../../resources/actor.ts'
import { nameStandIns } from '../../client-tools.ts'
import { openSummary } from '../../compaction.ts'
import type { CallContext } from '../dialect.ts'
import { buildCallBase, readExtraFields } from '../routing.ts'
import { readUnknownFields } from '../schema.ts'
import { readServerTools } from '../server-tools.ts'
import type { DialectWorld } from '../world.ts'
import { toBlocks } from './content.ts'
import {
  type CheckedItem,
  checkItems,
  type FunctionCallItem,
  type FunctionCallOutputItem,
  type MessageItem,
} from './items.ts'
import { type ReasoningItem, toReasoningBlock } from './reasoning.ts'
import { checkMetadata, type Format, ResponsesRequest } from './schema.ts'
import { toTool, toToolChoice } from './tools.ts'

/**
 * Converts a request's input into messages. What the model said, thought and called in one turn is
 * one message. Throws 400 naming an item that is invalid by its index.
 */
export function toMessages(input: string | Json[] | null | undefined): Message[] {
  if (typeof input === 'string') return [{ role: 'user', blocks: [{ type: 'text', text: input }] }]
  const messages: Message[] = []
  for (const item of checkItems(input ?? [])) if (item.isForProviders) addItem(messages, item)
  return messages
}

function addItem(messages: Message[], item: CheckedItem): void {
  const { type, side } = item
  const summary = COMPACTIONS.has(type) ? openSummary(item.value.encrypted_content) : undefined
  if (type === 'message') addMessage(messages, item)
  else if (summary !== undefined) messages.push(toSummaryMessage(summary))
  else if (type === 'function_call_output') messages.push(toToolMessage(item))
  else if (side === 'assistant') addOutput(messages, toBlock(item), item.given)
  else messages.push({ role: side, blocks: [toBlock(item)] })
}

const COMPACTIONS = new Set(['compaction', 'context_compaction', 'compaction_summary'])

// Whatever provider the conversation goes on at, it did not make this one.
const toSummaryMessage = (summary: string): Message => ({
  role: 'user',
  blocks: [{ type: 'text', text: `The conversation up to here, as a summary:\n\n${summary}` }],
})

function toBlock({ type, value, field }: CheckedItem): Block {
  if (type === 'reasoning') return toReasoningBlock(value as ReasoningItem, field)
  if (type === 'function_call') return toToolCall(value as FunctionCallItem)
  return { type: 'other', dialect: 'responses', value, field }
}

function addMessage(messages: Message[], { value, field }: CheckedItem): void {
  const { role, content, phase } = value as MessageItem
  const blocks = toBlocks(content, `${field}.content`)
  const message: Message = { role, blocks, ...(phase == null ? {} : { extra: { phase } }) }
  const last = messages.at(-1)
  if (role === 'assistant' && last?.role === 'assistant' && continues(last, message)) {
    for (const block of blocks) last.blocks.push(block)
    if (message.extra) last.extra = message.extra
  } else messages.push(message)
}

// A message of another phase is another message: the model announces in one what it does next.
const continues = (last: Message, { extra }: Message): boolean =>
  last.extra?.phase === extra?.phase || !last.blocks.some(isSaid)

const isSaid = ({ type }: Block) => type === 'text' || type === 'refusal'

/** Adds a block to the model's turn, or begins a turn with it. */
function addOutput(messages: Message[], block: Block, given: string | undefined): void {
  const last = messages.at(-1)
  if (last?.role !== 'assistant') messages.push({ role: 'assistant', blocks: [block] })
  else last.blocks.push(block)
  const message = messages.at(-1)
  if (given !== undefined && message) renameThoughts(message, given, block)
}

/** The fields of a call that only providers of this API know and want back. */
const KEPT_FIELDS = ['namespace', 'caller', 'async']

function toToolCall(item: FunctionCallItem): Block {
  const kept = Object.entries(item).filter(
    ([name, value]) => KEPT_FIELDS.includes(name) && value != null,
  )
  return {
    type: 'tool-call',
    id: item.call_id,
    name: item.name,
    input: item.arguments,
    ...(kept.length > 0 ? { extra: Object.fromEntries(kept) } : {}),
  }
}

function toToolMessage({ value, field }: CheckedItem): Message {
  const { call_id, output } = value as FunctionCallOutputItem
  return { role: 'tool', tool_call_id: call_id, blocks: toBlocks(output, `${field}.output`) }
}

/** Translates a checked body into a call. Throws 400 if fields contradict each other. */
export function toResponsesCall(
  world: DialectWorld,
  actor: Actor,
  body: ResponsesRequest,
  context: CallContext,
): TextCall {
  refuseStored(body, context)
  checkMetadata(body)
  const { tools, serverTools } = readServerTools(world, actor, body, 'responses')
  const user = body.user ?? body.safety_identifier ?? null
  const messages = readMessages(body, asksFor(serverTools, 'apply_patch'))
  const ownTools = tools.map(toTool)
  return {
    ...buildCallBase(world, actor, { ...body, user }, context),
    kind: 'text',
    dialect: 'responses',
    // The last events repeat all of it.
    isGathered: true,
    messages,
    tools: ownTools,
    standIns: nameStandIns({ dialect: 'responses', tools: ownTools, messages }),
    ...serverTools,
    params: toParams(body),
    echoUpstreamBody: body.debug?.echo_upstream_body ?? false,
    extra: readExtra(body),
    betas: context.betas,
  }
}

// Unless responses are stored, there is nothing to go on from and nowhere to look for an answer.
function refuseStored(body: ResponsesRequest, { isStateful }: CallContext): void {
  const { conversation } = body
  const { store, background, previous_response_id } = isStateful ? NOTHING_STORED : body
  if (store === true)
    throw invalid(
      'store: expected false, as nothing is stored here; send the whole conversation in input',
      'store',
    )
  if (background === true)
    throw invalid(
      'background: expected false, as nothing is stored here; wait for the answer, or stream it',
      'background',
    )
  for (const [name, value] of Object.entries({ previous_response_id, conversation }))
    if (value != null)
      throw invalid(
        `${name}: expected none, as nothing is stored here; send the whole conversation in input`,
        name,
      )
}

const NOTHING_STORED: Partial<ResponsesRequest> = {}

const asksFor = ({ serverTools }: Pick<TextCall, 'serverTools'>, name: string): boolean =>
  serverTools?.requests.some(request => request.name === name) ?? false

/** With `hasPatches` the items of patches belong to a function, whatever the provider. */
function readMessages(
  { instructions, input, prompt }: ResponsesRequest,
  hasPatches: boolean,
): Message[] {
  const messages = toMessages(
    hasPatches && Array.isArray(input) ? toFunctionItems(input as Json[]) : input,
  )
  if (messages.length === 0 && !prompt)
    throw invalid('input: expected a text or at least one item', 'input')
  return instructions
    ? [{ role: 'system', blocks: [{ type: 'text', text: instructions }] }, ...messages]
    : messages
}

/** The parameters that keep their names. */
const UNCHANGED_PARAMS = [
  'temperature',
  'top_p',
  'frequency_penalty',
  'presence_penalty',
  'parallel_tool_calls',
  'modalities',
  'image_config',
  'cache_control',
  'prompt_cache_key',
  'prompt_cache_options',
] as const satisfies readonly (keyof Params & keyof ResponsesRequest)[]

/** What a client includes to get log probabilities. */
const LOGPROBS = 'message.output_text.logprobs'

function toParams(body: ResponsesRequest): Params {
  const params: Record<string, unknown> = {}
  for (const name of UNCHANGED_PARAMS) if (body[name] != null) params[name] = body[name]
  if (body.max_output_tokens != null) params.max_tokens = body.max_output_tokens
  // Zero is the public API's way to say "no limit".
  if (body.top_k) params.top_k = body.top_k
  if (body.top_logprobs || body.include?.includes(LOGPROBS))
    Object.assign(params, { logprobs: true, top_logprobs: body.top_logprobs ?? 0 })
  if (body.tool_choice != null) params.tool_choice = toToolChoice(body.tool_choice)
  if (body.service_tier != null)
    params.service_tier = body.service_tier === 'fast' ? 'priority' : body.service_tier
  if (body.text?.verbosity != null) params.verbosity = body.text.verbosity
  const response_format = toResponseFormat(body.text?.format)
  if (response_format) params.response_format = response_format
  const reasoning = readReasoning(body)
  if (reasoning) params.reasoning = reasoning
  return params as Params
}

// A plain text is what every model answers without being asked.
function toResponseFormat(format: Format | null | undefined): ResponseFormat | undefined {
  if (!format || format.type === 'text') return undefined
  if (format.type !== 'json_schema') return { type: format.type }
  const { name, description, strict, schema } = format
  return {
    type: 'json_schema',
    json_schema: {
      name,
      ...(description == null ? {} : { description }),
      ...(strict == null ? {} : { strict }),
      schema,
    },
  }
}

/** Throws 400 if the body has both an effort and a budget. */
function readReasoning({ reasoning }: ResponsesRequest): Reasoning | undefined {
  const { effort, max_tokens, enabled, summary } = reasoning ?? {}
  if (effort != null && max_tokens != null)
    throw invalid('reasoning: expected either effort or max_tokens, found both', 'reasoning')
  const known = Object.entries({ effort, max_tokens, enabled, summary })
  const given = known.filter(([, value]) => value != null)
  return given.length > 0 ? (Object.fromEntries(given) as Reasoning) : undefined
}

/** The fields that only providers of this API read, though the gateway knows them. */
const NATIVE_FIELDS = ['include', 'max_tool_calls', 'truncation']

/** What is expected in place of fields that other APIs have at the top of their bodies. */
const FOREIGN_FIELDS = {
  system: 'instructions; /messages takes this field',
  messages: 'input; /chat/completions and /messages take this field',
  max_tokens: 'max_output_tokens; /chat/completions and /messages take this field',
  max_completion_tokens: 'max_output_tokens; /chat/completions takes this field',
}

const KNOWN_FIELDS = new Set(
  Object.keys(ResponsesRequest.properties).filter(name => !NATIVE_FIELDS.includes(name)),
)

const REASONING_FIELDS = new Set(['effort', 'max_tokens', 'enabled', 'summary'])
const TEXT_FIELDS = new Set(['format', 'verbosity'])

/** Reads the fields that only providers of this API understand. */
function readExtra(body: ResponsesRequest): Json {
  const extra = omitNulls(readExtraFields(body, KNOWN_FIELDS, FOREIGN_FIELDS))
  const reasoning = omitNulls(readUnknownFields(body.reasoning ?? {}, REASONING_FIELDS) ?? {})
  const text = omitNulls(readUnknownFields(body.text ?? {}, TEXT_FIELDS) ?? {})
  if (Object.keys(reasoning).length > 0) extra.reasoning = reasoning
  if (Object.keys(text).length > 0) extra.text = text
  return extra
}

const omitNulls = (fields: Json): Json =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null))

/**
 * Converts items of patches that a client sends back into calls of the function and their results.
 * All other items stay as they are, and so do those that are not whole.
 */
const toFunctionItems = (items: Json[]): Json[] => items.map(toFunctionItem)

function toFunctionItem(item: Json): Json {
  const { type, call_id, operation, output, status } = item
  if (typeof call_id !== 'string') return item
  if (type === 'apply_patch_call' && isObject(operation))
    return {
      type: 'function_call',
      ...{ call_id, name: 'apply_patch', arguments: JSON.stringify(operation) },
    }
  if (type !== 'apply_patch_call_output') return item
  const words = [readString(status), readString(output)].filter(Boolean).join(': ')
  return { type: 'function_call_output', call_id, output: words || 'completed' }
}
