import { Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import { BodyName, buildBaseUrl, buildHeadersSchema, Credential, joinUrl } from '../config.ts'
import { type PlainMessage, readInput, readOutput } from '../content.ts'
import type { Attributes } from '../otlp/attributes.ts'
import {
  addCosts,
  hasUsage,
  nameKinds,
  type Words,
  writeCompletion,
  writePrompt,
} from '../otlp/attributes.ts'
import { createOtlpKind } from '../otlp/kind.ts'
import { cutText, writeJson } from '../text.ts'
import type { Trace, TraceFacts, TraceSpan } from '../trace.ts'

const BASE_URL = 'https://otlp.arize.com'

const CONFIG = Type.Object(
  {
    apiKey: Credential,
    baseUrl: Type.Optional(buildBaseUrl(BASE_URL)),
    headers: buildHeadersSchema('api_key', 'arize-api-key', 'arize-space-id', 'space_id'),
    modelId: BodyName,
    spaceKey: Credential,
  },
  closed,
)

/**
 * Arize AX: OTLP with OpenInference's attributes. `modelId` is the name of the project. The key and
 * the space stand under the names of the older and of the newer documentation, as proxies may drop
 * headers with underscores.
 */
export const arize = createOtlpKind({
  type: 'arize',
  // As the vendor's own instrumentation sends it: nothing says that JSON is taken.
  encoding: 'protobuf',
  config: CONFIG,
  secrets: ['apiKey', 'spaceKey'],
  address: ['baseUrl'],
  findUrl: ({ baseUrl = BASE_URL }) => joinUrl(baseUrl, '/v1/traces'),
  buildHeaders: ({ apiKey, spaceKey }) => ({
    api_key: apiKey,
    'arize-api-key': apiKey,
    'arize-space-id': spaceKey,
    space_id: spaceKey,
  }),
  buildOptions: ({ modelId }) => ({
    resource: { 'openinference.project.name': modelId, model_id: modelId },
    buildAttributes,
  }),
})

const KINDS = { tool: 'TOOL', attempt: 'CHAIN', generation: 'CHAIN', step: 'CHAIN' }
const ROOTS = nameKinds('LLM', 'EMBEDDING', 'RERANKER')

const buildAttributes = (trace: Trace, span: TraceSpan): Attributes => ({
  'openinference.span.kind': span.role === 'root' ? ROOTS[trace.facts.kind] : KINDS[span.role],
  ...(span.role === 'root' ? buildRoot(trace) : {}),
})

const buildRoot = (trace: Trace): Attributes => ({
  ...buildContent('input', writePrompt(trace)),
  ...buildContent('output', writeCompletion(trace)),
  'llm.model_name': trace.facts.model,
  ...buildModelName(trace.facts),
  'llm.provider': trace.facts.author,
  'llm.system': trace.facts.author,
  ...(trace.facts.finishReason === null ? {} : { 'llm.finish_reason': trace.facts.finishReason }),
  'llm.invocation_parameters': writeJson(trace.facts.parameters),
  ...listMessages('llm.input_messages', readInput(trace) ?? []),
  ...listMessages(
    'llm.output_messages',
    [readOutput(trace)].filter(message => message !== null),
  ),
  ...buildUsage(trace.facts),
  ...(Object.keys(trace.metadata).length === 0 ? {} : { metadata: writeJson(trace.metadata) }),
})

const buildContent = (name: string, json: string | null): Attributes =>
  json === null ? {} : { [`${name}.value`]: json, [`${name}.mime_type`]: 'application/json' }

/**
 * Messages are attributes of their own, whose number and size collectors bound. `input.value` and
 * `output.value` have all.
 */
const MOST_MESSAGES = 100
const LONGEST_MESSAGE = 100_000

const listMessages = (prefix: string, messages: PlainMessage[]): Attributes =>
  Object.assign(
    {},
    ...messages
      .slice(0, MOST_MESSAGES)
      .map((message, i) => buildMessage(`${prefix}.${i}.message`, message)),
  )

const buildMessage = (
  prefix: string,
  { role, content, toolRequests }: PlainMessage,
): Attributes => ({
  [`${prefix}.role`]: role,
  [`${prefix}.content`]: cutText(content, LONGEST_MESSAGE),
  ...Object.assign(
    {},
    ...toolRequests.map(({ id, name, arguments: json }, i) => {
      const call = `${prefix}.tool_calls.${i}.tool_call`
      return {
        [`${call}.id`]: id,
        [`${call}.function.name`]: name,
        [`${call}.function.arguments`]: cutText(json, LONGEST_MESSAGE),
      }
    }),
  ),
})

/** The kinds that have a name of their own for the model. */
const MODEL_NAMES: Partial<Words> = {
  embedding: 'embedding.model_name',
  rerank: 'reranker.model_name',
}

function buildModelName({ kind, model }: TraceFacts): Attributes {
  const name = MODEL_NAMES[kind]
  return name === undefined ? {} : { [name]: model }
}

const buildUsage = (facts: TraceFacts): Attributes =>
  hasUsage(facts)
    ? {
        'llm.token_count.prompt': facts.promptTokens,
        'llm.token_count.completion': facts.completionTokens,
        'llm.token_count.total': facts.promptTokens + facts.completionTokens,
        'llm.token_count.prompt_details.cache_read': facts.cachedTokens,
        'llm.token_count.prompt_details.cache_write': facts.cacheWriteTokens,
        'llm.token_count.completion_details.reasoning': facts.reasoningTokens,
        ...buildCosts(facts),
      }
    : {}

function buildCosts(facts: TraceFacts): Attributes {
  const costs: Attributes = {}
  addCosts(costs, facts, 'llm.cost', ['prompt', 'completion', 'total'])
  return costs
}
