import { invalid } from '../../base/errors.ts'
import {
  isObject,
  type Json,
  omitUndefined,
  parseCount,
  parseObject,
  parsePartCount,
  readObject,
  readObjects,
  readString,
} from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Params, ResponseFormat } from '../../language/params.ts'
import type { Logprobs, TextPart } from '../../language/part.ts'
import type { ToolChoice } from '../../language/tool.ts'
import { createTextUsage, type Usage } from '../../language/usage.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { checkCalls } from './calls.ts'
import { readFailure } from './cohere-chat/failure.ts'
import { createToolNames, renderDocuments, renderMessages } from './cohere-chat/messages.ts'
import { translateFailure, unreadableAnswer } from './failure.ts'
import { ANSWER_IN_JSON, buildSchemaInstruction, mentionsJson } from './json-answer.ts'
import { type FunctionTool, readExtra, requireFunctionTool } from './native.ts'
import type { Frame, Lacks, Protocol, Reader, UpstreamRequest } from './protocol.ts'
import {
  isWebAddress,
  MAX_CALLS,
  type OwnEnds,
  readEnd,
  refuseImpossibleCounts,
  toUrlCitation,
  UnreadableEvents,
} from './reader.ts'
import { toReasoningBudget } from './reasoning.ts'
import { buildCallId, offerAllowed, readInputText, type ToolNames } from './tools.ts'

/**
 * Builds a chat request of Cohere. Unknown parameters come first, so that none of them can
 * overwrite a known one.
 */
export function buildRequest(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const names = createToolNames(call)
  const { format, instruction } = chooseAnswerFormat(call)
  const documents = renderDocuments(call)
  return {
    path: '/chat',
    body: {
      ...readExtra(call),
      model: endpoint.upstreamModel,
      messages: renderMessages(call, instruction, names),
      ...(documents.length > 0 ? { documents } : {}),
      ...renderSampling(call.params),
      ...(format ? { response_format: format } : {}),
      ...renderThinking(call, endpoint),
      ...renderTools(offerAllowed(call), names),
      ...(call.stream ? { stream: true } : {}),
    },
  }
}

// Values outside a range that is smaller than the chat API's are clamped to it
// (https://docs.cohere.com/reference/chat).
const MAX_STOPS = 5
const MAX_K = 500

function renderSampling(params: Params): Record<string, unknown> {
  const {
    temperature,
    top_p,
    top_k,
    frequency_penalty,
    presence_penalty,
    seed,
    max_tokens,
    stop,
    logprobs,
  } = params
  return omitUndefined({
    temperature: clamp(0, temperature, 1),
    p: clamp(0.01, top_p, 0.99),
    k: clamp(0, top_k, MAX_K),
    frequency_penalty: clamp(0, frequency_penalty, 1),
    presence_penalty: clamp(0, presence_penalty, 1),
    seed: seed !== undefined && seed >= 0 ? seed : undefined,
    max_tokens,
    stop_sequences: stop?.slice(0, MAX_STOPS),
    logprobs,
  })
}

const clamp = (least: number, value: number | undefined, most: number) =>
  value === undefined ? undefined : Math.min(Math.max(value, least), most)

/**
 * The output that a budget is a share of, where there is no bound: the most that these models write
 * at once.
 */
const UNBOUNDED_OUTPUT = 32_768

function renderThinking(
  { params: { reasoning, max_tokens } }: TextCall,
  endpoint: Endpoint,
): Record<string, unknown> {
  if (!reasoning || !getCapabilities(endpoint).supportsThinking) return {}
  const token_budget = toReasoningBudget(
    reasoning,
    max_tokens ?? endpoint.max_completion_tokens ?? UNBOUNDED_OUTPUT,
  )
  if (token_budget === undefined) return {}
  return { thinking: token_budget === 0 ? { type: 'disabled' } : { type: 'enabled', token_budget } }
}

function renderTools(
  { tools, params: { tool_choice } }: TextCall,
  names: ToolNames,
): Record<string, unknown> {
  if (tools.length === 0) return {}
  const forcedName = getNamedFunction(tool_choice)
  const functions = tools.map(requireFunctionTool)
  const offered =
    forcedName === undefined ? functions : functions.filter(({ name }) => name === forcedName)
  if (offered.length === 0)
    throw invalid('tool_choice: names a function that is not among the tools', 'tool_choice')
  return {
    tools: offered.map(tool => renderTool(tool, names)),
    ...(offered.every(({ strict }) => strict) ? { strict_tools: true } : {}),
    ...renderToolChoice(tool_choice),
  }
}

// Cohere can force a call, but not of a specific function. So only the requested one is offered.
const getNamedFunction = (choice: ToolChoice | undefined): string | undefined =>
  typeof choice === 'object' && 'function' in choice ? choice.function.name : undefined

function renderToolChoice(choice: ToolChoice | undefined): Record<string, unknown> {
  if (choice === 'none') return { tool_choice: 'NONE' }
  return choice === 'required' || getNamedFunction(choice) !== undefined
    ? { tool_choice: 'REQUIRED' }
    : {}
}

const renderTool = ({ name, description, parameters }: FunctionTool, names: ToolNames) => ({
  type: 'function',
  function: {
    name: names.toWire(name),
    ...(description === undefined ? {} : { description }),
    parameters:
      isObject(parameters) && Object.keys(parameters).length > 0
        ? parameters
        : { type: 'object', properties: {} },
  },
})

/** The answer format as a parameter, and the instruction that accompanies or replaces it. */
interface AnswerFormat {
  format: { type: 'json_object'; json_schema?: Record<string, unknown> } | null
  instruction: string | null
}

/**
 * Chooses how the answer format is requested. Beside tools or documents Cohere refuses
 * `response_format`, so an instruction replaces it. Without a mention of JSON in the prompt, a JSON
 * answer may never end (https://docs.cohere.com/docs/structured-outputs).
 */
function chooseAnswerFormat(call: TextCall): AnswerFormat {
  const schema = readSchema(call.params.response_format)
  if (!schema) return { format: null, instruction: null }
  if (call.tools.length > 0 || 'documents' in call.extra || call.messages.some(hasFile))
    return { format: null, instruction: buildSchemaInstruction(ONE_OBJECT, schema) }
  const format: AnswerFormat['format'] = {
    type: 'json_object',
    ...(schema.schema ? { json_schema: schema.schema } : {}),
  }
  return { format, instruction: mentionsJson(call) ? null : ANSWER_IN_JSON }
}

interface JsonSchemaFormat {
  description?: string
  schema?: Record<string, unknown>
}

function readSchema(format: ResponseFormat | undefined): JsonSchemaFormat | null {
  if (format && 'json_schema' in format) return format.json_schema
  return format?.type === 'json_object' ? {} : null
}

const ONE_OBJECT = 'Answer with one JSON object and nothing else, unless you call a tool.'

const hasFile = ({ blocks }: TextCall['messages'][number]) =>
  blocks.some(block => block.type === 'file')

/** Of the sampling, what Cohere has no word for (https://docs.cohere.com/reference/chat). */
const LACKS: Lacks = {
  min_p: true,
  top_a: true,
  repetition_penalty: true,
  seed: ({ params: { seed = 0 } }) => seed < 0,
  logit_bias: true,
  top_logprobs: true,
  prediction: true,
  parallel_tool_calls: true,
  reasoning: (_, endpoint) => !getCapabilities(endpoint).supportsThinking,
  verbosity: true,
  modalities: true,
  audio: true,
  image_config: true,
  service_tier: true,
  web_search_options: true,
  prompt_cache_options: true,
  cache_control: true,
}

/** Cohere's chat, version 2: `POST {base_url}/chat` (https://docs.cohere.com/reference/chat). */
export const cohereChat: Protocol<'text'> = checkCalls({
  framing: 'sse',
  acceptsNames: false,
  urlMedia: ['image'],
  lacks: LACKS,
  pickExtra: call => readExtra(call),
  buildRequest,
  parseAnswer,
  createReader: (call, { provider }) => new EventReader(call, provider.finish_reasons),
  readFailure,
})

/** What a Cohere model supports. */
interface Capabilities {
  /** Whether it accepts `thinking`. Models that do not think refuse it. */
  supportsThinking: boolean
}

/** What the newest models support, and every model that is not listed. */
const NEWEST: Capabilities = { supportsThinking: true }

const WITHOUT_THINKING: Capabilities = { supportsThinking: false }

/** Maps the provider's model name to capabilities. The first match wins. */
const CAPABILITIES: [model: RegExp, capabilities: Capabilities][] = [
  [/^command-(r|light|nightly)/, WITHOUT_THINKING],
  [/^command(-a-(03-2025|vision|translate).*)?$/, WITHOUT_THINKING],
  [/^(c4ai-)?aya-/, WITHOUT_THINKING],
]

/** Returns the capabilities of the endpoint's model. */
const getCapabilities = ({ upstreamModel }: Endpoint): Capabilities =>
  CAPABILITIES.find(([model]) => model.test(upstreamModel))?.[1] ?? NEWEST

/**
 * Returns Cohere's count of the tokens that the model read and wrote. `cached_tokens` are part of
 * the input. What Cohere itself adds to a prompt is counted but not charged, so `billed_units`
 * leaves it out. Undefined without counts.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(fields: Json): Usage | undefined {
  const billed = readCounts(readObject(fields, 'billed_units'))
  const counted = readCounts(readObject(fields, 'tokens')) ?? billed
  if (!counted) return undefined
  const cache_read = parsePartCount(counted.input, fields.cached_tokens)
  const usage = createTextUsage(counted.input - cache_read, counted.output)
  return {
    ...usage,
    input: { ...usage.input, cache_read },
    ...(billed ? { billed: createTextUsage(billed.input, billed.output) } : {}),
  }
}

function readCounts({
  input_tokens,
  output_tokens,
}: Json): { input: number; output: number } | undefined {
  const input = parseCount(input_tokens)
  const output = parseCount(output_tokens)
  return input === undefined || output === undefined ? undefined : { input, output }
}

/** Returns the parts of a whole answer. Throws the error if the body is one. */
export function parseAnswer(body: unknown, call: TextCall, endpoint?: Endpoint): TextPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  // The `message` of an error is a string, that of an answer an object.
  if (typeof body.message === 'string')
    throw translateFailure(null, { code: undefined, message: body.message })
  if (!isObject(body.message)) throw unreadableAnswer()
  const reader = new EventReader(call, endpoint?.provider.finish_reasons)
  return reader.readMessage(body, body.message)
}

interface OpenToolCall {
  index: number
  id: string | null
  /** Whether any arguments have arrived. */
  hasInput: boolean
}

/**
 * Reads the events of a stream, one small method for each. The `tool_plan` is not shown: it is not
 * addressed to the user, and Cohere's own clients do not treat it as thinking either.
 */
export class EventReader implements Reader<TextPart> {
  complete = false
  readonly #call: TextCall
  readonly #names: ToolNames
  readonly #ownEnds: OwnEnds | undefined
  /** The open tool calls, by Cohere's index. */
  readonly #openCalls = new Map<unknown, OpenToolCall>()
  #calls = 0
  readonly #garbage = new UnreadableEvents()

  constructor(call: TextCall, ownEnds?: OwnEnds) {
    this.#call = call
    this.#ownEnds = ownEnds
    this.#names = createToolNames(call)
  }

  read({ data, json }: Frame): TextPart[] {
    if (this.complete) return []
    const event = json === undefined ? parseObject(data) : json
    return event ? this.#readEvent(event, readObject(event, 'delta')) : this.#garbage.skip()
  }

  /** Returns the parts of a whole answer. */
  readMessage(body: Json, message: Json): TextPart[] {
    const parts = this.#startAnswer(body)
    parts.push(...listContents(message.content).flatMap(content => this.#readContent(content)))
    const logprobs = readLogprobs(body.logprobs)
    if (logprobs) parts.push({ type: 'text-delta', choice: 0, text: '', logprobs })
    for (const [i, call] of readObjects(message.tool_calls).entries())
      parts.push(...this.#startCall(i, call), ...this.#endCall(i))
    for (const citation of readObjects(message.citations))
      parts.push(...this.#readCitation(citation))
    return [...parts, ...this.#finish(body)]
  }

  #readEvent(event: Json, delta: Json): TextPart[] {
    const message = readObject(delta, 'message')
    switch (event.type) {
      case 'message-start':
        return this.#startAnswer(event)
      case 'content-start':
      case 'content-delta':
        return this.#readContent(readObject(message, 'content'), delta.logprobs ?? event.logprobs)
      case 'tool-call-start':
        return this.#startCall(event.index, readToolCall(message))
      case 'tool-call-delta':
        return this.#readCallDelta(event.index, readObject(readToolCall(message), 'function'))
      case 'tool-call-end':
        return this.#endCall(event.index)
      case 'citation-start':
        return this.#readCitation(readObject(message, 'citations'))
      case 'message-end':
        return this.#finish(delta)
      // No event of an answer lacks a type: this is an error in its place.
      case undefined:
        return this.#readUntyped(event)
      default:
        return []
    }
  }

  #readUntyped({ message }: Json): TextPart[] {
    if (typeof message === 'string') throw translateFailure(null, { code: undefined, message })
    return this.#garbage.skip()
  }

  #startAnswer({ id }: Json): TextPart[] {
    return [
      { type: 'start', upstream_id: readString(id), system_fingerprint: null, service_tier: null },
    ]
  }

  #readContent(content: Json, value?: unknown): TextPart[] {
    const thought = readString(content.thinking)
    if (thought) return [{ type: 'reasoning-delta', choice: 0, text: thought, details: [] }]
    const answerText = readString(content.text) ?? ''
    const logprobs = readLogprobs(value)
    return answerText || logprobs
      ? [{ type: 'text-delta', choice: 0, text: answerText, ...(logprobs ? { logprobs } : {}) }]
      : []
  }

  #startCall(slot: unknown, value: Json): TextPart[] {
    const name = readString(readObject(value, 'function').name)
    const id = readString(value.id)
    if (name === null || this.#calls >= MAX_CALLS || this.#isRepeated(slot, id)) return []
    const before = this.#endCall(slot)
    const index = this.#calls++
    this.#openCalls.set(slot, { index, id, hasInput: false })
    const start: TextPart = {
      type: 'tool-call-start',
      choice: 0,
      index,
      id: id || buildCallId(this.#call, `0_${index}`),
      name: this.#names.toClient(name),
    }
    return [...before, start, ...this.#readCallDelta(slot, readObject(value, 'function'))]
  }

  // Calls arrive one after another, and some servers number none of them. A call that starts while
  // another is open repeats it, unless it has a different id.
  #isRepeated(slot: unknown, id: string | null): boolean {
    const open = this.#openCalls.get(slot)
    return open !== undefined && (!id || id === open.id)
  }

  #readCallDelta(slot: unknown, { arguments: value }: Json): TextPart[] {
    const call = this.#openCalls.get(slot)
    const input = readInputText(value)
    // Cohere sends null for a function without parameters.
    if (!call || input === '' || (!call.hasInput && input.trim() === 'null')) return []
    call.hasInput = true
    return [{ type: 'tool-call-delta', choice: 0, index: call.index, input }]
  }

  // A call of a function without parameters ends without arguments, and clients cannot parse an
  // empty string.
  #endCall(slot: unknown): TextPart[] {
    const call = this.#openCalls.get(slot)
    this.#openCalls.delete(slot)
    if (!call || call.hasInput) return []
    return [{ type: 'tool-call-delta', choice: 0, index: call.index, input: '{}' }]
  }

  #readCitation(citation: Json): TextPart[] {
    return toAnnotations(citation).map(annotation => ({
      type: 'annotation',
      choice: 0,
      annotation,
    }))
  }

  // Everything else that the last event repeats has been read already (translation trap 81).
  #finish({ finish_reason, usage: value, error }: Json): TextPart[] {
    const native = readString(finish_reason)
    const end = readEnd(native, this.#ownEnds) ?? { reason: 'stop' }
    if (end.reason === 'error' && !end.isUnknown)
      throw translateFailure(null, { code: native, message: error })
    this.complete = true
    const closed = [...this.#openCalls.keys()].flatMap(slot => this.#endCall(slot))
    const usage = readUsage(value)
    return [
      ...closed,
      { type: 'finish', choice: 0, ...end, native },
      ...(usage ? [{ type: 'usage' as const, usage }] : []),
    ]
  }
}

const listContents = (content: unknown): Json[] =>
  typeof content === 'string' ? [{ text: content }] : readObjects(content)

// It is a single call in spite of the plural. Some servers send a list of one.
function readToolCall({ tool_calls: toolCalls }: Json): Json {
  if (isObject(toolCalls)) return toolCalls
  return readObjects(toolCalls)[0] ?? {}
}

/**
 * Returns a citation in the chat API's form, once for each of its sources. The chat API supports
 * only web sources, so a citation of a document without an address is left out.
 */
function toAnnotations(citation: Json): Json[] {
  if (citation.type === 'PLAN' || citation.type === 'THINKING_CONTENT') return []
  return readObjects(citation.sources).flatMap(source => {
    const document = isObject(source.document) ? source.document : readObject(source, 'tool_output')
    const url = readString(document.url)
    if (url === null || !isWebAddress(url) || !URL.canParse(url)) return []
    return [
      toUrlCitation(url, { title: readString(document.title) ?? url, ...readTextRange(citation) }),
    ]
  })
}

/** Returns the range of the cited text. */
function readTextRange({ start, end }: Json): Json {
  const start_index = parseCount(start)
  const end_index = parseCount(end)
  return start_index === undefined || end_index === undefined ? {} : { start_index, end_index }
}

/**
 * Returns Cohere's logprobs in OpenAI's shape. Cohere reports them by piece of text, and a piece of
 * several tokens gets the sum of theirs. Cohere reports no alternative tokens.
 */
function readLogprobs(logprobs: unknown): Logprobs | undefined {
  const content = (isObject(logprobs) ? [logprobs] : readObjects(logprobs)).flatMap(piece => {
    const token = readString(piece.text)
    const logprobs = Array.isArray(piece.logprobs)
      ? piece.logprobs.filter(value => typeof value === 'number')
      : []
    if (token === null || logprobs.length === 0) return []
    const logprob = logprobs.reduce((sum, value) => sum + value, 0)
    return [{ token, logprob, bytes: [...Buffer.from(token)], top_logprobs: [] }]
  })
  return content.length > 0 ? { content } : undefined
}
