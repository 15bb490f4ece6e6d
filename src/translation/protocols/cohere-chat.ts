import { invalid } from '../../base/errors.ts'
import { isObject, omitUndefined } from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Params, ResponseFormat } from '../../language/params.ts'
import type { ToolChoice } from '../../language/tool.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { checkCalls } from './calls.ts'
import { readFailure } from './cohere-chat/failure.ts'
import { createToolNames, renderDocuments, renderMessages } from './cohere-chat/messages.ts'
import { EventReader, parseAnswer } from './cohere-chat/reader.ts'
import { ANSWER_IN_JSON, buildSchemaInstruction, mentionsJson } from './json-answer.ts'
import { type FunctionTool, readExtra, requireFunctionTool } from './native.ts'
import type { Protocol, UpstreamRequest } from './protocol.ts'
import { toReasoningBudget } from './reasoning.ts'
import { offerAllowed, type ToolNames } from './tools.ts'

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
      messages: renderMessages(call.messages, instruction, names),
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

/** Cohere's chat, version 2: `POST {base_url}/chat` (https://docs.cohere.com/reference/chat). */
export const cohereChat: Protocol<'text'> = checkCalls({
  framing: 'sse',
  acceptsNames: false,
  urlMedia: ['image'],
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
