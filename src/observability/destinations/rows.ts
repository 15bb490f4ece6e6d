import { buildRootAttributes, nameKinds } from './otlp/attributes.ts'
import { cutText, writeJson } from './text.ts'
import type { SpanValue, Trace } from './trace.ts'

/** The columns of a table of traces, in order (wire reference G.7), by what they hold. */
export const COLUMNS = {
  TRACE_ID: 'text',
  TIMESTAMP: 'time',
  MODEL: 'text',
  PROVIDER_NAME: 'text',
  STATUS: 'text',
  LEVEL: 'text',
  FINISH_REASON: 'text',
  SPAN_TYPE: 'text',
  USER_ID: 'text',
  SESSION_ID: 'text',
  API_KEY_NAME: 'text',
  PROMPT_TOKENS: 'count',
  COMPLETION_TOKENS: 'count',
  TOTAL_TOKENS: 'count',
  TOTAL_COST: 'number',
  DURATION_MS: 'number',
  INPUT: 'json',
  OUTPUT: 'json',
  METADATA: 'json',
  ATTRIBUTES: 'json',
  MODEL_PARAMETERS: 'json',
} as const

export type Column = keyof typeof COLUMNS

/** A row of a table of traces. JSON is text; a time is in ISO 8601, in UTC. */
export type Row = Record<Column, string | number | null>

const TYPES = nameKinds('GENERATION', 'EMBEDDING', 'RERANK')

/** A table takes no longer text in one column: Snowflake has the lowest bound, in bytes. */
const LONGEST_CELL = 4_000_000

/** Builds the row of a trace. Its id as a generation is `gen_ai.response.id` of ATTRIBUTES. */
export function buildRow(service: string, trace: Trace): Row {
  const { facts, input, output, metadata, extra } = trace
  return {
    TRACE_ID: trace.traceId,
    TIMESTAMP: new Date(facts.startedAt).toISOString(),
    MODEL: facts.model,
    PROVIDER_NAME: facts.providerName,
    STATUS: facts.error === null ? 'ok' : 'error',
    LEVEL: facts.error === null ? 'DEFAULT' : 'ERROR',
    FINISH_REASON: facts.finishReason,
    SPAN_TYPE: TYPES[facts.kind],
    USER_ID: facts.userId,
    SESSION_ID: facts.sessionId,
    API_KEY_NAME: facts.apiKeyName,
    PROMPT_TOKENS: facts.promptTokens,
    COMPLETION_TOKENS: facts.completionTokens,
    TOTAL_TOKENS: facts.promptTokens + facts.completionTokens,
    TOTAL_COST: facts.totalCost,
    DURATION_MS: facts.endedAt - facts.startedAt,
    INPUT: input === null ? null : writeCell({ messages: input }),
    OUTPUT: output === null ? null : writeCell(output),
    METADATA: writeCell(
      Object.keys(extra).length === 0 ? metadata : { ...metadata, openrouter_generation: extra },
    ),
    ATTRIBUTES: writeCell(buildAttributes(service, trace)),
    MODEL_PARAMETERS: writeCell(facts.parameters),
  }
}

// The contents have columns of their own.
function buildAttributes(service: string, trace: Trace): Record<string, unknown> {
  const root = trace.spans.find(({ role }) => role === 'root')
  if (!root) return {}
  const attributes = buildRootAttributes(service, { ...trace, input: null, output: null }, root)
  return Object.fromEntries(Object.entries(attributes).map(([key, value]) => [key, toPlain(value)]))
}

const toPlain = (value: SpanValue): string | number | boolean =>
  typeof value === 'object' ? value.double : value

/** Writes a cell. One that is too long stays JSON: a text with its beginning. */
function writeCell(value: unknown): string {
  const json = writeJson(value)
  return json.length <= LONGEST_CELL
    ? json
    : writeJson({ truncated: cutText(json, LONGEST_CELL / 2) })
}
