import { invalid } from '../../../base/errors.ts'
import {
  getOwn,
  isObject,
  type Json,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Block } from '../../../language/message.ts'
import type { Tool } from '../../../language/tool.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { applyToolChanges } from '../../tool-changes.ts'
import {
  type Conversation,
  listLastTurn,
  placeInstructions,
  startWithUser,
  toConversation,
} from '../conversation.ts'
import { ONLY_JSON, pickAnswerToolName } from '../json-answer.ts'
import { isNative, leaveOutToolWork, omitParameters, readExtra } from '../native.ts'
import type { IsLacking, Lacks, UpstreamRequest } from '../protocol.ts'
import {
  BETA_BY_PARAMETER,
  BETA_BY_TOOL_TYPE,
  getCapabilities,
  isAnthropic,
  KNOWN_BETAS,
  VERTEX,
} from './capabilities.data.ts'
import type { AnswerFormat } from './messages.ts'
import {
  ContentRenderer,
  createToolNames,
  getReasoningFormat,
  NATIVE,
  renderMessages,
  renderSystem,
} from './messages.ts'
import { closeSchema, isClosable, toInputSchema } from './schema.ts'
import { renderSampling, renderThinking, type Thinking } from './thinking.ts'
import { hasWebSearch, renderTools, requiresToolCall } from './tools.ts'

const VERSION = '2023-06-01'
const VERTEX_VERSION = 'vertex-2023-10-16'

/** Builds a message request of Anthropic's API. Throws 400 for what the API has no form for. */
export function buildRequest(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const headers = { 'anthropic-version': VERSION, ...renderBetaHeader(call, endpoint) }
  const body = withholdFields(buildBody(call, endpoint), call, endpoint)
  return { path: '/messages', headers, body: { ...body, model: endpoint.upstreamModel } }
}

/**
 * Builds the same request for Vertex AI: the model is in the path, the version in the body ("Claude
 * on Vertex AI").
 */
export function buildVertexRequest(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const model = encodeURIComponent(endpoint.upstreamModel).replaceAll('%40', '@')
  const built = withholdFields(buildBody(call, endpoint), call, endpoint)
  const { model: _, ...body } = markLastBlock(built)
  return {
    path: `/models/${model}:${call.stream ? 'streamRawPredict' : 'rawPredict'}`,
    headers: renderBetaHeader(call, endpoint),
    body: { ...body, anthropic_version: VERTEX_VERSION },
  }
}

function renderBetaHeader(call: TextCall, endpoint: Endpoint): Record<string, string> {
  const betas = collectBetas(call, endpoint)
  return betas.length > 0 ? { 'anthropic-beta': betas.join(',') } : {}
}

// Unknown parameters come first, so that none of them can overwrite a known one.
function buildBody(given: TextCall, endpoint: Endpoint): Json {
  const hasSystemTurns = isAnthropic(endpoint) && getCapabilities(endpoint).supportsSystemTurns
  const call = hasSystemTurns ? given : applyToolChanges(given)
  const messages = leaveOutToolWork(call.messages, NATIVE)
  const later = hasSystemTurns ? 'apart' : placeInstructions(call)
  const conversation = startWithUser(toConversation(messages, later))
  const format = chooseAnswerFormat(call, endpoint)
  const names = createToolNames(call)
  const content = new ContentRenderer(call, names, getReasoningFormat(endpoint))
  const isPrefilled = hasPrefill(conversation, endpoint)
  const thinking = chooseThinking(call, endpoint, conversation)
  return limitCacheMarkers({
    ...omitParameters(readExtra(call, NATIVE), FOREIGN),
    ...renderThinkingFields(thinking),
    ...renderOutputConfig(call, thinking, format),
    ...renderSystem(conversation, content, format),
    messages: renderMessages(conversation, content, isPrefilled),
    ...renderTools(call, endpoint, names, format),
    ...renderSampling(call.params, getCapabilities(endpoint), thinking),
    ...renderOtherParameters(call),
  })
}

/**
 * Parameters of OpenAI's clients that have no equivalent here. This API refuses unknown parameters.
 */
const FOREIGN = [
  'n',
  'best_of',
  'echo',
  'suffix',
  'store',
  'functions',
  'function_call',
  'structured_outputs',
  'max_tool_calls',
  'x_search_filter',
]

/**
 * Tells whether the caller began the answer (prefill). Throws 400 if the model does not support
 * that.
 */
function hasPrefill(conversation: Conversation, endpoint: Endpoint): boolean {
  if (!isBegun(conversation)) return false
  if (!getCapabilities(endpoint).supportsPrefill)
    throw invalid(
      'messages: the model does not continue a prefilled answer; ' +
        'the last message must be the user’s',
      'messages',
    )
  return true
}

function isBegun({ messages }: Conversation): boolean {
  const last = messages.at(-1)
  // A block that the provider's own tools left open is continued. It is not a prefill.
  return last?.role === 'assistant' && last.blocks.at(-1)?.type !== 'other'
}

function chooseThinking(call: TextCall, endpoint: Endpoint, conversation: Conversation): Thinking {
  const isBarred =
    isBegun(conversation) ||
    chooseAnswerFormat(call, endpoint).by === 'tool' ||
    requiresToolCall(call.params.tool_choice)
  return renderThinking(call, endpoint, conversation, isBarred)
}

const readTurn = (call: TextCall): Conversation =>
  startWithUser(toConversation(leaveOutToolWork(listLastTurn(call), NATIVE)))

/** Tells that the thinking is the same without the parameter. */
const isUnthought =
  (name: 'reasoning' | 'verbosity'): IsLacking =>
  (call, endpoint) => {
    const { [name]: _, ...params } = call.params
    const turn = readTurn(call)
    const without = chooseThinking({ ...call, params }, endpoint, turn)
    return Bun.deepEquals(chooseThinking(call, endpoint, turn), without)
  }

const isUnsampled =
  (name: 'temperature' | 'top_p' | 'top_k'): IsLacking =>
  (call, endpoint) => {
    const thinking = chooseThinking(call, endpoint, readTurn(call))
    return !(name in renderSampling(call.params, getCapabilities(endpoint), thinking))
  }

/** The parameters of OpenAI's chat that the Messages API or its model has no form for. */
export const LACKS: Lacks = {
  temperature: isUnsampled('temperature'),
  top_p: isUnsampled('top_p'),
  top_k: isUnsampled('top_k'),
  min_p: true,
  top_a: true,
  frequency_penalty: true,
  presence_penalty: true,
  repetition_penalty: true,
  seed: true,
  stop: ({ params }) => !params.stop?.some(isNotBlank),
  logit_bias: true,
  logprobs: true,
  top_logprobs: true,
  prediction: true,
  response_format: (call, endpoint) => chooseAnswerFormat(call, endpoint).by === 'nothing',
  tool_choice: isUnforced,
  reasoning: isUnthought('reasoning'),
  verbosity: isUnthought('verbosity'),
  modalities: true,
  audio: true,
  image_config: true,
  service_tier: ({ params }) => !SERVICE_TIERS.has(params.service_tier ?? ''),
  web_search_options: (_, endpoint) => !hasWebSearch(endpoint),
  prompt_cache_options: true,
}

/** Tells that the model is free to call none of its tools, though it should call any. */
function isUnforced(call: TextCall, endpoint: Endpoint): boolean {
  const { tool_choice } = call.params
  return (
    !getCapabilities(endpoint).supportsForcedTools &&
    requiresToolCall(tool_choice) &&
    !(typeof tool_choice === 'object' && 'function' in tool_choice)
  )
}

/** Returns what the host gets of the fields that the gateway does not know. */
export const pickExtra = (call: TextCall, endpoint: Endpoint): Json =>
  withholdFields({ ...omitParameters(readExtra(call, NATIVE), FOREIGN) }, call, endpoint)

const renderThinkingFields = ({ thinking, max_tokens }: Thinking): Json => ({
  max_tokens,
  ...(thinking ? { thinking } : {}),
})

function renderOutputConfig(call: TextCall, { effort }: Thinking, format: AnswerFormat): Json {
  const config: Json = { ...readOwnParameter(call, 'output_config') }
  if (effort !== undefined) config.effort = effort
  if (format.by === 'schema') config.format = { type: 'json_schema', schema: format.schema }
  return Object.keys(config).length > 0 ? { output_config: config } : {}
}

/**
 * Returns an object parameter of this API that a client of its own dialect sent, or an empty
 * object.
 */
function readOwnParameter(call: TextCall, name: string): Json {
  return isNative(call, NATIVE) ? readObject(call.extra, name) : {}
}

function renderOtherParameters(call: TextCall): Json {
  const { params, user, stream } = call
  const fields: Json = {}
  const stop = params.stop?.filter(isNotBlank) ?? []
  const tier = SERVICE_TIERS.get(params.service_tier ?? '')
  if (stop.length > 0) fields.stop_sequences = stop
  if (user !== null) fields.metadata = { ...readOwnParameter(call, 'metadata'), user_id: user }
  if (tier !== undefined) fields.service_tier = tier
  if (params.cache_control) fields.cache_control = params.cache_control
  if (stream) fields.stream = true
  return fields
}

const isNotBlank = (sequence: string): boolean => sequence.trim() !== ''

/**
 * Maps requested service tiers to this API's. Priority is what `auto` gives to accounts that have
 * bought it.
 */
const SERVICE_TIERS = new Map([
  ['auto', 'auto'],
  ['priority', 'auto'],
  ['default', 'standard_only'],
  ['standard', 'standard_only'],
  ['standard_only', 'standard_only'],
])

/** Chooses how this endpoint produces the answer format that the call requires. */
function chooseAnswerFormat(call: TextCall, endpoint: Endpoint): AnswerFormat {
  const format: Json = call.params.response_format ?? { type: 'text' }
  const jsonSchema = isObject(format.json_schema) ? format.json_schema : {}
  if (format.type !== 'json_schema' && format.type !== 'json_object') return { by: 'nothing' }
  const { supportsSchemas, supportsForcedTools } = getCapabilities(endpoint)
  const schema = isObject(jsonSchema.schema) ? jsonSchema.schema : null
  if (
    schema &&
    supportsSchemas &&
    (!supportsForcedTools || (endpoint.protocol !== VERTEX && isClosable(schema)))
  )
    return buildSchemaFormat(schema, call)
  return supportsForcedTools
    ? buildToolFormat(schema, readString(jsonSchema.description), call)
    : { by: 'words', words: ONLY_JSON }
}

// A client of this dialect has already written the schema for this API.
const buildSchemaFormat = (schema: Json, call: TextCall): AnswerFormat => ({
  by: 'schema',
  schema: isNative(call, NATIVE) ? schema : closeSchema(schema),
})

const buildToolFormat = (
  schema: Json | null,
  description: string | null,
  call: TextCall,
): AnswerFormat => ({
  by: 'tool',
  tool: {
    name: pickAnswerToolName(call),
    description: description ?? 'Respond with a JSON object.',
    input_schema: schema ? toInputSchema(schema) : { type: 'object', additionalProperties: true },
  },
})

/** Returns the name of the tool whose input is the answer, or null if none is used. */
export function findAnswerTool(call: TextCall, endpoint: Endpoint): string | null {
  const format = chooseAnswerFormat(call, endpoint)
  return format.by === 'tool' ? format.tool.name : null
}

/** A request may contain this many cache markers. */
const MAX_MARKERS = 4

/**
 * Leaves at most four cache markers in a request. The automatic one goes first, then the earliest,
 * because later markers cover what precedes them. Modifies the body, which owns its blocks.
 */
function limitCacheMarkers(body: Json): Json {
  const marked = listMarkedBlocks(body)
  if (marked.length + (body.cache_control === undefined ? 0 : 1) > MAX_MARKERS)
    delete body.cache_control
  for (const block of marked.slice(0, Math.max(marked.length - MAX_MARKERS, 0)))
    delete block.cache_control
  return body
}

/** Lists the tools and blocks that have a cache marker, in the order in which they are cached. */
const listMarkedBlocks = (body: Json): Json[] =>
  [
    ...readObjects(body.tools),
    ...listBlocks(body.system),
    ...readObjects(body.messages).flatMap(({ content }) => listBlocks(content)),
  ]
    .flatMap(block => [
      ...listBlocks(block.type === 'tool_result' ? block.content : undefined),
      block,
    ])
    .filter(block => isObject(block.cache_control))

const listBlocks = (content: unknown): Json[] => readObjects(content)

/**
 * Removes the fields of beta features that the host does not get: it refuses a field that it does
 * not know as it refuses the feature. Modifies the body, which owns its blocks.
 */
function withholdFields(body: Json, call: TextCall, endpoint: Endpoint): Json {
  if (isAnthropic(endpoint) || !isNative(call, NATIVE)) return body
  const sent = new Set(collectBetas(call, endpoint))
  for (const [name, beta] of Object.entries(BETA_BY_PARAMETER))
    if (!sent.has(beta) && isSet(body[name])) delete body[name]
  if (!sent.has(CACHE_SCOPE_BETA))
    for (const marked of [body, ...listMarkedBlocks(body)]) withholdScope(marked)
  if (!sent.has(TASK_BUDGETS_BETA)) withholdMember(body, 'output_config', 'task_budget')
  if (!sent.has(COMPACTION_BETA)) withholdCompaction(body)
  return body
}

function withholdScope(marked: Json): void {
  if (!isObject(marked.cache_control)) return
  const { scope: _, ...marker } = marked.cache_control
  marked.cache_control = marker
}

function withholdMember(body: Json, field: string, name: string): void {
  if (!isObject(body[field]) || body[field][name] === undefined) return
  const { [name]: _, ...rest } = body[field]
  if (Object.keys(rest).length > 0) body[field] = rest
  else delete body[field]
}

function withholdCompaction(body: Json): void {
  const { context_management } = body
  if (!isObject(context_management) || !readObjects(context_management.edits).some(isCompaction))
    return
  const edits = readObjects(context_management.edits).filter(edit => !isCompaction(edit))
  if (edits.length > 0) body.context_management = { ...context_management, edits }
  else delete body.context_management
}

const isCompaction = ({ type }: Json): boolean => type === 'compact_20260112'

/**
 * Replaces the automatic cache marker by one on the last block, which is what it stands for. Needed
 * for hosts that do not know the automatic one. Modifies the body, which owns its blocks.
 */
function markLastBlock({ cache_control, ...body }: Json): Json {
  const last = readObjects(body.messages).at(-1)
  if (cache_control === undefined || !last) return body
  if (typeof last.content === 'string') last.content = [{ type: 'text', text: last.content }]
  const block = listBlocks(last.content).at(-1)
  if (block && !isThinking(block)) block.cache_control ??= cache_control
  return body
}

const isThinking = ({ type }: Json): boolean => type === 'thinking' || type === 'redacted_thinking'

const FILES_BETA = 'files-api-2025-04-14'

/** Claude Code shares the beginning of its prompt among all sessions: `cache_control.scope`. */
const CACHE_SCOPE_BETA = 'prompt-caching-scope-2026-01-05'
const COMPACTION_BETA = 'compact-2026-01-12'
const TASK_BUDGETS_BETA = 'task-budgets-2026-03-13'
const WELL_FORMED = /^[a-z0-9][a-z0-9-]{0,63}$/

/**
 * Collects the beta features for the header: those the caller named and those the call requires, as
 * far as the host knows them.
 */
function collectBetas(call: TextCall, endpoint: Endpoint): string[] {
  const wanted = new Set([
    ...call.betas.filter(beta => WELL_FORMED.test(beta)),
    ...listRequiredBetas(call),
  ])
  return isAnthropic(endpoint) ? [...wanted] : [...wanted].filter(beta => KNOWN_BETAS.has(beta))
}

function listRequiredBetas(call: TextCall): string[] {
  const betas = call.tools.flatMap(tool => listToolBetas(tool))
  if (call.messages.some(message => message.blocks.some(isProviderFile))) betas.push(FILES_BETA)
  return isNative(call, NATIVE) ? [...betas, ...listParameterBetas(call)] : betas
}

function listToolBetas(tool: Tool): string[] {
  if (tool.type !== 'other' || !isNative(tool, NATIVE) || !isObject(tool.value)) return []
  const beta = getOwn(BETA_BY_TOOL_TYPE, tool.value.type)
  return beta === undefined ? [] : [beta]
}

// An image stored at the provider is a native block.
function isProviderFile(block: Block): boolean {
  if (block.type === 'file') return block.file.file_id !== undefined
  return (
    block.type === 'other' &&
    isObject(block.value) &&
    readObject(block.value, 'source').type === 'file'
  )
}

function listParameterBetas({ extra }: TextCall): string[] {
  const betas = Object.entries(BETA_BY_PARAMETER).flatMap(([name, beta]) =>
    isSet(extra[name]) ? [beta] : [],
  )
  const edits = readObjects(readObject(extra, 'context_management').edits)
  if (edits.some(isCompaction)) betas.push(COMPACTION_BETA)
  if (readObject(extra, 'output_config').task_budget != null) betas.push(TASK_BUDGETS_BETA)
  return betas
}

const isSet = (value: unknown): boolean =>
  value != null && value !== 'standard' && !(Array.isArray(value) && value.length === 0)
