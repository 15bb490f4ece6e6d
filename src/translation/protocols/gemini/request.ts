import {
  getOwn,
  isObject,
  type Json,
  omitUndefined,
  readObject,
  readString,
} from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Params, Reasoning, ResponseFormat } from '../../../language/params.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { pickAnswerToolName } from '../json-answer.ts'
import { isForwarded, isNative, readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import { toReasoningBudget, toReasoningEffort } from '../reasoning.ts'
import { offerAllowed } from '../tools.ts'
import {
  type Capabilities,
  getCapabilities,
  isVertex,
  type ThinkingControl,
} from './capabilities.data.ts'
import { createToolNames, NATIVE, renderMessages } from './messages.ts'
import { reduceSchema, toJsonSchema } from './schema.ts'
import type { AnswerFormat } from './tools.ts'
import { renderTools } from './tools.ts'

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
const SERVICE_TIERS: Record<string, string> = {
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
  const serviceTier = getOwn(SERVICE_TIERS, params.service_tier)
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
  const { n } = isNative(call, NATIVE) || isForwarded(call) ? call.extra : {}
  const { thinking, supportsPenalties } = getCapabilities(endpoint)
  return omitUndefined({
    ...readObject(readExtra(call, NATIVE), 'generationConfig'),
    maxOutputTokens: params.max_tokens,
    temperature: params.temperature,
    topP: params.top_p,
    topK: params.top_k,
    ...(supportsPenalties || isVertex(endpoint)
      ? { frequencyPenalty: params.frequency_penalty, presencePenalty: params.presence_penalty }
      : {}),
    // Google's seed has 32 bits.
    seed: params.seed === undefined ? undefined : params.seed | 0,
    stopSequences: params.stop?.slice(0, MAX_STOPS),
    candidateCount: typeof n === 'number' ? n : undefined,
    ...renderLogprobs(params),
    ...renderModalities(params),
    thinkingConfig: renderThinkingConfig(params, thinking),
    ...format,
  })
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
export function chooseAnswerFormat(given: TextCall, endpoint: Endpoint): AnswerFormat {
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
