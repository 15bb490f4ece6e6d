import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import { countInputTokens, countOutputTokens } from '../../../../src/language/usage.ts'
import { readFailure } from '../../../../src/translation/protocols/cohere-chat/failure.ts'
import {
  EventReader,
  parseAnswer,
  readUsage,
} from '../../../../src/translation/protocols/cohere-chat.ts'
import { buildTextCall } from '../../../support/call.ts'
import { collectParts } from '../../../support/parts.ts'

/** Returns the parts of a stream with these events, and whether it is complete. */
function streamed(...events: unknown[]): { parts: TextPart[]; complete: boolean } {
  const reader = new EventReader(buildTextCall())
  const read = events.flatMap(event =>
    reader.read({ event: null, data: typeof event === 'string' ? event : JSON.stringify(event) }),
  )
  return { parts: read, complete: reader.complete }
}

const message = (more: object) => ({ delta: { message: more } })
const START = { type: 'message-start', id: 'c-1', ...message({ role: 'assistant' }) }
const say = (text: string) => ({
  type: 'content-delta',
  index: 0,
  ...message({ content: { text } }),
})
const think = (thinking: string) => ({
  type: 'content-delta',
  index: 0,
  ...message({ content: { thinking } }),
})
const callStart = (index: number, name: string, args = '') => ({
  type: 'tool-call-start',
  index,
  ...message({
    tool_calls: { id: `id_${index}`, type: 'function', function: { name, arguments: args } },
  }),
})
const callDelta = (index: number, args: string) => ({
  type: 'tool-call-delta',
  index,
  ...message({ tool_calls: { function: { arguments: args } } }),
})
const callEnd = (index: number) => ({ type: 'tool-call-end', index })
const USAGE = {
  billed_units: { input_tokens: 3, output_tokens: 2 },
  tokens: { input_tokens: 100, output_tokens: 20 },
  cached_tokens: 60,
}
const end = (finish_reason: string | null = 'COMPLETE', more: object = {}) => ({
  type: 'message-end',
  delta: { finish_reason, usage: USAGE, ...more },
})

const typeOf = (act: () => unknown) => {
  try {
    act()
  } catch (thrown) {
    return thrown instanceof GatewayError ? thrown.type : thrown
  }
  return 'nothing thrown'
}

describe('a streamed answer', () => {
  test('reads text, thinking, usage and the end', () => {
    const { parts, complete } = streamed(
      START,
      {
        type: 'content-start',
        index: 0,
        ...message({ content: { type: 'thinking', thinking: '' } }),
      },
      think('Hm'),
      think('.'),
      { type: 'content-end', index: 0 },
      { type: 'content-start', index: 1, ...message({ content: { type: 'text', text: '' } }) },
      say('Hel'),
      say('lo'),
      { type: 'content-end', index: 1 },
      end(),
    )
    expect(complete).toBe(true)
    expect(collectParts(parts)).toMatchObject({
      upstream_id: 'c-1',
      text: 'Hello',
      reasoning: 'Hm.',
      finish: { reason: 'stop', native: 'COMPLETE' },
      usage: { input: { text: 40, cache_read: 60 }, output: { text: 20 } },
    })
  })

  test('trap 84: ignores pings, plans and empty deltas', () => {
    expect(
      streamed(
        { type: 'tool-plan-delta', ...message({ tool_plan: 'I will' }) },
        say(''),
        { type: 'debug' },
        { type: 'ping' },
      ).parts,
    ).toEqual([])
  })

  test('trap 81: ignores what the last event repeats', () => {
    const { parts } = streamed(
      START,
      say('Hello'),
      end('COMPLETE', { message: { content: [{ type: 'text', text: 'Hello' }] }, text: 'Hello' }),
    )
    expect(collectParts(parts).text).toBe('Hello')
  })

  test('reads nothing after the last event', () => {
    expect(
      streamed(START, say('a'), end(), say('b'), end(), '[DONE]').parts.filter(
        part => part.type === 'finish',
      ),
    ).toHaveLength(1)
  })

  test('is not complete without the last event', () => {
    expect(streamed(START, say('a')).complete).toBe(false)
  })

  test('separates the arguments of calls', () => {
    const { parts } = streamed(
      START,
      callStart(0, 'weather'),
      callStart(1, 'time', '{'),
      callDelta(0, '{"a":'),
      callDelta(1, '}'),
      callDelta(0, '1}'),
      callEnd(0),
      callEnd(1),
      end('TOOL_CALL'),
    )
    expect(collectParts(parts)).toMatchObject({
      calls: [
        { id: 'id_0', name: 'weather', input: '{"a":1}' },
        { id: 'id_1', name: 'time', input: '{}' },
      ],
      finish: { reason: 'tool_calls', native: 'TOOL_CALL' },
    })
  })

  test('separates calls that share an index or have none', () => {
    for (const place of [{ index: 0 }, { index: undefined }]) {
      const { parts } = streamed(
        ...[
          callStart(1, 'weather'),
          callDelta(1, '{"a":1}'),
          callEnd(1),
          callStart(2, 'weather'),
          callDelta(2, '{"a":2}'),
          callEnd(2),
        ].map(event => ({ ...event, ...place })),
        end('TOOL_CALL'),
      )
      expect(collectParts(parts).calls).toEqual([
        { id: 'id_1', name: 'weather', input: '{"a":1}' },
        { id: 'id_2', name: 'weather', input: '{"a":2}' },
      ])
    }
  })

  test('ends an open call at the next call or the end', () => {
    const { parts } = streamed(
      callStart(0, 'now'),
      { ...callStart(1, 'then'), index: 0 },
      callStart(2, 'later'),
      end('TOOL_CALL'),
    )
    expect(collectParts(parts).calls.map(call => call.input)).toEqual(['{}', '{}', '{}'])
  })

  test('merges a call that starts twice', () => {
    const { parts } = streamed(
      callStart(0, 'now', '{"a"'),
      callStart(0, 'now', '{"a"'),
      callDelta(0, ':1}'),
      callEnd(0),
      end('TOOL_CALL'),
    )
    expect(collectParts(parts).calls).toEqual([{ id: 'id_0', name: 'now', input: '{"a":1}' }])
  })

  test('trap 23: ends a call without arguments, or with null, with an empty object', () => {
    const none = streamed(
      START,
      callStart(0, 'now'),
      callEnd(0),
      callStart(1, 'then', 'null'),
      callEnd(1),
      end('TOOL_CALL'),
    )
    expect(collectParts(none.parts).calls.map(call => call.input)).toEqual(['{}', '{}'])
  })

  test('trap 22: restores the client’s tool names', () => {
    const call = buildTextCall({ tools: [{ type: 'function', name: 'mcp.files/read' }] })
    const reader = new EventReader(call)
    const [start] = reader.read({
      event: null,
      data: JSON.stringify(callStart(0, 'mcp_files_read')),
    })
    expect(start).toMatchObject({ type: 'tool-call-start', name: 'mcp.files/read' })
  })

  test('emits logprobs with their text, and sums those of several tokens', () => {
    const { parts } = streamed({
      ...say('Hello'),
      logprobs: { text: 'Hello', token_ids: [1, 2], logprobs: [-0.5, -0.25] },
    })
    expect(parts).toEqual([
      {
        type: 'text-delta',
        choice: 0,
        text: 'Hello',
        logprobs: {
          content: [
            { token: 'Hello', logprob: -0.75, bytes: [72, 101, 108, 108, 111], top_logprobs: [] },
          ],
        },
      },
    ])
  })

  test('annotates web citations, and omits all others', () => {
    const cite = (document: object, type = 'TEXT_CONTENT') => ({
      type: 'citation-start',
      index: 0,
      ...message({
        citations: {
          start: 1,
          end: 4,
          text: 'ell',
          type,
          sources: [{ type: 'document', id: 'doc:0', document }],
        },
      }),
    })
    const web = { url: 'https://a.example/', title: 'A', text: '…' }
    const { parts } = streamed(
      cite(web),
      cite({ title: 'benefits.txt' }),
      cite({ url: 'javascript:1' }),
      cite(web, 'PLAN'),
    )
    expect(collectParts(parts).annotations).toEqual([
      {
        type: 'url_citation',
        url_citation: { url: 'https://a.example/', title: 'A', start_index: 1, end_index: 4 },
      },
    ])
  })

  test('trap 75: throws an error before or within an answer', () => {
    expect(typeOf(() => streamed(START, end('ERROR', { error: 'overloaded' })))).toBe(
      'provider_overloaded',
    )
    expect(typeOf(() => streamed(START, end('TIMEOUT')))).toBe('provider_unavailable')
    expect(typeOf(() => streamed({ message: 'internal error' }))).toBe('provider_unavailable')
    expect(typeOf(() => streamed(START, say('a'), end('ERROR')))).toBe('provider_unavailable')
  })

  test('any JSON in any position produces parts or provider_unavailable', () => {
    const types = [
      'message-start',
      'content-start',
      'content-delta',
      'tool-call-start',
      'tool-call-delta',
      'citation-start',
      'message-end',
    ]
    const values = [
      null,
      1,
      'x',
      [],
      {},
      [{}],
      { message: null },
      { message: { content: 1, tool_calls: 'x', citations: [1] } },
    ]
    for (const type of types)
      for (const delta of values)
        expect(() => streamed({ type, index: {}, delta })).not.toThrow(TypeError)
    expect(typeOf(() => streamed(...Array.from({ length: 21 }, () => 'no JSON')))).toBe(
      'provider_unavailable',
    )
  })

  test('reads at most 128 calls', () => {
    const { parts } = streamed(...Array.from({ length: 200 }, (_, i) => callStart(i, 'f')))
    expect(parts.filter(part => part.type === 'tool-call-start')).toHaveLength(128)
  })
})

describe('a whole answer', () => {
  const whole = (more: object, body: object = {}) =>
    parseAnswer(
      {
        id: 'c-1',
        finish_reason: 'COMPLETE',
        usage: USAGE,
        message: { role: 'assistant', ...more },
        ...body,
      },
      buildTextCall(),
    )

  test('is read like its stream', () => {
    const read = whole({
      content: [
        { type: 'thinking', thinking: 'Hm' },
        { type: 'text', text: 'Hello' },
      ],
      tool_plan: 'I will',
      tool_calls: [{ id: 'id_0', type: 'function', function: { name: 'now', arguments: 'null' } }],
      citations: [{ start: 0, end: 2, sources: [{ document: { url: 'https://a.example/' } }] }],
    })
    expect(collectParts(read)).toMatchObject({
      upstream_id: 'c-1',
      text: 'Hello',
      reasoning: 'Hm',
      calls: [{ id: 'id_0', name: 'now', input: '{}' }],
      annotations: [{ type: 'url_citation' }],
      finish: { reason: 'stop' },
    })
    expect(read.filter(part => part.type === 'finish')).toHaveLength(1)
  })

  test('is an answer even without text', () => {
    expect(collectParts(whole({ content: [] })).finish).toEqual({
      reason: 'stop',
      native: 'COMPLETE',
    })
  })

  test('fails if it is no answer', () => {
    for (const body of [null, 'x', [], {}, { message: 'invalid request' }, { message: [] }])
      expect(typeOf(() => parseAnswer(body, buildTextCall()))).toBe('provider_unavailable')
  })
})

describe('usage', () => {
  test('counts tokens read and written, with the cached ones apart', () => {
    const usage = readUsage(USAGE)
    expect(
      usage && [countInputTokens(usage), countOutputTokens(usage), usage.input.cache_read],
    ).toEqual([100, 20, 60])
  })

  test('falls back to the billed tokens', () => {
    const usage = readUsage({ billed_units: { input_tokens: 3, output_tokens: 2 } })
    expect(usage?.billed).toMatchObject({ input: { text: 3 }, output: { text: 2 } })
    expect(usage && [countInputTokens(usage), countOutputTokens(usage)]).toEqual([3, 2])
  })

  test('is undefined without counts, and marked for impossible ones', () => {
    for (const given of [
      null,
      {},
      { tokens: { input_tokens: -1, output_tokens: 1 } },
      { tokens: { input_tokens: 1 } },
    ])
      expect(readUsage(given) ?? { isImpossible: true }).toMatchObject({ isImpossible: true })
  })

  test('never has more cached tokens than input', () => {
    expect(readUsage({ ...USAGE, cached_tokens: 1000 })?.input).toMatchObject({
      text: 0,
      cache_read: 100,
    })
  })
})

test.each([
  [400, { message: 'invalid request: k must be below 500' }, 'invalid_request'],
  [400, { message: 'too many tokens: size limit exceeded' }, 'context_length_exceeded'],
  [401, { message: 'invalid api token' }, 'provider_unavailable'],
  [404, { message: 'model not found' }, 'provider_unavailable'],
  [422, {}, 'invalid_request'],
  [429, { message: 'trial key limit' }, 'rate_limit_exceeded'],
  [498, { message: 'blocked' }, 'content_policy_violation'],
  [500, null, 'provider_unavailable'],
  [504, '<html>', 'timeout'],
] as const)('status %i with %j means %s, without Cohere’s sentence', (status, body, type) => {
  const error = readFailure(status, body)
  expect(error.type).toBe(type)
  expect(JSON.stringify([error.message, error.metadata])).not.toMatch(/trial|api token|k must/)
})
