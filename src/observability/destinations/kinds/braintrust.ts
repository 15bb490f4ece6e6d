import { Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import { buildBaseUrl, buildHeadersSchema, Credential, HeaderName, joinUrl } from '../config.ts'
import { buildAnswerMessage } from '../content.ts'
import type { Attributes } from '../otlp/attributes.ts'
import { hasUsage, nameKinds, OPERATIONS } from '../otlp/attributes.ts'
import { createOtlpKind } from '../otlp/kind.ts'
import { writeJson } from '../text.ts'
import type { Trace, TraceFacts, TraceSpan } from '../trace.ts'

const BASE_URL = 'https://api.braintrust.dev'

const CONFIG = Type.Object(
  {
    apiKey: Credential,
    baseUrl: Type.Optional(buildBaseUrl(BASE_URL)),
    headers: buildHeadersSchema('authorization', 'x-bt-parent'),
    projectId: HeaderName,
  },
  closed,
)

/**
 * Braintrust: its OTLP endpoint, a bearer token, and the project as the parent of all spans. Its
 * own attributes make a span of a model of the root: messages that its playground can run again.
 */
export const braintrust = createOtlpKind({
  type: 'braintrust',
  config: CONFIG,
  secrets: ['apiKey'],
  address: ['baseUrl'],
  findUrl: ({ baseUrl = BASE_URL }) => joinUrl(baseUrl, '/otel/v1/traces'),
  buildHeaders: ({ apiKey, projectId }) => ({
    authorization: `Bearer ${apiKey}`,
    'x-bt-parent': `project_id:${projectId}`,
  }),
  buildOptions: () => ({ buildAttributes }),
})

const TYPES = { tool: 'tool', attempt: 'task', generation: 'task', step: 'task' }
// Its own wrappers of embeddings are of models, too. It has no type of what ranks.
const ROOTS = nameKinds('llm', 'llm', 'function')

const buildAttributes = (trace: Trace, span: TraceSpan): Attributes => ({
  'braintrust.span_attributes': writeJson({
    name: span.role === 'root' ? trace.name : span.name,
    type: span.role === 'root' ? ROOTS[trace.facts.kind] : TYPES[span.role],
  }),
  ...(span.role === 'root' ? buildRoot(trace) : {}),
})

const buildRoot = ({ input, output, metadata, facts }: Trace): Attributes => ({
  ...(input === null ? {} : { 'braintrust.input_json': writeJson(input) }),
  ...(output === null ? {} : { 'braintrust.output_json': writeJson([buildAnswerMessage(output)]) }),
  'braintrust.metadata': writeJson({
    ...metadata,
    ...facts.parameters,
    operation: OPERATIONS[facts.kind],
    model: facts.model,
    provider: facts.author,
    ...(facts.userId === null ? {} : { user_id: facts.userId }),
    ...(facts.sessionId === null ? {} : { session_id: facts.sessionId }),
  }),
  ...buildMetrics(facts),
})

const buildMetrics = (facts: TraceFacts): Attributes =>
  hasUsage(facts)
    ? {
        'braintrust.metrics': writeJson({
          prompt_tokens: facts.promptTokens,
          completion_tokens: facts.completionTokens,
          tokens: facts.promptTokens + facts.completionTokens,
          prompt_cached_tokens: facts.cachedTokens,
          prompt_cache_creation_tokens: facts.cacheWriteTokens,
          completion_reasoning_tokens: facts.reasoningTokens,
          ...(facts.totalCost === null ? {} : { estimated_cost: facts.totalCost }),
          ...(facts.firstTokenMs === null
            ? {}
            : { time_to_first_token: facts.firstTokenMs / 1000 }),
        }),
      }
    : {}
