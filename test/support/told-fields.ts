import type { Kind } from '../../src/language/work.ts'
import type { DestinationKind } from '../../src/observability/destinations/kind.ts'
import type { listAttributes } from '../../src/observability/destinations/otlp.ts'
import { COLUMNS } from '../../src/observability/destinations/rows.ts'
import type { TraceFacts } from '../../src/observability/destinations/trace.ts'
import { describeOtlp, listDescribedSpans } from './protobuf.ts'

/** What a receiver has of a call, by the receiver's own names; JSON inside texts is read. */
export type Told = Record<string, unknown>

/** What a body should say of a call: undefined where it should say nothing. */
type Expected = Record<string, unknown>

type Attribute = ReturnType<typeof listAttributes>[number]
type Span = Record<string, unknown> & { attributes: Attribute[]; status: { code: number } }

const readValue = ({ value }: Attribute): unknown => Object.values(value)[0]

function readSpans(body: string): Span[] {
  const { resourceSpans } = JSON.parse(body)
  return resourceSpans.flatMap((one: { scopeSpans: { spans: Span[] }[] }) =>
    one.scopeSpans.flatMap(({ spans }) => spans),
  )
}

const readAttributes = ({ attributes }: Span): Told =>
  Object.fromEntries(attributes.map(attribute => [attribute.key, readValue(attribute)]))

/** Looks into texts that hold an object: their members are named below them. */
const unfold = (told: Told): Told =>
  Object.fromEntries(
    Object.entries(told).flatMap(([name, value]) => {
      const inner = typeof value === 'string' && value.startsWith('{') ? JSON.parse(value) : value
      const isObject = typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      return isObject
        ? Object.entries(unfold(inner)).map(([key, one]) => [`${name}.${key}`, one] as const)
        : [[name, inner] as const]
    }),
  )

/** Reads what the body of a delivery says of its one call. */
export function readTold(kind: DestinationKind, body: string | Uint8Array): Told {
  if (typeof body !== 'string') {
    const spans = listDescribedSpans(describeOtlp(body))
    return unfold(spans[0]?.attributes ?? {})
  }
  switch (kind.type) {
    case 'clickhouse':
      return unfold(JSON.parse(body.trim()))
    case 'snowflake': {
      const { bindings } = JSON.parse(body)
      const values = Object.keys(COLUMNS).map((name, i) => {
        const { type, value } = bindings[i + 1]
        return [name, type === 'TEXT' || value === null ? value : Number(value)]
      })
      return unfold(Object.fromEntries(values))
    }
    case 'posthog':
      return unfold(JSON.parse(body).batch[0])
    case 's3':
      return unfold(JSON.parse(body))
    case 'datadog':
      return unfold(JSON.parse(body).data.attributes.spans[0])
    default:
      return unfold(readAttributes(readSpans(body)[0] as Span))
  }
}

/** Names the kinds that generate, embed and rank. */
const words = (text: string, embedding: string, rerank: string): Partial<Record<Kind, string>> => ({
  ...{ text, image: text, speech: text, transcription: text, video: text, embedding, rerank },
})
const OPERATIONS = { ...words('generate_content', 'embeddings', 'rerank'), text: 'chat' }

const input = ({ promptTokens }: TraceFacts) => promptTokens
const total = (facts: TraceFacts) => facts.promptTokens + facts.completionTokens
const orNothing = <Value>(value: Value | null) => value ?? undefined

/** What every receiver of OTLP has. */
const otlp = (facts: TraceFacts): Expected => ({
  'gen_ai.operation.name': OPERATIONS[facts.kind],
  'gen_ai.request.model': facts.model,
  'gen_ai.usage.input_tokens': input(facts),
  'gen_ai.usage.output_tokens': facts.completionTokens,
  'gen_ai.usage.total_tokens': total(facts),
  'gen_ai.usage.input_tokens.cached': facts.cachedTokens,
  'gen_ai.usage.output_tokens.reasoning': facts.reasoningTokens,
  'gen_ai.usage.input_cost': orNothing(facts.inputCost),
  'gen_ai.usage.output_cost': orNothing(facts.outputCost),
  'gen_ai.usage.total_cost': orNothing(facts.totalCost),
  'gen_ai.response.finish_reason': orNothing(facts.finishReason),
  'session.id': orNothing(facts.sessionId),
  'user.id': orNothing(facts.userId),
  'error.type': facts.error?.type,
})

const row = (facts: TraceFacts): Expected => ({
  SPAN_TYPE: words('GENERATION', 'EMBEDDING', 'RERANK')[facts.kind],
  MODEL: facts.model,
  PROVIDER_NAME: facts.providerName,
  STATUS: facts.error ? 'error' : 'ok',
  FINISH_REASON: facts.finishReason,
  USER_ID: facts.userId,
  SESSION_ID: facts.sessionId,
  PROMPT_TOKENS: input(facts),
  COMPLETION_TOKENS: facts.completionTokens,
  TOTAL_TOKENS: total(facts),
  TOTAL_COST: facts.totalCost,
  DURATION_MS: facts.endedAt - facts.startedAt,
  'ATTRIBUTES.gen_ai.operation.name': OPERATIONS[facts.kind],
  'ATTRIBUTES.error.type': facts.error?.type,
})

const EXPECTED: Record<string, (facts: TraceFacts) => Expected> = {
  clickhouse: row,
  snowflake: row,
  arize: facts => ({
    ...otlp(facts),
    'openinference.span.kind': words('LLM', 'EMBEDDING', 'RERANKER')[facts.kind],
    'llm.token_count.prompt': input(facts),
    'llm.token_count.completion': facts.completionTokens,
    'llm.token_count.total': total(facts),
    'llm.cost.prompt': orNothing(facts.inputCost),
    'llm.cost.completion': orNothing(facts.outputCost),
    'llm.cost.total': orNothing(facts.totalCost),
  }),
  braintrust: facts => ({
    ...otlp(facts),
    'braintrust.span_attributes.type': words('llm', 'llm', 'function')[facts.kind],
    'braintrust.metadata.operation': OPERATIONS[facts.kind],
    'braintrust.metrics.prompt_tokens': input(facts),
    'braintrust.metrics.tokens': total(facts),
    'braintrust.metrics.estimated_cost': orNothing(facts.totalCost),
  }),
  langfuse: facts => ({
    ...otlp(facts),
    'langfuse.observation.type': words('generation', 'embedding', 'retriever')[facts.kind],
    'langfuse.observation.usage_details.total': total(facts),
    'langfuse.observation.cost_details.input': orNothing(facts.inputCost),
    'langfuse.observation.cost_details.output': orNothing(facts.outputCost),
    'langfuse.observation.cost_details.total': orNothing(facts.totalCost),
  }),
  langsmith: facts => ({
    ...otlp(facts),
    'langsmith.span.kind': words('llm', 'embedding', 'retriever')[facts.kind],
    'langsmith.usage_metadata.total_tokens': total(facts),
    'langsmith.usage_metadata.input_cost': orNothing(facts.inputCost),
    'langsmith.usage_metadata.output_cost': orNothing(facts.outputCost),
    'langsmith.usage_metadata.total_cost': orNothing(facts.totalCost),
  }),
  datadog: facts => ({
    'meta.kind': words('llm', 'embedding', 'retrieval')[facts.kind],
    'meta.error.type': facts.error?.type,
    status: facts.error ? 'error' : 'ok',
    duration: Math.round((facts.endedAt - facts.startedAt) * 1e6),
    'metrics.input_tokens': input(facts),
    'metrics.output_tokens': facts.completionTokens,
    'metrics.total_tokens': total(facts),
    'metrics.input_cost': orNothing(facts.inputCost),
    'metrics.output_cost': orNothing(facts.outputCost),
    'metrics.total_cost': orNothing(facts.totalCost),
    'meta.metadata.model_name': facts.model,
  }),
  posthog: facts => ({
    event: words('$ai_generation', '$ai_embedding', '$ai_span')[facts.kind],
    'properties.$ai_model': facts.model,
    'properties.$ai_latency': (facts.endedAt - facts.startedAt) / 1000,
    'properties.$ai_input_tokens': input(facts),
    'properties.$ai_output_tokens': facts.completionTokens,
    'properties.$ai_input_cost_usd': orNothing(facts.inputCost),
    'properties.$ai_output_cost_usd': orNothing(facts.outputCost),
    'properties.$ai_total_cost_usd': orNothing(facts.totalCost),
    'properties.$ai_is_error': facts.error !== null,
    'properties.$ai_error_type': facts.error?.type,
  }),
  s3: ({ parameters: _, error, ...facts }) => ({
    ...facts,
    ...(error
      ? { 'error.type': error.type, 'error.message': error.message, error: undefined }
      : { error }),
  }),
}

/** Lists what a body says of a call that its facts do not, field by field. */
export function listMistold(
  kind: DestinationKind,
  body: string | Uint8Array,
  facts: TraceFacts,
): string[] {
  const told = readTold(kind, body)
  return Object.entries((EXPECTED[kind.type] ?? otlp)(facts)).flatMap(([name, expected]) =>
    Bun.deepEquals(told[name], expected)
      ? []
      : [`${kind.type}: ${name} is ${JSON.stringify(told[name])}, not ${JSON.stringify(expected)}`],
  )
}
