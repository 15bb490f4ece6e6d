import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { awsEvent, awsException } from '../support/aws-event-stream.ts'
import { type ChatOptions, parseStream, sendChat } from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  chunk,
  chunkedEnd,
  head,
  json,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

/*
 * Bedrock behind the gateway: an independent mock of Converse, and a scripted provider, to see the
 * bytes.
 */

let mock: LLMock
let scripted: Upstream
let server: LocalServer

const MODEL = 'us.anthropic.claude-sonnet-4-20250514-v1:0'
const PRICES = { prompt: 3, completion: 15, cache_read: 0.3, cache_write: 3.75 }
const endpoint = (provider: string, model = MODEL) => ({
  provider,
  model,
  usd_per_million_tokens: PRICES,
})

beforeAll(async () => {
  mock = new LLMock({ port: 0, strict: true })
  await mock.start()
  scripted = await startUpstream()
  const aws = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'secret' }
  server = await startLocalServer({
    providers: {
      bedrock: { base_url: mock.url, api_key: 'bedrock-key' },
      signed: { protocol: 'bedrock-converse', base_url: scripted.url, region: 'us-east-1', aws },
    },
    models: [
      { id: 'acme/claude', context_length: 200_000, endpoints: [endpoint('bedrock')] },
      { id: 'signed/claude', context_length: 200_000, endpoints: [endpoint('signed')] },
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
  sendChat(server, { model: 'acme/claude', ...body }, asking).outcome()
const answered = async (body: object) => JSON.parse((await ask(body)).body)

const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      parameters: { type: 'object', properties: { city: { type: 'string' } } },
    },
  },
]

describe('Converse through the chat API', () => {
  test('a whole answer, and the provider’s request', async () => {
    mock.onMessage('Say hello', { content: 'Hello, you!', ...COUNTED })
    const answer = await answered({
      messages: [{ role: 'system', content: 'Be brief' }, ...asked('Say hello')],
      temperature: 0.5,
      max_tokens: 50,
    })
    expect(answer).toMatchObject({
      object: 'chat.completion',
      model: 'acme/claude',
      provider: 'Amazon Bedrock',
      choices: [
        {
          finish_reason: 'stop',
          native_finish_reason: 'end_turn',
          message: { role: 'assistant', content: 'Hello, you!' },
        },
      ],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    })
    expect(mock.getLastRequest()).toMatchObject({
      path: '/model/us.anthropic.claude-sonnet-4-20250514-v1%3A0/converse',
      headers: { authorization: expect.any(String) },
      body: {
        messages: [
          { role: 'system', content: 'Be brief' },
          { role: 'user', content: 'Say hello' },
        ],
        temperature: 0.5,
        max_tokens: 50,
      },
    })
  })

  test('a streamed answer with thinking', async () => {
    mock.onMessage('Think', { content: 'Thought.', reasoning: 'Let me think', ...COUNTED })
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
    expect(dones).toBe(1)
    expect(usages[0]?.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5 })
    expect(mock.getLastRequest()?.path).toEndWith('/converse-stream')
  })

  test.each([false, true])('a tool loop goes round, streamed: %p', async stream => {
    mock.onMessage('Weather?', {
      toolCalls: [{ id: 'tooluse_1', name: 'get_weather', arguments: '{"city":"Zürich"}' }],
      ...COUNTED,
    })
    const first = await answered({ messages: asked('Weather?'), tools: TOOLS })
    const { message } = first.choices[0]
    expect(first.choices[0].finish_reason).toBe('tool_calls')
    expect(message.tool_calls).toMatchObject([
      { type: 'function', function: { name: 'get_weather', arguments: '{"city":"Zürich"}' } },
    ])

    mock
      .clearFixtures()
      .on({ toolCallId: message.tool_calls[0].id }, { content: 'Sunny.', ...COUNTED })
    const messages = [
      ...asked('Weather?'),
      message,
      { role: 'tool', tool_call_id: message.tool_calls[0].id, content: '24 degrees' },
    ]
    const second = await ask({ messages, stream, tools: TOOLS })
    expect(second.status).toBe(200)
    expect(
      stream ? parseStream(second.body).text : JSON.parse(second.body).choices[0].message.content,
    ).toBe('Sunny.')
  })
})

const ANSWER = {
  output: { message: { role: 'assistant', content: [{ text: 'Hi' }] } },
  stopReason: 'end_turn',
  usage: { inputTokens: 10, outputTokens: 5 },
}

const streamOf = (...messages: Uint8Array[]) => [
  head(200, {
    'content-type': 'application/vnd.amazon.eventstream',
    'transfer-encoding': 'chunked',
  }),
  ...messages.map(chunk),
  chunkedEnd(),
]

const event = (name: string, payload: object) => awsEvent(name, JSON.stringify(payload))

describe('the bytes of a provider’s request', () => {
  test('field by field, signed, with the URL', async () => {
    scripted.plan(json(ANSWER))
    const given = await answered({
      model: 'signed/claude',
      messages: [
        {
          role: 'system',
          content: [{ type: 'text', text: 'Be brief', cache_control: { type: 'ephemeral' } }],
        },
        {
          role: 'user',
          name: 'Ann',
          content: [
            { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
          ],
        },
      ],
      tools: TOOLS,
      tool_choice: 'required',
      max_tokens: 10_000,
      top_k: 4,
      stop: 'END',
      user: 'ann',
      guardrailConfig: { guardrailIdentifier: 'g', guardrailVersion: '1' },
    })
    expect(given.choices[0].message.content).toBe('Hi')
    const hit = scripted.hits.at(-1)
    expect(hit?.path).toBe('/v1/model/us.anthropic.claude-sonnet-4-20250514-v1%3A0/converse')
    expect(hit?.headers.authorization).toStartWith('AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/')
    expect(hit?.json).toEqual({
      guardrailConfig: { guardrailIdentifier: 'g', guardrailVersion: '1' },
      system: [{ text: 'Be brief' }, { cachePoint: { type: 'default' } }],
      messages: [
        {
          role: 'user',
          content: [
            { text: 'Ann:' },
            { image: { format: 'png', source: { bytes: 'iVBORw0KGgo=' } } },
          ],
        },
      ],
      toolConfig: {
        tools: [
          {
            toolSpec: {
              name: 'get_weather',
              inputSchema: { json: { type: 'object', properties: { city: { type: 'string' } } } },
            },
          },
        ],
        toolChoice: { any: {} },
      },
      inferenceConfig: { maxTokens: 10_000, stopSequences: ['END'] },
      additionalModelRequestFields: { top_k: 4 },
      additionalModelResponseFieldPaths: ['/stop_sequence'],
    })
  })

  test.each([
    ['after', ['messageStop', 'metadata']],
    ['before', ['metadata', 'messageStop']],
  ])('a count %s the last event is believed', async (_place, order) => {
    const told: Record<string, object> = {
      messageStop: { stopReason: 'end_turn' },
      metadata: { usage: { inputTokens: 7, outputTokens: 3 } },
    }
    const words = event('contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'Hi' } })
    scripted.plan(streamOf(words, ...order.map(name => event(name, told[name] ?? {}))))
    const { text, usages } = parseStream((await ask({ model: 'signed/claude', stream: true })).body)
    expect([text, usages[0]?.usage?.prompt_tokens, usages[0]?.usage?.completion_tokens]).toEqual([
      'Hi',
      7,
      3,
    ])
  })

  test('trap 46: structured output by a tool is unwrapped', async () => {
    const content = [{ toolUse: { toolUseId: 't', name: 'json', input: { city: 'Bern' } } }]
    scripted.plan(
      json({
        ...ANSWER,
        output: { message: { role: 'assistant', content } },
        stopReason: 'tool_use',
      }),
    )
    const { choices } = await answered({
      model: 'signed/claude',
      response_format: { type: 'json_object' },
    })
    expect(choices[0]).toMatchObject({
      finish_reason: 'stop',
      message: { content: '{"city":"Bern"}' },
    })
    expect(choices[0].message).not.toHaveProperty('tool_calls')
  })
})

describe('failures', () => {
  test('are read from a header', async () => {
    scripted.plan(
      status(
        400,
        { message: 'Too many' },
        { 'x-amzn-ErrorType': 'ServiceQuotaExceededException:http://internal.amazon.com/' },
      ),
    )
    const { status: given, body } = await ask({ model: 'signed/claude' })
    expect(given).toBe(429)
    expect(JSON.parse(body).error.metadata).toMatchObject({
      error_type: 'rate_limit_exceeded',
      provider_code: 'ServiceQuotaExceededException',
    })
  })

  test('trap 75: in the first event fail the call, later they end the stream', async () => {
    const slow = awsException('throttlingException', '{"message":"Too many tokens"}')
    scripted.plan(
      streamOf(slow),
      streamOf(event('contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'Hi' } }), slow),
    )
    expect((await ask({ model: 'signed/claude', stream: true })).status).toBe(429)
    const late = await ask({ model: 'signed/claude', stream: true })
    expect(late.status).toBe(200)
    expect(parseStream(late.body).text).toBe('Hi')
    expect(late.body).toContain('"error_type":"rate_limit_exceeded"')
  })
})
