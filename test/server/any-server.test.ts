import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { readObject, readObjects } from '../../src/base/json.ts'
import {
  AnyServer,
  type ChatAnswer,
  callDelta,
  renderChat,
  type Verdict,
  WAYS,
} from '../support/any-server.ts'
import { createSeededIntegers, SEED } from '../support/random.ts'

/*
 * Public bug reports of people who run gateways before servers of every kind: each row with the
 * value that is right, and its letter in the collection of reports.
 */

const any = new AnyServer()

beforeAll(() =>
  any.open(
    {
      oc: { protocol: 'openai-chat' },
      second: { protocol: 'openai-chat' },
      own: { protocol: 'openai-chat', finish_reasons: { 'all done': 'stop' } },
      an: { protocol: 'anthropic-messages' },
      gm: { protocol: 'gemini' },
      deepseek: {},
      anthropic: {},
    },
    {
      oc: ['oc'],
      two: ['oc', 'second'],
      own: ['own'],
      an: ['an'],
      an2: ['an', 'second'],
      gm: ['gm'],
      ds: ['deepseek'],
      'claude-sonnet-4-5': ['anthropic'],
    },
  ),
)
afterAll(() => any.close())

const TOOL = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }
const TOOLS: Record<string, Json> = {
  chat: { tools: [TOOL] },
  messages: { tools: [{ name: 'f', input_schema: { type: 'object' } }] },
  responses: { tools: [{ type: 'function', name: 'f', parameters: { type: 'object' } }] },
}

const CALL = callDelta(0, 'c1', 'f', '{"a":1}')
const hello = (end: string): Verdict => ({ text: 'Hello', calls: [], end })
const called = (...inputs: string[]): Verdict => ({
  text: '',
  calls: inputs.map(input => ['f', input]),
  end: 'tool_calls',
})

/** Answers, and what every door takes them for. */
const ANSWERS: [row: string, answer: ChatAnswer, verdict: Verdict][] = [
  [
    'A01 A02 a reason and no [DONE]',
    { text: 'Hello', finish_reason: 'stop', done: false },
    hello('stop'),
  ],
  ['A05 A09 no reason', { text: 'Hello' }, hello('stop')],
  ['A07 a whole call and no reason', { calls: [CALL] }, called('{"a":1}')],
  ['A11 sensitive', { text: 'Hello', finish_reason: 'sensitive' }, hello('content_filter')],
  ['A11 max_tokens', { text: 'Hello', finish_reason: 'max_tokens' }, hello('length')],
  ['A11 tool_use', { calls: [CALL], finish_reason: 'tool_use' }, called('{"a":1}')],
  ['A36 stop with a call', { calls: [CALL], finish_reason: 'stop' }, called('{"a":1}')],
  ['A36 without [DONE]', { calls: [CALL], finish_reason: 'stop', done: false }, called('{"a":1}')],
  [
    'A31 objects that run together',
    {
      calls: [callDelta(0, 'c1', 'f', '{"a":1}{"a":2}')],
      finish_reason: 'tool_calls',
    },
    called('{"a":1}', '{"a":2}'),
  ],
  [
    'A32 A33 no arguments',
    { calls: [callDelta(0, 'c1', 'f', '')], finish_reason: 'tool_calls' },
    called('{}'),
  ],
  [
    'A32 A33 none at all',
    { calls: [callDelta(0, 'c1', 'f')], finish_reason: 'stop' },
    called('{}'),
  ],
]

describe.each(ANSWERS)('%s', (_, answer, verdict) => {
  test.each(WAYS)('over %s, streamed: %p', async (door, stream) => {
    any.plan(renderChat(answer, stream))
    expect(await any.ask(door, { model: 'acme/oc', stream, ...TOOLS[door] })).toEqual(verdict)
  })
})

/** Words for ends that are failures: what came before them was delivered where it streamed. */
describe.each(['abort', 'network_error', 'insufficient_system_resource', 'a_word_of_tomorrow'])(
  'A11 the end %s is an error',
  word => {
    test.each(WAYS)('over %s, streamed: %p', async (door, stream) => {
      any.plan(renderChat({ text: 'Hello', finish_reason: word }, stream))
      const { end } = await any.ask(door, { model: 'acme/oc', stream })
      expect(end).toBe('error')
    })

    test('with the native word beside it', async () => {
      any.plan(renderChat({ text: 'Hello', finish_reason: word }, false))
      const answer = (await (await any.send('chat', { model: 'acme/oc' })).json()) as Json
      expect(answer.choices).toMatchObject([{ finish_reason: 'error', native_finish_reason: word }])
    })
  },
)

test('A11 a word that an operator adds is what they say', async () => {
  for (const word of ['all done', 'All Done']) {
    any.plan(renderChat({ text: 'Hello', finish_reason: word }, true))
    const { end } = await any.ask('chat', { model: 'acme/own', stream: true })
    expect(end).toBe(word === 'all done' ? 'stop' : 'error')
  }
})

describe.each<[string, ChatAnswer]>([
  ['half a call and no reason', { calls: [callDelta(0, 'c1', 'f', '{"a":')] }],
  ['half a call and stop', { calls: [callDelta(0, 'c1', 'f', '{"a":')], finish_reason: 'stop' }],
  [
    'a reason, half a call and no [DONE]',
    { calls: [callDelta(0, 'c1', 'f', '{"a":')], finish_reason: 'tool_calls', done: false },
  ],
  ['neither a reason nor [DONE]', { text: 'Hello', done: false }],
  [
    'rubbish behind a call',
    { calls: [callDelta(0, 'c1', 'f', '{"a":1}}')], finish_reason: 'tool_calls' },
  ],
])('a stream with %s is cut', (_, answer) => {
  test.each(['chat', 'messages', 'responses'] as const)('over %s', async door => {
    any.plan(renderChat(answer, true))
    const { end } = await any.ask(door, { model: 'acme/oc', stream: true, ...TOOLS[door] })
    expect(end).toBe('error')
  })
})

test.each(WAYS)(
  'A34 empty arguments of a history go out as {}: %s, streamed %p',
  async (_, stream) => {
    any.plan(renderChat({ text: 'Hello', finish_reason: 'stop' }, stream))
    const history = (input: string) => [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: input } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'ok' },
    ]
    for (const [input, sent] of [
      ['', '{}'],
      ['null', '{}'],
      ['{"a":', '{"INVALID_JSON":"{\\"a\\":"}'],
      [' {"a":1}', ' {"a":1}'],
    ] as const) {
      any.plan(renderChat({ text: 'Hello', finish_reason: 'stop' }, stream))
      await any.ask('chat', { model: 'acme/oc', stream, messages: history(input), ...TOOLS.chat })
      const [, assistant] = readObjects(any.requests[0]?.body.messages)
      expect(readObjects(assistant?.tool_calls)[0]).toMatchObject({ function: { arguments: sent } })
    }
  },
)

test('D18 arguments of an open call are not lost when a text comes between', async () => {
  const chunk = (delta: Json, finish_reason: string | null = null) => ({
    id: 'x',
    choices: [{ index: 0, delta, finish_reason }],
  })
  any.plan({
    events: [
      chunk({ tool_calls: [callDelta(0, 'c1', 'f', '{"a"')] }),
      chunk({ content: 'Hm.' }),
      chunk({ tool_calls: [callDelta(0, null, null, ':1}')] }),
      chunk({}, 'tool_calls'),
      '[DONE]',
    ],
  })
  for (const door of ['chat', 'messages', 'responses'] as const)
    expect(await any.ask(door, { model: 'acme/oc', stream: true, ...TOOLS[door] })).toEqual({
      text: 'Hm.',
      calls: [['f', '{"a":1}']],
      end: 'tool_calls',
    })
})

describe('a field that a client keeps', () => {
  const extra_content = { google: { thought_signature: 'c2lnMQ==' } }

  test.each([false, true])('M02 extra_content of a call, streamed: %p', async stream => {
    const call = { ...callDelta(0, 'c1', 'f', '{}'), extra_content }
    any.plan(renderChat({ calls: [call], finish_reason: 'tool_calls' }, stream))
    const raw = await (await any.send('chat', { model: 'acme/oc', stream, ...TOOLS.chat })).text()
    expect(raw).toContain(`"extra_content":${JSON.stringify(extra_content)}`)
    any.plan(renderChat({ text: 'Hello', finish_reason: 'stop' }, stream))
    const messages = [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' }, extra_content },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'ok' },
    ]
    await any.ask('chat', { model: 'acme/oc', stream, messages, ...TOOLS.chat })
    const [, assistant] = readObjects(any.requests[0]?.body.messages)
    expect(readObjects(assistant?.tool_calls)[0]?.extra_content).toEqual(extra_content)
  })

  test('B13 pieces of reasoning_details are one signed thought again', async () => {
    const piece = { type: 'reasoning.text', format: 'anthropic-claude-v1', index: 0 }
    any.plan({
      body: { type: 'message', content: [{ type: 'text', text: 'ok' }], stop_reason: 'end_turn' },
    })
    await any.send('chat', {
      model: 'acme/an',
      messages: [
        { role: 'user', content: 'Hi' },
        {
          role: 'assistant',
          content: 'Yes.',
          reasoning_details: [
            { ...piece, text: 'Let me ' },
            { ...piece, text: 'see.' },
            { ...piece, text: '', signature: 'EqQB+/=abc' },
          ],
        },
        { role: 'user', content: 'Go on' },
      ],
    })
    const [, assistant] = readObjects(any.requests[0]?.body.messages)
    expect(readObjects(assistant?.content)[0]).toEqual({
      type: 'thinking',
      thinking: 'Let me see.',
      signature: 'EqQB+/=abc',
    })
  })

  test('L02 a lost thought before a call is a space where thinking needs one', async () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: '',
        tool_calls: [{ id: 'c1', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'ok' },
    ]
    any.plan(renderChat({ text: 'Hello', finish_reason: 'stop' }, false))
    await any.send('chat', { model: 'acme/ds', messages, ...TOOLS.chat })
    expect(readObjects(any.requests[0]?.body.messages)[1]?.reasoning_content).toBe(' ')
    any.plan(renderChat({ text: 'Hello', finish_reason: 'stop' }, false))
    await any.send('chat', {
      model: 'acme/ds',
      messages,
      ...TOOLS.chat,
      reasoning: { enabled: false },
    })
    expect(readObjects(any.requests[0]?.body.messages)[1]?.reasoning_content).toBeUndefined()
  })

  test('thinking_blocks of a gateway are signed thoughts, and go back as they came', async () => {
    const block = { type: 'thinking', thinking: 'Hm.', signature: 'c2ln' }
    const message = { role: 'assistant', content: 'Hi', thinking_blocks: [block] }
    any.plan({ body: { id: 'x', choices: [{ index: 0, message, finish_reason: 'stop' }] } })
    const answer = (await (await any.send('chat', { model: 'acme/oc' })).json()) as Json
    const said = readObject(readObjects(answer.choices)[0] ?? {}, 'message')
    expect(said.reasoning_details).toMatchObject([{ text: 'Hm.', signature: 'c2ln' }])
    any.plan(renderChat({ text: 'Hello', finish_reason: 'stop' }, false))
    const messages = [{ role: 'user', content: 'Hi' }, said, { role: 'user', content: 'Go on' }]
    await any.send('chat', { model: 'acme/oc', messages })
    expect(readObjects(any.requests[0]?.body.messages)[1]?.thinking_blocks).toEqual([block])
  })

  test('E12 a field whose beta is withheld is withheld too', async () => {
    const content = [
      { type: 'text', text: 'Hi', cache_control: { type: 'ephemeral', scope: 'global' } },
    ]
    const beta = 'prompt-caching-scope-2026-01-05'
    const ask = async (model: string) => {
      any.plan({
        body: { type: 'message', content: [{ type: 'text', text: 'ok' }], stop_reason: 'end_turn' },
      })
      await any.send(
        'messages',
        { model, messages: [{ role: 'user', content }] },
        { 'anthropic-beta': beta },
      )
      const [request] = any.requests
      const [block] = readObjects(readObjects(request?.body.messages)[0]?.content)
      return {
        scope: readObject(block ?? {}, 'cache_control').scope !== undefined,
        beta: (request?.headers.get('anthropic-beta') ?? '').includes(beta),
      }
    }
    expect(await ask('acme/an')).toEqual({ scope: false, beta: false })
    expect(await ask('acme/claude-sonnet-4-5')).toEqual({ scope: true, beta: true })
  })

  test('P02 nothing is said of tools if there are none', async () => {
    any.plan(renderChat({ text: 'Hello', finish_reason: 'stop' }, true))
    await any.ask('chat', {
      model: 'acme/oc',
      stream: true,
      tool_choice: 'auto',
      parallel_tool_calls: true,
    })
    expect(Object.keys(any.requests[0]?.body ?? {})).not.toContain('tool_choice')
    expect(Object.keys(any.requests[0]?.body ?? {})).not.toContain('parallel_tool_calls')
  })
})

describe('texts', () => {
  test.each(['oc', 'an', 'gm'])('B11 half of a character does not reach %s', async model => {
    any.plan({ status: 500, body: {} })
    await any.send('chat', {
      model: `acme/${model}`,
      messages: [{ role: 'user', content: 'cut \ud83d here \u{1f600}' }],
    })
    const sent = JSON.stringify(any.requests[0]?.body)
    expect(sent).toContain('cut \ufffd here \u{1f600}')
    expect(sent.isWellFormed()).toBe(true)
  })

  test.each(WAYS)(
    'halves that a server cuts apart are one character, over %s, streamed %p',
    async (door, stream) => {
      const pieces = ['Hi \ud83d', '\ude00 \ud83d']
      const chunk = (content: string, finish_reason: string | null) => ({
        id: 'x',
        choices: [{ index: 0, delta: { content }, finish_reason }],
      })
      any.plan(
        stream
          ? { events: [...pieces.map(piece => chunk(piece, null)), chunk('', 'stop'), '[DONE]'] }
          : renderChat({ text: pieces.join(''), finish_reason: 'stop' }, false),
      )
      expect((await any.ask(door, { model: 'acme/oc', stream })).text).toBe('Hi \u{1f600} \ufffd')
    },
  )

  test('B07 a text of a block that never started is not lost', async () => {
    any.plan({
      events: [
        {
          type: 'message_start',
          message: { id: 'm', usage: { input_tokens: 1, output_tokens: 1 } },
        },
        { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello' } },
        { type: 'content_block_stop', index: 0 },
        { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 1 } },
        { type: 'message_stop' },
      ],
    })
    for (const door of ['chat', 'messages', 'responses'] as const)
      expect(await any.ask(door, { model: 'acme/an', stream: true })).toEqual(hello('stop'))
  })

  test('P05 a gs:// picture reaches Google as it is, and nobody else', async () => {
    const image_url = { url: 'gs://bucket/cat.png' }
    const messages = [{ role: 'user', content: [{ type: 'image_url', image_url }] }]
    any.plan({
      body: { candidates: [{ content: { parts: [{ text: 'ok' }] }, finishReason: 'STOP' }] },
    })
    expect((await any.send('chat', { model: 'acme/gm', messages })).status).toBe(200)
    expect(JSON.stringify(any.requests[0]?.body)).toContain(
      '{"fileData":{"mimeType":"image/png","fileUri":"gs://bucket/cat.png"}}',
    )
    expect((await any.send('chat', { model: 'acme/oc', messages })).status).toBe(400)
    expect(any.requests).toHaveLength(1)
  })

  test('a data URL that cannot be decoded is told before it is sent', async () => {
    any.plan(renderChat({ text: 'Hello', finish_reason: 'stop' }, false))
    for (const url of ['data:image/png;base64,!!!', 'data:image/png;base64,', 'data:image/png'])
      expect(
        (
          await any.send('chat', {
            model: 'acme/oc',
            messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
          })
        ).status,
      ).toBe(400)
    expect(any.requests).toHaveLength(0)
  })

  test('another provider’s search in a history is left out everywhere', async () => {
    const messages = [
      { role: 'user', content: 'Hi' },
      {
        role: 'assistant',
        content: [
          { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'x' } },
          { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
          { type: 'text', text: 'Found.' },
        ],
      },
      { role: 'user', content: 'Go on' },
    ]
    for (const model of ['oc', 'gm', 'ds']) {
      any.plan({ status: 500, body: {} })
      await any.send('messages', { model: `acme/${model}`, messages })
      expect(JSON.stringify(any.requests[0]?.body)).toContain('Found.')
      expect(JSON.stringify(any.requests[0]?.body)).not.toContain('srvtoolu_1')
    }
    any.plan({ status: 500, body: {} })
    const input = [
      { role: 'user', content: 'Hi' },
      {
        type: 'web_search_call',
        id: 'ws_1',
        status: 'completed',
        action: { type: 'search', query: 'x' },
      },
      { role: 'assistant', content: 'Found.' },
      { role: 'user', content: 'Go on' },
    ]
    await any.send('responses', { model: 'acme/an', input })
    expect(JSON.stringify(any.requests[0]?.body)).toContain('Found.')
    expect(JSON.stringify(any.requests[0]?.body)).not.toContain('ws_1')
  })
})

describe('what no change of the request would mend', () => {
  const EMPTY_PURSE = {
    type: 'error',
    error: {
      type: 'invalid_request_error',
      message: 'Your credit balance is too low to access the Anthropic API.',
    },
  }

  test('B12 G04 is no fault of the caller', async () => {
    any.plan({ status: 400, body: EMPTY_PURSE })
    const response = await any.send('chat', { model: 'acme/an' })
    expect(response.status).toBe(502)
    expect(await response.text()).not.toContain('credit balance')
  })

  test('G05 asks the second endpoint', async () => {
    any.plan(
      { status: 400, body: EMPTY_PURSE },
      renderChat({ text: 'Hello', finish_reason: 'stop' }, false),
    )
    expect(await any.ask('chat', { model: 'acme/an2' })).toEqual(hello('stop'))
  })

  test.each<[string, number, Json]>([
    [
      'an empty purse',
      429,
      { error: { code: 'insufficient_quota', message: 'You exceeded your current quota' } },
    ],
    ['a credential', 400, { error: 'Incorrect API key provided' }],
    ['a model', 400, { error: { message: 'Model Not Exist', type: 'invalid_request_error' } }],
    ['a model in a list', 404, { errors: [{ message: 'No such model: x' }] }],
    [
      'its own output',
      400,
      { error: { code: 'tool_use_failed', message: 'Failed to call a function.' } },
    ],
    ['an account', 400, { detail: { error: { message: 'Your organization has been disabled' } } }],
  ])('asks the next endpoint: %s, %p', async (_, status, body) => {
    any.plan({ status, body }, renderChat({ text: 'Hello', finish_reason: 'stop' }, false))
    expect(await any.ask('chat', { model: 'acme/two' })).toEqual(hello('stop'))
    any.plan({ status, body })
    const refused = await any.send('chat', { model: 'acme/two' })
    expect([refused.status, await refused.text()]).toEqual([
      502,
      expect.not.stringContaining('capacity'),
    ])
  })

  test('needs the operator, who is told by an event and a metric', async () => {
    const told: string[] = []
    any.gateway.gateway.events.on('operator.needed', ({ trouble, endpoint }) => {
      told.push(`${endpoint.provider.slug} ${trouble}`)
    })
    any.plan({ status: 429, body: { error: { code: 'insufficient_quota' } } })
    await any.send('chat', { model: 'acme/oc' })
    any.plan({ status: 401, body: {} })
    await any.send('chat', { model: 'acme/oc' })
    any.plan({ status: 429, body: { error: { code: 'rate_limit_exceeded' } } })
    await any.send('chat', { model: 'acme/oc' })
    expect(told).toEqual(['oc balance', 'oc credential'])
    const metrics = await (await fetch(`${any.gateway.url}/metrics`)).text()
    expect(metrics).toMatch(/gateway_operator_needed_total\{provider="oc",trouble="balance"\} \d/)
  })

  test('needs the operator behind the first words, too', async () => {
    const told: string[] = []
    any.gateway.gateway.events.on('operator.needed', ({ trouble }) => {
      told.push(trouble)
    })
    const delta = { id: 'x', choices: [{ index: 0, delta: { content: 'Hello' } }] }
    any.plan({ events: [delta, { error: [{ error: { code: 'insufficient_quota' } }] }] })
    const { end } = await any.ask('chat', { model: 'acme/oc', stream: true })
    expect([end, told]).toEqual(['error', ['balance']])
  })

  test.each<[string, unknown, string]>([
    ['a text', { error: 'Rate limit reached, code rate_limit_exceeded' }, 'provider_unavailable'],
    ['a list', [{ error: { code: 429, message: 'Slow down' } }], 'rate_limit_exceeded'],
    [
      'an error in an error',
      { error: { error: { code: 'rate_limit_exceeded' } } },
      'rate_limit_exceeded',
    ],
    [
      'an object that is one',
      { object: 'error', message: 'prompt is too long', code: 400 },
      'context_length_exceeded',
    ],
    [
      'an upstream gateway’s verdict',
      { error: { code: 400, message: 'no', metadata: { error_type: 'refusal' } } },
      'refusal',
    ],
  ])('reads an error in the place of an answer: %s', async (_, body, type) => {
    any.plan({ body })
    const answer = (await (await any.send('chat', { model: 'acme/oc' })).json()) as Json
    expect(readObject(readObject(answer, 'error'), 'metadata').error_type).toBe(type)
  })

  test('A11 a word that is not known is told by an event and a metric', async () => {
    const told: string[] = []
    any.gateway.gateway.events.on('finish.unknown', ({ word }) => {
      told.push(word)
    })
    // Behind words, and in an answer that has none.
    any.plan(renderChat({ text: 'Hello', finish_reason: 'a_new_word' }, true))
    await any.ask('chat', { model: 'acme/oc', stream: true })
    any.plan(renderChat({ finish_reason: 'another_word' }, false))
    await any.ask('chat', { model: 'acme/oc' })
    expect(told).toEqual(['a_new_word', 'another_word'])
    const metrics = await (await fetch(`${any.gateway.url}/metrics`)).text()
    expect(metrics).toMatch(/gateway_unknown_finish_reasons_total\{provider="oc"\} \d/)
  })
})

test.each<[server: string, message: string]>([
  ['llama.cpp', 'the request exceeds the available context size, try increasing it'],
  ['xAI', 'This model’s maximum prompt length is 131072 but the request contains 537812 tokens.'],
  ['Kimi', 'Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)'],
  ['Poolside', 'Input exceeds the maximum allowed input length of 131,072 tokens'],
  ['Copilot', 'prompt token count of 150000 exceeds the limit of 128000'],
  ['Qwen', 'Range of input length should be [1, 129024]'],
  ['Anthropic', 'prompt is too long: 213462 tokens > 200000 maximum'],
  ['OpenAI', 'Your input exceeds the context window of this model'],
  [
    'Google',
    'The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)',
  ],
  ['Groq', 'Please reduce the length of the messages or completion.'],
  [
    'Mistral',
    'Prompt contains 40000 tokens, too large for model with 32768 maximum context length',
  ],
  ['MiniMax', 'invalid params, context window exceeds limit'],
  [
    'LM Studio',
    'The number of tokens to keep from the initial prompt is greater than the context length',
  ],
  ['SGLang', 'The input (12000 tokens) is longer than the model’s context length (8192 tokens).'],
  ['vLLM', 'The decoder prompt (length 9000) is longer than the maximum model length of 8192.'],
  ['Ollama', 'prompt too long; exceeded max context length by 1904 tokens'],
  ['TGI', '`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000'],
  ['Z.ai', 'Prompt exceeds max length'],
])('G01 too long a request, said by %s, is context_length_exceeded', async (_, message) => {
  any.plan({ status: 400, body: { error: { message, type: 'invalid_request_error', code: null } } })
  const response = await any.send('chat', { model: 'acme/oc' })
  expect([response.status, await response.json()]).toMatchObject([
    400,
    { error: { metadata: { error_type: 'context_length_exceeded' } } },
  ])
})

test('K01 searches that a provider ran are charged and told by their number', async () => {
  const usage = {
    input_tokens: 10,
    output_tokens: 5,
    server_tool_use: { web_search_requests: 2 },
  }
  any.plan({
    body: {
      type: 'message',
      content: [{ type: 'text', text: 'ok' }],
      stop_reason: 'end_turn',
      usage,
    },
  })
  const answer = (await (await any.send('chat', { model: 'acme/an' })).json()) as Json
  expect(answer.usage).toMatchObject({
    server_tool_use: { web_search_requests: 2 },
    server_tool_use_details: { web_search_requests: 2 },
  })
})

test('a call by Anthropic’s code is one that OpenAI’s clients read', async () => {
  const caller = { type: 'code_execution_20250825', tool_id: 'srvtoolu_1' }
  any.plan({
    body: {
      type: 'message',
      content: [{ type: 'tool_use', id: 'toolu_1', name: 'f', input: {}, caller }],
      stop_reason: 'tool_use',
    },
  })
  const answer = (await (
    await any.send('responses', { model: 'acme/an', ...TOOLS.responses })
  ).json()) as Json
  expect(readObjects(answer.output)).toMatchObject([
    { type: 'function_call', caller: { type: 'program', caller_id: 'srvtoolu_1' } },
  ])
})

test('a length that our own schema refuses is string_too_long', async () => {
  const response = await any.send('chat', { model: 'acme/oc', user: 'x'.repeat(257) })
  expect([response.status, await response.json()]).toMatchObject([
    400,
    { error: { metadata: { error_type: 'string_too_long', field: 'user' } } },
  ])
})

test('whole, streamed and on record are the same', async () => {
  const pick = createSeededIntegers(SEED)
  for (let i = 0; i < 24; i++) {
    const inputs = Array.from({ length: pick(3) }, () =>
      JSON.stringify({ [`k${pick(9)}`]: ['x', pick(99), null][pick(3)] }),
    )
    const text = pick(3) > 0 || inputs.length === 0 ? `Hello ${pick(1000)}` : undefined
    const reason =
      [null, 'stop', 'length', inputs.length > 0 ? 'tool_calls' : 'stop'][pick(4)] ?? null
    const [door] = WAYS[pick(WAYS.length)] ?? ['chat']
    const end = reason === 'length' ? 'length' : inputs.length > 0 ? 'tool_calls' : 'stop'
    for (const stream of [false, true]) {
      // Whole calls, or their deltas: a name, and the arguments cut in two.
      const calls = inputs.flatMap((input, at) => {
        const half = pick(input.length)
        const whole = [callDelta(at, `c${at}`, 'f', input)]
        return stream
          ? [
              callDelta(at, `c${at}`, 'f', input.slice(0, half)),
              callDelta(at, null, null, input.slice(half)),
            ]
          : whole
      })
      any.plan(
        renderChat(
          {
            ...(text ? { text } : {}),
            calls,
            finish_reason: reason,
            done: reason === null || pick(2) > 0,
          },
          stream,
        ),
      )
      const told = { model: 'acme/oc', stream, ...TOOLS[door] }
      const response = await any.send(door, told)
      expect(any.read(door, stream, await response.text())).toEqual({
        text: text ?? '',
        calls: inputs.map(input => ['f', input]),
        end,
      })
      const id = response.headers.get('x-generation-id')
      const record = (await (await any.gateway.fetch(`/generation?id=${id}`)).json()) as Json
      expect(record.data).toMatchObject({
        finish_reason: end,
        native_finish_reason: reason,
        native_tokens_prompt: 10,
        native_tokens_completion: 5,
        usage_source: 'exact',
        error_type: null,
      })
    }
  }
})
