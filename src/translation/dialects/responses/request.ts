import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { refuseIssue } from '../../../base/body.ts'
import { invalid } from '../../../base/errors.ts'
import { isObject, type Json, readString } from '../../../base/json.ts'
import { findSchemaIssue } from '../../../base/schema.ts'
import {
  Content,
  Id,
  list,
  Name,
  oneOf,
  open,
  optional,
  SomeId,
  SomeName,
} from '../../../base/schema-builders.ts'
import type { TextCall } from '../../../language/call.ts'
import { CallIds, renameThoughts } from '../../../language/call-ids.ts'
import type { Block, Message } from '../../../language/message.ts'
import type { Params, Reasoning, ResponseFormat } from '../../../language/params.ts'
import {
  BLOCK_SEPARATOR,
  isResponsesFormat,
  type ReasoningDetail,
} from '../../../language/reasoning.ts'
import type { Actor } from '../../../resources/actor.ts'
import { nameStandIns } from '../../client-tools.ts'
import { openSummary } from '../../compaction.ts'
import type { CallContext } from '../dialect.ts'
import { buildCallBase, readExtraFields } from '../routing.ts'
import { AnyObject, MAX_TOOLS, readUnknownFields } from '../schema.ts'
import { readServerTools } from '../server-tools.ts'
import type { DialectWorld } from '../world.ts'
import { MessageContent, ToolOutput, toBlocks } from './content.ts'
import { checkMetadata, type Format, ResponsesRequest, ResponsesTool } from './schema.ts'
import { isSealed, openSeal } from './seal.ts'
import { toTool, toToolChoice } from './tools.ts'

/** The most parts of one item's reasoning. */
const MAX_PARTS = 4_096

const SummaryText = Type.Object({ type: Type.Literal('summary_text'), text: Content }, open)
const ReasoningText = Type.Object({ type: Type.Literal('reasoning_text'), text: Content }, open)

/** A reasoning item that a client sends back. */
const ReasoningItem = Type.Object(
  {
    type: Type.Literal('reasoning'),
    id: optional(Id),
    summary: optional(list(SummaryText, { maxItems: MAX_PARTS })),
    content: optional(list(ReasoningText, { maxItems: MAX_PARTS })),
    encrypted_content: optional(Content),
    format: optional(Name),
    signature: optional(Content),
  },
  open,
)
type ReasoningItem = Static<typeof ReasoningItem>

/** The format of items that do not name theirs: OpenAI's own have no `format`. */
const OPENAI_FORMAT = 'openai-responses-v1'

/**
 * Converts a reasoning item into the block that its provider made. `field` is its place in the
 * request. Throws 400 if what was sealed has been changed.
 */
function toReasoningBlock(item: ReasoningItem, field: string): Block {
  const summary = (item.summary ?? []).map(({ text }) => text)
  const content = (item.content ?? []).map(({ text }) => text)
  const texts = [...summary, ...content]
  const encrypted = item.encrypted_content ?? ''
  const details = isSealed(encrypted)
    ? openSeal(encrypted, { summary, content })
    : listDetails(item)
  if (!details)
    throw invalid(
      `${field}: expected reasoning as it was received, found some that was changed since`,
      field,
    )
  const format = details[0]?.format
  return {
    type: 'reasoning',
    text: texts.length > 0 ? texts.join(BLOCK_SEPARATOR) : null,
    details: isResponsesFormat(format) ? addSeparators(details) : details,
  }
}

/** Lists the entries of an item that was not sealed: a provider's own, in its order. */
function listDetails(item: ReasoningItem): ReasoningDetail[] {
  const { id, summary, content, encrypted_content, signature } = item
  const format = item.format ?? OPENAI_FORMAT
  const entries: ReasoningDetail[] = [
    ...(summary ?? []).map(({ text }) => ({ type: 'reasoning.summary', summary: text })),
    ...(content ?? []).map(({ text }) => ({ type: 'reasoning.text', text })),
    ...(encrypted_content ? [{ type: 'reasoning.encrypted', data: encrypted_content }] : []),
  ]
  const last = entries.findLastIndex(({ type }) => type === 'reasoning.text')
  return entries.map((entry, index) => ({
    ...entry,
    ...(index === last && signature ? { signature } : {}),
    format,
    index,
    ...(id == null ? {} : { id }),
  }))
}

// Every text of such an entry but the first begins with the separator, as it would in an answer.
const addSeparators = (details: ReasoningDetail[]): ReasoningDetail[] =>
  details.map((detail, i) => {
    if (i === 0) return detail
    const { text, summary } = detail
    if (typeof summary === 'string') return { ...detail, summary: BLOCK_SEPARATOR + summary }
    return typeof text === 'string' ? { ...detail, text: BLOCK_SEPARATOR + text } : detail
  })

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

/** The fields that only providers of this API may read, though the gateway knows them. */
const NATIVE_FIELDS = ['include', 'max_tool_calls', 'prompt', 'truncation']

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

/** The items of a request's input, by type (wire reference D.3 and D.4). */

const MessageItem = Type.Object(
  {
    type: Type.Optional(Type.Literal('message')),
    role: oneOf('user', 'assistant', 'system', 'developer'),
    content: optional(MessageContent),
    phase: optional(oneOf('commentary', 'final_answer')),
  },
  open,
)
type MessageItem = Static<typeof MessageItem>

const FunctionCallItem = Type.Object(
  {
    type: Type.Literal('function_call'),
    call_id: SomeId,
    name: SomeName,
    arguments: Content,
    namespace: optional(Name),
  },
  open,
)
type FunctionCallItem = Static<typeof FunctionCallItem>

const FunctionCallOutputItem = Type.Object(
  { type: Type.Literal('function_call_output'), call_id: SomeId, output: ToolOutput },
  open,
)
type FunctionCallOutputItem = Static<typeof FunctionCallOutputItem>

/** Builds the schema of items of this type with these fields. */
const buildItemSchema = (type: string, fields: Record<string, TSchema> = {}): TSchema =>
  Type.Object({ type: Type.Literal(type), ...fields }, open)

const Operation = Type.Union([
  Type.Object({ type: oneOf('create_file', 'update_file'), path: Content, diff: Content }, open),
  Type.Object({ type: Type.Literal('delete_file'), path: Content }, open),
])
const ShellOutput = Type.Object(
  {
    stdout: Content,
    stderr: Content,
    outcome: Type.Union([
      Type.Object({ type: Type.Literal('exit'), exit_code: Type.Integer() }, open),
      Type.Object({ type: Type.Literal('timeout') }, open),
    ]),
  },
  open,
)
const call_id = SomeId

/** The side of the conversation that an item belongs to. */
type Side = 'assistant' | 'user'

/** What is known about a type of item that goes to providers of this API as it came. */
interface ItemRow {
  schema: TSchema
  side: Side
  /** Whether it is a call that its result names by `call_id`, or such a result. */
  link?: 'call' | 'result'
}

const call = (type: string, fields: Record<string, TSchema> = {}): ItemRow => ({
  schema: buildItemSchema(type, { call_id, ...fields }),
  side: 'assistant',
  link: 'call',
})
const result = (type: string, fields: Record<string, TSchema> = {}): ItemRow => ({
  schema: buildItemSchema(type, { call_id, ...fields }),
  side: 'user',
  link: 'result',
})
const ofModel = (type: string, fields: Record<string, TSchema> = {}): ItemRow => ({
  schema: buildItemSchema(type, fields),
  side: 'assistant',
})
const ofClient = (type: string, fields: Record<string, TSchema> = {}): ItemRow => ({
  schema: buildItemSchema(type, fields),
  side: 'user',
})

const OWN_ITEMS: Record<string, ItemRow> = {
  message: { schema: MessageItem, side: 'user' },
  reasoning: { schema: ReasoningItem, side: 'assistant' },
  function_call: { schema: FunctionCallItem, side: 'assistant', link: 'call' },
  function_call_output: { schema: FunctionCallOutputItem, side: 'user', link: 'result' },
}

/** The types that only providers of this API have a form for. */
const NATIVE_ITEMS: Record<string, ItemRow> = {
  custom_tool_call: call('custom_tool_call', { name: SomeName, input: Content }),
  custom_tool_call_output: result('custom_tool_call_output', { output: ToolOutput }),
  shell_call: call('shell_call', { action: Type.Object({ commands: list(Content) }, open) }),
  shell_call_output: result('shell_call_output', { output: list(ShellOutput) }),
  apply_patch_call: call('apply_patch_call', { operation: Operation }),
  apply_patch_call_output: result('apply_patch_call_output', {
    status: oneOf('completed', 'failed'),
    output: optional(Content),
  }),
  computer_call: call('computer_call'),
  computer_call_output: result('computer_call_output', { output: AnyObject }),
  // Its result may name it by `id`, and it may have no other.
  local_shell_call: {
    ...ofModel('local_shell_call', { call_id: optional(Id), id: optional(Id), action: AnyObject }),
    link: 'call',
  },
  local_shell_call_output: {
    ...ofClient('local_shell_call_output', { id: optional(Id), output: Content }),
    link: 'result',
  },
  web_search_call: ofModel('web_search_call'),
  file_search_call: ofModel('file_search_call'),
  image_generation_call: ofModel('image_generation_call', { result: optional(Content) }),
  code_interpreter_call: ofModel('code_interpreter_call', { code: optional(Content) }),
  // One that its provider answered itself has no `call_id`.
  tool_search_call: { ...ofModel('tool_search_call', { call_id: optional(Id) }), link: 'call' },
  tool_search_output: {
    ...ofClient('tool_search_output', {
      call_id: optional(Id),
      tools: optional(list(ResponsesTool, { maxItems: MAX_TOOLS })),
    }),
    link: 'result',
  },
  mcp_list_tools: ofModel('mcp_list_tools'),
  mcp_call: ofModel('mcp_call'),
  mcp_approval_request: ofModel('mcp_approval_request'),
  mcp_approval_response: ofClient('mcp_approval_response', { approve: Type.Boolean() }),
  compaction: ofModel('compaction', { encrypted_content: Content }),
  compaction_summary: ofModel('compaction_summary', { encrypted_content: Content }),
  context_compaction: ofModel('context_compaction'),
  agent_message: ofModel('agent_message'),
  compaction_trigger: ofClient('compaction_trigger'),
  additional_tools: ofClient('additional_tools', {
    tools: list(ResponsesTool, { maxItems: MAX_TOOLS }),
  }),
  configuration_update: ofClient('configuration_update', { reasoning: AnyObject }),
}

/**
 * Items of tools that the public service runs itself. No provider has a form for them, and the
 * answer that was made of them follows.
 */
const SERVICE_ITEM = /^[a-z][a-z0-9-]{0,63}:[a-z_]{1,64}$/
const SERVICE_ROW: ItemRow = { schema: AnyObject, side: 'assistant' }

/** An item that has been checked: its place, its type and what is known about that. */
interface CheckedItem {
  /** The place in the request: `input.3`. */
  field: string
  type: string
  value: Json
  side: Side
  /** The id that a call came with, where another call has it. */
  given?: string
  /** Whether providers have a form for it, though maybe only those of this API. */
  isForProviders: boolean
}

/**
 * Checks the items of the input, each against the schema of its type, and that calls and results
 * belong together. Throws 400 naming the item by its index.
 */
function checkItems(items: Json[]): CheckedItem[] {
  const links = new Links()
  return items.map((value, i) => {
    const field = `input.${i}`
    const type = readType(value)
    const row = findRow(type, field)
    checkItem(row.schema, value, field)
    if (type === 'message' && value.role === 'user') links.endTurn()
    const isForProviders = row !== SERVICE_ROW
    const linked = row.link ? links.link(row.link, value, field) : value
    const given = linked === value ? {} : { given: String(value.call_id) }
    return { field, type, value: linked, side: row.side, isForProviders, ...given }
  })
}

// An item with a role and without a type is a message.
const readType = ({ type, role }: Json): string =>
  typeof type === 'string' ? type : role === undefined ? '' : 'message'

function findRow(type: string, field: string): ItemRow {
  if (type === 'item_reference')
    throw invalid(
      `${field}: expected the item itself, as nothing is stored here; clients with store: false send it`,
      field,
    )
  const rows = Object.hasOwn(OWN_ITEMS, type) ? OWN_ITEMS : NATIVE_ITEMS
  if (Object.hasOwn(rows, type) && rows[type]) return rows[type]
  if (SERVICE_ITEM.test(type)) return SERVICE_ROW
  const found = type === '' ? 'an item without a type' : `the unknown type ${type.slice(0, 64)}`
  throw invalid(`${field}.type: expected a known type of item, found ${found}`, `${field}.type`)
}

function checkItem(schema: TSchema, value: Json, field: string): void {
  const issue = findSchemaIssue(schema, value)
  if (!issue) return
  const path = issue.path ? `${field}.${issue.path}` : field
  throw refuseIssue(issue, path)
}

/** The items that may name each other by `id`. */
const LOCAL_SHELL = new Set<unknown>(['local_shell_call', 'local_shell_call_output'])

/**
 * The calls of a conversation and their results. Each result follows its call, and is the only one.
 */
class Links {
  readonly #ids = new CallIds()

  /** Returns the item with an id that no other call has. Throws 400 for a result without a call. */
  link(link: 'call' | 'result', value: Json, field: string): Json {
    const isNamedById = value.call_id == null && LOCAL_SHELL.has(value.type)
    const member = isNamedById ? 'id' : 'call_id'
    const given = readString(value[member])
    if (given === null) return value
    const id = link === 'call' ? this.#ids.takeCall(given) : this.#takeResult(given, field, member)
    return id === given ? value : { ...value, [member]: id }
  }

  /** The user says something. */
  endTurn(): void {
    this.#ids.endTurn()
  }

  #takeResult(given: string, field: string, member: string): string {
    const id = this.#ids.takeResult(given)
    if (id !== undefined) return id
    const found = this.#ids.has(given)
      ? 'one that has a result'
      : 'an id that no call before it has'
    throw invalid(
      `${field}.${member}: expected the id of a call that waits for a result, found ${found}`,
      `${field}.${member}`,
    )
  }
}
