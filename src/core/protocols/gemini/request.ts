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

/** The call as a `GenerateContentRequest`. Unknown parameters first, so that none of them can stand in for a known one. */
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

// Its `n` has a place of its own, and so has its config. Google reads that by either name, and there shall be one only.
function unknown(call: TextCall): Json {
  const { n: _, generationConfig: __, generation_config: ___, ...rest } = readExtra(call)
  return rest
}

/** Where a known object may hold unknown members, those that the caller gave stay. */
function withUnknown(call: TextCall, name: string, known: Json): Json {
  const given = readExtra(call)[name]
  return isObject(given) && isObject(known[name])
    ? { ...known, [name]: { ...given, ...member(known, name) } }
    : known
}

// A model's name may say itself what it is: `tunedModels/…`, `endpoints/…`.
function pathOf({ stream }: TextCall, { upstreamModel }: Endpoint): string {
  const name = upstreamModel.split('/').map(encodeURIComponent).join('/')
  const model = upstreamModel.includes('/') ? name : `models/${name}`
  return stream ? `/${model}:streamGenerateContent?alt=sse` : `/${model}:generateContent`
}

/** The tiers that Google has, as it names them. */
const TIERS: Record<string, string> = { default: 'standard', flex: 'flex', priority: 'priority' }

// The Gemini API is told in the body, Vertex by header.
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

/** Google takes fewer of some things than a client may send. */
const MOST_STOPS = 5
const MOST_LOGPROBS = 20

/** The parameters of the call as a `generationConfig`, `form` being what they say of the answer's form. Others have no word there. */
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
    // 32 bits there.
    seed: params.seed === undefined ? undefined : params.seed | 0,
    stopSequences: params.stop?.slice(0, MOST_STOPS),
    candidateCount: typeof n === 'number' ? n : undefined,
    ...logprobs(params),
    ...modalities(params),
    thinkingConfig: thinkingConfig(params, thinking),
    ...form,
  })
}

// From 1 to 20 there; the chat API's 0 is no alternatives, which is what leaving it out means.
function logprobs({ logprobs: wished, top_logprobs: top = 0 }: Params): Json {
  if (!wished && top === 0) return {}
  return { responseLogprobs: true, ...(top > 0 ? { logprobs: Math.min(top, MOST_LOGPROBS) } : {}) }
}

// Text alone is what every model gives, and what some refuse to be asked for.
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

/** How long an answer may be where nobody says. */
const LONGEST_OUTPUT = 65_536

/**
 * The wish for reasoning as a `thinkingConfig`: a level or a number of tokens, never both (a request with both is refused).
 * Undefined where nothing was wished, or the model cannot be told.
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
  // Summaries that nobody is shown need not be written.
  const shown = reasoning.exclude || isOff(reasoning) ? {} : { includeThoughts: true }
  return { ...depth, ...shown }
}

const isOff = ({ effort, enabled }: Reasoning) =>
  effort === 'none' || (enabled === false && effort === undefined)

const isUndecided = ({ effort, max_tokens, enabled }: Reasoning) =>
  effort === undefined && max_tokens === undefined && enabled !== false

const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

// The wished level, or the next higher one that there is, or the highest. Thinking in levels cannot be turned off.
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

/** How an answer of a wished form is asked for. */
export interface Format {
  /** Its words in the `generationConfig`. */
  config: Json
  /** The function whose input is the answer, for models that take no form beside functions. */
  tool: { name: string; description: string; schema: Json } | null
}

const FREE: Format = { config: {}, tool: null }
const FIELD = 'response_format.json_schema.schema'

/**
 * The form that the call wants of its answer: natively where the model has that, else as the input of a function that it must
 * call. Where the call forces a function of its own the answer is that call, which has no form but its parameters'.
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
