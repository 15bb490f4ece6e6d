import type { Endpoint } from '../../catalog/models.ts'
import { invalid } from '../../errors.ts'
import { isObject, type Json, member, objects, own, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block } from '../../language/message.ts'
import type { Tool } from '../../language/tool.ts'
import { begunByUser, type Conversation, conversationOf } from '../conversation.ts'
import { answerToolName, ONLY_JSON } from '../json-answer.ts'
import { isNative, readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import {
  BETA_OF_PARAMETER,
  BETA_OF_TOOL,
  capabilitiesOf,
  isAnthropic,
  KNOWN_BETAS,
  VERTEX,
} from './capabilities.data.ts'
import { Content, messagesOf, NATIVE, namesOf, systemOf } from './messages.ts'
import { closedSchema, inputSchema, isClosable } from './schema.ts'
import { samplingOf, type Thinking, thinkingOf } from './thinking.ts'
import { isForcing, toolingOf } from './tools.ts'

const VERSION = '2023-06-01'
const VERTEX_VERSION = 'vertex-2023-10-16'

/** Builds a message request of Anthropic's API. Throws 400 for what the API has no form for. */
export function request(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const headers = { 'anthropic-version': VERSION, ...betaHeader(call, endpoint) }
  return {
    path: '/messages',
    headers,
    body: { ...bodyOf(call, endpoint), model: endpoint.upstreamModel },
  }
}

/**
 * Builds the same request for Vertex AI: the model is in the path, the version in the body ("Claude
 * on Vertex AI").
 */
export function vertexRequest(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const model = encodeURIComponent(endpoint.upstreamModel).replaceAll('%40', '@')
  const { model: _, ...body } = atTheEnd(bodyOf(call, endpoint))
  return {
    path: `/models/${model}:${call.stream ? 'streamRawPredict' : 'rawPredict'}`,
    headers: betaHeader(call, endpoint),
    body: { ...body, anthropic_version: VERTEX_VERSION },
  }
}

function betaHeader(call: TextCall, endpoint: Endpoint): Record<string, string> {
  const betas = betasOf(call, endpoint)
  return betas.length > 0 ? { 'anthropic-beta': betas.join(',') } : {}
}

// Unknown parameters come first, so that none of them can overwrite a known one.
function bodyOf(call: TextCall, endpoint: Endpoint): Json {
  const conversation = begunByUser(conversationOf(call.turns))
  const format = formatOf(call, endpoint)
  const names = namesOf(call)
  const content = new Content(call, names)
  const isPrefilled = prefills(conversation, endpoint)
  const isBarred = isPrefilled || format.by === 'tool' || isForcing(call.params.tool_choice)
  const thinking = thinkingOf(call, endpoint, conversation, isBarred)
  return withinFour({
    ...withoutForeign(readExtra(call, NATIVE)),
    ...thoughtful(thinking),
    ...outputConfig(call, thinking, format),
    ...systemOf(conversation, content, format),
    messages: messagesOf(conversation, content, isPrefilled),
    ...toolingOf(call, endpoint, names, format),
    ...samplingOf(call.params, capabilitiesOf(endpoint), thinking),
    ...others(call),
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
]

const withoutForeign = (extra: Json): Json =>
  Object.fromEntries(Object.entries(extra).filter(([name]) => !FOREIGN.includes(name)))

/**
 * Tells whether the caller began the answer (prefill). Throws 400 if the model does not support
 * that.
 */
function prefills({ messages }: Conversation, endpoint: Endpoint): boolean {
  const last = messages.at(-1)
  // A block that the provider's own tools left open is continued. It is not a prefill.
  if (last?.role !== 'assistant' || last.blocks.at(-1)?.type === 'other') return false
  if (!capabilitiesOf(endpoint).prefill)
    throw invalid(
      'messages: the model does not continue a prefilled answer; ' +
        'the last message must be the user’s',
      'messages',
    )
  return true
}

const thoughtful = ({ thinking, max_tokens }: Thinking): Json => ({
  max_tokens,
  ...(thinking ? { thinking } : {}),
})

function outputConfig(call: TextCall, { effort }: Thinking, format: Format): Json {
  const config: Json = { ...readOwn(call, 'output_config') }
  if (effort !== undefined) config.effort = effort
  if (format.by === 'schema') config.format = { type: 'json_schema', schema: format.schema }
  return Object.keys(config).length > 0 ? { output_config: config } : {}
}

/**
 * Returns an object parameter of this API that a client of its own dialect sent, or an empty
 * object.
 */
function readOwn(call: TextCall, name: string): Json {
  return isNative(call, NATIVE) ? member(call.extra, name) : {}
}

function others(call: TextCall): Json {
  const { params, user, stream } = call
  const said: Json = {}
  const stop = params.stop?.filter(sequence => sequence.trim() !== '') ?? []
  const tier = TIERS.get(params.service_tier ?? '')
  if (stop.length > 0) said.stop_sequences = stop
  if (user !== null) said.metadata = { ...readOwn(call, 'metadata'), user_id: user }
  if (tier !== undefined) said.service_tier = tier
  if (params.cache_control) said.cache_control = params.cache_control
  if (stream) said.stream = true
  return said
}

/**
 * Maps requested service tiers to this API's. Priority is what `auto` gives to accounts that have
 * bought it.
 */
const TIERS = new Map([
  ['auto', 'auto'],
  ['priority', 'auto'],
  ['default', 'standard_only'],
  ['standard', 'standard_only'],
  ['standard_only', 'standard_only'],
])

/** How the model is held to the required format of the answer. */
export type Format =
  /** Not at all: any text will do. */
  | { by: 'nothing' }
  /** Natively, by a schema. */
  | { by: 'schema'; schema: Json }
  /** By a forced tool whose input is the answer. */
  | { by: 'tool'; tool: { name: string; description: string; input_schema: Json } }
  /** By an instruction, where neither of the others is possible. */
  | { by: 'words'; words: string }

/** Chooses how this endpoint produces the answer format that the call requires. */
function formatOf(call: TextCall, endpoint: Endpoint): Format {
  const format: Json = call.params.response_format ?? { type: 'text' }
  const wanted = isObject(format.json_schema) ? format.json_schema : {}
  if (format.type !== 'json_schema' && format.type !== 'json_object') return { by: 'nothing' }
  const { schemas, forcedTools } = capabilitiesOf(endpoint)
  const schema = isObject(wanted.schema) ? wanted.schema : null
  if (schema && schemas && (!forcedTools || (endpoint.protocol !== VERTEX && isClosable(schema))))
    return bySchema(schema, call)
  return forcedTools
    ? byTool(schema, text(wanted.description), call)
    : { by: 'words', words: ONLY_JSON }
}

// A client of this dialect has already written the schema for this API.
const bySchema = (schema: Json, call: TextCall): Format => ({
  by: 'schema',
  schema: isNative(call, NATIVE) ? schema : closedSchema(schema),
})

const byTool = (schema: Json | null, description: string | null, call: TextCall): Format => ({
  by: 'tool',
  tool: {
    name: answerToolName(call),
    description: description ?? 'Respond with a JSON object.',
    input_schema: schema ? inputSchema(schema) : { type: 'object', additionalProperties: true },
  },
})

/** Returns the name of the tool whose input is the answer, or null if none is used. */
export function answerToolOf(call: TextCall, endpoint: Endpoint): string | null {
  const format = formatOf(call, endpoint)
  return format.by === 'tool' ? format.tool.name : null
}

/** A request may contain this many cache markers. */
const MOST_MARKERS = 4

/**
 * Leaves at most four cache markers in a request. The automatic one goes first, then the earliest,
 * because later markers cover what precedes them. Modifies the body, which owns its blocks.
 */
function withinFour(body: Json): Json {
  const marked = [
    ...objects(body.tools),
    ...blocksOf(body.system),
    ...objects(body.messages).flatMap(({ content }) => blocksOf(content)),
  ]
    .flatMap(block => [
      ...blocksOf(block.type === 'tool_result' ? block.content : undefined),
      block,
    ])
    .filter(block => isObject(block.cache_control))
  if (marked.length + (body.cache_control === undefined ? 0 : 1) > MOST_MARKERS)
    delete body.cache_control
  for (const block of marked.slice(0, Math.max(marked.length - MOST_MARKERS, 0)))
    delete block.cache_control
  return body
}

const blocksOf = (content: unknown): Json[] => objects(content)

/**
 * Replaces the automatic cache marker by one on the last block, which is what it stands for. Needed
 * for hosts that do not know the automatic one. Modifies the body, which owns its blocks.
 */
function atTheEnd({ cache_control, ...body }: Json): Json {
  const last = objects(body.messages).at(-1)
  if (cache_control === undefined || !last) return body
  if (typeof last.content === 'string') last.content = [{ type: 'text', text: last.content }]
  const block = blocksOf(last.content).at(-1)
  if (block && !isThinking(block)) block.cache_control ??= cache_control
  return body
}

const isThinking = ({ type }: Json): boolean => type === 'thinking' || type === 'redacted_thinking'

const FILES = 'files-api-2025-04-14'
const COMPACTION = 'compact-2026-01-12'
const TASK_BUDGETS = 'task-budgets-2026-03-13'
const WELL_FORMED = /^[a-z0-9][a-z0-9-]{0,63}$/

/**
 * Collects the beta features for the header: those the caller named and those the call requires, as
 * far as the host knows them.
 */
function betasOf(call: TextCall, endpoint: Endpoint): string[] {
  const wanted = new Set([...call.betas.filter(beta => WELL_FORMED.test(beta)), ...needed(call)])
  return isAnthropic(endpoint) ? [...wanted] : [...wanted].filter(beta => KNOWN_BETAS.has(beta))
}

function needed(call: TextCall): string[] {
  const betas = call.tools.flatMap(tool => betasOfTool(tool))
  if (call.turns.some(turn => turn.blocks.some(isKeptFile))) betas.push(FILES)
  return isNative(call, NATIVE) ? [...betas, ...neededByParameters(call)] : betas
}

function betasOfTool(tool: Tool): string[] {
  if (tool.type !== 'other' || !isNative(tool, NATIVE) || !isObject(tool.value)) return []
  const beta = own(BETA_OF_TOOL, tool.value.type)
  return beta === undefined ? [] : [beta]
}

// An image stored at the provider is a native block.
function isKeptFile(block: Block): boolean {
  if (block.type === 'file') return block.file.file_id !== undefined
  return (
    block.type === 'other' && isObject(block.value) && member(block.value, 'source').type === 'file'
  )
}

function neededByParameters({ extra }: TextCall): string[] {
  const betas = Object.entries(BETA_OF_PARAMETER).flatMap(([name, beta]) =>
    isSaid(extra[name]) ? [beta] : [],
  )
  const edits = objects(member(extra, 'context_management').edits)
  if (edits.some(edit => edit.type === 'compact_20260112')) betas.push(COMPACTION)
  if (member(extra, 'output_config').task_budget != null) betas.push(TASK_BUDGETS)
  return betas
}

const isSaid = (value: unknown): boolean =>
  value != null && value !== 'standard' && !(Array.isArray(value) && value.length === 0)
