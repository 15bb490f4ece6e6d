import { Type } from '@sinclair/typebox'
import { closed } from '../../../base/schema-builders.ts'
import { buildBaseUrl, buildBasic, buildHeadersSchema, Credential, joinUrl } from '../config.ts'
import type { Attributes } from '../otlp/attributes.ts'
import { flatten, hasUsage, nameKinds } from '../otlp/attributes.ts'
import { createOtlpKind } from '../otlp/kind.ts'
import { writeJson } from '../text.ts'
import type { Trace, TraceFacts, TraceSpan } from '../trace.ts'

const BASE_URL = 'https://us.cloud.langfuse.com'

const CONFIG = Type.Object(
  {
    baseUrl: Type.Optional(buildBaseUrl(BASE_URL)),
    headers: buildHeadersSchema('authorization', 'x-langfuse-ingestion-version'),
    publicKey: Credential,
    secretKey: Credential,
  },
  closed,
)

/**
 * Langfuse: its OTLP ingest, Basic authentication of both keys. Its own attributes say what the
 * trace and the generation are called and what they cost; contents it reads from `gen_ai.*`.
 * The version of the ingestion makes traces appear at once (Langfuse, "Real-time ingestion").
 */
export const langfuse = createOtlpKind({
  type: 'langfuse',
  config: CONFIG,
  secrets: ['publicKey', 'secretKey'],
  address: ['baseUrl'],
  findUrl: ({ baseUrl = BASE_URL }) => joinUrl(baseUrl, '/api/public/otel/v1/traces'),
  buildHeaders: ({ publicKey, secretKey }) => ({
    authorization: buildBasic(publicKey, secretKey),
    'x-langfuse-ingestion-version': '4',
  }),
  buildOptions: () => ({ buildAttributes }),
})

const ROOTS = nameKinds('generation', 'embedding', 'retriever')
const TYPES = {
  tool: 'tool',
  attempt: 'span',
  generation: 'span',
  step: 'span',
}

const buildAttributes = (trace: Trace, span: TraceSpan): Attributes => ({
  'langfuse.observation.type': span.role === 'root' ? ROOTS[trace.facts.kind] : TYPES[span.role],
  'langfuse.observation.level': span.error === null ? 'DEFAULT' : 'ERROR',
  ...(span.error === null ? {} : { 'langfuse.observation.status_message': span.error.message }),
  ...(span.role === 'root' ? buildRoot(trace) : {}),
})

const buildRoot = ({ name, facts, metadata }: Trace): Attributes => ({
  'langfuse.trace.name': name,
  'langfuse.observation.model.name': facts.model,
  'langfuse.observation.model.parameters': writeJson(facts.parameters),
  ...buildUsage(facts),
  ...buildFirstToken(facts),
  ...flatten('langfuse.trace.metadata', metadata),
})

const buildUsage = (facts: TraceFacts): Attributes =>
  hasUsage(facts)
    ? {
        'langfuse.observation.usage_details': writeJson({
          input: Math.max(0, facts.promptTokens - facts.cachedTokens - facts.cacheWriteTokens),
          input_cached_tokens: facts.cachedTokens,
          input_cache_creation: facts.cacheWriteTokens,
          output: Math.max(0, facts.completionTokens - facts.reasoningTokens),
          output_reasoning_tokens: facts.reasoningTokens,
          total: facts.promptTokens + facts.completionTokens,
        }),
        ...(facts.totalCost === null
          ? {}
          : {
              'langfuse.observation.cost_details': writeJson({
                input: facts.inputCost,
                output: facts.outputCost,
                total: facts.totalCost,
              }),
            }),
      }
    : {}

// The SDK of Langfuse writes a time as JSON, in quotes.
const buildFirstToken = ({ startedAt, firstTokenMs }: TraceFacts): Attributes =>
  firstTokenMs === null
    ? {}
    : {
        'langfuse.observation.completion_start_time': writeJson(new Date(startedAt + firstTokenMs)),
      }
