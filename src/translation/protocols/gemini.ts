import {
  getOwn,
  isObject,
  type Json,
  omitUndefined,
  parseExact,
  readObject,
  readString,
} from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Params, Reasoning, ResponseFormat } from '../../language/params.ts'
import type { TextPart } from '../../language/part.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { checkCalls } from './calls.ts'
import { unreadableAnswer } from './failure.ts'
import { type AnswerContext, CandidateReader } from './gemini/candidate.ts'
import {
  type Capabilities,
  getCapabilities,
  isVertex,
  type ThinkingControl,
} from './gemini/capabilities.data.ts'
import { readFailure, readStreamFailure } from './gemini/failure.ts'
import { createToolNames, NATIVE, renderMessages } from './gemini/messages.ts'
import { reduceSchema, toJsonSchema } from './gemini/schema.ts'
import { type AnswerFormat, renderTools, supportsWebSearch } from './gemini/tools.ts'
import { readUsage } from './gemini/usage.ts'
import { pickAnswerToolName } from './json-answer.ts'
import { isForwarded, isNative, readExtra } from './native.ts'
import type { Frame, Lacks, Protocol, Reader, UpstreamRequest } from './protocol.ts'
import { readChoiceIndex, UnreadableEvents } from './reader.ts'
import { toReasoningBudget, toReasoningEffort } from './reasoning.ts'
import { offerAllowed } from './tools.ts'

const LACKS: Lacks = {
  min_p: true,
  top_a: true,
  frequency_penalty: lacksPenalties,
  presence_penalty: lacksPenalties,
  repetition_penalty: true,
  logit_bias: true,
  prediction: true,
  response_format: ({ params, ...call }, endpoint) =>
    params.response_format?.type !== 'text' &&
    chooseAnswerFormat({ ...call, params }, endpoint) === NO_FORMAT,
  parallel_tool_calls: true,
  reasoning: (_, endpoint) => getCapabilities(endpoint).thinking.in === 'nothing',
  verbosity: true,
  audio: ({ params }) => renderModalities(params).speechConfig === undefined,
  service_tier: ({ params }) => getOwn(ASKED_TIERS, params.service_tier) === undefined,
  web_search_options: (call, endpoint) =>
    call.tools.some(({ type }) => type === 'function') ||
    chooseAnswerFormat(call, endpoint).tool !== null ||
    !getCapabilities(endpoint).supportsSearch,
  prompt_cache_options: true,
  cache_control: true,
}

/** Google's `POST {base_url}/models/{model}:generateContent`, on the Gemini API and on Vertex. */
export const gemini: Protocol<'text'> = checkCalls({
  framing: 'sse',
  acceptsNames: false,
  nativeDialect: 'gemini',
  // YouTube videos are available by URL only.
  urlMedia: ['video'],
  ownSchemes: ['gs://'],
  supportsWebSearch,
  lacks: LACKS,
  pickExtra,
  buildRequest,
  parseAnswer: (body, call, endpoint) => parseAnswer(body, createAnswerContext(call, endpoint)),
  createReader: (call, endpoint) => new GenerateContentReader(createAnswerContext(call, endpoint)),
  readFailure,
})

/**
 * Returns the parts of a whole `GenerateContentResponse`, read as the only event of a stream. A
 * list of them is a stream that arrived in one piece. Throws if it is not an answer.
 */
function parseAnswer(body: unknown, context: AnswerContext): TextPart[] {
  const events = Array.isArray(body) ? body : [body]
  if (!events.every(isObject)) throw unreadableAnswer()
  const reader = new GenerateContentReader(context)
  const answerParts = [...events.flatMap(event => reader.readChunk(event)), ...reader.finish(true)]
  if (!reader.complete) throw unreadableAnswer()
  return answerParts
}

/**
 * Reads `GenerateContentResponse` events. There is no terminal event. An answer is complete when
 * the connection has ended and every alternative has a finish reason, or the prompt was blocked.
 */
class GenerateContentReader implements Reader<TextPart> {
  complete = false
  readonly #context: AnswerContext
  readonly #candidates = new Map<number, CandidateReader>()
  #blockReason: string | undefined
  #searches: number | null = null
  #started = false
  readonly #garbage = new UnreadableEvents()

  constructor(context: AnswerContext) {
    this.#context = context
  }

  read({ data, json }: Frame): TextPart[] {
    const chunk = json === undefined ? parseChunk(data) : json
    return chunk ? this.readChunk(chunk) : this.#garbage.skip()
  }

  /** Returns the parts of one event, or of a whole answer, which has the same form. */
  readChunk(chunk: Json): TextPart[] {
    if (isObject(chunk.error)) throw readStreamFailure(chunk.error)
    const parts: TextPart[] = []
    this.#startAnswer(chunk, parts)
    this.#blockReason ??= readBlockReason(readObject(chunk, 'promptFeedback').blockReason)
    if (Array.isArray(chunk.candidates) && this.#blockReason === undefined)
      for (const [i, candidate] of chunk.candidates.entries())
        if (isObject(candidate)) this.#readCandidate(candidate, i, parts)
    this.#readUsage(chunk, parts)
    return parts
  }

  end(): TextPart[] {
    return this.finish(false)
  }

  /**
   * Returns the ends of the alternatives. In a whole answer, an alternative with output is complete
   * even without a finish reason. One that breaks off within a call is none, whatever its reason.
   */
  finish(isWhole: boolean): TextPart[] {
    if (this.#blockReason !== undefined) return this.#finishBlocked(this.#blockReason)
    const candidates = [...this.#candidates.values()]
    this.complete =
      candidates.length > 0 &&
      candidates.every(
        candidate => !candidate.isCut && (candidate.hasEnded || (isWhole && candidate.hasOutput)),
      )
    return this.complete ? candidates.flatMap(candidate => candidate.finish()) : []
  }

  #startAnswer(chunk: Json, parts: TextPart[]): void {
    if (this.#started) return
    this.#started = true
    const { serviceTier, trafficType } = readObject(chunk, 'usageMetadata')
    parts.push({
      type: 'start',
      upstream_id: readString(chunk.responseId),
      system_fingerprint: readString(chunk.modelVersion),
      service_tier:
        getOwn(SERVICE_TIERS, readString(serviceTier ?? trafficType)?.toUpperCase()) ?? null,
    })
  }

  #readCandidate(value: Json, position: number, parts: TextPart[]): void {
    const choice = readChoiceIndex(value.index, position)
    if (choice === undefined) return
    const candidate = this.#candidates.get(choice) ?? new CandidateReader(choice, this.#context)
    this.#candidates.set(choice, candidate)
    parts.push(...candidate.read(value))
    const { webSearchQueries } = readObject(value, 'groundingMetadata')
    if (Array.isArray(webSearchQueries)) this.#searches = webSearchQueries.length
  }

  // Counts are cumulative, so each replaces the one before.
  #readUsage(chunk: Json, parts: TextPart[]): void {
    const usage = readUsage(chunk.usageMetadata, this.#searches)
    if (usage) parts.push({ type: 'usage', usage })
  }

  #finishBlocked(native: string): TextPart[] {
    this.complete = true
    return [{ type: 'finish', choice: 0, reason: 'content_filter', native }]
  }
}

/**
 * Maps `usageMetadata.serviceTier` of the Gemini API and `trafficType` of Vertex to the chat API's
 * service tiers.
 */
const SERVICE_TIERS: Record<string, string> = {
  STANDARD: 'default',
  FLEX: 'flex',
  PRIORITY: 'priority',
  ON_DEMAND: 'default',
  ON_DEMAND_FLEX: 'flex',
  ON_DEMAND_PRIORITY: 'priority',
}

// An error in a stream is wrapped in a list.
function parseChunk(data: string): Json | undefined {
  try {
    const value = parseExact(data)
    const first = Array.isArray(value) ? value[0] : value
    return isObject(first) ? first : undefined
  } catch {
    return undefined
  }
}

/** Returns the reason why the prompt was blocked, if it was. */
const readBlockReason = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' && !value.endsWith('_UNSPECIFIED') ? value : undefined

/** Creates the context for reading this endpoint's answer to the call. */
function createAnswerContext(call: TextCall, endpoint: Endpoint): AnswerContext {
  const names = createToolNames(call)
  return {
    call,
    getClientToolName: name => names.toClient(name),
    answerTool: chooseAnswerFormat(call, endpoint).tool?.name ?? null,
    ownEnds: endpoint.provider.finish_reasons,
  }
}

/**
 * Builds a `GenerateContentRequest`. Unknown parameters come first, so that none of them can
 * overwrite a known one.
 */
export function buildRequest(given: TextCall, endpoint: Endpoint): UpstreamRequest {
  const names = createToolNames(given)
  const call = offerAllowed(given)
  const format = chooseAnswerFormat(call, endpoint)
  const body: Json = {
    ...readUnknownParameters(call),
    ...renderMessages(call, endpoint, names),
    ...mergeUnknownMembers(call, 'toolConfig', renderTools(call, endpoint, names, format)),
  }
  const config = buildGenerationConfig(call, endpoint, format.config)
  if (Object.keys(config).length > 0) body.generationConfig = config
  return { path: buildPath(call, endpoint), ...applyServiceTier(call, endpoint, body), body }
}

// `n` and the generation config are sent elsewhere. Google reads the config under either name, and
// there must be only one.
function readUnknownParameters(call: TextCall): Json {
  const { n: _, generationConfig: __, generation_config: ___, ...rest } = readExtra(call, NATIVE)
  return rest
}

/** Returns the same with those that are sent elsewhere. */
function pickExtra(call: TextCall): Json {
  const { generationConfig } = readExtra(call, NATIVE)
  return omitUndefined({
    ...readUnknownParameters(call),
    n: readChoiceCount(call),
    generationConfig,
  })
}

const readChoiceCount = (call: TextCall): unknown =>
  isNative(call, NATIVE) || isForwarded(call) ? call.extra.n : undefined

/** Keeps unknown members that the caller gave within a known object. */
function mergeUnknownMembers(call: TextCall, name: string, known: Json): Json {
  const callerFields = readExtra(call, NATIVE)[name]
  return isObject(callerFields) && isObject(known[name])
    ? { ...known, [name]: { ...callerFields, ...readObject(known, name) } }
    : known
}

// A model name may contain its own kind: `tunedModels/…`, `endpoints/…`.
function buildPath({ stream }: TextCall, { upstreamModel }: Endpoint): string {
  const name = upstreamModel.split('/').map(encodeURIComponent).join('/')
  const model = upstreamModel.includes('/') ? name : `models/${name}`
  return stream ? `/${model}:streamGenerateContent?alt=sse` : `/${model}:generateContent`
}

/** Google's names of the service tiers. */
const ASKED_TIERS: Record<string, string> = {
  default: 'standard',
  flex: 'flex',
  priority: 'priority',
}

// The Gemini API reads the tier from the body, Vertex from a header.
function applyServiceTier(
  { params }: TextCall,
  endpoint: Endpoint,
  body: Json,
): { headers?: Record<string, string> } {
  const serviceTier = getOwn(ASKED_TIERS, params.service_tier)
  if (serviceTier === undefined) return {}
  if (isVertex(endpoint))
    return serviceTier === 'standard'
      ? {}
      : { headers: { 'x-vertex-ai-llm-shared-request-type': serviceTier } }
  body.serviceTier = serviceTier
  return {}
}

/** Google accepts fewer of these than a client may send. */
const MAX_STOPS = 5
const MAX_LOGPROBS = 20

/**
 * Builds the `generationConfig` from the call's parameters and the members for the answer format
 * (`format`). Other parameters have no equivalent.
 */
function buildGenerationConfig(call: TextCall, endpoint: Endpoint, format: Json): Json {
  const { params } = call
  const n = readChoiceCount(call)
  const { thinking } = getCapabilities(endpoint)
  const known = omitUndefined({
    maxOutputTokens: params.max_tokens,
    temperature: params.temperature,
    topP: params.top_p,
    topK: params.top_k,
    ...(lacksPenalties(call, endpoint)
      ? {}
      : { frequencyPenalty: params.frequency_penalty, presencePenalty: params.presence_penalty }),
    // Google's seed has 32 bits.
    seed: params.seed === undefined ? undefined : params.seed | 0,
    stopSequences: params.stop?.slice(0, MAX_STOPS),
    candidateCount: typeof n === 'number' ? n : undefined,
    ...renderLogprobs(params),
    ...renderModalities(params),
    thinkingConfig: renderThinkingConfig(params, thinking),
    ...format,
  })
  return { ...readObject(readExtra(call, NATIVE), 'generationConfig'), ...known }
}

function lacksPenalties(_: TextCall, endpoint: Endpoint): boolean {
  return !getCapabilities(endpoint).supportsPenalties && !isVertex(endpoint)
}

// Google accepts 1 to 20. The chat API's 0 means no alternatives, as does leaving it out.
function renderLogprobs({ logprobs: isRequested, top_logprobs: top = 0 }: Params): Json {
  if (!isRequested && top === 0) return {}
  return { responseLogprobs: true, ...(top > 0 ? { logprobs: Math.min(top, MAX_LOGPROBS) } : {}) }
}

// Every model answers with text, but some refuse a request for text alone.
function renderModalities({ modalities: requested = [], image_config, audio }: Params): Json {
  const others = requested.some(one => one !== 'text')
  return {
    responseModalities: others ? requested.map(one => one.toUpperCase()) : undefined,
    imageConfig: isObject(image_config) ? toCamelCase(image_config) : undefined,
    speechConfig:
      isObject(audio) && requested.includes('audio') ? renderSpeechConfig(audio) : undefined,
  }
}

const toCamelCase = (fields: Json): Json =>
  Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()),
      value,
    ]),
  )

function renderSpeechConfig({ voice }: Json): Json | undefined {
  const voiceName = readString(voice)
  return voiceName === null ? undefined : { voiceConfig: { prebuiltVoiceConfig: { voiceName } } }
}

/** The output that a budget is a share of, where there is no bound. */
const LONGEST_OUTPUT = 65_536

/**
 * Renders the requested reasoning as a `thinkingConfig`: a level or a number of tokens, never both,
 * which is refused. Undefined if nothing was requested, or if the model has no such control.
 */
function renderThinkingConfig(
  { reasoning, max_tokens }: Params,
  thinking: ThinkingControl,
): Record<string, unknown> | undefined {
  if (!reasoning || thinking.in === 'nothing') return undefined
  const depth =
    thinking.in === 'levels'
      ? pickLevel(reasoning, max_tokens, thinking.levels)
      : pickBudget(reasoning, max_tokens, thinking)
  // Summaries that the caller will not see need not be written.
  const visibility = reasoning.exclude || isReasoningOff(reasoning) ? {} : { includeThoughts: true }
  return { ...depth, ...visibility }
}

const isReasoningOff = ({ effort, enabled }: Reasoning) =>
  effort === 'none' || (enabled === false && effort === undefined)

const isUndecided = ({ effort, max_tokens, enabled }: Reasoning) =>
  effort === undefined && max_tokens === undefined && enabled !== false

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

// Picks the requested level, else the next higher one, else the highest. Thinking in levels cannot
// be turned off.
function pickLevel(
  reasoning: Reasoning,
  bound: number | undefined,
  levels: string[],
): Record<string, unknown> {
  const effort = isUndecided(reasoning) ? undefined : toReasoningEffort(reasoning, bound)
  if (effort === undefined) return {}
  const thinkingLevel =
    levels.find(level => EFFORTS.indexOf(level) >= EFFORTS.indexOf(effort)) ?? levels.at(-1)
  return { thinkingLevel }
}

type TokenThinking = Extract<ThinkingControl, { in: 'tokens' }>

function pickBudget(
  reasoning: Reasoning,
  bound: number | undefined,
  { off, least, most }: TokenThinking,
): Record<string, unknown> {
  const budget = isUndecided(reasoning)
    ? undefined
    : toReasoningBudget(reasoning, bound ?? LONGEST_OUTPUT)
  if (budget === undefined) return {}
  return { thinkingBudget: budget === 0 ? off : Math.min(Math.max(budget, least), most) }
}

const NO_FORMAT: AnswerFormat = { config: {}, tool: null }
const SCHEMA_FIELD = 'response_format.json_schema.schema'

/**
 * Chooses how the model produces the required answer format: natively if possible, else as the
 * input of a forced function. If the call forces a function of its own, that call is the answer,
 * and its parameters are the only format.
 */
function chooseAnswerFormat(given: TextCall, endpoint: Endpoint): AnswerFormat {
  const call = offerAllowed(given)
  const { response_format: format, tool_choice: choice } = call.params
  if (!format || format.type === 'text') return NO_FORMAT
  const capabilities = getCapabilities(endpoint)
  const hasTools = call.tools.length > 0
  const isForced = hasTools && choice !== undefined && choice !== 'auto' && choice !== 'none'
  if (!hasTools || (capabilities.supportsFormatWithTools && !isForced))
    return { config: renderNativeFormat(format, capabilities), tool: null }
  if (isForced && choice !== 'required') return NO_FORMAT
  const schema = readSchema(format)
  return schema
    ? {
        config: {},
        tool: { name: pickAnswerToolName(call), description: readDescription(format), schema },
      }
    : NO_FORMAT
}

function renderNativeFormat(format: ResponseFormat, capabilities: Capabilities): Json {
  const schema = readSchema(format)
  if (!schema) return { responseMimeType: 'application/json' }
  if (capabilities.supportsJsonSchema)
    return {
      responseMimeType: 'application/json',
      responseJsonSchema: toJsonSchema(schema, SCHEMA_FIELD),
    }
  return {
    responseMimeType: 'application/json',
    responseSchema: reduceSchema(schema, SCHEMA_FIELD),
  }
}

function readSchema(format: ResponseFormat): Json | undefined {
  const { schema } = 'json_schema' in format ? format.json_schema : {}
  return isObject(schema) ? schema : undefined
}

function readDescription(format: ResponseFormat): string {
  const { description } = 'json_schema' in format ? format.json_schema : {}
  return description ?? 'Gives the answer. Call it once, with the whole answer.'
}
