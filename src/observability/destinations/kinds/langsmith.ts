import { Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import { buildBaseUrl, buildHeadersSchema, Credential, HeaderName, joinUrl } from '../config.ts'
import type { Attributes } from '../otlp/attributes.ts'
import { flatten, hasUsage, nameKinds, omitNull } from '../otlp/attributes.ts'
import { createOtlpKind } from '../otlp/kind.ts'
import { writeJson } from '../text.ts'
import type { Trace, TraceFacts, TraceSpan } from '../trace.ts'

const ENDPOINT = 'https://api.smith.langchain.com'
const PROJECT = 'main'

const CONFIG = Type.Object(
  {
    apiKey: Credential,
    endpoint: Type.Optional(buildBaseUrl(ENDPOINT)),
    headers: buildHeadersSchema('langsmith-project', 'x-api-key', 'x-tenant-id'),
    project: Type.Optional({ ...HeaderName, default: PROJECT }),
    workspaceId: Type.Optional(HeaderName),
  },
  closed,
)

/**
 * LangSmith: its OTLP endpoint, with the key, the project, and the workspace for keys of a whole
 * organisation. Its own attributes say what a span is; contents it reads from `gen_ai.*`.
 */
export const langsmith = createOtlpKind({
  type: 'langsmith',
  config: CONFIG,
  secrets: ['apiKey'],
  address: ['endpoint'],
  findUrl: ({ endpoint = ENDPOINT }) => joinUrl(endpoint, '/otel/v1/traces'),
  buildHeaders: ({ apiKey, project = PROJECT, workspaceId }) => ({
    'x-api-key': apiKey,
    'langsmith-project': project,
    ...(workspaceId === undefined ? {} : { 'x-tenant-id': workspaceId }),
  }),
  buildOptions: () => ({ buildAttributes }),
})

const TYPES = { tool: 'tool', attempt: 'chain', generation: 'chain', step: 'chain' }
const ROOTS = nameKinds('llm', 'embedding', 'retriever')

const buildAttributes = (trace: Trace, span: TraceSpan): Attributes => ({
  'langsmith.span.kind': span.role === 'root' ? ROOTS[trace.facts.kind] : TYPES[span.role],
  ...(span.role === 'root' ? buildRoot(trace) : {}),
})

const buildRoot = ({ name, facts, metadata }: Trace): Attributes => ({
  'langsmith.trace.name': name,
  ...flatten('langsmith.metadata', metadata),
  ...(facts.sessionId === null ? {} : { 'langsmith.metadata.session_id': facts.sessionId }),
  ...(facts.userId === null ? {} : { 'langsmith.metadata.user_id': facts.userId }),
  ...buildUsage(facts),
})

const buildUsage = (facts: TraceFacts): Attributes =>
  hasUsage(facts)
    ? {
        'langsmith.usage_metadata': writeJson({
          input_tokens: facts.promptTokens,
          output_tokens: facts.completionTokens,
          total_tokens: facts.promptTokens + facts.completionTokens,
          input_token_details: {
            cache_read: facts.cachedTokens,
            cache_creation: facts.cacheWriteTokens,
          },
          output_token_details: { reasoning: facts.reasoningTokens },
          ...omitNull({
            input_cost: facts.inputCost,
            output_cost: facts.outputCost,
            total_cost: facts.totalCost,
          }),
        }),
      }
    : {}
