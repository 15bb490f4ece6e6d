import type { Endpoint } from '../../catalog/models.ts'
import { invalid } from '../../errors.ts'
import { defined, isObject } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Params, ResponseFormat } from '../../language/params.ts'
import type { ToolChoice } from '../../language/tool.ts'
import { ANSWER_IN_JSON, mentionsJson, schemaInWords } from '../json-answer.ts'
import { type FunctionTool, functionOf, readExtra } from '../native.ts'
import type { UpstreamRequest } from '../protocol.ts'
import { budgetOf } from '../reasoning.ts'
import type { ToolNames } from '../tools.ts'
import { capabilitiesOf } from './capabilities.data.ts'
import { documentsOf, messagesOf, namesOf } from './messages.ts'

/**
 * Builds a chat request of Cohere. Unknown parameters come first, so that none of them can
 * overwrite a known one.
 */
export function request(call: TextCall, endpoint: Endpoint): UpstreamRequest {
  const names = namesOf(call)
  const { format, instruction } = formatOf(call)
  const documents = documentsOf(call)
  return {
    path: '/chat',
    body: {
      ...readExtra(call),
      model: endpoint.upstreamModel,
      messages: messagesOf(call.turns, instruction, names),
      ...(documents.length > 0 ? { documents } : {}),
      ...samplingOf(call.params),
      ...(format ? { response_format: format } : {}),
      ...thinkingOf(call, endpoint),
      ...toolsOf(call, names),
      ...(call.stream ? { stream: true } : {}),
    },
  }
}

// Values outside a range that is smaller than the chat API's are clamped to it
// (https://docs.cohere.com/reference/chat).
const MOST_STOPS = 5
const MOST_K = 500

function samplingOf(params: Params): Record<string, unknown> {
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
  return defined({
    temperature: within(0, temperature, 1),
    p: within(0.01, top_p, 0.99),
    k: within(0, top_k, MOST_K),
    frequency_penalty: within(0, frequency_penalty, 1),
    presence_penalty: within(0, presence_penalty, 1),
    seed: seed !== undefined && seed >= 0 ? seed : undefined,
    max_tokens,
    stop_sequences: stop?.slice(0, MOST_STOPS),
    logprobs,
  })
}

const within = (least: number, value: number | undefined, most: number) =>
  value === undefined ? undefined : Math.min(Math.max(value, least), most)

/**
 * The output that a budget is a share of, where there is no bound: the most that these models write
 * at once.
 */
const UNBOUNDED_OUTPUT = 32_768

function thinkingOf(
  { params: { reasoning, max_tokens } }: TextCall,
  endpoint: Endpoint,
): Record<string, unknown> {
  if (!reasoning || !capabilitiesOf(endpoint).thinking) return {}
  const token_budget = budgetOf(
    reasoning,
    max_tokens ?? endpoint.max_completion_tokens ?? UNBOUNDED_OUTPUT,
  )
  if (token_budget === undefined) return {}
  return { thinking: token_budget === 0 ? { type: 'disabled' } : { type: 'enabled', token_budget } }
}

function toolsOf(
  { tools, params: { tool_choice } }: TextCall,
  names: ToolNames,
): Record<string, unknown> {
  if (tools.length === 0) return {}
  const only = namedIn(tool_choice)
  const functions = tools.map(functionOf)
  const sent = only === undefined ? functions : functions.filter(({ name }) => name === only)
  if (sent.length === 0)
    throw invalid('tool_choice: names a function that is not among the tools', 'tool_choice')
  return {
    tools: sent.map(tool => shown(tool, names)),
    ...(sent.every(({ strict }) => strict) ? { strict_tools: true } : {}),
    ...choiceOf(tool_choice),
  }
}

// Cohere can force a call, but not of a specific function. So only the requested one is offered.
const namedIn = (choice: ToolChoice | undefined): string | undefined =>
  typeof choice === 'object' && 'function' in choice ? choice.function.name : undefined

function choiceOf(choice: ToolChoice | undefined): Record<string, unknown> {
  if (choice === 'none') return { tool_choice: 'NONE' }
  return choice === 'required' || namedIn(choice) !== undefined ? { tool_choice: 'REQUIRED' } : {}
}

const shown = ({ name, description, parameters }: FunctionTool, names: ToolNames) => ({
  type: 'function',
  function: {
    name: names.sent(name),
    ...(description === undefined ? {} : { description }),
    parameters:
      isObject(parameters) && Object.keys(parameters).length > 0
        ? parameters
        : { type: 'object', properties: {} },
  },
})

/** The answer format as a parameter, and the instruction that accompanies or replaces it. */
interface Format {
  format: { type: 'json_object'; json_schema?: Record<string, unknown> } | null
  instruction: string | null
}

/**
 * Chooses how the answer format is requested. Beside tools or documents Cohere refuses
 * `response_format`, so an instruction replaces it. Without a mention of JSON in the prompt, a JSON
 * answer may never end (https://docs.cohere.com/docs/structured-outputs).
 */
function formatOf(call: TextCall): Format {
  const schema = schemaOf(call.params.response_format)
  if (!schema) return { format: null, instruction: null }
  if (call.tools.length > 0 || 'documents' in call.extra || call.turns.some(hasFile))
    return { format: null, instruction: schemaInWords(ONE_OBJECT, schema) }
  const format: Format['format'] = {
    type: 'json_object',
    ...(schema.schema ? { json_schema: schema.schema } : {}),
  }
  return { format, instruction: mentionsJson(call) ? null : ANSWER_IN_JSON }
}

interface Schema {
  description?: string
  schema?: Record<string, unknown>
}

function schemaOf(wish: ResponseFormat | undefined): Schema | null {
  if (wish && 'json_schema' in wish) return wish.json_schema
  return wish?.type === 'json_object' ? {} : null
}

const ONE_OBJECT = 'Answer with one JSON object and nothing else, unless you call a tool.'

const hasFile = ({ blocks }: TextCall['turns'][number]) =>
  blocks.some(block => block.type === 'file')
