import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import type { TextCall } from '../../../../src/language/call.ts'
import type { TextPart } from '../../../../src/language/part.ts'
import {
  EventReader,
  parseAnswer,
} from '../../../../src/translation/protocols/openai-responses/reader.ts'
import { buildEndpoint, buildProvider, buildTextCall } from '../../../support/call.ts'
import { collectParts } from '../../../support/parts.ts'

const frame = (data: unknown) => ({
  event: null,
  data: typeof data === 'string' ? data : JSON.stringify(data),
})

/** Returns the parts of a streamed answer of these events. */
function streamed(events: unknown[], call: Partial<TextCall> = {}): TextPart[] {
  const reader = new EventReader(buildTextCall({ stream: true, ...call }), buildEndpoint())
  return events.flatMap(event => reader.read(frame(event)))
}

/** Returns the parts of a whole answer with these items. */
const whole = (output: unknown[], more: object = {}, call: Partial<TextCall> = {}) =>
  parseAnswer(
    { id: 'resp_1', status: 'completed', output, ...more },
    buildTextCall(call),
    buildEndpoint(),
  )

const event = (type: string, more: object = {}) => ({
  type: `response.${type}`,
  output_index: 0,
  ...more,
})
const added = (item: object, output_index = 0) => event('output_item.added', { output_index, item })
const done = (item: object, output_index = 0) => event('output_item.done', { output_index, item })
const completed = (more: object = {}) =>
  event('completed', { response: { id: 'resp_1', status: 'completed', ...more } })

const message = (...content: unknown[]) => ({
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  content,
})
const outputText = (text: string, more: object = {}) => ({
  type: 'output_text',
  text,
  annotations: [],
  ...more,
})
const functionCall = (more: object = {}) => ({
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_1',
  name: 'weather',
  arguments: '',
  ...more,
})
/** The tools of OpenAI's own kinds whose calls end an answer with `tool_calls`. */
const ENDING = new Set(['custom_tool_call', 'apply_patch_call', 'computer_call'])
const weather = { type: 'function', name: 'weather' } as const

describe('the beginning and the end', () => {
  test('an answer starts once, with the fields of its first event', () => {
    const response = { id: 'resp_1', service_tier: 'auto' }
    expect(streamed([event('created', { response }), event('in_progress', { response })])).toEqual([
      { type: 'start', upstream_id: 'resp_1', system_fingerprint: null, service_tier: 'auto' },
    ])
  })

  test('returns the used service tier at the end if it is not the requested one', () => {
    const starts = streamed([
      event('created', { response: { id: 'resp_1', service_tier: 'auto' } }),
      completed({ service_tier: 'flex' }),
    ])
    expect(starts.filter(part => part.type === 'start')).toMatchObject([
      { service_tier: 'auto' },
      { upstream_id: 'resp_1', service_tier: 'flex' },
    ])
  })

  test('trap 65: the terminal event completes an answer, with or without [DONE]', () => {
    const reader = new EventReader(buildTextCall(), buildEndpoint())
    expect(reader.read(frame('[DONE]'))).toEqual([])
    expect(reader.complete).toBe(false)
    expect(reader.read(frame(completed())).at(-1)).toEqual({
      type: 'finish',
      choice: 0,
      reason: 'stop',
      native: 'completed',
    })
    expect(reader.complete).toBe(true)
    expect(reader.read(frame('[DONE]'))).toEqual([])
    expect(reader.read(frame(event('output_text.delta', { delta: 'late' })))).toEqual([])
  })

  test('reads an event whose type is only in its name', () => {
    const reader = new EventReader(buildTextCall(), buildEndpoint())
    expect(reader.read({ event: 'response.output_text.delta', data: '{"delta":"Hi"}' })).toEqual([
      { type: 'text-delta', choice: 0, text: 'Hi', block: 0 },
    ])
  })

  test('reads a server that sends everything in its last event', () => {
    const { text, calls, finish } = collectParts(
      streamed([
        completed({ output: [message(outputText('Hi')), functionCall({ arguments: '{}' })] }),
      ]),
    )
    expect([text, calls.length, finish?.reason]).toEqual(['Hi', 1, 'tool_calls'])
    const before = [
      event('created', { response: {} }),
      { type: 'keepalive' },
      added({ type: 'message', id: 'msg_1', content: [] }),
    ]
    expect(
      collectParts(streamed([...before, completed({ output: [message(outputText('Hi'))] })])).text,
    ).toBe('Hi')
  })

  test('skips a few unreadable events, and fails at many', () => {
    expect(streamed(['{', completed()]).at(-1)).toMatchObject({ type: 'finish' })
    expect(() => streamed(Array.from({ length: 21 }, () => '{'))).toThrow(GatewayError)
  })

  test.each([
    null,
    'Hi',
    [[]],
    { choices: [] },
    { output: 'Hi' },
    { output: [], status: 'in_progress' },
    { output: [], status: 'failed' },
  ])('%j is no answer', body => {
    expect(() => parseAnswer(body, buildTextCall(), buildEndpoint())).toThrow(
      'Provider returned error',
    )
  })
})

describe('text', () => {
  test('is returned as it streams, and not again when it is done', () => {
    const events = [
      added({ type: 'message', id: 'msg_1', content: [] }),
      event('content_part.added', { content_index: 0, part: outputText('') }),
      event('output_text.delta', { content_index: 0, delta: 'Hel' }),
      event('output_text.delta', { content_index: 0, delta: 'lo' }),
      event('output_text.done', { content_index: 0, text: 'Hello' }),
      done(message(outputText('Hello'))),
      completed(),
    ]
    expect(
      streamed(events).flatMap(part => (part.type === 'text-delta' ? [part.text] : [])),
    ).toEqual(['Hel', 'lo'])
  })

  test.each([
    [
      'when the text is done',
      [event('output_text.done', { text: 'Hello' }), done(message(outputText('Hello')))],
    ],
    [
      'when the item is done',
      [done(message(outputText('Hello'))), done(message(outputText('Hello')))],
    ],
  ])('is returned once if it comes only %s', (_, events) => {
    expect(collectParts(streamed(events)).text).toBe('Hello')
  })

  test('two messages of one answer are one text, in the provider’s pieces', () => {
    const cited = outputText('b', {
      annotations: [{ type: 'url_citation', url: 'https://a.test' }],
    })
    const given = whole([
      message(outputText('a'), cited),
      { ...message(outputText('c')), id: 'msg_2' },
    ])
    expect(
      given.flatMap(part => (part.type === 'text-delta' ? [[part.text, part.block]] : [])),
    ).toEqual([
      ['a', 0],
      ['b', 1],
      ['c', 2],
    ])
    expect(given.find(part => part.type === 'annotation')).toMatchObject({ block: 1 })
  })

  test('a refusal ends the answer as content_filter, unless calls must be answered', () => {
    const refusal = { type: 'refusal', refusal: 'I cannot.' }
    expect(collectParts(whole([message(refusal)]))).toMatchObject({
      text: '',
      refusal: 'I cannot.',
      finish: { reason: 'content_filter' },
    })
    expect(
      collectParts(
        streamed([
          event('refusal.delta', { delta: 'I can' }),
          event('refusal.delta', { delta: 'not.' }),
          completed(),
        ]),
      ),
    ).toMatchObject({
      refusal: 'I cannot.',
      finish: { reason: 'content_filter' },
    })
    expect(collectParts(whole([message(refusal), functionCall()])).finish).toMatchObject({
      reason: 'tool_calls',
    })
  })

  test('logprobs come with their text, in the form of the chat API', () => {
    const logprobs = [
      { token: 'Hi', logprob: -0.1, top_logprobs: [{ token: 'Ho', logprob: -2, bytes: [1] }] },
    ]
    expect(streamed([event('output_text.delta', { delta: 'Hi', logprobs })])).toEqual([
      {
        type: 'text-delta',
        choice: 0,
        text: 'Hi',
        block: 0,
        logprobs: {
          content: [
            {
              token: 'Hi',
              logprob: -0.1,
              bytes: null,
              top_logprobs: [{ token: 'Ho', logprob: -2, bytes: [1] }],
            },
          ],
        },
      },
    ])
  })

  test('cites pages in the form of the chat API, but no files, for which it has no form', () => {
    const cited = {
      type: 'url_citation',
      url: 'https://a.test',
      title: 'A',
      start_index: 0,
      end_index: 2,
    }
    const bare = { type: 'url_citation', url: 'https://b.test' }
    const file = { type: 'file_citation', file_id: 'file_1', filename: 'a.pdf', index: 0 }
    expect(
      collectParts(
        whole([message(outputText('Hi', { annotations: [cited, file, bare, null, 7] }))]),
      ).annotations,
    ).toEqual([
      {
        type: 'url_citation',
        url_citation: { url: 'https://a.test', title: 'A', start_index: 0, end_index: 2 },
      },
      { type: 'url_citation', url_citation: { url: 'https://b.test' } },
    ])
  })

  test('does not return a streamed citation again', () => {
    const annotation = { type: 'url_citation', url: 'https://a.test' }
    const events = [
      event('output_text.annotation.added', { annotation, annotation_index: 0 }),
      done(message(outputText('Hi', { annotations: [annotation] }))),
    ]
    expect(collectParts(streamed(events)).annotations).toHaveLength(1)
  })
})

describe('reasoning', () => {
  const summary = (...texts: string[]) => texts.map(text => ({ type: 'summary_text', text }))

  test('a summary is shown and kept, with its encrypted content under the same id', () => {
    const item = {
      type: 'reasoning',
      id: 'rs_1',
      summary: summary('Let me think'),
      encrypted_content: 'gAAA',
    }
    expect(whole([item])).toMatchObject([
      { type: 'start' },
      {
        type: 'reasoning-delta',
        text: 'Let me think',
        details: [
          {
            type: 'reasoning.summary',
            summary: 'Let me think',
            format: 'openai-responses-v1',
            id: 'rs_1',
            index: 0,
          },
        ],
      },
      {
        type: 'reasoning-delta',
        text: '',
        details: [
          {
            type: 'reasoning.encrypted',
            data: 'gAAA',
            format: 'openai-responses-v1',
            id: 'rs_1',
            index: 1,
          },
        ],
      },
      { type: 'finish' },
    ])
  })

  test('streamed pieces of one summary part share an index, and the next part has its own', () => {
    const events = [
      added({ type: 'reasoning', id: 'rs_1', summary: [] }),
      event('reasoning_summary_part.added', { summary_index: 0 }),
      event('reasoning_summary_text.delta', { summary_index: 0, delta: '**One' }),
      event('reasoning_summary_text.delta', { summary_index: 0, delta: '**' }),
      event('reasoning_summary_text.done', { summary_index: 0, text: '**One**' }),
      event('reasoning_summary_text.delta', { summary_index: 1, delta: '**Two**' }),
      done({
        type: 'reasoning',
        id: 'rs_1',
        summary: summary('**One**', '**Two**'),
        encrypted_content: 'gAAA',
      }),
    ]
    const { reasoning, details } = collectParts(streamed(events))
    expect(reasoning).toBe('**One**\n\n**Two**')
    expect(details).toMatchObject([
      { summary: '**One', index: 0 },
      { summary: '**', index: 0 },
      { summary: '\n\n**Two**', index: 1 },
      { data: 'gAAA', index: 2 },
    ])
  })

  test('unencrypted thinking is text, streamed or not', () => {
    const item = {
      type: 'reasoning',
      id: 'rs_1',
      summary: [],
      content: [{ type: 'reasoning_text', text: 'Hm.' }],
    }
    const expected = [
      { type: 'reasoning.text', text: 'Hm.', format: 'openai-responses-v1', id: 'rs_1', index: 0 },
    ]
    expect(collectParts(whole([item]))).toMatchObject({ reasoning: 'Hm.', details: expected })
    const events = [
      added({ type: 'reasoning', id: 'rs_1' }),
      event('reasoning_text.delta', { content_index: 0, delta: 'Hm.' }),
      done(item),
    ]
    expect(collectParts(streamed(events))).toMatchObject({ reasoning: 'Hm.', details: expected })
    expect(
      collectParts(
        streamed([
          added({ type: 'reasoning', id: 'rs_1' }),
          event('reasoning_text.done', { text: 'Hm.' }),
        ]),
      ).reasoning,
    ).toBe('Hm.')
  })

  test('an empty item returns nothing', () => {
    expect(whole([{ type: 'reasoning', id: 'rs_1', summary: [] }]).map(part => part.type)).toEqual([
      'start',
      'finish',
    ])
  })
})

describe('calls', () => {
  const argued = (kind: 'delta' | 'done', text: string, more: object = {}) =>
    event(`function_call_arguments.${kind}`, {
      item_id: 'fc_1',
      [kind === 'delta' ? 'delta' : 'arguments']: text,
      ...more,
    })
  const input = '{"city":"Paris"}'

  test.each([
    [
      'piece by piece',
      [
        added(functionCall()),
        argued('delta', '{"city":'),
        argued('delta', '"Paris"}'),
        argued('done', input),
      ],
    ],
    ['only when they are done', [added(functionCall()), argued('done', input)]],
    ['only with the item', [added(functionCall())]],
    ['with an item that was never begun', []],
  ])('trap 62: arguments that come %s are returned once', (_, events) => {
    const { calls, finish } = collectParts(
      streamed([...events, done(functionCall({ arguments: input })), completed()]),
    )
    expect(calls).toEqual([{ id: 'call_1', name: 'weather', input }])
    expect(finish?.reason).toBe('tool_calls')
  })

  test('trap 64: a call is identified by its call_id, not by the item’s id', () => {
    expect(collectParts(whole([functionCall({ arguments: input })])).calls).toMatchObject([
      { id: 'call_1' },
    ])
  })

  test('interleaved calls are distinguished by position, even if ids change in each event', () => {
    const events = [
      added(functionCall({ id: 'a', call_id: 'call_a' }), 0),
      added(functionCall({ id: 'b', call_id: 'call_b' }), 1),
      argued('delta', '{"n":1', { output_index: 0, item_id: 'c' }),
      argued('delta', '{"n":2', { output_index: 1, item_id: 'd' }),
      argued('delta', '}', { output_index: 0, item_id: 'e' }),
      argued('delta', '}', { output_index: 1, item_id: 'f' }),
      done(functionCall({ id: 'g', call_id: 'call_a', arguments: '{"n":1}' }), 0),
      done(functionCall({ id: 'h', call_id: 'call_b', arguments: '{"n":2}' }), 1),
    ]
    expect(collectParts(streamed(events)).calls).toEqual([
      { id: 'call_a', name: 'weather', input: '{"n":1}' },
      { id: 'call_b', name: 'weather', input: '{"n":2}' },
    ])
  })

  test.each([
    ['no places', undefined],
    ['one place for all', 0],
  ])('items of a server with %s are distinguished by their ids', (_, output_index) => {
    const events = [
      { ...added(functionCall({ id: 'a', call_id: 'call_a' })), output_index },
      { ...added(functionCall({ id: 'b', call_id: 'call_b' })), output_index },
      argued('delta', '{"n":1}', { output_index, item_id: 'a' }),
      argued('delta', '{"n":2}', { output_index, item_id: 'b' }),
      { ...done(functionCall({ id: 'a', call_id: 'call_a', arguments: '{"n":1}' })), output_index },
      { ...done(functionCall({ id: 'b', call_id: 'call_b', arguments: '{"n":2}' })), output_index },
    ]
    expect(collectParts(streamed(events)).calls.map(call => call.input)).toEqual([
      '{"n":1}',
      '{"n":2}',
    ])
  })

  test('trap 26: arguments that come as an object keep their big integers', () => {
    const item =
      '{"type":"function_call","call_id":"c","name":"f","arguments":{"id":12345678901234567890}}'
    const body = `{"type":"response.output_item.done","output_index":0,"item":${item}}`
    expect(collectParts(streamed([body])).calls).toMatchObject([
      { input: '{"id":12345678901234567890}' },
    ])
  })

  test('a call without an id gets one', () => {
    expect(
      collectParts(whole([{ type: 'function_call', name: 'f', arguments: '{}' }])).calls,
    ).toEqual([{ id: 'call_00000000000000000001_0', name: 'f', input: '{}' }])
  })

  test('trap 22: a call has the client’s own name of the tool', () => {
    const tools = [{ type: 'function', name: 'files.read/all' }] as const
    expect(
      collectParts(whole([functionCall({ name: 'files_read_all' })], {}, { tools: [...tools] }))
        .calls,
    ).toMatchObject([{ name: 'files.read/all' }])
  })

  test('further fields of a call are kept', () => {
    expect(
      whole([functionCall({ namespace: 'crm', caller: { type: 'program', caller_id: 'c' } })])[1],
    ).toMatchObject({
      extra: { namespace: 'crm', caller: { type: 'program', caller_id: 'c' } },
    })
  })

  test('unwraps several calls in the model’s wrapper', () => {
    const uses = ['weather', 'weather'].map((name, n) => ({
      recipient_name: `functions.${name}`,
      parameters: { n },
    }))
    const wrapper = functionCall({
      name: 'parallel',
      arguments: JSON.stringify({ tool_uses: uses }),
    })
    const expected = [
      { id: 'call_1_0', name: 'weather', input: '{"n":0}' },
      { id: 'call_1_1', name: 'weather', input: '{"n":1}' },
    ]
    expect(collectParts(whole([wrapper], {}, { tools: [weather] })).calls).toEqual(expected)
    expect(
      collectParts(
        streamed(
          [added(functionCall({ name: 'parallel' })), argued('delta', '{"to'), done(wrapper)],
          { tools: [weather] },
        ),
      ).calls,
    ).toEqual(expected)
  })

  test.each([
    [
      'that the client does not have',
      { tool_uses: [{ recipient_name: 'functions.other', parameters: {} }] },
    ],
    ['without arguments', { tool_uses: [{ recipient_name: 'functions.weather' }] }],
    ['at all: none', { tool_uses: [] }],
  ])('does not unwrap calls %s', (_, given) => {
    const wrapper = functionCall({ name: 'parallel', arguments: JSON.stringify(given) })
    expect(collectParts(whole([wrapper], {}, { tools: [weather] })).calls).toEqual([
      { id: 'call_1', name: 'parallel', input: JSON.stringify(given) },
    ])
  })

  test('a client’s own tool named parallel is no wrapper', () => {
    const wrapper = functionCall({
      name: 'parallel',
      arguments: '{"tool_uses":[{"recipient_name":"functions.weather","parameters":{}}]}',
    })
    expect(
      collectParts(
        whole([wrapper], {}, { tools: [weather, { type: 'function', name: 'parallel' }] }),
      ).calls,
    ).toMatchObject([{ name: 'parallel' }])
  })

  test('no more than 128 calls are read', () => {
    const calls = Array.from({ length: 200 }, (_, i) =>
      functionCall({ id: `fc_${i}`, call_id: `call_${i}` }),
    )
    expect(collectParts(whole(calls)).calls).toHaveLength(128)
  })
})

describe('other items', () => {
  const others = (given: TextPart[]) =>
    given.flatMap(part => (part.type === 'other' ? [part.value] : []))

  test.each([
    'web_search_call',
    'file_search_call',
    'code_interpreter_call',
    'mcp_call',
    'mcp_list_tools',
    'x_search_call',
    'program',
    'unheard_of',
  ])('%s, which the provider runs itself, is no call for the client', type => {
    const item = { type, id: 'x_1', status: 'completed' }
    const given = whole([item])
    expect(collectParts(given)).toMatchObject({ calls: [], finish: { reason: 'stop' } })
    expect(others(given)).toEqual([item])
  })

  test.each([
    ['custom_tool_call', { name: 'patch', input: 'a\n"b"' }, 'patch', 'a\n"b"'],
    [
      'local_shell_call',
      { action: { type: 'exec', command: ['ls'], working_directory: '/' } },
      'local_shell',
      { action: { type: 'exec', command: ['ls'], workingDirectory: '/' } },
    ],
    [
      'shell_call',
      { action: { commands: ['ls'], timeout_ms: 9, max_output_length: null } },
      'shell',
      { action: { commands: ['ls'], timeoutMs: 9 } },
    ],
    [
      'apply_patch_call',
      { operation: { type: 'delete_file', path: 'a' } },
      'apply_patch',
      { callId: 'call_1', operation: { type: 'delete_file', path: 'a' } },
    ],
    [
      'tool_search_call',
      { execution: 'client', arguments: { goal: 'x' } },
      'tool_search',
      { arguments: { goal: 'x' }, call_id: 'call_1' },
    ],
    [
      'computer_call',
      { action: { type: 'click' }, status: 'completed' },
      'computer',
      { actions: [{ type: 'click' }], pendingSafetyChecks: [], status: 'completed' },
    ],
    [
      'computer_call',
      {
        actions: [
          { type: 'scroll', x: 1, y: 2, scroll_x: 0, scroll_y: 9 },
          { type: 'type', text: 'a' },
        ],
        pending_safety_checks: [{ id: 's_1', code: 'c', message: null }],
      },
      'computer',
      {
        actions: [
          { type: 'scroll', x: 1, y: 2, scrollX: 0, scrollY: 9 },
          { type: 'type', text: 'a' },
        ],
        pendingSafetyChecks: [{ id: 's_1', code: 'c' }],
      },
    ],
  ])(
    '%s, which the client runs, is a function call for chat, and unchanged for its own dialect',
    (type, more, name, input) => {
      const item = { type, id: 'x_1', call_id: 'call_1', ...more }
      const { calls, finish } = collectParts(whole([item]))
      expect(calls.map(call => ({ ...call, input: JSON.parse(call.input) }))).toEqual([
        { id: 'call_1', name, input },
      ])
      // As in OpenAI's own client.
      expect(finish?.reason).toBe(ENDING.has(type) ? 'tool_calls' : 'stop')
      const own = whole([item], {}, { dialect: 'responses' })
      expect(collectParts(own).calls).toEqual([])
      expect(others(own)).toEqual([item])
    },
  )

  test.each([
    {
      type: 'shell_call',
      call_id: 'c',
      action: { commands: ['ls'] },
      environment: { type: 'container_reference' },
    },
    { type: 'tool_search_call', call_id: 'c', execution: 'server', arguments: {} },
    { type: 'custom_tool_call', call_id: 'xs_1', name: 'x_keyword_search', input: '{}' },
    { type: 'computer_call', id: 'cu_1', status: 'completed' },
  ])('%j is run by the provider', item => {
    expect(collectParts(whole([item])).calls).toEqual([])
  })

  test.each(['in_progress', 'incomplete', 'failed'])(
    'a patch that is %s is no call, because half a patch would do something else',
    status => {
      const item = {
        type: 'apply_patch_call',
        call_id: 'c',
        operation: { type: 'create_file', path: 'a', diff: '+' },
        status,
      }
      expect(collectParts(streamed([done(item), completed()])).calls).toEqual([])
    },
  )

  test('xAI runs itself what it calls a custom tool', () => {
    const item = { type: 'custom_tool_call', call_id: 'c', name: 'of_its_own', input: '{}' }
    const given = parseAnswer(
      { id: 'resp_1', status: 'completed', output: [item] },
      buildTextCall(),
      buildEndpoint({ provider: buildProvider({ slug: 'xai' }) }),
    )
    expect(collectParts(given)).toMatchObject({ calls: [], finish: { reason: 'stop' } })
  })

  test('returns an image with its type, named or detected, and no partial ones', () => {
    const made = (more: object) => ({
      type: 'image_generation_call',
      id: 'ig_1',
      status: 'completed',
      ...more,
    })
    expect(collectParts(whole([made({ result: 'AAAA', output_format: 'webp' })])).images).toEqual([
      'data:image/webp;base64,AAAA',
    ])
    expect(collectParts(whole([made({ result: '/9j/AAAA' })])).images).toEqual([
      'data:image/jpeg;base64,/9j/AAAA',
    ])
    expect(collectParts(whole([made({ result: 'AAAA' })])).images).toEqual([
      'data:image/png;base64,AAAA',
    ])
    expect(collectParts(whole([made({ result: null })])).images).toEqual([])
    expect(
      collectParts(
        streamed([event('image_generation_call.partial_image', { partial_image_b64: 'AAAA' })]),
      ).images,
    ).toEqual([])
  })

  test('searches are counted', () => {
    const usage = { input_tokens: 5, output_tokens: 2 }
    const search = { type: 'web_search_call', action: { type: 'search' } }
    expect(collectParts(whole([search, search], { usage })).usage?.units?.search).toBe(2)
  })
})

describe('failures', () => {
  test.each([
    [
      'an error event',
      { type: 'error', code: 'rate_limit_exceeded', message: 'slow down' },
      'rate_limit_exceeded',
    ],
    [
      'an error event with an object',
      { type: 'error', error: { code: 'context_length_exceeded', message: 'no' } },
      'context_length_exceeded',
    ],
    [
      'a failed response',
      event('failed', { response: { error: { code: 'invalid_prompt', message: 'no' } } }),
      'invalid_prompt',
    ],
    ['a failed response without a word', event('failed', { response: {} }), 'provider_unavailable'],
    [
      'a malformed error',
      { type: 'error', code: { toString: 1, valueOf: 1 }, status: {} },
      'provider_unavailable',
    ],
    ['an error and nothing else', { error: { message: 'broken' } }, 'provider_unavailable'],
  ])('%s is thrown', (_, given, type) => {
    expect(() => streamed([given])).toThrow(expect.objectContaining({ type }))
  })

  test('a failed response with a count has its usage, and then fails', () => {
    const reader = new EventReader(buildTextCall(), buildEndpoint())
    const error = { code: 'rate_limit_exceeded', message: 'secret' }
    const usage = { input_tokens: 10, output_tokens: 5 }
    const failed = event('failed', { response: { error, usage } })
    const parts = reader.read({ event: null, data: JSON.stringify(failed) })
    expect(parts).toMatchObject([
      { type: 'usage', usage: { input: { text: 10 }, output: { text: 5 } } },
    ])
    expect(reader.failure).toMatchObject({ type: 'rate_limit_exceeded' })
    expect(reader.complete).toBe(false)
  })

  test('throws for a whole answer that has failed', () => {
    const body = {
      status: 'failed',
      output: [],
      error: { code: 'server_error', message: 'secret' },
    }
    expect(() => parseAnswer(body, buildTextCall(), buildEndpoint())).toThrow(
      'Provider returned error',
    )
  })

  test('a failure with only an incomplete reason is an answer that was cut off', () => {
    const events = [
      event('failed', {
        response: { error: null, incomplete_details: { reason: 'max_output_tokens' } },
      }),
    ]
    expect(streamed(events).at(-1)).toMatchObject({
      type: 'finish',
      reason: 'length',
      native: 'max_output_tokens',
    })
  })
})

describe('hostile answers', () => {
  const ODD: unknown[] = [
    null,
    true,
    7,
    -1,
    1e99,
    '',
    'x',
    [],
    [null, 7, 'x'],
    {},
    { type: 'message', content: { a: 1 } },
    { text: 7, id: {} },
    { toString: 1, valueOf: 1 },
  ]
  const TYPES = [
    ...[
      'created',
      'output_item.added',
      'output_item.done',
      'output_text.delta',
      'output_text.done',
      'output_text.annotation.added',
    ],
    ...[
      'refusal.delta',
      'refusal.done',
      'reasoning_summary_text.delta',
      'reasoning_summary_text.done',
      'reasoning_text.delta',
    ],
    ...[
      'reasoning_text.done',
      'function_call_arguments.delta',
      'function_call_arguments.done',
      'completed',
      'incomplete',
      'failed',
    ],
  ]
  const FIELDS = [
    'output_index',
    'item_id',
    'item',
    'content_index',
    'summary_index',
    'delta',
    'text',
    'refusal',
    'arguments',
    'annotation',
    'response',
  ]
  const ITEM_FIELDS = [
    'id',
    'type',
    'content',
    'summary',
    'encrypted_content',
    'call_id',
    'name',
    'arguments',
    'action',
    'actions',
    'operation',
    'result',
  ]
  const ITEMS = [
    'message',
    'reasoning',
    'function_call',
    'custom_tool_call',
    'shell_call',
    'local_shell_call',
    'computer_call',
    'image_generation_call',
  ]

  const survives = (read: () => unknown) => {
    try {
      read()
    } catch (thrown) {
      expect(thrown).toBeInstanceOf(GatewayError)
    }
  }

  test.each(TYPES)('reads or refuses anything in a response.%s', type => {
    for (const name of FIELDS)
      for (const odd of ODD)
        survives(() => streamed([event(type, { [name]: odd }), event(type, { [name]: odd })]))
  })

  test.each(ITEMS)('reads or refuses anything in a %s', type => {
    for (const name of ITEM_FIELDS)
      for (const odd of ODD) {
        const item = { type, id: 'x', name: 'f', [name]: odd }
        survives(() => streamed([added(item), done(item), completed({ output: [item] })]))
        survives(() => whole([item, odd], { usage: odd, incomplete_details: odd, error: null }))
      }
  })

  test('refuses an answer with endless items', () => {
    const events = Array.from({ length: 5_000 }, (_, i) =>
      added({ type: 'message', id: `m${i}` }, i),
    )
    expect(() => streamed(events)).toThrow(GatewayError)
  })
})
