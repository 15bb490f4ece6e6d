import type { Endpoint } from '../../catalog/models.ts'
import { defined, isObject, type Json, member, own, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Params, Reasoning, ResponseFormat } from '../../language/params.ts'
import { answerToolName } from '../json-answer.ts'
import { readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import { budgetOf, effortOf } from '../reasoning.ts'
import { type Capabilities, capabilitiesOf, isVertex, type Thinking } from './capabilities.data.ts'
import { contentsOf, namesOf } from './messages.ts'
import { jsonSchema, reducedSchema } from './schema.ts'
import { toolsOf } from './tools.ts'

/**
 * Builds a `GenerateContentRequest`. Unknown parameters come first, so that none of them can
 * overwrite a known one.
 */
export function request(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const names = namesOf(call)
  const form = formatOf(call, endpoint)
  const body: Json = {
    ...unknown(call),
    ...contentsOf(call, endpoint, names),
    ...withUnknown(call, 'toolConfig', toolsOf(call, endpoint, names, form)),
  }
  const config = generationConfig(call, endpoint, form.config)
  if (Object.keys(config).length > 0) body.generationConfig = config
  return { path: pathOf(call, endpoint), ...tier(call, endpoint, body), body }
}

// `n` and the generation config are sent elsewhere. Google reads the config under either name, and
// there must be only one.
function unknown(call: TextCall): Json {
  const { n: _, generationConfig: __, generation_config: ___, ...rest } = readExtra(call)
  return rest
}

/** Keeps unknown members that the caller gave within a known object. */
function withUnknown(call: TextCall, name: string, known: Json): Json {
  const given = readExtra(call)[name]
  return isObject(given) && isObject(known[name])
    ? { ...known, [name]: { ...given, ...member(known, name) } }
    : known
}

// A model name may contain its own kind: `tunedModels/…`, `endpoints/…`.
function pathOf({ stream }: TextCall, { upstreamModel }: Endpoint): string {
  const name = upstreamModel.split('/').map(encodeURIComponent).join('/')
  const model = upstreamModel.includes('/') ? name : `models/${name}`
  return stream ? `/${model}:streamGenerateContent?alt=sse` : `/${model}:generateContent`
}

/** Google's names of the service tiers. */
const TIERS: Record<string, string> = { default: 'standard', flex: 'flex', priority: 'priority' }

// The Gemini API reads the tier from the body, Vertex from a header.
function tier(
  { params }: TextCall,
  endpoint: Endpoint,
  body: Json,
): { headers?: Record<string, string> } {
  const wished = own(TIERS, params.service_tier)
  if (wished === undefined) return {}
  if (isVertex(endpoint))
    return wished === 'standard'
      ? {}
      : { headers: { 'x-vertex-ai-llm-shared-request-type': wished } }
  body.serviceTier = wished
  return {}
}

/** Google accepts fewer of these than a client may send. */
const MOST_STOPS = 5
const MOST_LOGPROBS = 20

/**
 * Builds the `generationConfig` from the call's parameters and the members for the answer format
 * (`format`). Other parameters have no equivalent.
 */
function generationConfig(call: TextCall, endpoint: Endpoint, form: Json): Json {
  const { params } = call
  const { n } = readExtra(call)
  const { thinking, penalties } = capabilitiesOf(endpoint)
  return defined({
    ...member(readExtra(call), 'generationConfig'),
    maxOutputTokens: params.max_tokens,
    temperature: params.temperature,
    topP: params.top_p,
    topK: params.top_k,
    ...(penalties || isVertex(endpoint)
      ? { frequencyPenalty: params.frequency_penalty, presencePenalty: params.presence_penalty }
      : {}),
    // Google's seed has 32 bits.
    seed: params.seed === undefined ? undefined : params.seed | 0,
    stopSequences: params.stop?.slice(0, MOST_STOPS),
    candidateCount: typeof n === 'number' ? n : undefined,
    ...logprobs(params),
    ...modalities(params),
    thinkingConfig: thinkingConfig(params, thinking),
    ...form,
  })
}

// Google accepts 1 to 20. The chat API's 0 means no alternatives, as does leaving it out.
function logprobs({ logprobs: wished, top_logprobs: top = 0 }: Params): Json {
  if (!wished && top === 0) return {}
  return { responseLogprobs: true, ...(top > 0 ? { logprobs: Math.min(top, MOST_LOGPROBS) } : {}) }
}

// Every model answers with text, but some refuse a request for text alone.
function modalities({ modalities: wished = [], image_config, audio }: Params): Json {
  const others = wished.some(one => one !== 'text')
  return {
    responseModalities: others ? wished.map(one => one.toUpperCase()) : undefined,
    imageConfig: isObject(image_config) ? inCamelCase(image_config) : undefined,
    speechConfig: isObject(audio) && wished.includes('audio') ? speechConfig(audio) : undefined,
  }
}

const inCamelCase = (given: Json): Json =>
  Object.fromEntries(
    Object.entries(given).map(([name, value]) => [
      name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()),
      value,
    ]),
  )

function speechConfig({ voice }: Json): Json | undefined {
  const voiceName = text(voice)
  return voiceName === null ? undefined : { voiceConfig: { prebuiltVoiceConfig: { voiceName } } }
}

/** The output that a budget is a share of, where there is no bound. */
const LONGEST_OUTPUT = 65_536

/**
 * Renders the requested reasoning as a `thinkingConfig`: a level or a number of tokens, never both,
 * which is refused. Undefined if nothing was requested, or if the model has no such control.
 */
function thinkingConfig(
  { reasoning, max_tokens }: Params,
  thinking: Thinking,
): Record<string, unknown> | undefined {
  if (!reasoning || thinking.in === 'nothing') return undefined
  const depth =
    thinking.in === 'levels'
      ? levelOf(reasoning, max_tokens, thinking.levels)
      : tokensOf(reasoning, max_tokens, thinking)
  // Summaries that the caller will not see need not be written.
  const shown = reasoning.exclude || isOff(reasoning) ? {} : { includeThoughts: true }
  return { ...depth, ...shown }
}

const isOff = ({ effort, enabled }: Reasoning) =>
  effort === 'none' || (enabled === false && effort === undefined)

const isUndecided = ({ effort, max_tokens, enabled }: Reasoning) =>
  effort === undefined && max_tokens === undefined && enabled !== false

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

// Picks the requested level, else the next higher one, else the highest. Thinking in levels cannot
// be turned off.
function levelOf(
  reasoning: Reasoning,
  bound: number | undefined,
  levels: string[],
): Record<string, unknown> {
  const effort = isUndecided(reasoning) ? undefined : effortOf(reasoning, bound)
  if (effort === undefined) return {}
  const thinkingLevel =
    levels.find(level => EFFORTS.indexOf(level) >= EFFORTS.indexOf(effort)) ?? levels.at(-1)
  return { thinkingLevel }
}

type InTokens = Extract<Thinking, { in: 'tokens' }>

function tokensOf(
  reasoning: Reasoning,
  bound: number | undefined,
  { off, least, most }: InTokens,
): Record<string, unknown> {
  const budget = isUndecided(reasoning) ? undefined : budgetOf(reasoning, bound ?? LONGEST_OUTPUT)
  if (budget === undefined) return {}
  return { thinkingBudget: budget === 0 ? off : Math.min(Math.max(budget, least), most) }
}

/** How an answer of a required format is requested. */
export interface Format {
  /** The members of the `generationConfig`. */
  config: Json
  /**
   * The function whose input is the answer, for models that cannot combine a format with functions.
   */
  tool: { name: string; description: string; schema: Json } | null
}

const FREE: Format = { config: {}, tool: null }
const FIELD = 'response_format.json_schema.schema'

/**
 * Chooses how the model produces the required answer format: natively if possible, else as the
 * input of a forced function. If the call forces a function of its own, that call is the answer,
 * and its parameters are the only format.
 */
export function formatOf(call: TextCall, endpoint: Endpoint): Format {
  const { response_format: format, tool_choice: choice } = call.params
  if (!format || format.type === 'text') return FREE
  const capabilities = capabilitiesOf(endpoint)
  const hasTools = call.tools.length > 0
  const isForced = hasTools && choice !== undefined && choice !== 'auto' && choice !== 'none'
  if (!hasTools || (capabilities.formBesideTools && !isForced))
    return { config: native(format, capabilities), tool: null }
  if (isForced && choice !== 'required') return FREE
  const schema = schemaOf(format)
  return schema
    ? { config: {}, tool: { name: answerToolName(call), description: describedAs(format), schema } }
    : FREE
}

function native(format: ResponseFormat, capabilities: Capabilities): Json {
  const schema = schemaOf(format)
  if (!schema) return { responseMimeType: 'application/json' }
  if (capabilities.jsonSchema)
    return { responseMimeType: 'application/json', responseJsonSchema: jsonSchema(schema, FIELD) }
  return { responseMimeType: 'application/json', responseSchema: reducedSchema(schema, FIELD) }
}

function schemaOf(format: ResponseFormat): Json | undefined {
  const { schema } = 'json_schema' in format ? format.json_schema : {}
  return isObject(schema) ? schema : undefined
}

function describedAs(format: ResponseFormat): string {
  const { description } = 'json_schema' in format ? format.json_schema : {}
  return description ?? 'Gives the answer. Call it once, with the whole answer.'
}
