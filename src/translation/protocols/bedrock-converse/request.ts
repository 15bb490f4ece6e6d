import { invalid } from '../../../base/errors.ts'
import {
  getOwn,
  isObject,
  type Json,
  omitUndefined,
  readObject,
  readString,
} from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { ToolChoice } from '../../../language/tool.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { getCapabilities } from '../anthropic-messages/capabilities.data.ts'
import { closeSchema, isClosable, toInputSchema } from '../anthropic-messages/schema.ts'
import { renderSampling, renderThinking } from '../anthropic-messages/thinking.ts'
import {
  type Conversation,
  listLastTurn,
  placeInstructions,
  startWithUser,
  toConversation,
} from '../conversation.ts'
import { ONLY_JSON, pickAnswerToolName } from '../json-answer.ts'
import { type FunctionTool, leaveOutToolWork, readExtra, requireFunctionTool } from '../native.ts'
import type { IsLacking, Lacks, UpstreamRequest } from '../protocol.ts'
import { toReasoningEffort } from '../reasoning.ts'
import { offerAllowed, readAllowance, type ToolNames } from '../tools.ts'
import { BETAS, getModelFamily, type ModelFamily, resolveModelName } from './capabilities.data.ts'
import {
  type AnswerFormat,
  createToolNames,
  type RequestInputs,
  renderCachePoint,
  renderMessages,
  type ToolFields,
} from './messages.ts'

/** Builds a Converse request. Throws 400 for what the API has no form for. */
export const buildRequest = (call: TextCall, endpoint: Endpoint): UpstreamRequest => ({
  // Model names contain colons, and those of inference profiles contain slashes.
  path:
    `/model/${encodeURIComponent(endpoint.upstreamModel)}/` +
    (call.stream ? 'converse-stream' : 'converse'),
  body: buildBody(call, endpoint),
})

// Unknown parameters come first, so that none of them can overwrite a known one.
function buildBody(call: TextCall, endpoint: Endpoint): Json {
  const conversation = startWithUser(
    toConversation(leaveOutToolWork(call.messages, null), placeInstructions(call)),
  )
  const isPrefilled = hasPrefill(conversation, endpoint)
  const format = chooseAnswerFormat(call, endpoint)
  const inputs = { call, endpoint, conversation, format }
  const tooling = renderTools(inputs)
  const isBarred = isPrefilled || requiresToolCall(call, endpoint, format)
  const inference = renderInference(call, endpoint, conversation, isBarred)
  const extra = readExtra(call)
  return {
    ...extra,
    ...renderMessages(inputs, tooling),
    ...mergeFields('inferenceConfig', extra, inference.config),
    ...mergeFields('additionalModelRequestFields', extra, {
      ...inference.fields,
      ...(tooling.tool_choice ? { tool_choice: tooling.tool_choice } : {}),
    }),
    ...(format.by === 'schema' ? { outputConfig: { textFormat: format.textFormat } } : {}),
    ...renderStopPaths(call, endpoint),
    ...renderServiceTier(call),
  }
}

/**
 * Tells whether the caller began the answer (prefill). Throws 400 if the model does not support
 * that.
 */
function hasPrefill(conversation: Conversation, endpoint: Endpoint): boolean {
  if (!isBegun(conversation)) return false
  const family = getModelFamily(endpoint)
  if (
    !(family.thinking === 'claude'
      ? getCapabilities(resolveModelName(endpoint)).supportsPrefill
      : family.supportsPrefill)
  )
    throw invalid(
      'messages: the model does not continue a prefilled answer; ' +
        'the last message must be the user’s',
      'messages',
    )
  return true
}

const isBegun = ({ messages }: Conversation): boolean => messages.at(-1)?.role === 'assistant'

/** Tells that the inference is the same without the parameter. */
const isUninferred =
  (name: InferenceParameter): IsLacking =>
  (call, endpoint) => {
    const { [name]: _, ...params } = call.params
    const turn = leaveOutToolWork(listLastTurn(call), null)
    const conversation = startWithUser(toConversation(turn))
    const format = chooseAnswerFormat(call, endpoint)
    const isBarred = isBegun(conversation) || requiresToolCall(call, endpoint, format)
    const [whole, without] = [call, { ...call, params }].map(one =>
      renderInference(one, endpoint, conversation, isBarred),
    )
    return Bun.deepEquals(whole, without)
  }

type InferenceParameter = 'max_tokens' | 'temperature' | 'top_p' | 'top_k' | 'stop' | Effort
type Effort = 'reasoning' | 'verbosity'

/** The parameters of OpenAI's chat that Converse or its model has no form for. */
export const LACKS: Lacks = {
  max_tokens: isUninferred('max_tokens'),
  temperature: isUninferred('temperature'),
  top_p: isUninferred('top_p'),
  top_k: isUninferred('top_k'),
  min_p: true,
  top_a: true,
  frequency_penalty: true,
  presence_penalty: true,
  repetition_penalty: true,
  seed: true,
  stop: isUninferred('stop'),
  logit_bias: true,
  logprobs: true,
  top_logprobs: true,
  prediction: true,
  response_format: (call, endpoint) => chooseAnswerFormat(call, endpoint).by === 'nothing',
  tool_choice: isUnforced,
  parallel_tool_calls: (call, endpoint) =>
    getModelFamily(endpoint).thinking !== 'claude' ||
    chooseAnswerFormat(call, endpoint).by === 'tool',
  reasoning: isUninferred('reasoning'),
  verbosity: isUninferred('verbosity'),
  modalities: true,
  audio: true,
  image_config: true,
  service_tier: ({ params }) => !SERVICE_TIERS.has(params.service_tier ?? ''),
  web_search_options: true,
  prompt_cache_options: true,
  cache_control: (_, endpoint) => getModelFamily(endpoint).cachePoints === 'nowhere',
}

/** Tells that the model is free to call none of its tools, though it should call any. */
function isUnforced(call: TextCall, endpoint: Endpoint): boolean {
  const { tool_choice } = call.params
  const isForced = tool_choice === 'required' || readAllowance(tool_choice)?.mode === 'required'
  return isForced && !supportsForcedTools(endpoint)
}

/** Merges our fields over those that the caller gave under the same Bedrock name. */
function mergeFields(name: string, extra: Json, ours: Json): Json {
  const whole = isObject(extra[name]) ? { ...extra[name], ...ours } : ours
  return Object.keys(whole).length > 0 ? { [name]: whole } : {}
}

// Claude reports the matching stop sequence on request: in its answer, or in the last event of its
// stream.
const renderStopPaths = ({ params, stream }: TextCall, endpoint: Endpoint): Json =>
  params.stop && getModelFamily(endpoint).thinking === 'claude'
    ? { additionalModelResponseFieldPaths: [stream ? '/delta/stop_sequence' : '/stop_sequence'] }
    : {}

const SERVICE_TIERS = new Set(['default', 'flex', 'priority', 'reserved'])

const renderServiceTier = ({ params: { service_tier = '' } }: TextCall): Json =>
  SERVICE_TIERS.has(service_tier) ? { serviceTier: { type: service_tier } } : {}

/** Chooses how this endpoint produces the answer format that the call requires. */
function chooseAnswerFormat(call: TextCall, endpoint: Endpoint): AnswerFormat {
  const format: Json = call.params.response_format ?? { type: 'text' }
  if (format.type === 'json_object') return buildObjectFormat(call, endpoint)
  const jsonSchema = isObject(format.json_schema) ? format.json_schema : {}
  if (format.type !== 'json_schema' || !isObject(jsonSchema.schema)) return { by: 'nothing' }
  if (getModelFamily(endpoint).supportsSchemas && isClosable(jsonSchema.schema))
    return buildSchemaFormat(jsonSchema, jsonSchema.schema)
  return buildToolFormat(jsonSchema, toInputSchema(jsonSchema.schema), call, endpoint)
}

// Claude makes good use of a tool whose input may be any object. Other models would leave it empty.
function buildObjectFormat(call: TextCall, endpoint: Endpoint): AnswerFormat {
  const isTool = getModelFamily(endpoint).thinking === 'claude' && supportsForcedTools(endpoint)
  return isTool
    ? buildToolFormat({}, { type: 'object', additionalProperties: true }, call, endpoint)
    : { by: 'words', words: ONLY_JSON }
}

/** API reference, OutputFormat and JsonSchemaDefinition: the schema is sent as text. */
function buildSchemaFormat({ name, description }: Json, schema: Json): AnswerFormat {
  const jsonSchema = {
    schema: JSON.stringify(closeSchema(schema)),
    ...(readString(name) ? { name } : {}),
    ...(readString(description) ? { description } : {}),
  }
  return { by: 'schema', textFormat: { type: 'json_schema', structure: { jsonSchema } } }
}

function buildToolFormat(
  { description }: Json,
  schema: Json,
  call: TextCall,
  endpoint: Endpoint,
): AnswerFormat {
  const name = pickAnswerToolName(call)
  return {
    by: 'tool',
    name,
    description: readString(description) || 'Answer with a JSON object.',
    schema,
    words: supportsForcedTools(endpoint) ? null : `Give your answer by calling the tool ${name}.`,
  }
}

/** Returns the name of the tool whose input is the answer, or null if none is used. */
export function findAnswerTool(call: TextCall, endpoint: Endpoint): string | null {
  const format = chooseAnswerFormat(call, endpoint)
  return format.by === 'tool' ? format.name : null
}

/** The inference parameters: those that Converse knows, and those passed on to the model. */
interface InferenceFields {
  /** The members of `inferenceConfig`. */
  config: Json
  /** The members of `additionalModelRequestFields`. */
  fields: Json
}

/**
 * Renders the call's parameters as far as this model supports them. `isBarred` says that something
 * else in the request rules out thinking.
 */
function renderInference(
  call: TextCall,
  endpoint: Endpoint,
  conversation: Conversation,
  isBarred: boolean,
): InferenceFields {
  const family = getModelFamily(endpoint)
  const { config, fields } =
    family.thinking === 'claude'
      ? renderClaudeInference(call, resolveModelName(endpoint), conversation, isBarred)
      : renderOtherInference(call, family)
  // A stop sequence of white space alone is refused.
  const stops = call.params.stop?.filter(sequence => sequence.trim() !== '') ?? []
  if (stops.length > 0) config.stopSequences = stops
  for (const name of family.unsupportedConfig) delete config[name]
  return { config, fields }
}

function renderClaudeInference(
  call: TextCall,
  endpoint: Endpoint,
  conversation: Conversation,
  isBarred: boolean,
): InferenceFields {
  const thinking = renderThinking(call, endpoint, conversation, isBarred)
  const { temperature, top_p, ...fields } = renderSampling(
    call.params,
    getCapabilities(endpoint),
    thinking,
  )
  const betas = call.betas.filter(beta => BETAS.has(beta))
  // Without `maxTokens`, the model's own maximum applies. A thinking budget must be less than it,
  // so with a budget it is sent.
  const isBounded =
    call.params.max_tokens !== undefined || thinking.thinking?.budget_tokens !== undefined
  if (thinking.thinking) fields.thinking = thinking.thinking
  if (thinking.effort !== undefined) fields.output_config = { effort: thinking.effort }
  if (betas.length > 0) fields.anthropic_beta = betas
  return {
    config: omitUndefined({
      maxTokens: isBounded ? thinking.max_tokens : undefined,
      temperature,
      topP: top_p,
    }),
    fields,
  }
}

function renderOtherInference({ params }: TextCall, family: ModelFamily): InferenceFields {
  const { max_tokens, temperature, top_p, top_k, reasoning } = params
  const clampedTemperature =
    temperature === undefined
      ? undefined
      : Math.min(Math.max(temperature, 0), family.maxTemperature)
  const config = omitUndefined({
    maxTokens: max_tokens,
    temperature: clampedTemperature,
    topP: top_p,
  })
  const fields = top_k === undefined || family.top_k === null ? {} : nestValue(family.top_k, top_k)
  const effort = reasoning && toReasoningEffort(reasoning, max_tokens)
  return effort === undefined
    ? { config, fields }
    : EFFORT_RENDERERS[family.thinking](effort, { config, fields })
}

type RenderEffort = (effort: string, inference: InferenceFields) => InferenceFields

/** How each family except Claude is asked to think, or not to think. */
const EFFORT_RENDERERS: Record<ModelFamily['thinking'], RenderEffort> = {
  claude: (_, inference) => inference,
  none: (_, inference) => inference,
  nova: renderNovaEffort,
  // It cannot turn thinking off.
  reasoning_effort: (effort, { config, fields }) => ({
    config,
    fields: { ...fields, reasoning_effort: toLevel(effort) },
  }),
  reasoning: (effort, { config, fields }) => ({
    config,
    fields: { ...fields, reasoning: { effort } },
  }),
}

// At its highest effort, Nova decides these by itself and refuses them (Nova 2 user guide,
// "Extended thinking").
function renderNovaEffort(effort: string, { config, fields }: InferenceFields): InferenceFields {
  if (effort === 'none')
    return { config, fields: { ...fields, reasoningConfig: { type: 'disabled' } } }
  const maxReasoningEffort = toLevel(effort)
  const { maxTokens: _, temperature: __, topP: ___, ...rest } = config
  return {
    config: maxReasoningEffort === 'high' ? rest : config,
    fields: { ...fields, reasoningConfig: { type: 'enabled', maxReasoningEffort } },
  }
}

const LEVELS: Record<string, string> = { none: 'low', minimal: 'low', low: 'low', medium: 'medium' }

/** Returns the nearest of three efforts. */
const toLevel = (effort: string): string => getOwn(LEVELS, effort) ?? 'high'

const nestValue = (path: string[], value: unknown): Json =>
  path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as Json

/** Tells whether the model can be forced to call a tool. */
const supportsForcedTools = (endpoint: Endpoint): boolean => {
  const family = getModelFamily(endpoint)
  return (
    family.supportsForcedTools &&
    (family.thinking !== 'claude' ||
      getCapabilities(resolveModelName(endpoint)).supportsForcedTools)
  )
}

/** Tells whether this request forces a tool call, which rules out thinking for Claude. */
const requiresToolCall = (call: TextCall, endpoint: Endpoint, format: AnswerFormat): boolean =>
  (format.by === 'tool' ||
    call.params.tool_choice === 'required' ||
    readAllowance(call.params.tool_choice)?.mode === 'required' ||
    getNamedFunction(call.params.tool_choice) !== null) &&
  supportsForcedTools(endpoint)

/**
 * Renders the tools of the call, the tool that stands for the answer format, and the choice between
 * them. Converse has no equivalent of "no tool", so then none are sent. But a conversation that
 * contains calls must define tools (translation traps 4, 27), so the tools that were called are
 * listed as removed.
 */
function renderTools({ call: given, endpoint, conversation, format }: RequestInputs): ToolFields {
  const names = createToolNames(given)
  const call = offerAllowed(given)
  const offered = listOfferedTools(call, endpoint, format).flatMap(tool =>
    renderToolSpec(tool, endpoint, names),
  )
  if (format.by === 'tool') return addAnswerTool(offered, endpoint, format)
  if (offered.length > 0) return addToolChoice(offered, call, endpoint, names)
  const removed = [...collectCalledTools(conversation)].map(name =>
    renderRemovedTool(names.toWire(name)),
  )
  return removed.length > 0 ? { toolConfig: { tools: removed } } : {}
}

// Only the requested tool is offered to a model that cannot be forced, or that may also choose the
// answer tool.
function listOfferedTools(
  { tools, params: { tool_choice } }: TextCall,
  endpoint: Endpoint,
  format: AnswerFormat,
): FunctionTool[] {
  const functions = tools.map(requireFunctionTool)
  const name = getNamedFunction(tool_choice)
  if (tool_choice === 'none') return []
  if (name === null || (supportsForcedTools(endpoint) && format.by !== 'tool')) return functions
  const wanted = functions.filter(tool => tool.name === name)
  return wanted.length > 0 ? wanted : functions
}

function renderToolSpec(
  { name, description, parameters, strict, cache_control }: FunctionTool,
  endpoint: Endpoint,
  names: ToolNames,
): Json[] {
  const family = getModelFamily(endpoint)
  const schema = toInputSchema(parameters)
  const isStrict = strict === true && family.supportsSchemas && isClosable(schema)
  const toolSpec = {
    name: names.toWire(name),
    ...(description?.trim() ? { description } : {}),
    inputSchema: { json: isStrict ? closeSchema(schema) : schema },
    ...(isStrict ? { strict } : {}),
  }
  return [
    { toolSpec },
    ...(family.cachePoints === 'everywhere' ? renderCachePoint(cache_control, family) : []),
  ]
}

const collectCalledTools = ({ messages }: Conversation): Set<string> =>
  new Set(
    messages.flatMap(({ blocks }) =>
      blocks.flatMap(block => (block.type === 'tool-call' ? [block.name] : [])),
    ),
  )

const renderRemovedTool = (name: string): Json => ({
  toolSpec: {
    name,
    description: 'This tool is gone. Do not call it.',
    inputSchema: { json: { type: 'object', properties: {} } },
  },
})

function addAnswerTool(
  offered: Json[],
  endpoint: Endpoint,
  { name, description, schema }: Extract<AnswerFormat, { by: 'tool' }>,
): ToolFields {
  const tools = [...offered, { toolSpec: { name, description, inputSchema: { json: schema } } }]
  if (!supportsForcedTools(endpoint)) return { toolConfig: { tools } }
  return {
    toolConfig: { tools, toolChoice: offered.length > 0 ? { any: {} } : { tool: { name } } },
  }
}

function addToolChoice(
  tools: Json[],
  call: TextCall,
  endpoint: Endpoint,
  names: ToolNames,
): ToolFields {
  const choice = toClaudeToolChoice(call.params.tool_choice, endpoint, names)
  // Converse cannot disable parallel calls, but Claude's own API can.
  if (call.params.parallel_tool_calls === false && getModelFamily(endpoint).thinking === 'claude')
    return { toolConfig: { tools }, tool_choice: { ...choice, disable_parallel_tool_use: true } }
  switch (choice.type) {
    case 'any':
      return { toolConfig: { tools, toolChoice: { any: {} } } }
    case 'tool':
      return { toolConfig: { tools, toolChoice: { tool: { name: choice.name } } } }
    default:
      return { toolConfig: { tools } }
  }
}

/** The tool choice of Claude's own API. */
type ClaudeToolChoice = { type: 'auto' | 'any' } | { type: 'tool'; name: string }

function toClaudeToolChoice(
  choice: ToolChoice | undefined,
  endpoint: Endpoint,
  names: ToolNames,
): ClaudeToolChoice {
  const name = getNamedFunction(choice)
  if (!supportsForcedTools(endpoint) || (name === null && choice !== 'required'))
    return { type: 'auto' }
  return name === null ? { type: 'any' } : { type: 'tool', name: names.toWire(name) }
}

function getNamedFunction(choice: ToolChoice | undefined): string | null {
  if (!isObject(choice) || choice.type !== 'function') return null
  return readString(readObject(choice, 'function').name)
}
