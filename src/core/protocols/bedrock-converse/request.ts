import type { Endpoint } from '../../catalog/models.ts'
import { invalid } from '../../errors.ts'
import { defined, isObject, type Json, own, text } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import { capabilitiesOf } from '../anthropic-messages/capabilities.data.ts'
import { closedSchema, inputSchema, isClosable } from '../anthropic-messages/schema.ts'
import { samplingOf, thinkingOf } from '../anthropic-messages/thinking.ts'
import { begunByUser, type Conversation, conversationOf } from '../conversation.ts'
import { answerToolName, ONLY_JSON } from '../json-answer.ts'
import { readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import { effortOf } from '../reasoning.ts'
import { BETAS, type Family, familyOf, named } from './capabilities.data.ts'
import { saidOf } from './messages.ts'
import { forcesTools, isForcing, toolingOf } from './tools.ts'

/** Builds a Converse request. Throws 400 for what the API has no form for. */
export const request = (call: TextCall, endpoint: Endpoint): UpstreamRequest => ({
  // Model names contain colons, and those of inference profiles contain slashes.
  path:
    `/model/${encodeURIComponent(endpoint.upstreamModel)}/` +
    (call.stream ? 'converse-stream' : 'converse'),
  body: bodyOf(call, endpoint),
})

// Unknown parameters come first, so that none of them can overwrite a known one.
function bodyOf(call: TextCall, endpoint: Endpoint): Json {
  const conversation = begunByUser(conversationOf(call.turns))
  const isPrefilled = prefills(conversation, endpoint)
  const format = formatOf(call, endpoint)
  const inputs = { call, endpoint, conversation, format }
  const tooling = toolingOf(inputs)
  const inference = inferenceOf(
    call,
    endpoint,
    conversation,
    isPrefilled || isForcing(call, endpoint, format),
  )
  const extra = readExtra(call)
  return {
    ...extra,
    ...saidOf(inputs, tooling),
    ...merged('inferenceConfig', extra, inference.config),
    ...merged('additionalModelRequestFields', extra, {
      ...inference.fields,
      ...(tooling.tool_choice ? { tool_choice: tooling.tool_choice } : {}),
    }),
    ...(format.by === 'schema' ? { outputConfig: { textFormat: format.textFormat } } : {}),
    ...stopPaths(call, endpoint),
    ...tierOf(call),
  }
}

/** What a request is built from. */
export interface RequestInputs {
  call: TextCall
  endpoint: Endpoint
  conversation: Conversation
  format: Format
}

/**
 * Tells whether the caller began the answer (prefill). Throws 400 if the model does not support
 * that.
 */
function prefills({ messages }: Conversation, endpoint: Endpoint): boolean {
  if (messages.at(-1)?.role !== 'assistant') return false
  const family = familyOf(endpoint)
  if (!(family.thinking === 'claude' ? capabilitiesOf(named(endpoint)).prefill : family.prefill))
    throw invalid(
      'messages: the model does not continue a prefilled answer; ' +
        'the last message must be the user’s',
      'messages',
    )
  return true
}

/** Merges our fields over those that the caller gave under the same Bedrock name. */
function merged(name: string, extra: Json, ours: Json): Json {
  const whole = isObject(extra[name]) ? { ...extra[name], ...ours } : ours
  return Object.keys(whole).length > 0 ? { [name]: whole } : {}
}

// Claude reports the matching stop sequence on request: in its answer, or in the last event of its
// stream.
const stopPaths = ({ params, stream }: TextCall, endpoint: Endpoint): Json =>
  params.stop && familyOf(endpoint).thinking === 'claude'
    ? { additionalModelResponseFieldPaths: [stream ? '/delta/stop_sequence' : '/stop_sequence'] }
    : {}

const TIERS = new Set(['default', 'flex', 'priority', 'reserved'])

const tierOf = ({ params: { service_tier = '' } }: TextCall): Json =>
  TIERS.has(service_tier) ? { serviceTier: { type: service_tier } } : {}

/** How the model is held to the required format of the answer. */
export type Format =
  /** Not at all: any text will do. */
  | { by: 'nothing' }
  /** Natively, by `outputConfig.textFormat`. */
  | { by: 'schema'; textFormat: Json }
  /**
   * By a tool whose input is the answer. A model that cannot be forced to call it is instructed to.
   */
  | { by: 'tool'; name: string; description: string; schema: Json; words: string | null }
  /** By an instruction. */
  | { by: 'words'; words: string }

/** Chooses how this endpoint produces the answer format that the call requires. */
function formatOf(call: TextCall, endpoint: Endpoint): Format {
  const format: Json = call.params.response_format ?? { type: 'text' }
  if (format.type === 'json_object') return anyObject(call, endpoint)
  const wanted = isObject(format.json_schema) ? format.json_schema : {}
  if (format.type !== 'json_schema' || !isObject(wanted.schema)) return { by: 'nothing' }
  if (familyOf(endpoint).schemas && isClosable(wanted.schema))
    return bySchema(wanted, wanted.schema)
  return byTool(wanted, inputSchema(wanted.schema), call, endpoint)
}

// Claude makes good use of a tool whose input may be any object. Other models would leave it empty.
function anyObject(call: TextCall, endpoint: Endpoint): Format {
  const isTool = familyOf(endpoint).thinking === 'claude' && forcesTools(endpoint)
  return isTool
    ? byTool({}, { type: 'object', additionalProperties: true }, call, endpoint)
    : { by: 'words', words: ONLY_JSON }
}

/** API reference, OutputFormat and JsonSchemaDefinition: the schema is sent as text. */
function bySchema({ name, description }: Json, schema: Json): Format {
  const jsonSchema = {
    schema: JSON.stringify(closedSchema(schema)),
    ...(text(name) ? { name } : {}),
    ...(text(description) ? { description } : {}),
  }
  return { by: 'schema', textFormat: { type: 'json_schema', structure: { jsonSchema } } }
}

function byTool({ description }: Json, schema: Json, call: TextCall, endpoint: Endpoint): Format {
  const name = answerToolName(call)
  return {
    by: 'tool',
    name,
    description: text(description) || 'Answer with a JSON object.',
    schema,
    words: forcesTools(endpoint) ? null : `Give your answer by calling the tool ${name}.`,
  }
}

/** Returns the name of the tool whose input is the answer, or null if none is used. */
export function answerToolOf(call: TextCall, endpoint: Endpoint): string | null {
  const format = formatOf(call, endpoint)
  return format.by === 'tool' ? format.name : null
}

/** The inference parameters: those that Converse knows, and those passed on to the model. */
interface Inference {
  /** The members of `inferenceConfig`. */
  config: Json
  /** The members of `additionalModelRequestFields`. */
  fields: Json
}

/**
 * Renders the call's parameters as far as this model supports them. `isBarred` says that something
 * else in the request rules out thinking.
 */
function inferenceOf(
  call: TextCall,
  endpoint: Endpoint,
  conversation: Conversation,
  isBarred: boolean,
): Inference {
  const family = familyOf(endpoint)
  const { config, fields } =
    family.thinking === 'claude'
      ? ofClaude(call, named(endpoint), conversation, isBarred)
      : ofOthers(call, family)
  // A stop sequence of white space alone is refused.
  const stops = call.params.stop?.filter(sequence => sequence.trim() !== '') ?? []
  if (stops.length > 0) config.stopSequences = stops
  for (const name of family.refuses) delete config[name]
  return { config, fields }
}

function ofClaude(
  call: TextCall,
  endpoint: Endpoint,
  conversation: Conversation,
  isBarred: boolean,
): Inference {
  const thinking = thinkingOf(call, endpoint, conversation, isBarred)
  const { temperature, top_p, ...fields } = samplingOf(
    call.params,
    capabilitiesOf(endpoint),
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
    config: defined({
      maxTokens: isBounded ? thinking.max_tokens : undefined,
      temperature,
      topP: top_p,
    }),
    fields,
  }
}

function ofOthers({ params }: TextCall, family: Family): Inference {
  const { max_tokens, temperature, top_p, top_k, reasoning } = params
  const hot =
    temperature === undefined ? undefined : Math.min(Math.max(temperature, 0), family.hottest)
  const config = defined({ maxTokens: max_tokens, temperature: hot, topP: top_p })
  const fields = top_k === undefined || family.top_k === null ? {} : nested(family.top_k, top_k)
  const effort = reasoning && effortOf(reasoning, max_tokens)
  return effort === undefined
    ? { config, fields }
    : WISHES[family.thinking](effort, { config, fields })
}

type Wish = (effort: string, inference: Inference) => Inference

/** How each family except Claude is asked to think, or not to think. */
const WISHES: Record<Family['thinking'], Wish> = {
  claude: (_, inference) => inference,
  none: (_, inference) => inference,
  nova: thoughtful,
  // It cannot turn thinking off.
  reasoning_effort: (effort, { config, fields }) => ({
    config,
    fields: { ...fields, reasoning_effort: level(effort) },
  }),
  reasoning: (effort, { config, fields }) => ({
    config,
    fields: { ...fields, reasoning: { effort } },
  }),
}

// At its highest effort, Nova decides these by itself and refuses them (Nova 2 user guide,
// "Extended thinking").
function thoughtful(effort: string, { config, fields }: Inference): Inference {
  if (effort === 'none')
    return { config, fields: { ...fields, reasoningConfig: { type: 'disabled' } } }
  const maxReasoningEffort = level(effort)
  const { maxTokens: _, temperature: __, topP: ___, ...rest } = config
  return {
    config: maxReasoningEffort === 'high' ? rest : config,
    fields: { ...fields, reasoningConfig: { type: 'enabled', maxReasoningEffort } },
  }
}

const LEVELS: Record<string, string> = { none: 'low', minimal: 'low', low: 'low', medium: 'medium' }

/** Returns the nearest of three efforts. */
const level = (effort: string): string => own(LEVELS, effort) ?? 'high'

const nested = (path: string[], value: unknown): Json =>
  path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as Json
