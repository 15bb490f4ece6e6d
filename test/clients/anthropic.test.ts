import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import Anthropic, {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from '@anthropic-ai/sdk'
import { jsonSchemaOutputFormat } from '@anthropic-ai/sdk/helpers/json-schema'
import { COST, COUNTED, openStage, type Stage } from '../support/stage.ts'
import {
  chunkedEnd,
  completion,
  delta,
  deltaObject,
  done,
  ending,
  event,
  finish,
  sseHead,
  usageChunk,
} from '../support/upstream.ts'
import { hasWirecheck } from '../support/wirecheck.ts'

let stage: Stage
let client: Anthropic

beforeAll(async () => {
  stage = await openStage()
  client = clientWith({})
})
afterAll(() => stage.close())
beforeEach(() => {
  stage.mock.clearFixtures().clearRequests()
})

// The client adds `/v1` to its paths itself.
const clientWith = (options: ConstructorParameters<typeof Anthropic>[0]) =>
  new Anthropic({
    baseURL: stage.base.replace(/\/v1$/, ''),
    apiKey: stage.server.inference_key,
    maxRetries: 0,
    ...options,
  })

const asked = (content: Anthropic.MessageParam['content']): Anthropic.MessageParam[] => [
  { role: 'user', content },
]
const base = { model: 'acme/small', max_tokens: 100 }
/** The client no longer has a type for it, but sends it. */
const heat = (temperature: number) => ({ temperature })
const thinker = { model: 'acme/thinker', max_tokens: 100 }

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

const weather: Anthropic.Tool = {
  name: 'get_weather',
  description: 'The weather of a city',
  input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}

const weatherFunction = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: weather.input_schema,
  },
}

test('a message is answered, and the provider receives the request and nothing else', async () => {
  stage.mock.onMessage('Say hello', { content: 'Hello, you!', ...COUNTED })
  const answer = await client.messages.create({
    ...base,
    system: [{ type: 'text', text: 'Be brief' }],
    messages: asked('Say hello'),
    ...heat(0.5),
    stop_sequences: ['END'],
    metadata: { user_id: 'ada' },
  })
  expect(answer).toMatchObject({
    type: 'message',
    role: 'assistant',
    model: 'acme/small',
    content: [{ type: 'text', text: 'Hello, you!', citations: [] }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 10, output_tokens: 5, cost: COST },
  })
  expect(answer._request_id).toBe(answer.id)
  expect(answer.id).toStartWith('gen-')
  expect(stage.last().body).toEqual({
    model: 'up-small',
    messages: [
      { role: 'system', content: 'Be brief' },
      { role: 'user', content: 'Say hello' },
    ],
    max_tokens: 100,
    temperature: 0.5,
    stop: ['END'],
    user: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
})

test('trap 73: a stream has the prompt size first, then the text, and the usage last', async () => {
  stage.mock.onMessage(
    'Stream please',
    { content: 'One two three four five', ...COUNTED },
    { chunkSize: 5, latency: 3 },
  )
  const events = await Array.fromAsync(
    await client.messages.create({ ...base, messages: asked('Stream please'), stream: true }),
  )
  expect([...new Set(events.map(({ type }) => type))]).toEqual([
    'message_start',
    'content_block_start',
    'content_block_delta',
    'content_block_stop',
    'message_delta',
    'message_stop',
  ])
  const [first] = events
  expect(first?.type === 'message_start' ? first.message.usage.input_tokens : 0).toBeGreaterThan(0)
  const texts = events.flatMap(one =>
    one.type === 'content_block_delta' && one.delta.type === 'text_delta' ? one.delta.text : [],
  )
  expect(texts.join('')).toBe('One two three four five')
  expect(texts.length).toBeGreaterThan(1)
  expect(events.at(-2)).toMatchObject({
    delta: { stop_reason: 'end_turn' },
    usage: { input_tokens: 10, output_tokens: 5, cost: COST },
  })
})

test('the stream helper assembles the same message', async () => {
  stage.mock.onMessage(
    'Help me stream',
    { content: 'Put together again', ...COUNTED },
    { chunkSize: 3 },
  )
  const stream = client.messages.stream({ ...base, messages: asked('Help me stream') })
  expect(await stream.finalText()).toBe('Put together again')
  expect(await stream.finalMessage()).toMatchObject({
    stop_reason: 'end_turn',
    usage: { output_tokens: 5 },
  })
})

test('a stream that the client abandons ends the call, and does not disturb the next', async () => {
  stage.scripted.plan([sseHead(), delta('Hello'), { wait: 'never' }])
  const stream = client.messages.stream({ ...thinker, messages: asked('Leave early') })
  for await (const one of stream) if (one.type === 'content_block_delta') break
  await stage.scripted.emptied()
  stage.mock.onMessage('Still there', { content: 'Yes', ...COUNTED })
  expect(
    (await client.messages.create({ ...base, messages: asked('Still there') })).content,
  ).toMatchObject([{ text: 'Yes' }])
})

test.each([false, true])(
  'tools are called in parallel, their results sent back, and the answer given (streamed: %p)',
  async streamed => {
    const question = `Two cities ${streamed ? 'streamed' : 'whole'}`
    const toolCalls = [
      { id: 'call_a', name: 'get_weather', arguments: '{"city":"Oslo"}' },
      { id: 'call_b', name: 'get_weather', arguments: '{"city":"Rome"}' },
    ]
    stage.mock.on(
      { userMessage: question, hasToolResult: false },
      { toolCalls, ...COUNTED },
      { chunkSize: 4 },
    )
    stage.mock.on({ userMessage: 'Here.' }, { content: 'Sunny in both', ...COUNTED })
    const messages = asked(question)
    const ask = (choice?: Anthropic.ToolChoice): Promise<Anthropic.Message> => {
      const body = {
        ...base,
        messages,
        tools: [weather],
        ...(choice ? { tool_choice: choice } : {}),
      }
      return streamed ? client.messages.stream(body).finalMessage() : client.messages.create(body)
    }
    const first = await ask({ type: 'any', disable_parallel_tool_use: true })
    expect(first).toMatchObject({
      stop_reason: 'tool_use',
      content: [
        { type: 'tool_use', id: 'call_a', name: 'get_weather', input: { city: 'Oslo' } },
        { type: 'tool_use', id: 'call_b', name: 'get_weather', input: { city: 'Rome' } },
      ],
    })
    expect(stage.last().body).toMatchObject({
      tools: [weatherFunction],
      tool_choice: 'required',
      parallel_tool_calls: false,
    })
    messages.push({ role: 'assistant', content: first.content })
    messages.push({
      role: 'user',
      content: [
        { type: 'text', text: 'Here.' },
        { type: 'tool_result', tool_use_id: 'call_a', content: 'Sunny' },
        {
          type: 'tool_result',
          tool_use_id: 'call_b',
          content: [{ type: 'text', text: 'Sunny too' }],
        },
      ],
    })
    expect((await ask()).content).toMatchObject([{ type: 'text', text: 'Sunny in both' }])
    expect(stage.last().body.messages).toEqual([
      { role: 'user', content: question },
      {
        role: 'assistant',
        content: null,
        tool_calls: toolCalls.map(({ id, name, arguments: text }) => ({
          id,
          type: 'function',
          function: { name, arguments: text },
        })),
      },
      { role: 'tool', tool_call_id: 'call_a', content: 'Sunny' },
      { role: 'tool', tool_call_id: 'call_b', content: 'Sunny too' },
      { role: 'user', content: 'Here.' },
    ])
  },
)

test('trap 61: calls that the provider interleaves come one after the other', async () => {
  const piece = (index: number, more: object) => delta({ tool_calls: [{ index, ...more }] })
  stage.scripted.plan([
    sseHead(),
    delta('Look'),
    piece(0, { id: 'call_a', type: 'function', function: { name: 'a', arguments: '' } }),
    piece(1, { id: 'call_b', type: 'function', function: { name: 'b', arguments: '{"x":' } }),
    piece(0, { function: { arguments: '{"y":' } }),
    piece(1, { function: { arguments: '1}' } }),
    piece(0, { function: { arguments: '2}' } }),
    finish('tool_calls'),
    usageChunk(),
    done(),
    chunkedEnd(),
  ])
  const message = await client.messages
    .stream({ ...thinker, messages: asked('In turns') })
    .finalMessage()
  expect(message.content).toMatchObject([
    { type: 'text', text: 'Look' },
    { type: 'tool_use', id: 'call_a', input: { y: 2 } },
    { type: 'tool_use', id: 'call_b', input: { x: 1 } },
  ])
})

test('pictures and documents are sent to the provider', async () => {
  stage.mock.onMessage('What is this', { content: 'A dot', ...COUNTED })
  const pdf = Buffer.from('%PDF-1.4').toString('base64')
  await client.messages.create({
    ...base,
    messages: asked([
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } },
      {
        type: 'document',
        source: { type: 'base64', media_type: 'application/pdf', data: pdf },
        title: 'a.pdf',
      },
      {
        type: 'document',
        source: { type: 'text', media_type: 'text/plain', data: 'Grüße' },
        title: 'b.txt',
      },
      { type: 'text', text: 'What is this' },
    ]),
  })
  expect(stage.last().body.messages).toEqual([
    {
      role: 'user',
      content: [
        { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
        {
          type: 'file',
          file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${pdf}` },
        },
        { type: 'text', text: 'b.txt\n\nGrüße' },
        { type: 'text', text: 'What is this' },
      ],
    },
  ])
})

test.each([false, true])(
  'trap 93: thinking comes with its signature, and is sent back with it (streamed: %p)',
  async streamed => {
    const text = {
      type: 'reasoning.text',
      text: 'Hm… "so"',
      signature: 'c2ln/+==',
      format: 'anthropic-claude-v1',
      index: 0,
    }
    const hidden = {
      type: 'reasoning.encrypted',
      data: 'AAEC',
      format: 'anthropic-claude-v1',
      index: 1,
    }
    const other = {
      type: 'reasoning.summary',
      summary: 'Thus',
      id: 'rs_1',
      format: 'openai-responses-v1',
      index: 2,
    }
    const reasoning_details = [text, hidden, other]
    stage.scripted.plan(
      streamed
        ? [
            sseHead(),
            event(
              deltaObject({
                reasoning: 'Hm… ',
                reasoning_details: [{ ...text, text: 'Hm… ', signature: undefined }],
              }),
            ),
            event(
              deltaObject({ reasoning: '"so"', reasoning_details: [{ ...text, text: '"so"' }] }),
            ),
            event(deltaObject({ reasoning_details: [hidden, other] })),
            delta('Eight'),
            ending(),
          ]
        : completion('Eight', {
            choices: [
              {
                index: 0,
                message: {
                  role: 'assistant',
                  content: 'Eight',
                  reasoning: 'Hm… "so"Thus',
                  reasoning_details,
                },
                finish_reason: 'stop',
              },
            ],
          }),
    )
    const body = {
      ...thinker,
      max_tokens: 4000,
      messages: asked('Five and three?'),
      thinking: { type: 'enabled' as const, budget_tokens: 1024 },
    }
    const first = streamed
      ? await client.messages.stream(body).finalMessage()
      : await client.messages.create(body)
    expect(first.content).toMatchObject([
      { type: 'thinking', thinking: 'Hm… "so"', signature: 'c2ln/+==' },
      { type: 'redacted_thinking', data: 'AAEC' },
      { type: 'thinking', thinking: 'Thus' },
      { type: 'text', text: 'Eight' },
    ])
    stage.scripted.plan(completion('Yes'))
    await client.messages.create({
      ...body,
      messages: [
        ...body.messages,
        { role: 'assistant', content: first.content },
        ...asked('Sure?'),
      ],
    })
    expect(stage.scripted.hits.at(-1)?.json).toMatchObject({
      reasoning_effort: 'medium',
      messages: [{}, { role: 'assistant', content: 'Eight', reasoning_details }, {}],
    })
  },
)

test('bare reasoning is thinking without a signature', async () => {
  stage.scripted.plan([
    sseHead(),
    delta({ reasoning_content: 'Let me ' }),
    delta({ reasoning_content: 'see' }),
    delta('Nine'),
    ending(),
  ])
  const message = await client.messages
    .stream({ ...thinker, messages: asked('Nine?') })
    .finalMessage()
  expect(message.content).toMatchObject([
    { type: 'thinking', thinking: 'Let me see', signature: '' },
    { text: 'Nine' },
  ])
})

test('a structured answer is parsed, and the provider receives the schema', async () => {
  const format = jsonSchemaOutputFormat({
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  })
  stage.mock.onMessage('Name a city', { content: '{"city":"Bern"}', ...COUNTED })
  const message = await client.messages.parse({
    ...base,
    messages: asked('Name a city'),
    output_config: { format },
  })
  expect(message.parsed_output).toEqual({ city: 'Bern' })
  expect(stage.last().body.response_format).toEqual({
    type: 'json_schema',
    json_schema: { name: 'answer', strict: true, schema: format.schema },
  })
})

test.each([
  ['length', 'max_tokens'],
  ['content_filter', 'refusal'],
  ['stop', 'end_turn'],
])('trap 69: a provider’s %s is %s', async (native, expected) => {
  const choices = [
    { index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: native },
  ]
  stage.scripted.plan(completion('x', { choices }))
  expect(
    (await client.messages.create({ ...thinker, messages: asked('Stop') })).stop_reason as string,
  ).toBe(expected)
  stage.scripted.plan([sseHead(), delta('x'), finish(native), usageChunk(), done(), chunkedEnd()])
  expect(
    (await client.messages.stream({ ...thinker, messages: asked('Stop') }).finalMessage())
      .stop_reason as string,
  ).toBe(expected)
})

test('a refusal is text with the stop reason refusal', async () => {
  const choices = [
    {
      index: 0,
      message: { role: 'assistant', content: null, refusal: 'No.' },
      finish_reason: 'stop',
    },
  ]
  stage.scripted.plan(completion('x', { choices }))
  expect(await client.messages.create({ ...thinker, messages: asked('Bad') })).toMatchObject({
    content: [{ type: 'text', text: 'No.' }],
    stop_reason: 'refusal',
    stop_details: { type: 'refusal' },
  })
})

test('failures before the answer are typed errors', async () => {
  const messages = asked('Fail')
  expect(
    await failureOf(clientWith({ apiKey: 'sk-wrong' }).messages.create({ ...base, messages })),
  ).toBeInstanceOf(AuthenticationError)
  expect(
    await failureOf(client.messages.create({ ...base, messages, ...heat(1.5) })),
  ).toBeInstanceOf(BadRequestError)
  expect(
    await failureOf(client.messages.create({ ...base, model: 'acme/none', messages })),
  ).toBeInstanceOf(BadRequestError)
  const nobody = { ...base, messages, provider: { only: ['nobody'] } }
  expect(await failureOf(client.messages.create(nobody))).toBeInstanceOf(NotFoundError)
  stage.mock.onMessage('Fail', {
    error: { message: 'Slow down', type: 'rate_limit_error' },
    status: 429,
  })
  const limited = await failureOf(client.messages.create({ ...base, messages }))
  expect(limited).toBeInstanceOf(RateLimitError)
  expect(limited).toMatchObject({
    type: 'rate_limit_error',
    error: {
      error: { error_type: 'rate_limit_exceeded' },
      request_id: expect.stringMatching(/^gen-/),
    },
  })
  stage.mock
    .clearFixtures()
    .onMessage('Fail', { error: { message: 'Broken', type: 'server_error' }, status: 500 })
  const broken = await failureOf(client.messages.create({ ...base, messages, stream: true }))
  expect(broken).toBeInstanceOf(InternalServerError)
  expect(broken).toMatchObject({ status: 502, type: 'api_error' })
  expect(JSON.stringify(broken)).not.toContain('Broken')
})

test('trap 74: a failure in the middle of a stream is an error too', async () => {
  stage.scripted.plan([sseHead(), delta('Hel'), { end: 'rst' }])
  const stream = client.messages.stream({ ...thinker, messages: asked('Break off') })
  const texts: string[] = []
  stream.on('text', text => texts.push(text))
  const failure = await failureOf(stream.finalMessage())
  expect(failure).toBeInstanceOf(APIError)
  expect(failure).toMatchObject({
    type: 'api_error',
    error: { error: { error_type: 'provider_unavailable' } },
  })
  expect(texts).toEqual(['Hel'])
})

test('the key may be in either header', async () => {
  stage.mock.onMessage('Who', { content: 'You', ...COUNTED })
  const body = { ...base, messages: asked('Who') }
  const bearer = clientWith({ apiKey: null, authToken: stage.server.inference_key })
  expect(await bearer.messages.create(body)).toMatchObject({ content: [{ text: 'You' }] })
  expect(
    Object.keys(stage.last().headers).filter(
      name => name === 'x-api-key' || name.startsWith('anthropic'),
    ),
  ).toEqual([])
})

test('tokens are counted, by the bare host as the base', async () => {
  const direct = clientWith({ baseURL: stage.server.url })
  const count = async (content: string, more: object = {}) =>
    (await direct.messages.countTokens({ model: 'acme/small', messages: asked(content), ...more }))
      .input_tokens
  const [short, long] = [await count('Hello'), await count('Hello there, '.repeat(100))]
  expect(short).toBeWithin(5, 20)
  expect(long).toBeWithin(250, 500)
  expect(await count('Hello', { system: 'Be brief. '.repeat(50) })).toBeGreaterThan(short + 80)
  const tools = [{ name: 'weather', input_schema: { type: 'object', properties: {} } }]
  expect(await count('Hello', { tools })).toBeGreaterThan(short)
})

test('counts are refused as messages are', async () => {
  const direct = clientWith({ baseURL: stage.server.url })
  const messages = asked('Hello')
  expect(
    await failureOf(direct.messages.countTokens({ model: 'acme/smal', messages })),
  ).toBeInstanceOf(BadRequestError)
  const stranger = clientWith({ baseURL: stage.server.url, apiKey: 'nobody' })
  expect(
    await failureOf(stranger.messages.countTokens({ model: 'acme/small', messages })),
  ).toBeInstanceOf(AuthenticationError)
  const failure = await failureOf(
    direct.post('/v1/messages/count_tokens', { body: { model: 'acme/small', messages: 'none' } }),
  )
  expect(failure).toMatchObject({
    status: 400,
    error: { error: { type: 'invalid_request_error' } },
  })
})

test('every fallback model is tried in turn', async () => {
  stage.scripted.plan(completion('Here'))
  stage.mock.onMessage('Anybody', { error: { message: 'No', type: 'server_error' }, status: 500 })
  const body = { ...base, messages: asked('Anybody'), fallbacks: [{ model: 'acme/thinker' }] }
  expect(await client.messages.create(body)).toMatchObject({
    model: 'acme/thinker',
    content: [{ text: 'Here' }],
  })
})

test.skipIf(!hasWirecheck)(
  'every answer matched the public schema (skipped if the checker is not installed)',
  async () => {
    const { seen, violations } = await stage.report()
    expect(violations).toEqual([])
    expect(Object.keys(seen)).toEqual(
      expect.arrayContaining([200, 400, 401, 404, 429].map(status => `createMessages ${status}`)),
    )
  },
)
