import type { Trace, TraceFacts, TraceSpan } from '../../src/observability/destinations/trace.ts'

/** A call of this time: 2026-11-22T10:00:00.250Z. */
const STARTED_AT = Date.UTC(2026, 10, 22, 10, 0, 0, 250)

export const FACTS: TraceFacts = {
  kind: 'text',
  model: 'anthropic/claude-sonnet-4.5',
  author: 'anthropic',
  providerName: 'Amazon Bedrock',
  finishReason: 'tool_calls',
  nativeFinishReason: 'tool_use',
  error: null,
  userId: 'user-7',
  sessionId: 'session-9',
  apiKeyName: 'production',
  streamed: true,
  startedAt: STARTED_AT,
  endedAt: STARTED_AT + 1500,
  firstTokenMs: 420,
  promptTokens: 120,
  completionTokens: 30,
  cachedTokens: 100,
  cacheWriteTokens: 5,
  reasoningTokens: 12,
  inputCost: 0.00036,
  outputCost: 0.00045,
  totalCost: 0.00081,
  parameters: { temperature: 0.2, max_tokens: 512, stop: ['END'] },
}

const SPANS: TraceSpan[] = [
  {
    spanId: '5b8aa5a2d2c872e8',
    parentSpanId: null,
    name: 'LLM Generation',
    kind: 'client',
    role: 'root',
    startedAt: STARTED_AT,
    endedAt: STARTED_AT + 1500,
    error: null,
    attributes: {
      'trace.metadata.provider_responses': '[{"status":200}]',
      'span.metadata.provider_responses': '[{"status":200}]',
      'trace.metadata.openrouter.provider_slug': 'amazon-bedrock',
    },
  },
  {
    spanId: '0000000000000002',
    parentSpanId: '5b8aa5a2d2c872e8',
    name: 'provider attempt 1: Amazon Bedrock',
    kind: 'server',
    role: 'attempt',
    startedAt: STARTED_AT + 10.25,
    endedAt: STARTED_AT + 1490.000001,
    error: null,
    attributes: { 'span.metadata.attempt_index': 0, 'span.metadata.is_byok': false },
  },
  {
    spanId: '0000000000000003',
    parentSpanId: '5b8aa5a2d2c872e8',
    name: 'generation',
    kind: 'server',
    role: 'generation',
    startedAt: STARTED_AT + 400,
    endedAt: STARTED_AT + 1490,
    error: null,
    attributes: {},
  },
]

/** A call with contents, metadata, a tool, and everything else that a trace may tell. */
export const TRACE: Trace = {
  id: 'gen-1763805600-sample',
  traceId: '5b8aa5a2d2c872e8321cf37308d69df2',
  name: 'Invoice check',
  facts: FACTS,
  input: [
    { role: 'system', content: 'CONTENT-RULES' },
    { role: 'user', content: [{ type: 'text', text: 'CONTENT-QUESTION' }] },
    {
      role: 'assistant',
      content: null,
      tool_calls: [
        {
          id: 'call_1',
          type: 'function',
          function: { name: 'find', arguments: '{"q":"CONTENT-ARGUMENT"}' },
        },
      ],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'CONTENT-RESULT' },
  ],
  output: {
    completion: 'CONTENT-ANSWER',
    reasoning: 'CONTENT-THOUGHT',
    toolCalls: [{ id: 'call_2', function: { name: 'pay', arguments: '{"sum":"CONTENT-SUM"}' } }],
  },
  metadata: { team: 'META-TEAM', attempt: 3, is_test: true, ratio: 0.5, tags: ['META-TAG'] },
  extra: {},
  spans: SPANS,
}

/** The same call for a destination in privacy mode. */
export const PRIVATE_TRACE: Trace = { ...TRACE, input: null, output: null }

/** The same call for a destination that opted into more. */
export const EXTENDED_TRACE: Trace = {
  ...TRACE,
  extra: { usage_cache: 0.0123, 'app.title': 'EXTRA-TITLE', is_byok: false },
}

const fail = (type: string, message: string, facts: Partial<TraceFacts>): Trace => ({
  ...TRACE,
  id: `gen-1763805600-${type}`,
  output: null,
  facts: {
    ...FACTS,
    error: { type, message },
    finishReason: null,
    nativeFinishReason: null,
    ...facts,
  },
  spans: SPANS.slice(0, 2).map(span => ({ ...span, error: { type, message } })),
})

const NOTHING: Partial<TraceFacts> = {
  ...{ promptTokens: 0, completionTokens: 0, cachedTokens: 0, cacheWriteTokens: 0 },
  ...{ reasoningTokens: 0, inputCost: 0, outputCost: 0, totalCost: 0, firstTokenMs: null },
}

/** A call that every provider refused. */
export const FAILED_TRACE: Trace = fail('ProviderError', 'Provider returned error', {
  ...NOTHING,
  ...{ providerName: null, userId: null, sessionId: null, apiKeyName: null },
})

/** A call whose client went away after some tokens. */
export const CANCELLED_TRACE: Trace = fail('Cancelled', 'The client has disconnected', {
  ...{ completionTokens: 4, reasoningTokens: 0 },
})

/** Names that are other things elsewhere: SQL, headers, paths, prototypes, halves of characters. */
export const HOSTILE_TEXTS = [
  "'; DROP TABLE traces; --",
  'a`b"c\\d',
  'line\r\nX-Injected: yes',
  'null\u0000 bell\u0007 escape\u001b[31m',
  'no character \ufffe\uffff',
  '../../etc/passwd',
  '{prefix}/{date}/{secret}',
  'lone \ud800 and \udc00',
  'pair \u{1f600}',
  '__proto__',
  '\u202eright to left',
  '<script>alert(1)</script>',
  '\\ud800',
  '',
]

/** Builds a trace in which a text stands wherever a stranger may choose it. */
export const buildHostileTrace = (text: string): Trace => ({
  ...TRACE,
  name: text,
  facts: {
    ...FACTS,
    ...{ model: text, author: text, providerName: text, finishReason: text },
    ...{ nativeFinishReason: text, userId: text, sessionId: text, apiKeyName: text },
    error: { type: text, message: text },
    parameters: { temperature: text, [text]: text },
  },
  input: [{ role: text, content: text, [text]: text }, text, null, 7],
  output: { completion: text, reasoning: text, toolCalls: [{ function: { name: text } }, text] },
  metadata: Object.fromEntries([
    [text, text],
    ['nested', { [text]: [text] }],
    ['nothing', null],
    ['$set', { [text]: text }],
    ['token', text],
  ]),
  extra: Object.fromEntries([[text, text]]),
  spans: SPANS.map(span => ({
    ...span,
    name: text,
    error: { type: text, message: text },
    attributes: { ...span.attributes, [`span.metadata.${text}`]: text },
  })),
})
