import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import {
  anthropicMessages,
  parseAnswer,
} from '../../../../src/translation/protocols/anthropic-messages.ts'
import { buildEndpoint, buildTextCall } from '../../../support/call.ts'
import { collectParts } from '../../../support/parts.ts'

const endpoint = buildEndpoint({ upstreamModel: 'claude-sonnet-4-5' })
const frame = (data: unknown) => ({
  event: null,
  data: typeof data === 'string' ? data : JSON.stringify(data),
})

const readerOf = (more: Partial<TextCall> = {}) =>
  anthropicMessages.createReader(buildTextCall(more), endpoint)

/** Returns the parts of a streamed answer with these events, without start and end. */
function streamed(events: unknown[], more: Partial<TextCall> = {}): TextPart[] {
  const reader = readerOf(more)
  return [START, ...events, ENDING, STOP]
    .flatMap(event => reader.read(frame(event)))
    .filter(isContent)
}

/** Returns the parts of a whole answer with this content, without start and end. */
const whole = (content: unknown[], more: Partial<TextCall> = {}) =>
  parseAnswer(
    { id: 'msg_1', content, stop_reason: 'end_turn', usage: { input_tokens: 3, output_tokens: 4 } },
    buildTextCall(more),
    endpoint,
  ).filter(isContent)

const isContent = ({ type }: TextPart) => type !== 'start' && type !== 'usage' && type !== 'finish'

const START = {
  type: 'message_start',
  message: {
    id: 'msg_1',
    content: [],
    usage: { input_tokens: 3, output_tokens: 1, service_tier: 'standard' },
  },
}
const ENDING = {
  type: 'message_delta',
  delta: { stop_reason: 'end_turn', stop_sequence: null },
  usage: { output_tokens: 4 },
}
const STOP = { type: 'message_stop' }

const begin = (index: number, content_block: object) => ({
  type: 'content_block_start',
  index,
  content_block,
})
const delta = (index: number, given: object) => ({
  type: 'content_block_delta',
  index,
  delta: given,
})
const end = (index: number) => ({ type: 'content_block_stop', index })
const block = (index: number, content_block: object, ...deltas: object[]) => [
  begin(index, content_block),
  ...deltas.map(one => delta(index, one)),
  end(index),
]

const textDelta = (text: string) => ({ type: 'text_delta', text })
const input = (partial_json: string) => ({ type: 'input_json_delta', partial_json })
const tool = (name: string, more: object = {}) => ({
  type: 'tool_use',
  id: `toolu_${name}`,
  name,
  input: {},
  ...more,
})
const said = (text: string, at = 0): TextPart => ({
  type: 'text-delta',
  choice: 0,
  text,
  block: at,
})

const FORMAT = 'anthropic-claude-v1'

describe('start and end', () => {
  test('starts with the id and tier of the message and the input tokens', () => {
    const reader = readerOf()
    expect(reader.read(frame(START))).toMatchObject([
      { type: 'start', upstream_id: 'msg_1', system_fingerprint: null, service_tier: 'standard' },
      { type: 'usage', usage: { input: { text: 3 }, output: { text: 1 } } },
    ])
    expect(reader.read(frame(START))).toEqual([])
  })

  test('fails on the start of another message', () => {
    const reader = readerOf()
    reader.read(frame(START))
    expect(() =>
      reader.read(
        frame({ type: 'message_start', message: { id: 'msg_2', usage: { input_tokens: 3 } } }),
      ),
    ).toThrow(GatewayError)
  })

  test('counts the model runs only at the end', () => {
    const usage = {
      input_tokens: 3,
      output_tokens: 1,
      iterations: [{ type: 'message', input_tokens: 2, output_tokens: 0 }],
    }
    const reader = readerOf()
    const given = [
      { type: 'message_start', message: { id: 'msg_1', usage } },
      ENDING,
      STOP,
    ].flatMap(event => reader.read(frame(event)))
    expect(collectParts(given).usage).toMatchObject({ input: { text: 3 }, output: { text: 4 } })
  })

  test('completes on message_stop, and reads nothing after it', () => {
    const reader = readerOf()
    expect(reader.read(frame(ENDING))).toMatchObject([{ type: 'usage' }])
    expect(reader.complete).toBe(false)
    expect(reader.read(frame(STOP))).toEqual([
      { type: 'finish', choice: 0, reason: 'stop', native: 'end_turn' },
    ])
    expect(reader.complete).toBe(true)
    expect(reader.read(frame(begin(0, { type: 'text', text: 'more' })))).toEqual([])
  })

  test('trap 84: pings, empty deltas and unknown events produce no parts', () => {
    const reader = readerOf()
    const events = [
      { type: 'ping' },
      begin(0, { type: 'text', text: '' }),
      delta(0, textDelta('')),
      { type: 'odd' },
      delta(0, { type: 'odd' }),
      {},
    ]
    expect(events.flatMap(event => reader.read(frame(event)))).toEqual([])
  })

  test('trap 69, 72: the last stop reason wins, with its sequence and extra fields', () => {
    const reader = readerOf()
    const events = [
      {
        type: 'message_delta',
        delta: { stop_reason: null },
        usage: { output_tokens: 2 },
        context_management: { applied_edits: [] },
      },
      {
        type: 'message_delta',
        delta: { stop_reason: 'stop_sequence', stop_sequence: 'END', container: { id: 'c' } },
        usage: { output_tokens: 5 },
      },
      STOP,
    ]
    const given = [START, ...events].flatMap(event => reader.read(frame(event)))
    expect(given.at(-1)).toEqual({
      type: 'finish',
      choice: 0,
      reason: 'stop',
      native: 'stop_sequence',
      sequence: 'END',
      extra: { context_management: { applied_edits: [] }, container: { id: 'c' } },
    })
    expect(collectParts(given).usage).toMatchObject({ input: { text: 3 }, output: { text: 5 } })
  })

  test('treats a missing stop reason as a stop', () => {
    const reader = readerOf()
    expect(reader.read(frame(STOP))).toEqual([
      { type: 'finish', choice: 0, reason: 'stop', native: null },
    ])
  })

  test('skips a few unreadable events, and fails on many', () => {
    const reader = readerOf()
    for (let i = 0; i < 20; i++) expect(reader.read(frame('<html>'))).toEqual([])
    expect(() => reader.read(frame('<html>'))).toThrow(GatewayError)
  })

  test('trap 74, 75: an error in place of an answer, or within one, is a failure', () => {
    const event = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
    expect(() => readerOf().read(frame(event))).toThrow(
      expect.objectContaining({ type: 'provider_overloaded' }),
    )
    expect(() => parseAnswer(event, buildTextCall(), endpoint)).toThrow(
      expect.objectContaining({ type: 'provider_overloaded' }),
    )
  })

  test.each([[null], ['x'], [[]], [{}], [{ content: 'x' }], [{ choices: [] }]])(
    '%j is no answer',
    body => {
      expect(() => parseAnswer(body, buildTextCall(), endpoint)).toThrow(
        expect.objectContaining({ type: 'provider_unavailable' }),
      )
    },
  )
})

describe('text', () => {
  test('streams deltas and numbers the blocks', () => {
    const events = [
      ...block(0, { type: 'text', text: '' }, textDelta('Hel'), textDelta('lo')),
      ...block(1, { type: 'text', text: ' you' }),
    ]
    expect(streamed(events)).toEqual([said('Hel'), said('lo'), said(' you', 1)])
    expect(
      whole([
        { type: 'text', text: 'Hello' },
        { type: 'text', text: ' you' },
      ]),
    ).toEqual([said('Hello'), said(' you', 1)])
  })

  const citation = {
    type: 'web_search_result_location',
    url: 'https://a.example/',
    title: 'A',
    cited_text: 'words',
    encrypted_index: 'opaque',
  }
  const shown = (place: object) => ({
    type: 'url_citation',
    url_citation: { url: 'https://a.example/', title: 'A', content: 'words', ...place },
  })

  test('shows a cited page in the form of the chat API and of Anthropic', () => {
    const content = [
      { type: 'text', text: 'So: ' },
      { type: 'text', text: 'words', citations: [citation] },
    ]
    const part = {
      type: 'annotation',
      choice: 0,
      annotation: shown({ start_index: 4, end_index: 9 }),
      citation,
      block: 1,
    }
    expect(whole(content)).toEqual([said('So: '), said('words', 1), part] as never)
    const events = [
      ...block(0, { type: 'text', text: '' }, textDelta('So: ')),
      ...block(1, { type: 'text', text: '', citations: [] }, textDelta('words'), {
        type: 'citations_delta',
        citation,
      }),
    ]
    expect(streamed(events)).toEqual(whole(content))
  })

  test('cites without a range before the text has arrived', () => {
    const events = block(
      0,
      { type: 'text', text: '' },
      { type: 'citations_delta', citation },
      textDelta('words'),
    )
    expect(streamed(events)[0]).toMatchObject({ annotation: shown({}) })
    expect(JSON.stringify(streamed(events)[0])).not.toContain('_index":0')
  })

  test('cites a document without a chat annotation', () => {
    const inDocument = {
      type: 'char_location',
      cited_text: 'x',
      document_index: 0,
      start_char_index: 0,
      end_char_index: 1,
    }
    expect(whole([{ type: 'text', text: 'x', citations: [inDocument] }])).toEqual([
      said('x'),
      { type: 'annotation', choice: 0, annotation: null, citation: inDocument, block: 0 },
    ])
    const hostile = { ...citation, url: 'javascript:alert(1)', title: 7 }
    expect(whole([{ type: 'text', text: 'x', citations: [hostile, null, 'x'] }])).toMatchObject([
      said('x'),
      { annotation: null },
    ])
  })
})

describe('thinking', () => {
  const thought = (text: string, more: object = {}, index = 0): TextPart => ({
    type: 'reasoning-delta',
    choice: 0,
    text,
    details: [{ type: 'reasoning.text', text, ...more, format: FORMAT, index }],
  })

  test('trap 66, 93: emits the text, then the signature, byte for byte', () => {
    const events = block(
      0,
      { type: 'thinking', thinking: '', signature: '' },
      { type: 'thinking_delta', thinking: 'So ' },
      { type: 'thinking_delta', thinking: 'be it' },
      { type: 'signature_delta', signature: 'EpAE+/==' },
    )
    expect(streamed(events)).toEqual([
      thought('So '),
      thought('be it'),
      thought('', { signature: 'EpAE+/==' }),
    ])
    expect(whole([{ type: 'thinking', thinking: 'So be it', signature: 'EpAE+/==' }])).toEqual([
      thought('So be it', { signature: 'EpAE+/==' }),
    ])
  })

  test('trap 94: keeps a signature without text', () => {
    expect(whole([{ type: 'thinking', thinking: '', signature: 'sig' }])).toEqual([
      thought('', { signature: 'sig' }),
    ])
    expect(whole([{ type: 'thinking', thinking: '', signature: '' }])).toEqual([])
  })

  test('trap 67: emits redacted thinking as a whole block', () => {
    const hidden = {
      type: 'reasoning-delta',
      choice: 0,
      text: '',
      details: [{ type: 'reasoning.encrypted', data: 'opaque', format: FORMAT, index: 1 }],
    }
    const content = [
      { type: 'text', text: 'a' },
      { type: 'redacted_thinking', data: 'opaque' },
    ]
    expect(whole(content)).toEqual([said('a'), hidden] as never)
    expect(
      streamed([
        ...block(0, { type: 'text', text: 'a' }),
        ...block(1, { type: 'redacted_thinking', data: 'opaque' }),
      ]),
    ).toEqual(whole(content))
  })
})

describe('calls of the client’s tools', () => {
  test('trap 25, 58, 59: numbers calls separately, and ignores the placeholder input', () => {
    const events = [
      ...block(0, { type: 'text', text: 'a' }),
      begin(1, tool('look')),
      begin(2, tool('walk')),
      delta(1, input('')),
      delta(1, input('{"a":')),
      delta(2, input('{"b":2}')),
      delta(1, input('1}')),
      end(1),
      end(2),
    ]
    expect(collectParts(streamed(events)).calls).toEqual([
      { id: 'toolu_look', name: 'look', input: '{"a":1}' },
      { id: 'toolu_walk', name: 'walk', input: '{"b":2}' },
    ])
  })

  test('ends a call without arguments with an empty object', () => {
    expect(collectParts(streamed(block(0, tool('look'), input('')))).calls).toEqual([
      { id: 'toolu_look', name: 'look', input: '{}' },
    ])
    expect(collectParts(whole([tool('look')])).calls).toEqual([
      { id: 'toolu_look', name: 'look', input: '{}' },
    ])
    expect(collectParts(streamed([begin(0, tool('look'))])).calls[0]?.input).toBe('{}')
  })

  test('emits a whole input as the JSON that it is, even if it is no object', () => {
    const inputOf = (given: unknown) =>
      collectParts(whole([tool('look', { input: given })])).calls[0]?.input
    expect([{ a: 1 }, '{"a":1}', [1], 5, false].map(inputOf)).toEqual([
      '{"a":1}',
      '"{\\"a\\":1}"',
      '[1]',
      '5',
      'false',
    ])
    expect([null, undefined, ''].map(inputOf)).toEqual(['{}', '{}', '{}'])
  })

  test('emits an input that arrives at once only once', () => {
    expect(
      collectParts(streamed(block(0, tool('look', { input: { a: 1 } })))).calls[0]?.input,
    ).toBe('{"a":1}')
    expect(
      collectParts(streamed(block(0, tool('look', { input: { a: 1 } }), input('{"a":1}')))).calls[0]
        ?.input,
    ).toBe('{"a":1}')
  })

  test('reads deferred calls from the start of the message', () => {
    const reader = readerOf()
    const start = {
      type: 'message_start',
      message: {
        id: 'msg_1',
        content: [tool('look', { input: { a: 1 } })],
        stop_reason: 'tool_use',
      },
    }
    const given = [start, STOP].flatMap(event => reader.read(frame(event)))
    expect(collectParts(given)).toMatchObject({
      calls: [{ name: 'look', input: '{"a":1}' }],
      finish: { reason: 'tool_calls', native: 'tool_use' },
    })
  })

  test('trap 26: keeps large numbers exact', () => {
    const reader = readerOf()
    const event =
      '{"type":"content_block_start","index":0,"content_block":' +
      '{"type":"tool_use","id":"t","name":"look","input":{"id":12345678901234567890}}}'
    const given = [event, JSON.stringify(end(0))].flatMap(one => reader.read(frame(one)))
    expect(collectParts(given).calls[0]?.input).toBe('{"id":12345678901234567890}')
  })

  test('trap 22: restores the client’s tool names', () => {
    const more = { tools: [{ type: 'function' as const, name: 'mcp/look.it' }] }
    expect(collectParts(whole([tool('mcp_look_it')], more)).calls[0]?.name).toBe('mcp/look.it')
  })

  test('trap 20: generates an id for a call without one', () => {
    const [first, second] = collectParts(
      whole([tool('look', { id: undefined }), tool('look', { id: '' })]),
    ).calls
    expect(first?.id).toMatch(/^toolu_/)
    expect(second?.id).not.toBe(first?.id)
  })

  test('passes on the caller of a tool call', () => {
    expect(whole([tool('look', { caller: { type: 'direct' } })])[0]).toMatchObject({
      extra: { caller: { type: 'direct' } },
    })
  })

  test('ignores calls beyond the limit', () => {
    expect(
      collectParts(whole(Array.from({ length: 200 }, (_, i) => tool(`t${i}`)))).calls,
    ).toHaveLength(128)
  })
})

describe('the provider’s own tools', () => {
  const other = (value: unknown): TextPart => ({
    type: 'other',
    choice: 0,
    dialect: 'messages',
    value,
  })
  const search = {
    type: 'server_tool_use',
    id: 'srvtoolu_1',
    name: 'web_search',
    input: { query: 'x' },
  }
  const found = {
    type: 'web_search_tool_result',
    tool_use_id: 'srvtoolu_1',
    content: [{ type: 'web_search_result', url: 'https://a.example/' }],
  }

  test('passes their blocks whole to clients of this dialect, with the streamed input', () => {
    const events = [
      ...block(0, { ...search, input: {} }, input('{"que'), input('ry":"x"}')),
      ...block(1, found),
    ]
    expect(streamed(events)).toEqual([other(search), other(found)])
    expect(whole([search, found])).toEqual([other(search), other(found)])
  })

  test.each([
    [{ type: 'mcp_tool_use', id: 'm', name: 'echo', server_name: 's', input: {} }],
    [{ type: 'mcp_tool_result', tool_use_id: 'm', is_error: false, content: [] }],
    [{ type: 'container_upload', file_id: 'file_1' }],
    [{ type: 'fallback', from: { model: 'a' }, to: { model: 'b' } }],
    [{ type: 'brand_new', deep: { a: [1] } }],
  ])('passes on %j', value => {
    expect(whole([value])).toEqual([other(value)])
  })

  test('emits a compaction as text to clients of other dialects', () => {
    const events = block(
      0,
      { type: 'compaction', content: '' },
      { type: 'compaction_delta', content: 'So ' },
      { type: 'compaction_delta', content: 'far' },
    )
    expect(streamed(events)).toEqual([said('So far')])
    expect(streamed(events, { dialect: 'messages' })).toEqual([
      other({ type: 'compaction', content: 'So far' }),
    ])
    expect(whole([{ type: 'compaction', content: null }])).toEqual([])
    expect(whole([{ type: 'compaction', content: null }], { dialect: 'messages' })).toEqual([
      other({ type: 'compaction', content: null }),
    ])
  })
})

describe('an answer that is the input of a tool', () => {
  const asked = { params: { response_format: { type: 'json_object' as const } } }
  const answered = (events: unknown[], stop_reason = 'tool_use') => {
    const reader = readerOf(asked)
    return [START, ...events, { ...ENDING, delta: { stop_reason } }, STOP].flatMap(event =>
      reader.read(frame(event)),
    )
  }

  test('trap 46: becomes text, and ends with a stop', () => {
    const given = collectParts(
      answered(block(0, tool('json'), input(''), input('{"a":'), input('1}'))),
    )
    expect(given).toMatchObject({
      text: '{"a":1}',
      calls: [],
      finish: { reason: 'stop', native: 'tool_use' },
    })
    const body = { content: [tool('json', { input: { a: 1 } })], stop_reason: 'tool_use' }
    expect(collectParts(parseAnswer(body, buildTextCall(asked), endpoint))).toMatchObject({
      text: '{"a":1}',
      calls: [],
      finish: { reason: 'stop' },
    })
  })

  test('drops text beside the answer, and a second answer', () => {
    const events = [
      ...block(0, { type: 'text', text: 'Here: ' }),
      ...block(1, tool('json'), input('{}')),
      ...block(2, tool('json'), input('{"b":1}')),
    ]
    expect(collectParts(answered(events)).text).toBe('{}')
  })

  test('falls back to text without the call', () => {
    expect(
      collectParts(
        answered(
          block(0, { type: 'text', text: '' }, textDelta('I cannot'), textDelta('.')),
          'end_turn',
        ),
      ),
    ).toMatchObject({
      text: 'I cannot.',
      finish: { reason: 'stop' },
    })
  })

  test('passes on calls of other tools, and the text before them', () => {
    const given = collectParts(
      answered([
        ...block(0, { type: 'text', text: 'Let me see' }),
        ...block(1, tool('look'), input('{}')),
      ]),
    )
    expect(given).toMatchObject({
      text: 'Let me see',
      calls: [{ name: 'look' }],
      finish: { reason: 'tool_calls' },
    })
  })

  test('ends with tool_calls beside a call of another tool', () => {
    const given = collectParts(
      answered([
        ...block(0, tool('json'), input('{"a":1}')),
        ...block(1, tool('look'), input('{}')),
      ]),
    )
    expect(given).toMatchObject({
      text: '{"a":1}',
      calls: [{ name: 'look' }],
      finish: { reason: 'tool_calls' },
    })
  })

  test('keeps the length reason of a truncated answer', () => {
    expect(
      collectParts(answered(block(0, tool('json'), input('{"a":')), 'max_tokens')),
    ).toMatchObject({
      text: '{"a":',
      finish: { reason: 'length' },
    })
  })

  test('passes on a tool of that name if no format was requested', () => {
    expect(collectParts(streamed(block(0, tool('json'), input('{}')))).calls).toEqual([
      { id: 'toolu_json', name: 'json', input: '{}' },
    ])
  })
})

describe('a hostile provider', () => {
  const WEIRD = [
    null,
    true,
    7,
    'x',
    [],
    {},
    { type: 'text' },
    { type: 'tool_use' },
    { type: 'thinking' },
    { type: 7 },
    [[null]],
    '__proto__',
  ]

  test('reads or refuses any JSON in any position', () => {
    const events = WEIRD.flatMap(odd => [
      odd,
      { type: 'message_start', message: odd },
      { type: 'message_start', message: { id: odd, content: odd, usage: odd, stop_reason: odd } },
      { type: 'content_block_start', index: odd, content_block: odd },
      {
        type: 'content_block_start',
        index: 0,
        content_block: { type: 'text', text: odd, citations: odd },
      },
      {
        type: 'content_block_start',
        index: 1,
        content_block: { type: 'tool_use', id: odd, name: odd, input: odd },
      },
      {
        type: 'content_block_start',
        index: 2,
        content_block: { type: 'thinking', thinking: odd, signature: odd },
      },
      {
        type: 'content_block_start',
        index: 3,
        content_block: { type: 'redacted_thinking', data: odd },
      },
      {
        type: 'content_block_start',
        index: 4,
        content_block: { type: 'server_tool_use', input: odd },
      },
      ...[0, 1, 2, 3, 4, odd].flatMap(index =>
        [
          'text_delta',
          'citations_delta',
          'thinking_delta',
          'signature_delta',
          'input_json_delta',
          'compaction_delta',
          odd,
        ].map(type => ({
          type: 'content_block_delta',
          index,
          delta: {
            type,
            text: odd,
            citation: odd,
            thinking: odd,
            signature: odd,
            partial_json: odd,
            content: odd,
          },
        })),
      ),
      { type: 'content_block_stop', index: odd },
      { type: 'message_delta', delta: odd, usage: odd },
      {
        type: 'message_delta',
        delta: { stop_reason: odd, stop_sequence: odd, container: odd },
        usage: { output_tokens: odd, iterations: odd },
      },
    ])
    const reader = readerOf()
    const given: TextPart[] = []
    for (const event of events) given.push(...reader.read(frame(JSON.stringify(event))))
    given.push(...reader.read(frame(STOP)))
    expect(given.filter(part => part.type === 'finish')).toHaveLength(1)
    expect(() => collectParts(given)).not.toThrow()
  })

  test('reads or refuses any JSON in a whole answer', () => {
    for (const odd of WEIRD)
      expect(() =>
        parseAnswer(
          { id: odd, content: [odd, { type: odd }], usage: odd, stop_reason: odd },
          buildTextCall(),
          endpoint,
        ),
      ).not.toThrow()
  })

  test('fails on too many open blocks', () => {
    const reader = readerOf()
    const open = () => {
      for (let i = 0; i < 1_000; i++) reader.read(frame(begin(i, { type: 'text', text: '' })))
    }
    expect(open).toThrow(expect.objectContaining({ type: 'provider_unavailable' }))
  })

  test('limits the data that it accumulates', () => {
    const reader = readerOf()
    reader.read(frame(begin(0, { type: 'server_tool_use', input: {} })))
    const piece = frame(delta(0, input('x'.repeat(1024 * 1024))))
    const fill = () => {
      for (let i = 0; i < 20; i++) reader.read(piece)
    }
    expect(fill).toThrow(expect.objectContaining({ type: 'provider_unavailable' }))
  })
})
