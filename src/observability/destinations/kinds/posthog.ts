import { Type } from '@sinclair/typebox'
import type { Json } from '../../../base/json.ts'
import { closed } from '../../../base/schema-builders.ts'
import { BodyName, buildBaseUrl, buildHeaders, buildHeadersSchema, joinUrl } from '../config.ts'
import { buildAnswerMessage } from '../content.ts'
import { judgePage } from '../judge.ts'
import type { DestinationKind } from '../kind.ts'
import { hasUsage, nameKinds, omitNull } from '../otlp/attributes.ts'
import { cutText, writeJson } from '../text.ts'
import type { Trace, TraceFacts } from '../trace.ts'

const ENDPOINT = 'https://us.i.posthog.com'

const CONFIG = Type.Object(
  {
    apiKey: BodyName,
    endpoint: Type.Optional(buildBaseUrl(ENDPOINT)),
    headers: buildHeadersSchema(),
  },
  closed,
)

const JSON_BODY = { 'content-type': 'application/json' }

/**
 * PostHog: one event for each trace, `$ai_generation` for what generates, in a batch of its capture API. The key of a
 * project is no secret there and stands in the body: capture knows no other place. Capture accepts
 * every key, so a test asks for feature flags, which need a real one.
 */
export const posthog: DestinationKind<typeof CONFIG> = {
  type: 'posthog',
  config: CONFIG,
  secrets: ['apiKey'],
  address: ['endpoint'],
  batchSize: 50,
  render: ({ now, serviceName, version }, { apiKey, endpoint = ENDPOINT, headers }, traces) => ({
    method: 'POST',
    url: joinUrl(endpoint, '/batch/'),
    headers: buildHeaders(headers, JSON_BODY),
    body: writeJson({
      api_key: apiKey,
      batch: traces.map(trace => buildEvent(serviceName, version, trace)),
      sent_at: new Date(now).toISOString(),
    }),
  }),
  renderTest: (_, { apiKey, endpoint = ENDPOINT, headers }) => ({
    method: 'POST',
    url: `${joinUrl(endpoint, '/flags/')}?v=2`,
    headers: buildHeaders(headers, JSON_BODY),
    body: writeJson({ token: apiKey, distinct_id: 'openrouter-connection-test' }),
  }),
  judge: judgePage,
}

const EVENTS = nameKinds('$ai_generation', '$ai_embedding', '$ai_span')

const buildEvent = (service: string, version: string, trace: Trace) => ({
  event: EVENTS[trace.facts.kind],
  uuid: buildUuid(trace.id),
  distinct_id: trace.facts.userId ?? trace.traceId,
  timestamp: new Date(trace.facts.endedAt).toISOString(),
  properties: {
    ...renameReserved(trace.metadata),
    ...(Object.keys(trace.extra).length === 0 ? {} : { openrouter_generation: trace.extra }),
    trace_name: trace.name,
    ...buildProperties(trace),
    $lib: service,
    $lib_version: version,
    $ai_lib: service,
    $ai_lib_version: version,
    // The address of the sender is the gateway's, not a user's place.
    $geoip_disable: true,
    // Without a user there is no one to have a profile.
    ...(trace.facts.userId === null ? { $process_person_profile: false } : {}),
  },
})

function buildProperties(trace: Trace): Json {
  const { facts } = trace
  const root = trace.spans.find(({ role }) => role === 'root')
  const generation = trace.spans.find(({ role }) => role === 'generation')
  return {
    $ai_trace_id: trace.traceId,
    ...(facts.sessionId === null ? {} : { $ai_session_id: facts.sessionId }),
    $ai_span_id: root?.spanId ?? trace.id,
    ...(root?.parentSpanId ? { $ai_parent_id: root.parentSpanId } : {}),
    $ai_span_name: generation?.name ?? trace.name,
    $ai_completion_id: trace.id,
    $ai_model: facts.model,
    $ai_provider: facts.author,
    $ai_model_parameters: facts.parameters,
    $ai_stream: facts.streamed,
    $ai_latency: (facts.endedAt - facts.startedAt) / 1000,
    ...(facts.firstTokenMs === null ? {} : { $ai_time_to_first_token: facts.firstTokenMs / 1000 }),
    ...(facts.finishReason === null ? {} : { $ai_stop_reason: facts.finishReason }),
    ...(trace.input === null ? {} : { $ai_input: fitContent(trace.input, 'user') }),
    ...(trace.output === null
      ? {}
      : { $ai_output_choices: fitContent([buildAnswerMessage(trace.output)], 'assistant') }),
    ...buildUsage(facts),
    ...buildFailure(facts),
  }
}

const buildUsage = (facts: TraceFacts): Json =>
  hasUsage(facts)
    ? {
        $ai_input_tokens: facts.promptTokens,
        $ai_output_tokens: facts.completionTokens,
        $ai_total_tokens: facts.promptTokens + facts.completionTokens,
        $ai_cache_read_input_tokens: facts.cachedTokens,
        $ai_cache_creation_input_tokens: facts.cacheWriteTokens,
        // Cached tokens are among the input tokens.
        $ai_cache_reporting_exclusive: false,
        $ai_reasoning_tokens: facts.reasoningTokens,
        ...omitNull({
          $ai_input_cost_usd: facts.inputCost,
          $ai_output_cost_usd: facts.outputCost,
          $ai_total_cost_usd: facts.totalCost,
        }),
      }
    : {}

const buildFailure = ({ error }: TraceFacts): Json =>
  error === null
    ? { $ai_is_error: false, $ai_http_status: 200 }
    : { $ai_is_error: true, $ai_error: error.message, $ai_error_type: error.type }

/** PostHog refuses an event of more than about a megabyte. */
const LONGEST_CONTENT = 200_000

function fitContent(messages: unknown[], role: string): unknown[] {
  const json = writeJson(messages)
  if (json.length <= LONGEST_CONTENT) return messages
  return [{ role, content: `${cutText(json, LONGEST_CONTENT)}... [truncated]` }]
}

// A client's own `$set` would change persons, and its `token` another project.
const renameReserved = (metadata: Json): Json =>
  Object.fromEntries(
    Object.entries(metadata).map(([name, value]) => [
      name.startsWith('$') || RESERVED.includes(name) ? `trace_${name}` : name,
      value,
    ]),
  )

const RESERVED = ['token', 'distinct_id']

/** Makes a UUID of a generation's id, so that PostHog knows an event that comes again. */
function buildUuid(id: string): string {
  const hash = new Bun.CryptoHasher('sha256').update(id).digest('hex')
  const variant = ((Number.parseInt(hash.slice(16, 17), 16) & 3) | 8).toString(16)
  return [
    ...[hash.slice(0, 8), hash.slice(8, 12), `5${hash.slice(13, 16)}`],
    ...[`${variant}${hash.slice(17, 20)}`, hash.slice(20, 32)],
  ].join('-')
}
