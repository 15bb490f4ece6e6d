import type {
  ExportedAttempt,
  ExportedCall,
  ExportedGroups,
  ExportedStep,
} from './exported-call.ts'
import { OPERATIONS } from './otlp/attributes.ts'
import type { Destination } from './store.ts'
import type { SpanValue, Trace, TraceFacts, TraceSpan } from './trace.ts'

type Settings = Pick<
  Destination,
  | 'privacy_mode'
  | 'broadcast_generation_cost'
  | 'broadcast_generation_identity'
  | 'broadcast_generation_request_context'
>

/**
 * Builds what a destination is told of a call (wire reference G.5), and no more than its settings
 * allow: without content in privacy mode, and with the groups that it opted into.
 */
export function buildTrace(told: ExportedCall, settings: Settings): Trace {
  const call = fillKind(told)
  const { traceId, rootId, parentSpanId } = chooseIds(call)
  const named = readTrace(call.trace)
  return {
    id: call.id,
    traceId,
    name: named.trace_name ?? TRACE_NAME,
    facts: call.facts,
    input: settings.privacy_mode ? null : call.input,
    output: settings.privacy_mode ? null : call.output,
    metadata: named.metadata,
    extra: pickGroups(call.groups, settings),
    spans: buildSpans(call, named, { rootId, parentSpanId }),
  }
}

/** An earlier version has written calls without their kind, and they may still wait. */
const fillKind = (call: ExportedCall): ExportedCall =>
  call.facts.kind ? call : { ...call, facts: { ...call.facts, kind: 'text' } }

function pickGroups(groups: ExportedGroups, settings: Settings): Record<string, unknown> {
  const picked: Record<string, unknown> = {}
  if (settings.broadcast_generation_cost) Object.assign(picked, groups.cost)
  if (settings.broadcast_generation_identity) Object.assign(picked, groups.identity)
  if (settings.broadcast_generation_request_context) Object.assign(picked, groups.request_context)
  return picked
}

const TRACE_NAME = 'Gateway Request'
const ROOT_NAME = 'LLM Generation'
const GENERATION_NAME = 'generation'

const TRACE_ID = /^(?!0{32})[0-9a-f]{32}$/
const SPAN_ID = /^(?!0{16})[0-9a-f]{16}$/

/** The ids of a trace, of its root span, and of the client's span around it. */
interface TraceIds {
  traceId: string
  rootId: string
  parentSpanId: string | null
}

/**
 * Chooses the ids of a trace. They depend on the call alone, so a trace that is sent again has the
 * same. The client's ids are used as they are if they are those of W3C, and hashed otherwise.
 */
export function chooseIds({ id, trace }: Pick<ExportedCall, 'id' | 'trace'>): TraceIds {
  const own = hash(id)
  const { trace_id, parent_span_id } = trace ?? {}
  const parentSpanId = isText(parent_span_id)
    ? keepOrHash(parent_span_id, SPAN_ID).slice(0, 16)
    : null
  if (!isText(trace_id)) return { traceId: own, rootId: own.slice(0, 16), parentSpanId }
  // Several calls may be in one trace, and each has a root of its own.
  const traceId = keepOrHash(trace_id, TRACE_ID)
  return { traceId, rootId: hash(`${id} root`).slice(0, 16), parentSpanId }
}

const keepOrHash = (text: string, form: RegExp): string => (form.test(text) ? text : hash(text))

const hash = (text: string): string => Bun.SHA256.hash(text, 'hex').slice(0, 32)

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''

/** What the client's `trace` says: the names of spans, and metadata of its own. */
interface NamedTrace {
  trace_name?: string
  span_name?: string
  generation_name?: string
  metadata: Record<string, unknown>
}

const NAMES = ['trace_name', 'span_name', 'generation_name'] as const
const RESERVED: string[] = [...NAMES, 'trace_id', 'parent_span_id']

/** The most characters of a name. */
const LONGEST_NAME = 256

function readTrace(trace: ExportedCall['trace']): NamedTrace {
  if (!trace) return { metadata: {} }
  const names = NAMES.flatMap(name => {
    const value = trace[name]
    return isText(value) ? [[name, value.slice(0, LONGEST_NAME)]] : []
  })
  const metadata = Object.entries(trace).filter(([name]) => !RESERVED.includes(name))
  return { ...Object.fromEntries(names), metadata: Object.fromEntries(metadata) }
}

/** Builds the tree: the root, a span of the client's naming, then what happened, in order. */
function buildSpans(
  call: ExportedCall,
  named: NamedTrace,
  { rootId, parentSpanId }: Omit<TraceIds, 'traceId'>,
): TraceSpan[] {
  const { facts } = call
  const root: TraceSpan = {
    spanId: rootId,
    parentSpanId,
    name: named.trace_name ?? ROOT_NAME,
    kind: 'client',
    role: 'root',
    ...{ startedAt: facts.startedAt, endedAt: Math.max(facts.startedAt, facts.endedAt) },
    error: facts.error,
    attributes: buildRootAttributes(call),
  }
  if (named.span_name === undefined) return [root, ...buildInner(call, named, root)]
  const span = buildChild(root, {
    ...{ spanId: hash(`${call.id} span`).slice(0, 16), name: named.span_name },
    ...{ kind: 'internal', role: 'step', attributes: {} },
    ...{ startedAt: root.startedAt, endedAt: root.endedAt, error: facts.error },
  })
  return [root, span, ...buildInner(call, named, span)]
}

/** Builds a span inside another: it does not begin before that or end after it. */
function buildChild(parent: TraceSpan, span: Omit<TraceSpan, 'parentSpanId'>): TraceSpan {
  const fit = (moment: number, first: number) => Math.min(Math.max(moment, first), parent.endedAt)
  const startedAt = fit(span.startedAt, parent.startedAt)
  const endedAt = fit(span.endedAt, startedAt)
  return { ...span, parentSpanId: parent.spanId, startedAt, endedAt }
}

function buildInner(call: ExportedCall, named: NamedTrace, parent: TraceSpan): TraceSpan[] {
  const { steps, attempts } = call
  if (steps.length === 0)
    return attempts.flatMap((attempt, i) => buildAttempt(call, named, attempt, i, parent))
  const spans: TraceSpan[] = []
  for (const [i, step] of steps.entries()) {
    const spanId = hash(`${call.id} step ${i}`).slice(0, 16)
    // A use of a tool comes before what is within it.
    const around = (step.within === null ? undefined : spans[step.within]) ?? parent
    spans.push(buildStep(call, step, i, spanId, around))
  }
  return spans.flatMap((span, i) => [
    span,
    ...attempts.flatMap((attempt, k) =>
      attempt.step === i ? buildAttempt(call, named, attempt, k, span) : [],
    ),
  ])
}

function buildStep(
  { facts }: ExportedCall,
  step: ExportedStep,
  index: number,
  spanId: string,
  parent: TraceSpan,
): TraceSpan {
  const { type, name, startedAt, endedAt, error, promptTokens, completionTokens } = step
  const isTool = type === 'tool'
  return buildChild(parent, {
    spanId,
    name: isTool ? `execute_tool ${name}` : `step ${index + 1}: ${name}`,
    kind: 'internal',
    role: isTool ? 'tool' : 'step',
    ...{ startedAt, endedAt, error },
    attributes: isTool
      ? { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': name }
      : {
          'gen_ai.operation.name': OPERATIONS[facts.kind],
          'gen_ai.request.model': name,
          'gen_ai.usage.input_tokens': promptTokens,
          'gen_ai.usage.output_tokens': completionTokens,
        },
  })
}

/** Builds the span of an attempt, and that of its answer if it had one. */
function buildAttempt(
  call: ExportedCall,
  named: NamedTrace,
  attempt: ExportedAttempt,
  index: number,
  parent: TraceSpan,
): TraceSpan[] {
  const { provider, startedAt, answeredAt, endedAt, error } = attempt
  const span = buildChild(parent, {
    spanId: hash(`${call.id} attempt ${index}`).slice(0, 16),
    name: `provider attempt ${index + 1}: ${provider}`,
    kind: 'server',
    role: 'attempt',
    ...{ startedAt, endedAt: endedAt ?? answeredAt, error },
    attributes: buildAttemptAttributes(attempt, index),
  })
  if (endedAt === null) return [span]
  const answer = buildChild(parent, {
    spanId: hash(`${call.id} generation ${index}`).slice(0, 16),
    name: named.generation_name ?? GENERATION_NAME,
    kind: 'server',
    role: 'generation',
    ...{ startedAt: answeredAt, endedAt, error: null },
    attributes: {},
  })
  return [span, answer]
}

// One object that grows, field by field: each call that is told has these.
function buildAttemptAttributes(
  { status, is_byok, endpoint_id, model, provider }: ExportedAttempt,
  index: number,
): Record<string, SpanValue> {
  const all: Record<string, SpanValue> = { 'span.metadata.attempt_index': index }
  if (status !== null) all['span.metadata.status_code'] = status
  all['span.metadata.is_byok'] = is_byok
  all['span.metadata.endpoint_id'] = endpoint_id
  all['span.metadata.model_permaslug'] = model
  all['trace.metadata.openrouter.provider_name'] = provider
  return all
}

function buildRootAttributes({ attempts, facts }: ExportedCall): Record<string, SpanValue> {
  if (attempts.length === 0) return {}
  const responses = JSON.stringify(attempts.map(renderResponse))
  const all: Record<string, SpanValue> = {
    'trace.metadata.provider_responses': responses,
    'span.metadata.provider_responses': responses,
  }
  const answered = attempts.findLast(({ endedAt }) => endedAt !== null)
  if (answered) addTimes(all, facts, answered)
  if (facts.error !== null) all['trace.metadata.openrouter.error_type'] = facts.error.type
  return all
}

const renderResponse = (attempt: ExportedAttempt) => ({
  id: attempt.request_id,
  provider_name: attempt.provider,
  status: attempt.status,
  latency: attempt.latency,
  is_byok: attempt.is_byok,
  endpoint_id: attempt.endpoint_id,
  model_permaslug: attempt.model,
})

/** Says where the time went, in milliseconds from the start of the call. */
function addTimes(
  all: Record<string, SpanValue>,
  facts: TraceFacts,
  { startedAt, answeredAt, endedAt, slug }: ExportedAttempt,
): void {
  if (endedAt === null) return
  const tokens = facts.completionTokens - 1
  const [sent, answered] = [startedAt - facts.startedAt, answeredAt - facts.startedAt]
  all['trace.metadata.openrouter.router_latency_ms'] = Math.round(sent)
  all['trace.metadata.openrouter.provider_request_ms'] = Math.round(sent)
  all['trace.metadata.openrouter.provider_headers_ms'] = Math.round(answered)
  all['trace.metadata.openrouter.provider_body_end_ms'] = Math.round(endedAt - facts.startedAt)
  all['trace.metadata.openrouter.provider_time_to_first_token_ms'] = Math.round(
    answeredAt - startedAt,
  )
  if (tokens > 0)
    all['trace.metadata.openrouter.inter_token_latency_ms'] = {
      double: (endedAt - answeredAt) / tokens,
    }
  all['trace.metadata.openrouter.provider_slug'] = slug
}
