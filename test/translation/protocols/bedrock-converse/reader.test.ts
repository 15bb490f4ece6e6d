import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import { bedrockConverse } from '../../../../src/translation/protocols/bedrock-converse.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'
import { collectParts } from '../../../support/parts.ts'

const claude = buildEndpoint({
  protocol: 'bedrock-converse',
  upstreamModel: 'us.anthropic.claude-sonnet-4-20250514-v1:0',
})

type Event = Record<string, unknown>

const readerOf = (call: Partial<TextCall> = {}, endpoint = claude) =>
  bedrockConverse.createReader(buildTextCall({ stream: true, ...call }), endpoint)

/** Returns the parts of a stream with these events, up to the end of the connection. */
function streamed(events: Event[], call: Partial<TextCall> = {}, endpoint = claude): TextPart[] {
  const reader = readerOf(call, endpoint)
  const parts = events.flatMap(one =>
    Object.entries(one).flatMap(([event, told]) =>
      reader.read({ event, data: JSON.stringify(told) }),
    ),
  )
  return [...parts, ...(reader.end?.() ?? [])]
}

const whole = (
  content: unknown[],
  more: Event = {},
  call: Partial<TextCall> = {},
  endpoint = claude,
): TextPart[] =>
  bedrockConverse.parseAnswer(
    { output: { message: { role: 'assistant', content } }, stopReason: 'end_turn', ...more },
    buildTextCall(call),
    endpoint,
  )

const delta = (at: number, given: unknown): Event => ({
  contentBlockDelta: { contentBlockIndex: at, delta: given },
})
const closed = (at: number): Event => ({ contentBlockStop: { contentBlockIndex: at } })
const called = (at: number, toolUse: unknown): Event => ({
  contentBlockStart: { contentBlockIndex: at, start: { toolUse } },
})
const stop = (stopReason = 'end_turn', more: Event = {}): Event => ({
  messageStop: { stopReason, ...more },
})
const counted = {
  metadata: { usage: { inputTokens: 10, outputTokens: 5 }, metrics: { latencyMs: 1 } },
}

const thrown = (act: () => unknown): unknown => {
  try {
    act()
  } catch (error) {
    return error instanceof GatewayError ? error.type : error
  }
  return 'nothing'
}

describe('a stream', () => {
  test('reads a start, text and an end', () => {
    expect(
      streamed([
        { messageStart: { role: 'assistant' } },
        delta(0, { text: 'He' }),
        delta(0, { text: 'llo' }),
        closed(0),
        stop(),
      ]),
    ).toEqual([
      { type: 'start', upstream_id: null, system_fingerprint: null, service_tier: null },
      { type: 'text-delta', choice: 0, text: 'He', block: 0 },
      { type: 'text-delta', choice: 0, text: 'llo', block: 0 },
      { type: 'finish', choice: 0, reason: 'stop', native: 'end_turn' },
    ])
  })

  test('is complete after the stop and the usage, in either order', () => {
    for (const events of [
      [stop(), counted],
      [counted, stop()],
    ]) {
      const reader = readerOf()
      const complete = events.flatMap(one =>
        Object.entries(one).map(([event, told]) => {
          reader.read({ event, data: JSON.stringify(told) })
          return reader.complete
        }),
      )
      expect(complete).toEqual([false, true])
    }
  })

  test('is not complete after other metadata: the usage may follow', () => {
    const reader = readerOf()
    reader.read({ event: 'messageStop', data: '{"stopReason":"guardrail_intervened"}' })
    reader.read({ event: 'metadata', data: '{"trace":{"guardrail":{}}}' })
    expect(reader.complete).toBe(false)
    expect(
      reader.read({ event: 'metadata', data: JSON.stringify(counted.metadata) }),
    ).toMatchObject([{ type: 'usage' }])
    expect(reader.complete).toBe(true)
  })

  test('is complete without usage when the connection ends after the stop', () => {
    const reader = readerOf()
    reader.read({ event: 'messageStop', data: '{"stopReason":"end_turn"}' })
    expect(reader.complete).toBe(false)
    reader.end?.()
    expect(reader.complete).toBe(true)
  })

  test('is never complete without a stop', () => {
    const reader = readerOf()
    for (const [event, told] of Object.entries({
      messageStart: {},
      ...delta(0, { text: 'Hi' }),
      ...counted,
    }))
      reader.read({ event, data: JSON.stringify(told) })
    reader.end?.()
    expect(reader.complete).toBe(false)
  })

  test('trap 58: separates calls by block, and numbers them from 0', () => {
    const { calls, finish } = collectParts(
      streamed([
        delta(0, { text: 'Two.' }),
        called(1, { toolUseId: 'a', name: 'one' }),
        called(2, { toolUseId: 'b', name: 'two' }),
        delta(1, { toolUse: { input: '{"x":' } }),
        delta(2, { toolUse: { input: '{"y":2}' } }),
        delta(1, { toolUse: { input: '1}' } }),
        closed(1),
        closed(2),
        stop('tool_use'),
      ]),
    )
    expect(calls).toEqual([
      { id: 'a', name: 'one', input: '{"x":1}' },
      { id: 'b', name: 'two', input: '{"y":2}' },
    ])
    expect(finish).toEqual({ reason: 'tool_calls', native: 'tool_use' })
  })

  test('trap 23: ends a call without arguments with {}, once', () => {
    const events = [
      called(0, { toolUseId: 'a', name: 'now' }),
      delta(0, { toolUse: { input: '' } }),
    ]
    expect(collectParts(streamed([...events, closed(0), stop('tool_use')])).calls).toEqual([
      { id: 'a', name: 'now', input: '{}' },
    ])
    // The end of the block may be missing.
    expect(collectParts(streamed([...events, stop('tool_use')])).calls).toEqual([
      { id: 'a', name: 'now', input: '{}' },
    ])
  })

  test('trap 22: restores the client’s tool names', () => {
    const call: Partial<TextCall> = { tools: [{ type: 'function', name: 'files/read.all' }] }
    expect(
      collectParts(
        streamed(
          [called(0, { toolUseId: 'a', name: 'files_read_all' }), closed(0), stop('tool_use')],
          call,
        ),
      ).calls[0]?.name,
    ).toBe('files/read.all')
  })

  test('generates an id for a call without one', () => {
    expect(
      collectParts(streamed([called(0, { name: 'now' }), closed(0), stop('tool_use')])).calls[0]
        ?.id,
    ).toMatch(/^tooluse_[0-9]+_0$/)
  })

  test('ignores a tool that the provider runs itself', () => {
    const events = [
      called(0, { toolUseId: 'a', name: 'nova_grounding', type: 'server_tool_use' }),
      delta(0, { toolUse: { input: '{}' } }),
      closed(0),
    ]
    expect(collectParts(streamed([...events, delta(1, { text: 'Hi' }), stop()]))).toMatchObject({
      calls: [],
      text: 'Hi',
    })
  })

  test('trap 66: emits thinking as text and details, under one index with its signature', () => {
    const parts = streamed([
      delta(0, { reasoningContent: { text: 'Hm' } }),
      delta(0, { reasoningContent: { text: '' } }),
      delta(0, { reasoningContent: { signature: 'c2ln' } }),
      closed(0),
      stop(),
    ])
    expect(parts.filter(part => part.type === 'reasoning-delta')).toEqual([
      {
        type: 'reasoning-delta',
        choice: 0,
        text: 'Hm',
        details: [{ type: 'reasoning.text', text: 'Hm', format: 'anthropic-claude-v1', index: 0 }],
      },
      {
        type: 'reasoning-delta',
        choice: 0,
        text: '',
        details: [
          {
            type: 'reasoning.text',
            text: '',
            signature: 'c2ln',
            format: 'anthropic-claude-v1',
            index: 0,
          },
        ],
      },
    ])
  })

  test('trap 67: joins the pieces of redacted thinking into one detail', () => {
    const { details } = collectParts(
      streamed([
        delta(0, { reasoningContent: { redactedContent: 'QUJD' } }),
        delta(0, { reasoningContent: { redactedContent: 'REVG' } }),
        closed(0),
        delta(1, { reasoningContent: { data: 'R0hJ' } }),
        stop(),
      ]),
    )
    expect(details).toEqual([
      { type: 'reasoning.encrypted', data: 'QUJDREVG', format: 'anthropic-claude-v1', index: 0 },
      { type: 'reasoning.encrypted', data: 'R0hJ', format: 'anthropic-claude-v1', index: 1 },
    ])
  })

  test.each([
    ['deepseek.r1-v1:0', 'unknown'],
    [
      'arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc',
      'anthropic-claude-v1',
    ],
    ['openai.gpt-oss-120b-1:0', 'unknown'],
    ['us.openai.gpt-5.6', 'bedrock-openai-responses-v1'],
  ])('trap 96: the thinking of %s is marked %s', (upstreamModel, format) => {
    const events = [delta(0, { reasoningContent: { text: 'Hm' } }), stop()]
    expect(collectParts(streamed(events, {}, { ...claude, upstreamModel })).details).toEqual([
      { type: 'reasoning.text', text: 'Hm', format, index: 0 },
    ])
  })

  test('emits an image once it is complete', () => {
    const begun = {
      contentBlockStart: { contentBlockIndex: 0, start: { image: { format: 'webp' } } },
    }
    const parts = streamed([
      begun,
      delta(0, { image: { source: { bytes: 'QU' } } }),
      delta(0, { image: { source: { bytes: 'JD' } } }),
      closed(0),
      stop(),
    ])
    expect(collectParts(parts).images).toEqual(['data:image/webp;base64,QUJD'])
  })

  test('annotates web sources, and only cites documents', () => {
    const web = {
      title: 'A',
      sourceContent: [{ text: 'said' }],
      location: { web: { url: 'https://a.example/', domain: 'a.example' } },
    }
    const page = {
      title: 'Report',
      sourceContent: [{ text: 'wrote' }],
      location: { documentPage: { documentIndex: 1, start: 2, end: 3 } },
    }
    const parts = streamed([
      delta(0, { text: 'Hi' }),
      delta(0, { citation: web }),
      delta(0, { citation: page }),
      stop(),
    ])
    expect(parts.filter(part => part.type === 'annotation')).toEqual([
      {
        type: 'annotation',
        choice: 0,
        annotation: {
          type: 'url_citation',
          url_citation: { url: 'https://a.example/', title: 'A', content: 'said' },
        },
        citation: {
          type: 'web_search_result_location',
          encrypted_index: '',
          cited_text: 'said',
          url: 'https://a.example/',
          title: 'A',
        },
        block: 0,
      },
      {
        type: 'annotation',
        choice: 0,
        annotation: null,
        citation: {
          type: 'page_location',
          cited_text: 'wrote',
          document_index: 1,
          document_title: 'Report',
          start_page_number: 2,
          end_page_number: 3,
        },
        block: 0,
      },
    ])
  })

  test('reports the stop sequence', () => {
    const fields = { additionalModelResponseFields: { delta: { stop_sequence: 'END' } } }
    expect(streamed([stop('stop_sequence', fields)]).at(-1)).toEqual({
      type: 'finish',
      choice: 0,
      reason: 'stop',
      native: 'stop_sequence',
      sequence: 'END',
    })
  })

  test('trap 84: ignores empty deltas and unknown events', () => {
    const events = [
      { 'initial-response': {} },
      { messageStart: {} },
      delta(0, { text: '' }),
      delta(0, {}),
      delta(0, { hologram: 1 }),
      { ping: {} },
    ]
    expect(streamed(events).map(part => part.type)).toEqual(['start'])
  })

  test('trap 77: throws the error for an exception', () => {
    expect(
      thrown(() =>
        streamed([
          delta(0, { text: 'Hi' }),
          { throttlingException: { message: 'Too many tokens' } },
        ]),
      ),
    ).toBe('rate_limit_exceeded')
    expect(thrown(() => streamed([{ InternalFailure: { message: '' } }]))).toBe(
      'provider_unavailable',
    )
  })

  test('reads only the usage after the stop, and finishes once', () => {
    const parts = streamed([stop(), delta(0, { text: 'More' }), stop('max_tokens'), counted])
    expect(parts.map(part => part.type)).toEqual(['start', 'finish', 'usage'])
  })
})

describe('a whole answer', () => {
  test('is read like its stream', () => {
    const content = [
      { reasoningContent: { reasoningText: { text: 'Hm', signature: 'c2ln' } } },
      { reasoningContent: { redactedContent: 'QUJD' } },
      { text: 'Hi' },
      { toolUse: { toolUseId: 'a', name: 'add', input: { x: 1 } } },
    ]
    const said = collectParts(
      whole(content, { stopReason: 'tool_use', usage: { inputTokens: 1, outputTokens: 2 } }),
    )
    expect(said).toMatchObject({
      text: 'Hi',
      reasoning: 'Hm',
      details: [
        {
          type: 'reasoning.text',
          text: 'Hm',
          signature: 'c2ln',
          format: 'anthropic-claude-v1',
          index: 0,
        },
        { type: 'reasoning.encrypted', data: 'QUJD', format: 'anthropic-claude-v1', index: 1 },
      ],
      calls: [{ id: 'a', name: 'add', input: '{"x":1}' }],
      finish: { reason: 'tool_calls', native: 'tool_use' },
    })
    expect(said.usage?.output.text).toBe(2)
  })

  test('keeps the input of a call as the JSON that it is, even if it is no object', () => {
    const inputOf = (input: unknown) =>
      collectParts(whole([{ toolUse: { toolUseId: 'a', name: 'add', input } }])).calls[0]?.input
    expect([{ x: 1 }, '{"x":1}', [1], 5].map(inputOf)).toEqual([
      '{"x":1}',
      '"{\\"x\\":1}"',
      '[1]',
      '5',
    ])
    expect([null, undefined, ''].map(inputOf)).toEqual(['{}', '{}', '{}'])
  })

  test('reports its service tier', () => {
    expect(whole([{ text: 'Hi' }], { serviceTier: { type: 'flex' } })[0]).toMatchObject({
      type: 'start',
      service_tier: 'flex',
    })
  })

  test('reads citations among its text', () => {
    const web = { title: 'A', location: { web: { url: 'https://a.example/' } } }
    const said = collectParts(
      whole([
        { text: 'So: ' },
        {
          citationsContent: {
            content: [{ text: 'it is' }, { text: ' so' }],
            citations: [web, 'x'],
          },
        },
      ]),
    )
    expect(said.text).toBe('So: it is so')
    expect(said.annotations).toEqual([
      {
        type: 'url_citation',
        url_citation: { url: 'https://a.example/', title: 'A', start_index: 4, end_index: 12 },
      },
    ])
  })

  test('keeps a signature without text (trap 94)', () => {
    expect(
      collectParts(
        whole([{ reasoningContent: { reasoningText: { text: '', signature: 'c2ln' } } }]),
      ).details,
    ).toEqual([
      {
        type: 'reasoning.text',
        text: '',
        signature: 'c2ln',
        format: 'anthropic-claude-v1',
        index: 0,
      },
    ])
  })

  test.each([
    [null],
    ['text'],
    [[]],
    [{}],
    [{ output: {} }],
    [{ output: { message: { content: 'Hi' } } }],
    [{ Output: { __type: 'x' } }],
  ])('refuses %p', body => {
    expect(thrown(() => bedrockConverse.parseAnswer(body, buildTextCall(), claude))).toBe(
      'provider_unavailable',
    )
  })

  test('trap 75: throws the error in its place', () => {
    const body = { __type: 'com.amazon#ThrottlingException', message: 'slow' }
    expect(thrown(() => bedrockConverse.parseAnswer(body, buildTextCall(), claude))).toBe(
      'rate_limit_exceeded',
    )
  })
})

describe('an answer that is the input of a tool', () => {
  const schema = { type: 'object', properties: { value: { type: 'string' } } }
  const asked: Partial<TextCall> = {
    params: { response_format: { type: 'json_schema', json_schema: { name: 'it', schema } } },
  }
  const input = '{"value":"test"}'

  test('trap 46: becomes text and ends with a stop, streamed', () => {
    const parts = streamed(
      [
        delta(0, { text: 'Let me see.' }),
        called(1, { toolUseId: 'a', name: 'json' }),
        delta(1, { toolUse: { input: '{"value":' } }),
        delta(1, { toolUse: { input: '"test"}' } }),
        closed(1),
        stop('tool_use'),
      ],
      asked,
    )
    expect(collectParts(parts)).toMatchObject({
      text: input,
      calls: [],
      finish: { reason: 'stop', native: 'tool_use' },
    })
    expect(parts.filter(part => part.type === 'text-delta')).toHaveLength(2)
  })

  test('trap 46: becomes the same as a whole answer', () => {
    const content = [
      { text: 'Let me see.' },
      { toolUse: { toolUseId: 'a', name: 'json', input: { value: 'test' } } },
    ]
    expect(collectParts(whole(content, { stopReason: 'tool_use' }, asked))).toMatchObject({
      text: input,
      calls: [],
      finish: { reason: 'stop' },
    })
  })

  test('falls back to text without the call', () => {
    expect(collectParts(streamed([delta(0, { text: 'No.' }), stop()], asked))).toMatchObject({
      text: 'No.',
      finish: { reason: 'stop' },
    })
  })

  test('passes on a tool of that name if no format was requested', () => {
    expect(
      collectParts(
        streamed([called(0, { toolUseId: 'a', name: 'json' }), closed(0), stop('tool_use')]),
      ).calls,
    ).toHaveLength(1)
  })
})

describe('hostile answers', () => {
  const VALUES: unknown[] = [
    null,
    0,
    -1,
    1e300,
    '',
    'x',
    [],
    [[]],
    {},
    { text: {} },
    true,
    { reasoningText: 7 },
    { source: 'x', input: [1] },
  ]
  const NAMES = [
    'text',
    'toolUse',
    'reasoningContent',
    'citationsContent',
    'citation',
    'image',
    'input',
    'start',
    'delta',
    'usage',
    'stopReason',
  ]

  test('any value in any position produces parts or provider_unavailable', () => {
    const told: unknown[] = VALUES.flatMap(value =>
      NAMES.map(name => ({
        contentBlockIndex: value,
        [name]: value,
        delta: { [name]: value },
        start: { [name]: value },
      })),
    )
    const outcomes = new Set<unknown>()
    for (const one of [...VALUES, ...told])
      for (const event of [
        'messageStart',
        'contentBlockStart',
        'contentBlockDelta',
        'contentBlockStop',
        'messageStop',
        'metadata',
        'validationException',
      ]) {
        outcomes.add(thrown(() => readerOf().read({ event, data: JSON.stringify(one) })))
        outcomes.add(thrown(() => readerOf().read({ event, data: `${JSON.stringify(one)}{` })))
        outcomes.add(thrown(() => whole([one], { usage: one })))
      }
    expect(outcomes).toEqual(new Set(['nothing', 'provider_unavailable', 'invalid_request']))
  })

  test('limits the data that it accumulates', () => {
    const reader = readerOf()
    const begin = (i: number) => () =>
      reader.read({
        event: 'contentBlockStart',
        data: JSON.stringify({ contentBlockIndex: i, start: { image: { format: 'png' } } }),
      })
    expect(Array.from({ length: 200 }, (_, i) => thrown(begin(i)))).toContain(
      'provider_unavailable',
    )
    const calls = streamed(
      Array.from({ length: 300 }, (_, i) => [
        called(i, { toolUseId: `t${i}`, name: 'x' }),
        closed(i),
      ]).flat(),
    )
    expect(collectParts(calls).calls).toHaveLength(128)
  })
})
