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

/** The call as a request of Converse. Throws 400 for what it has no word for. */
export const request = (call: TextCall, endpoint: Endpoint): UpstreamRequest => ({
  // Names hold colons, and those of inference profiles slashes.
  path: `/model/${encodeURIComponent(endpoint.upstreamModel)}/${call.stream ? 'converse-stream' : 'converse'}`,
  body: bodyOf(call, endpoint),
})

// Unknown parameters first, so that none of them can stand in for a known one.
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

/** What a request is made of. */
export interface RequestInputs {
  call: TextCall
  endpoint: Endpoint
  conversation: Conversation
  format: Format
}

/** Whether the answer is begun by the caller. Throws 400 where the model would not go on with it. */
function prefills({ messages }: Conversation, endpoint: Endpoint): boolean {
  if (messages.at(-1)?.role !== 'assistant') return false
  const family = familyOf(endpoint)
  if (!(family.thinking === 'claude' ? capabilitiesOf(named(endpoint)).prefill : family.prefill))
    throw invalid(
      'messages: the model goes on with no answer that was begun for it; the last message must be the user’s',
      'messages',
    )
  return true
}

/** What the caller gives under this name in Bedrock's own words, with ours over it. */
function merged(name: string, extra: Json, ours: Json): Json {
  const whole = isObject(extra[name]) ? { ...extra[name], ...ours } : ours
  return Object.keys(whole).length > 0 ? { [name]: whole } : {}
}

// Claude tells which sequence stopped it, if asked: in its answer, or in the last event of its stream.
const stopPaths = ({ params, stream }: TextCall, endpoint: Endpoint): Json =>
  params.stop && familyOf(endpoint).thinking === 'claude'
    ? { additionalModelResponseFieldPaths: [stream ? '/delta/stop_sequence' : '/stop_sequence'] }
    : {}

const TIERS = new Set(['default', 'flex', 'priority', 'reserved'])

const tierOf = ({ params: { service_tier = '' } }: TextCall): Json =>
  TIERS.has(service_tier) ? { serviceTier: { type: service_tier } } : {}

/** How the model is held to the form that the answer must have. */
export type Format =
  /** Not at all: any words will do. */
  | { by: 'nothing' }
  /** By itself: `outputConfig.textFormat`. */
  | { by: 'schema'; textFormat: Json }
  /** By a tool whose input is the answer. A model that cannot be made to call it is told to. */
  | { by: 'tool'; name: string; description: string; schema: Json; words: string | null }
  /** By being told. */
  | { by: 'words'; words: string }

/** The form for this call at this endpoint. */
function formatOf(call: TextCall, endpoint: Endpoint): Format {
  const format: Json = call.params.response_format ?? { type: 'text' }
  if (format.type === 'json_object') return anyObject(call, endpoint)
  const wanted = isObject(format.json_schema) ? format.json_schema : {}
  if (format.type !== 'json_schema' || !isObject(wanted.schema)) return { by: 'nothing' }
  if (familyOf(endpoint).schemas && isClosable(wanted.schema))
    return bySchema(wanted, wanted.schema)
  return byTool(wanted, inputSchema(wanted.schema), call, endpoint)
}

// Of a tool whose input may hold anything Claude makes good use; others would leave it empty.
function anyObject(call: TextCall, endpoint: Endpoint): Format {
  const isTool = familyOf(endpoint).thinking === 'claude' && forcesTools(endpoint)
  return isTool
    ? byTool({}, { type: 'object', additionalProperties: true }, call, endpoint)
    : { by: 'words', words: ONLY_JSON }
}

/** API reference, OutputFormat and JsonSchemaDefinition: the schema goes as a text. */
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

/** The tool whose input is the answer to this call, if it is asked for that way. */
export function answerToolOf(call: TextCall, endpoint: Endpoint): string | null {
  const format = formatOf(call, endpoint)
  return format.by === 'tool' ? format.name : null
}

/** How the answer shall be made: what Converse has words for, and what goes to the model as it is. */
interface Inference {
  /** `inferenceConfig`. */
  config: Json
  /** `additionalModelRequestFields`. */
  fields: Json
}

/** The wishes of the call as this model takes them. `isBarred` says that something else in the request forbids it to think. */
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
  // White space alone is refused.
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
  // Left out, the bound is the model's own. A budget must be less than it, so then it is told.
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

/** How each family but Claude is asked to think, or not to. */
const WISHES: Record<Family['thinking'], Wish> = {
  claude: (_, inference) => inference,
  none: (_, inference) => inference,
  nova: thoughtful,
  // It cannot do without.
  reasoning_effort: (effort, { config, fields }) => ({
    config,
    fields: { ...fields, reasoning_effort: level(effort) },
  }),
  reasoning: (effort, { config, fields }) => ({
    config,
    fields: { ...fields, reasoning: { effort } },
  }),
}

// At its highest effort Nova decides all this by itself, and refuses to be told (Nova 2 user guide, "Extended thinking").
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

/** The effort of three that stands for this one. */
const level = (effort: string): string => own(LEVELS, effort) ?? 'high'

const nested = (path: string[], value: unknown): Json =>
  path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value) as Json
