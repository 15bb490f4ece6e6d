import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { type ChatOptions, parseStream, sendChat } from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { json, startUpstream, status, type Upstream } from '../support/upstream.ts'

/*
 * Claude behind the gateway: an independent mock of Anthropic's API, which refuses what Anthropic
 * refuses, and a scripted provider, to see the bytes.
 */

let mock: LLMock
let scripted: Upstream
let server: LocalServer

const PRICES = { prompt: 3, completion: 15, cache_read: 0.3, cache_write: 3.75 }
const endpoint = (provider: string, model: string) => ({
  provider,
  model,
  usd_per_million_tokens: PRICES,
})

beforeAll(async () => {
  mock = new LLMock({ port: 0, strict: true })
  await mock.start()
  scripted = await startUpstream()
  server = await startLocalServer({
    providers: {
      anthropic: { base_url: `${mock.url}/v1`, api_key: 'sk-ant' },
      'vertex-anthropic': { base_url: `${scripted.url}/publishers/anthropic`, api_key: 'token' },
      second: { protocol: 'anthropic-messages', base_url: scripted.url, api_key: 'sk-2' },
    },
    models: [
      {
        id: 'anthropic/claude',
        context_length: 200_000,
        endpoints: [endpoint('anthropic', 'claude-sonnet-4-5')],
      },
      {
        id: 'google/claude',
        context_length: 200_000,
        endpoints: [endpoint('vertex-anthropic', 'claude-sonnet-4-5@20250929')],
      },
      {
        id: 'second/claude',
        context_length: 200_000,
        endpoints: [endpoint('second', 'claude-sonnet-4-5')],
      },
    ],
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([mock.stop(), scripted.close()])
})

beforeEach(() => {
  mock.clearFixtures().clearRequests()
})

const COUNTED = { usage: { input_tokens: 10, output_tokens: 5 } }
const asked = (content: string) => [{ role: 'user', content }]

const ask = (body: object, asking: ChatOptions = {}) =>
  sendChat(server, { model: 'anthropic/claude', ...body }, asking).outcome()
const answered = async (body: object) => JSON.parse((await ask(body)).body)
const received = () => {
  const entry = mock.getLastRequest()
  return { path: entry?.path, headers: entry?.headers ?? {}, body: entry?.body ?? null }
}

const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } } },
    },
  },
]

describe('Claude through the chat API', () => {
  test('a whole answer, and the provider’s request', async () => {
    mock.onMessage('Say hello', { content: 'Hello, you!', ...COUNTED })
    const answer = await answered({
      messages: [{ role: 'system', content: 'Be brief' }, ...asked('Say hello')],
      temperature: 0.5,
      max_tokens: 50,
    })
    expect(answer).toMatchObject({
      object: 'chat.completion',
      model: 'anthropic/claude',
      provider: 'Anthropic',
      choices: [
        {
          finish_reason: 'stop',
          native_finish_reason: 'end_turn',
          message: { role: 'assistant', content: 'Hello, you!' },
        },
      ],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    })
    expect(received()).toMatchObject({
      path: '/v1/messages',
      headers: { 'x-api-key': expect.any(String), 'anthropic-version': '2023-06-01' },
      body: {
        model: 'claude-sonnet-4-5',
        messages: [
          { role: 'system', content: 'Be brief' },
          { role: 'user', content: 'Say hello' },
        ],
        temperature: 0.5,
        max_tokens: 50,
      },
    })
    expect(received().headers).not.toHaveProperty('authorization')
  })

  test('a streamed answer with thinking, whose signature the next message returns', async () => {
    mock.onMessage('Think', {
      content: 'Thought.',
      reasoning: 'Let me think',
      reasoningSignature: 'EpAE+/==',
      ...COUNTED,
    })
    const { body } = await ask({
      messages: asked('Think'),
      stream: true,
      reasoning: { max_tokens: 2_000 },
    })
    const { text, events, dones, usages } = parseStream(body)
    const deltas = events.flatMap(event =>
      event === '[DONE]' ? [] : (event.choices[0]?.delta ?? []),
    )
    expect(text).toBe('Thought.')
    expect(deltas.map(delta => (delta as { reasoning?: string }).reasoning ?? '').join('')).toBe(
      'Let me think',
    )
    expect(JSON.stringify(deltas)).toContain(
      '{"type":"reasoning.text","text":"","signature":"EpAE+/==",' +
        '"format":"anthropic-claude-v1","index":0}',
    )
    expect(dones).toBe(1)
    expect(usages[0]?.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5 })
  })

  test.each([false, true])('a tool loop with thinking goes round, streamed: %p', async stream => {
    mock.onMessage('Weather?', {
      toolCalls: [{ id: 'toolu_1', name: 'get_weather', arguments: '{"city":"Zürich"}' }],
      reasoning: 'I need the weather',
      reasoningSignature: 'sig',
      ...COUNTED,
    })
    const wish = { tools: TOOLS, reasoning: { max_tokens: 2_000 } }
    const first = await answered({ messages: asked('Weather?'), ...wish })
    const { message } = first.choices[0]
    expect(first.choices[0].finish_reason).toBe('tool_calls')
    expect(message.tool_calls).toEqual([
      {
        id: 'toolu_1',
        type: 'function',
        function: { name: 'get_weather', arguments: '{"city":"Zürich"}' },
      },
    ])

    mock.clearFixtures().on({ toolCallId: 'toolu_1' }, { content: 'Sunny.', ...COUNTED })
    const messages = [
      ...asked('Weather?'),
      message,
      { role: 'tool', tool_call_id: 'toolu_1', content: '24 degrees' },
    ]
    const second = await ask({ messages, stream, ...wish })
    expect(second.status).toBe(200)
    expect(
      stream ? parseStream(second.body).text : JSON.parse(second.body).choices[0].message.content,
    ).toBe('Sunny.')
  })

  test('trap 93: a tool loop that lost its thinking goes round too', async () => {
    mock.on({ toolCallId: 'toolu_1' }, { content: 'Sunny.', ...COUNTED })
    const call = {
      id: 'toolu_1',
      type: 'function',
      function: { name: 'get_weather', arguments: '{}' },
    }
    const messages = [
      ...asked('Weather?'),
      { role: 'assistant', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'toolu_1', content: '24' },
    ]
    const answer = await answered({ messages, tools: TOOLS, reasoning: { max_tokens: 2_000 } })
    expect(answer.choices[0].message.content).toBe('Sunny.')
  })

  test.each([
    [429, 'rate_limit_error', 429, 'rate_limit_exceeded'],
    [529, 'overloaded_error', 529, 'provider_overloaded'],
    [400, 'invalid_request_error', 400, 'invalid_request'],
    [401, 'authentication_error', 502, 'provider_unavailable'],
  ])('a failure with %d becomes a canonical one', async (given, type, expected, error_type) => {
    mock.onMessage('Fail', { error: { message: 'It says so', type }, status: given })
    const { status, body } = await ask({ messages: asked('Fail') })
    expect(status).toBe(expected)
    expect(JSON.parse(body).error.metadata).toMatchObject({
      error_type,
      provider_name: 'Anthropic',
    })
    expect(body.includes('It says so')).toBe(given === 400)
  })
})

const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-sonnet-4-5',
  content: [{ type: 'text', text: 'Hi' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 10, output_tokens: 5 },
}

describe('the bytes of a provider’s request', () => {
  test('field by field, with URL and key', async () => {
    scripted.plan(json(MESSAGE))
    const marked = {
      type: 'text',
      text: 'Be brief',
      cache_control: { type: 'ephemeral', ttl: '1h' },
    }
    const given = await answered({
      model: 'second/claude',
      messages: [
        { role: 'system', content: [marked] },
        {
          role: 'user',
          name: 'Ann',
          content: [
            { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
          ],
        },
      ],
      tools: TOOLS,
      parallel_tool_calls: false,
      reasoning: { effort: 'high' },
      max_tokens: 10_000,
      stop: 'END',
      seed: 7,
      user: 'ann',
    })
    expect(given.choices[0].message.content).toBe('Hi')
    const hit = scripted.hits.at(-1)
    expect(hit).toMatchObject({
      path: '/v1/messages',
      headers: { 'x-api-key': 'sk-2', 'anthropic-version': '2023-06-01' },
    })
    expect(hit?.json).toEqual({
      model: 'claude-sonnet-4-5',
      max_tokens: 10_000,
      thinking: { type: 'enabled', budget_tokens: 8_000 },
      system: [marked],
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Ann:' },
            {
              type: 'image',
              source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' },
            },
          ],
        },
      ],
      tools: [
        {
          name: 'get_weather',
          input_schema: { type: 'object', properties: { city: { type: 'string' } } },
        },
      ],
      tool_choice: { type: 'auto', disable_parallel_tool_use: true },
      stop_sequences: ['END'],
      metadata: { user_id: expect.stringMatching(/^[0-9a-f]{64}$/) },
    })
  })

  test('trap 98: at Vertex the model is in the URL', async () => {
    scripted.plan(json(MESSAGE))
    expect((await answered({ model: 'google/claude' })).provider).toBe('Google')
    const hit = scripted.hits.at(-1)
    expect(hit?.path).toBe('/v1/publishers/anthropic/models/claude-sonnet-4-5@20250929:rawPredict')
    expect(hit?.headers.authorization).toBe('Bearer token')
    expect(hit?.json).toEqual({
      anthropic_version: 'vertex-2023-10-16',
      max_tokens: 64_000,
      messages: [{ role: 'user', content: 'Hi' }],
    })
  })

  test('trap 46: unwraps structured output by a tool; no failure is the caller’s', async () => {
    const content = [{ type: 'tool_use', id: 'toolu_1', name: 'json', input: { city: 'Bern' } }]
    scripted.plan(
      json({ ...MESSAGE, content, stop_reason: 'tool_use' }),
      status(529, { type: 'error', error: { type: 'overloaded_error', message: 'x' } }),
    )
    const wish = { model: 'second/claude', response_format: { type: 'json_object' } }
    const { choices } = await answered(wish)
    expect(choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: '{"city":"Bern"}' },
    })
    expect(choices[0].message).not.toHaveProperty('tool_calls')
    expect((await ask(wish)).status).toBe(529)
  })
})
