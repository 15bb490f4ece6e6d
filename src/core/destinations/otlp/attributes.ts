import type { Attributes } from '../otlp.ts'
import { writeJson } from '../text.ts'
import type { SpanValue, Trace, TraceFacts, TraceSpan } from '../trace.ts'

/*
 * The attributes of spans, in the order in which the public service sends them (wire reference
 * G.5). Those that a span brings itself stand among their kind, and win over the derived ones.
 */

/** Contents of more characters are told once, and not under three names. */
const LONGEST_REPEATED = 65_536

/** Builds the attributes of a trace's root span. */
export function buildRootAttributes(service: string, trace: Trace, span: TraceSpan): Attributes {
  const { facts } = trace
  return {
    'trace.name': trace.name,
    ...nameIf('user.id', facts.userId),
    ...nameIf('session.id', facts.sessionId),
    ...flatten('trace.metadata', trace.metadata),
    ...flatten('trace.metadata.openrouter_generation', trace.extra),
    ...pick(span.attributes, isTraceMetadata),
    ...buildState(span),
    ...flatten('span.metadata.openrouter_generation', trace.extra),
    ...pick(span.attributes, key => key.startsWith('span.')),
    ...buildModel(trace),
    ...buildParameters(facts.parameters),
    ...buildUsage(facts),
    ...buildContent(trace),
    ...buildUsageDetails(facts),
    ...buildEnd(facts),
    ...buildCall(service, facts),
    ...span.attributes,
  }
}

/** Builds the attributes of any other span. */
export function buildChildAttributes(trace: Trace, span: TraceSpan): Attributes {
  const id = buildResponseId(trace, span)
  return {
    ...buildState(span),
    ...pick(span.attributes, key => key.startsWith('span.')),
    ...(span.role === 'attempt' ? { 'gen_ai.operation.name': 'chat' } : {}),
    ...(id === null ? {} : { 'gen_ai.response.id': id }),
    ...span.attributes,
  }
}

function buildResponseId(trace: Trace, span: TraceSpan): string | null {
  if (span.role === 'generation') return `${trace.id}:generation`
  if (span.role !== 'attempt') return null
  const attempts = trace.spans.filter(({ role }) => role === 'attempt')
  return `${trace.id}:attempt-${attempts.indexOf(span)}`
}

const isTraceMetadata = (key: string): boolean =>
  key.startsWith('trace.metadata.') && !key.startsWith(CALL)

/** Says of what type a span is, and whether it failed. */
const buildState = ({ role, error }: TraceSpan): Attributes => ({
  'span.type': role === 'root' ? 'generation' : 'span',
  'span.level': error === null ? 'DEFAULT' : 'ERROR',
  ...nameIf('span.status_message', error?.message ?? null),
})

const buildModel = ({ id, facts }: Trace): Attributes => ({
  'gen_ai.operation.name': 'chat',
  'gen_ai.system': facts.author,
  'gen_ai.provider.name': facts.author,
  'gen_ai.request.model': facts.model,
  'gen_ai.response.model': facts.model,
  'gen_ai.response.id': id,
})

/** The parameters for which the semantic conventions of GenAI have a name. */
const PARAMETERS = [
  ...[['temperature', 'temperature'] as const, ['top_p', 'top_p'] as const],
  ...[['top_k', 'top_k'] as const, ['max_tokens', 'max_tokens'] as const],
  ['frequency_penalty', 'frequency_penalty'] as const,
  ['presence_penalty', 'presence_penalty'] as const,
  ...[['seed', 'seed'] as const, ['stop', 'stop_sequences'] as const],
]

function buildParameters(parameters: Record<string, unknown>): Attributes {
  const named: Attributes = {}
  for (const [name, convention] of PARAMETERS) {
    const value = toSpanValue(parameters[name])
    if (value !== undefined) named[`gen_ai.request.${convention}`] = value
  }
  return named
}

/** Tells whether a trace has usage: every success, and a failure that came to any. */
export const hasUsage = (facts: TraceFacts): boolean =>
  facts.error === null || facts.promptTokens + facts.completionTokens + facts.totalCost > 0

const buildUsage = (facts: TraceFacts): Attributes =>
  hasUsage(facts)
    ? {
        'gen_ai.usage.input_tokens': facts.promptTokens,
        'gen_ai.usage.output_tokens': facts.completionTokens,
        'gen_ai.usage.total_tokens': facts.promptTokens + facts.completionTokens,
        'gen_ai.usage.input_cost': { double: facts.inputCost },
        'gen_ai.usage.output_cost': { double: facts.outputCost },
        'gen_ai.usage.total_cost': { double: facts.totalCost },
      }
    : {}

const buildUsageDetails = (facts: TraceFacts): Attributes =>
  hasUsage(facts)
    ? {
        'gen_ai.usage.input_tokens.cached': facts.cachedTokens,
        'gen_ai.usage.input_tokens.cache_write': facts.cacheWriteTokens,
        'gen_ai.usage.output_tokens.reasoning': facts.reasoningTokens,
      }
    : {}

/** Writes what was asked, as it stands in `gen_ai.prompt`. Null where content is not told. */
export const writePrompt = ({ input }: Trace): string | null =>
  input === null ? null : writeJson({ messages: input })

/** Writes what was answered, as it stands in `gen_ai.completion`. */
export const writeCompletion = ({ output }: Trace): string | null =>
  output === null ? null : writeJson(output)

const buildContent = (trace: Trace): Attributes => ({
  ...repeatContent('gen_ai.prompt', 'input', writePrompt(trace)),
  ...repeatContent('gen_ai.completion', 'output', writeCompletion(trace)),
})

function repeatContent(key: string, name: string, content: string | null): Attributes {
  if (content === null) return {}
  if (content.length > LONGEST_REPEATED) return { [key]: content }
  return { [key]: content, [`trace.${name}`]: content, [`span.${name}`]: content }
}

const buildEnd = ({ finishReason }: TraceFacts): Attributes =>
  finishReason === null
    ? {}
    : {
        'gen_ai.response.finish_reasons': writeJson([finishReason]),
        'gen_ai.response.finish_reason': finishReason,
      }

const CALL = 'trace.metadata.openrouter.'

const buildCall = (service: string, facts: TraceFacts): Attributes => ({
  [`${CALL}source`]: service,
  ...nameIf(`${CALL}api_key_name`, facts.apiKeyName),
  ...nameIf(`${CALL}first_token_ms`, facts.firstTokenMs),
  ...nameIf(`${CALL}provider_name`, facts.providerName),
  ...nameIf(`${CALL}finish_reason`, facts.nativeFinishReason),
})

const nameIf = (key: string, value: SpanValue | null): Attributes =>
  value === null ? {} : { [key]: value }

function pick(attributes: Attributes, isWanted: (key: string) => boolean): Attributes {
  const picked: Attributes = {}
  for (const key in attributes) if (isWanted(key)) picked[key] = attributes[key] as SpanValue
  return picked
}

/** Names the members of an object below a prefix. Lists and objects become JSON. */
export function flatten(prefix: string, members: Record<string, unknown>): Attributes {
  const flat: Attributes = {}
  for (const name of Object.keys(members)) {
    const value = toSpanValue(members[name])
    if (value !== undefined) flat[`${prefix}.${name}`] = value
  }
  return flat
}

// OpenTelemetry has no null: an attribute without a value is left out.
function toSpanValue(value: unknown): SpanValue | undefined {
  if (value === null || value === undefined) return undefined
  if (typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return value
  return writeJson(value)
}
