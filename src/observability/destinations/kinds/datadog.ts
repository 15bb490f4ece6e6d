import { Type } from '@sinclair/typebox'
import { type Json, parseObject } from '../../../base/json.ts'
import { closed } from '../../../base/schema-builders.ts'
import { buildBaseUrl, buildHeaders, buildHeadersSchema, Credential, joinUrl } from '../config.ts'
import { type PlainMessage, readInput, readOutput } from '../content.ts'
import { isSuccess, judgePage } from '../judge.ts'
import type { DeliveryRequest, DestinationKind } from '../kind.ts'
import { hasUsage, nameKinds, omitNull } from '../otlp/attributes.ts'
import { cutText, writeJson } from '../text.ts'
import type { Trace, TraceFacts, TraceSpan } from '../trace.ts'

const SITE = 'https://api.us5.datadoghq.com'

const CONFIG = Type.Object(
  {
    apiKey: Credential,
    headers: buildHeadersSchema('dd-api-key'),
    // Datadog's bound of the name of an application.
    mlApp: Type.String({
      pattern: '^[^\\u0000-\\u001f\\u007f]+$',
      title: 'without control characters',
      minLength: 1,
      maxLength: 193,
    }),
    url: Type.Optional(buildBaseUrl(SITE)),
  },
  closed,
)

/** Datadog: the spans API of LLM Observability (Datadog, "HTTP API Reference"). */
export const datadog: DestinationKind<typeof CONFIG> = {
  type: 'datadog',
  config: CONFIG,
  secrets: ['apiKey'],
  address: ['url'],
  batchSize: 20,
  render: (_, config, traces) =>
    renderSpans(
      config,
      traces.flatMap(trace => trace.spans.map(span => buildSpan(config.mlApp, trace, span))),
    ),
  renderTest: ({ now, createId }, config) => renderSpans(config, [buildTestSpan(now, createId())]),
  judge: answer => (isSuccess(answer) && hasErrors(answer.text) ? 'refused' : judgePage(answer)),
}

const hasErrors = (text: string): boolean => {
  const errors = parseObject(text)?.errors
  return Array.isArray(errors) && errors.length > 0
}

const renderSpans = (
  { apiKey, mlApp, url = SITE, headers }: Parameters<(typeof datadog)['render']>[1],
  spans: Json[],
): DeliveryRequest => ({
  method: 'POST',
  url: joinUrl(url, '/api/intake/llm-obs/v1/trace/spans'),
  headers: buildHeaders(headers, { 'content-type': 'application/json', 'dd-api-key': apiKey }),
  body: writeJson({
    data: {
      type: 'span',
      attributes: { ml_app: mlApp, tags: [`service:${mlApp}`], spans },
    },
  }),
})

const KINDS = { tool: 'tool', attempt: 'task', generation: 'task', step: 'workflow' }
const ROOTS = nameKinds('llm', 'embedding', 'retrieval')

const buildSpan = (mlApp: string, trace: Trace, span: TraceSpan): Json => ({
  name: span.role === 'root' ? trace.name : span.name,
  trace_id: trace.traceId,
  span_id: toDecimal(span.spanId),
  parent_id: span.parentSpanId === null ? 'undefined' : toDecimal(span.parentSpanId),
  start_ns: Math.round(span.startedAt * 1e6),
  duration: Math.round((span.endedAt - span.startedAt) * 1e6),
  status: span.error === null ? 'ok' : 'error',
  ...(trace.facts.sessionId === null ? {} : { session_id: trace.facts.sessionId }),
  tags: buildTags(mlApp, trace),
  meta: {
    kind: span.role === 'root' ? ROOTS[trace.facts.kind] : KINDS[span.role],
    ...(span.error === null ? {} : { error: { ...span.error } }),
    ...(span.role === 'root' ? buildCall(trace) : buildStep(span)),
  },
  ...(span.role === 'root' && hasUsage(trace.facts) ? { metrics: buildMetrics(trace.facts) } : {}),
})

// Datadog's ids of spans are decimal numbers of 64 bits, as its SDKs write them.
const toDecimal = (hex: string): string => BigInt(`0x${hex}`).toString()

const buildTags = (mlApp: string, { facts }: Trace): string[] => [
  `service:${mlApp}`,
  ...(facts.userId === null ? [] : [`user_id:${facts.userId}`]),
  ...(facts.sessionId === null ? [] : [`session_id:${facts.sessionId}`]),
  ...(facts.apiKeyName === null ? [] : [`api_key_name:${facts.apiKeyName}`]),
  ...(facts.error === null ? [] : [`error_type:${facts.error.type}`]),
]

function buildCall(trace: Trace): Json {
  const { facts, metadata, extra } = trace
  const [input, output] = [readInput(trace), readOutput(trace)]
  return {
    ...(input === null ? {} : { input: { messages: fitMessages(input) } }),
    ...(output === null ? {} : { output: { messages: fitMessages([output]) } }),
    metadata: {
      ...metadata,
      ...(Object.keys(extra).length === 0 ? {} : { openrouter_generation: extra }),
      ...facts.parameters,
      model_name: facts.model,
      model_provider: facts.author,
      provider_name: facts.providerName,
      finish_reason: facts.finishReason,
      response_id: trace.id,
    },
  }
}

/** Datadog's agents drop the contents of a span of more than five megabytes; half is for each. */
const LONGEST_CONTENT = 2_000_000

function fitMessages(messages: PlainMessage[]): Json[] {
  const rendered = messages.map(renderMessage)
  const json = writeJson(rendered)
  if (json.length <= LONGEST_CONTENT) return rendered
  const role = messages[0]?.role ?? 'user'
  return [{ role, content: `${cutText(json, LONGEST_CONTENT)}... [truncated]` }]
}

const renderMessage = ({ role, content, toolRequests }: PlainMessage): Json => ({
  role,
  content,
  ...(toolRequests.length === 0
    ? {}
    : {
        tool_calls: toolRequests.map(({ id, name, arguments: json }) => ({
          tool_id: id,
          name,
          arguments: parseObject(json) ?? { arguments: json },
        })),
      }),
})

const buildStep = ({ attributes }: TraceSpan): Json =>
  Object.keys(attributes).length === 0
    ? {}
    : {
        metadata: Object.fromEntries(
          Object.entries(attributes).map(([key, value]) => [
            key,
            typeof value === 'object' ? value.double : value,
          ]),
        ),
      }

const buildMetrics = (facts: TraceFacts): Record<string, number> => ({
  input_tokens: facts.promptTokens,
  output_tokens: facts.completionTokens,
  total_tokens: facts.promptTokens + facts.completionTokens,
  cache_read_input_tokens: facts.cachedTokens,
  cache_write_input_tokens: facts.cacheWriteTokens,
  reasoning_output_tokens: facts.reasoningTokens,
  ...omitNull({
    input_cost: facts.inputCost,
    output_cost: facts.outputCost,
    total_cost: facts.totalCost,
  }),
  ...(facts.firstTokenMs === null ? {} : { time_to_first_token: facts.firstTokenMs / 1000 }),
})

/** The intake refuses a request without spans, so a test has one that says what it is. */
const buildTestSpan = (now: number, id: string): Json => ({
  name: 'openrouter-connection-test',
  trace_id: id.replaceAll('-', ''),
  span_id: '1',
  parent_id: 'undefined',
  start_ns: now * 1e6,
  duration: 1e6,
  status: 'ok',
  meta: { kind: 'task' },
})
