import type { Kind } from '../../language/work.ts'

/**
 * What destinations are told about one finished call (specification E7, wire reference G.4 and G.5).
 * It holds no more than the destination may see: content is null in privacy mode.
 */
export interface Trace {
  /** The id of the generation. It stays the same when a trace is delivered again. */
  id: string
  /** 32 lowercase hexadecimal digits. */
  traceId: string
  name: string
  facts: TraceFacts
  /** What was asked, as a chat request's `messages`; null where content is not told. */
  input: unknown[] | null
  /** What was answered; null where content is not told. */
  output: TraceOutput | null
  /** The client's own metadata, from the fields of `trace` that have no other meaning. */
  metadata: Record<string, unknown>
  /**
   * What the groups that a destination opted into tell, by the names that follow
   * `openrouter_generation.` on the wire: `usage_cache`, `app.title`.
   */
  extra: Record<string, unknown>
  /** The root first; each after its parent. */
  spans: TraceSpan[]
}

/** What was answered, as `gen_ai.completion` has it. */
export interface TraceOutput {
  completion: string | null
  reasoning: string | null
  toolCalls?: unknown[]
  rawRequest?: Record<string, unknown>
}

/** The figures and names of a call that rows, events and attributes are made of. */
export interface TraceFacts {
  /** What kind of work it was: each receiver has a word of its own for it. */
  kind: Kind
  model: string
  /** The author of the model: `openai`. */
  author: string
  providerName: string | null
  finishReason: string | null
  nativeFinishReason: string | null
  /** Null if the call succeeded. */
  error: { type: string; message: string } | null
  userId: string | null
  sessionId: string | null
  apiKeyName: string | null
  streamed: boolean
  /** Milliseconds since the epoch. */
  startedAt: number
  endedAt: number
  /** Milliseconds from the start; null if no token came. */
  firstTokenMs: number | null
  promptTokens: number
  completionTokens: number
  cachedTokens: number
  cacheWriteTokens: number
  reasoningTokens: number
  /**
   * USD, as the wire has it: what was charged. The first two add up to the third; tools are part of
   * the output. Null where the model has no known price.
   */
  inputCost: number | null
  outputCost: number | null
  totalCost: number | null
  /** Sampling parameters of the request: `temperature`, … */
  parameters: Record<string, unknown>
}

/** One span of a trace's tree, in OpenTelemetry's terms. */
export interface TraceSpan {
  /** 16 lowercase hexadecimal digits. */
  spanId: string
  /** Null at a root without a parent of the client's. */
  parentSpanId: string | null
  name: string
  kind: 'internal' | 'server' | 'client'
  /** What the span stands for. */
  role: 'root' | 'attempt' | 'generation' | 'step' | 'tool'
  /** Milliseconds since the epoch, with fractions. */
  startedAt: number
  endedAt: number
  error: { type: string; message: string } | null
  attributes: Record<string, SpanValue>
}

/** A number is an integer if it is one. Costs are wrapped, as they are doubles also if whole. */
export type SpanValue = string | number | boolean | { double: number }
