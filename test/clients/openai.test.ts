import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import OpenAI, {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from 'openai'
import { makeParseableResponseFormat } from 'openai/lib/parser'
import type { RunnableToolFunctionWithParse } from 'openai/lib/RunnableFunction'
import type {
  ChatCompletionMessageParam,
  ChatCompletionTool,
} from 'openai/resources/chat/completions'
import { COST, COUNTED, openStage, type Stage } from '../support/stage.ts'
import { completion, delta, ending, sseHead } from '../support/upstream.ts'
import { hasWirecheck } from '../support/wirecheck.ts'

let stage: Stage
let client: OpenAI

beforeAll(async () => {
  stage = await openStage()
  client = clientWith({})
})
afterAll(() => stage.close())
beforeEach(() => {
  stage.mock.clearFixtures().clearRequests()
})

const clientWith = (options: ConstructorParameters<typeof OpenAI>[0]) =>
  new OpenAI({ baseURL: stage.base, apiKey: stage.server.inference_key, maxRetries: 0, ...options })

const asked = (content: string): ChatCompletionMessageParam[] => [{ role: 'user', content }]

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

const weather: ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    },
    strict: true,
  },
}

const WEATHER_CALL = {
  toolCalls: [{ id: 'call_1', name: 'get_weather', arguments: '{"city":"Zürich"}' }],
  ...COUNTED,
}

test('a chat is answered, and the provider receives the request and nothing else', async () => {
  stage.mock.onMessage('Say hello', { content: 'Hello, you!', ...COUNTED })
  const answer = await client.chat.completions.create({
    model: 'acme/small',
    messages: [{ role: 'system', content: 'Be brief' }, ...asked('Say hello')],
    temperature: 0.5,
    max_completion_tokens: 50,
    stop: ['END'],
    seed: 7,
  })
  expect(answer.choices).toMatchObject([
    {
      index: 0,
      finish_reason: 'stop',
      message: { role: 'assistant', content: 'Hello, you!', refusal: null },
    },
  ])
  expect(answer).toMatchObject({
    object: 'chat.completion',
    model: 'acme/small',
    system_fingerprint: null,
  })
  expect(answer.id).toStartWith('gen-')
  expect(answer.usage).toMatchObject({
    prompt_tokens: 10,
    completion_tokens: 5,
    total_tokens: 15,
    cost: COST,
  })
  expect(stage.last().path).toBe('/v1/chat/completions')
  expect(stage.last().body).toEqual({
    model: 'up-small',
    messages: [{ role: 'system', content: 'Be brief' }, ...asked('Say hello')],
    temperature: 0.5,
    max_tokens: 50,
    stop: ['END'],
    seed: 7,
  })
})

test('headers about the client are not forwarded to the provider', async () => {
  stage.mock.onMessage('Who am I', { content: 'Nobody', ...COUNTED })
  const named = clientWith({ organization: 'org-mine', defaultHeaders: { 'x-title': 'Mine' } })
  await named.chat.completions.create({
    model: 'acme/small',
    messages: asked('Who am I'),
    user: 'ada',
    metadata: { team: 'a' },
    store: true,
  })
  const { headers, body } = stage.last()
  expect(
    Object.keys(headers).filter(
      name =>
        name.startsWith('x-stainless') || name === 'openai-organization' || name === 'x-title',
    ),
  ).toEqual([])
  expect(headers['user-agent']).not.toContain('OpenAI')
  expect(body).toEqual({
    model: 'up-small',
    messages: asked('Who am I'),
    store: true,
    user: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
})

test('a streamed chat comes in pieces, with the finish reason and then the usage', async () => {
  stage.mock.onMessage(
    'Stream please',
    { content: 'One two three four five', ...COUNTED },
    { chunkSize: 5, latency: 3 },
  )
  const stream = await client.chat.completions.create({
    model: 'acme/small',
    messages: asked('Stream please'),
    stream: true,
    stream_options: { include_usage: true },
  })
  const chunks = await Array.fromAsync(stream)
  expect(chunks.map(chunk => chunk.choices[0]?.delta.content ?? '').join('')).toBe(
    'One two three four five',
  )
  expect(chunks.filter(chunk => chunk.choices[0]?.delta.content).length).toBeGreaterThan(1)
  expect(chunks[0]?.choices[0]?.delta).toEqual({ role: 'assistant', content: '' })
  expect(chunks.at(-2)?.choices[0]).toMatchObject({ delta: {}, finish_reason: 'stop' })
  expect(chunks.at(-1)).toMatchObject({
    choices: [],
    usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15, cost: COST },
  })
  expect(new Set(chunks.map(chunk => chunk.id)).size).toBe(1)
  expect(stage.last().body).toEqual({
    model: 'up-small',
    messages: asked('Stream please'),
    stream: true,
    stream_options: { include_usage: true },
  })
})

test('the stream helper assembles the same answer', async () => {
  stage.mock.onMessage(
    'Help me stream',
    { content: 'Put together again', ...COUNTED },
    { chunkSize: 3 },
  )
  const answer = await client.chat.completions
    .stream({ model: 'acme/small', messages: asked('Help me stream') })
    .finalChatCompletion()
  expect(answer.choices[0]).toMatchObject({
    finish_reason: 'stop',
    message: { role: 'assistant', content: 'Put together again' },
  })
  expect(answer.usage).toMatchObject({ total_tokens: 15 })
})

test('a stream that the client abandons does not disturb the next call', async () => {
  stage.mock.onMessage(
    'Leave early',
    { content: 'x'.repeat(200), ...COUNTED },
    { chunkSize: 5, latency: 5 },
  )
  for await (const chunk of await client.chat.completions.create({
    model: 'acme/small',
    messages: asked('Leave early'),
    stream: true,
  })) {
    if (chunk.choices[0]?.delta.content) break
  }
  stage.mock.onMessage('Still there', { content: 'Yes', ...COUNTED })
  const answer = await client.chat.completions.create({
    model: 'acme/small',
    messages: asked('Still there'),
  })
  expect(answer.choices[0]?.message.content).toBe('Yes')
})

test('a tool is called, its result sent back, and the answer given', async () => {
  stage.mock.on({ userMessage: 'Weather in Zürich', hasToolResult: false }, WEATHER_CALL)
  stage.mock.on({ toolCallId: 'call_1' }, { content: 'It is sunny', ...COUNTED })
  const messages = asked('Weather in Zürich')
  const first = await client.chat.completions.create({
    model: 'acme/small',
    messages,
    tools: [weather],
    tool_choice: 'auto',
  })
  const [choice] = first.choices
  expect(choice?.finish_reason).toBe('tool_calls')
  expect(choice?.message).toMatchObject({
    content: null,
    tool_calls: [
      {
        id: 'call_1',
        type: 'function',
        function: { name: 'get_weather', arguments: '{"city":"Zürich"}' },
      },
    ],
  })
  expect(stage.last().body).toEqual({
    model: 'up-small',
    messages: [...messages],
    tools: [weather],
    tool_choice: 'auto',
  })
  if (choice)
    messages.push(choice.message, {
      role: 'tool',
      tool_call_id: 'call_1',
      content: '{"sky":"clear"}',
    })
  const second = await client.chat.completions.create({
    model: 'acme/small',
    messages,
    tools: [weather],
  })
  expect(second.choices[0]).toMatchObject({
    finish_reason: 'stop',
    message: { content: 'It is sunny' },
  })
  expect(stage.last().body).toEqual({
    model: 'up-small',
    messages: toolTurns('Weather in Zürich', '{"sky":"clear"}'),
    tools: [weather],
  })
})

/** The conversation up to a tool's result, as the provider must get it. */
const toolTurns = (question: string, result: string, said: string | null = null) => [
  { role: 'user', content: question },
  {
    role: 'assistant',
    content: said,
    tool_calls: [
      {
        id: 'call_1',
        type: 'function',
        function: { name: 'get_weather', arguments: '{"city":"Zürich"}' },
      },
    ],
  },
  { role: 'tool', tool_call_id: 'call_1', content: result },
]

test.each([false, true])(
  'the tool runner completes the loop by itself (streamed: %p)',
  async stream => {
    const question = `Run the weather ${stream ? 'streamed' : 'whole'}`
    stage.mock.on({ userMessage: question, hasToolResult: false }, WEATHER_CALL, { chunkSize: 4 })
    stage.mock.on(
      { userMessage: question, hasToolResult: true },
      { content: 'Sunny it is', ...COUNTED },
    )
    const cities: string[] = []
    const tool: RunnableToolFunctionWithParse<{ city: string }> = {
      type: 'function',
      function: {
        name: 'get_weather',
        description: 'The weather of a city',
        parameters: { type: 'object', properties: { city: { type: 'string' } } },
        parse: text => JSON.parse(text),
        function: ({ city }) => `${cities.push(city)} sunny city`,
      },
    }
    const body = { model: 'acme/small', messages: asked(question), tools: [tool] }
    const runner = stream
      ? client.chat.completions.runTools({ ...body, stream })
      : client.chat.completions.runTools(body)
    expect(await runner.finalContent()).toBe('Sunny it is')
    expect(cities).toEqual(['Zürich'])
    // A stream begins with an empty text, which the runner keeps.
    expect(stage.last().body.messages).toEqual(
      toolTurns(question, '1 sunny city', stream ? '' : null),
    )
  },
)

test('streamed tool calls arrive in pieces, each call under its own index', async () => {
  const toolCalls = [
    { id: 'call_a', name: 'get_weather', arguments: '{"city":"Oslo"}' },
    { id: 'call_b', name: 'get_weather', arguments: '{"city":"Rome"}' },
  ]
  stage.mock.onMessage('Two cities', { toolCalls, ...COUNTED }, { chunkSize: 4 })
  const stream = client.chat.completions.stream({
    model: 'acme/small',
    messages: asked('Two cities'),
    tools: [weather],
    parallel_tool_calls: true,
  })
  const answer = await stream.finalChatCompletion()
  expect(answer.choices[0]?.finish_reason).toBe('tool_calls')
  expect(answer.choices[0]?.message.tool_calls).toMatchObject(
    toolCalls.map(({ id, name, arguments: text }) => ({
      id,
      type: 'function',
      function: { name, arguments: text },
    })),
  )
  expect(stage.last().body).toMatchObject({ tools: [weather], parallel_tool_calls: true })
})

const cityFormat = {
  type: 'json_schema' as const,
  json_schema: {
    name: 'city',
    strict: true,
    schema: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    },
  },
}

test('a structured answer is parsed, and the provider receives the schema unchanged', async () => {
  stage.mock.onMessage('Name a city', { content: '{"city":"Bern"}', ...COUNTED })
  const response_format = makeParseableResponseFormat(
    cityFormat,
    text => JSON.parse(text) as { city: string },
  )
  const answer = await client.chat.completions.parse({
    model: 'acme/small',
    messages: asked('Name a city'),
    response_format,
  })
  expect(answer.choices[0]?.message.parsed).toEqual({ city: 'Bern' })
  expect(stage.last().body).toEqual({
    model: 'up-small',
    messages: asked('Name a city'),
    response_format: cityFormat,
  })
})

test('a streamed structured answer is parsed too', async () => {
  stage.mock.onMessage(
    'Stream a city',
    { content: '{"city":"Basel"}', ...COUNTED },
    { chunkSize: 3 },
  )
  const response_format = makeParseableResponseFormat(
    cityFormat,
    text => JSON.parse(text) as { city: string },
  )
  const stream = client.chat.completions.stream({
    model: 'acme/small',
    messages: asked('Stream a city'),
    response_format,
  })
  const answer = await stream.finalChatCompletion()
  expect(answer.choices[0]?.message.parsed).toEqual({ city: 'Basel' })
  expect(stage.last().body.response_format).toEqual(cityFormat)
})

test('pictures are sent to the provider unchanged', async () => {
  stage.mock.onMessage('What is this', { content: 'A dot', ...COUNTED })
  const content = [
    { type: 'text' as const, text: 'What is this' },
    {
      type: 'image_url' as const,
      image_url: { url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' as const },
    },
    { type: 'image_url' as const, image_url: { url: 'https://example.com/dot.png' } },
  ]
  const answer = await client.chat.completions.create({
    model: 'acme/small',
    messages: [{ role: 'user', content }],
  })
  expect(answer.choices[0]?.message.content).toBe('A dot')
  expect(stage.last().body).toEqual({ model: 'up-small', messages: [{ role: 'user', content }] })
})

test('a prompt is completed as text', async () => {
  stage.mock.onMessage('Once upon', { content: ' a time', ...COUNTED })
  const answer = await client.completions.create({
    model: 'acme/small',
    prompt: 'Once upon',
    max_tokens: 20,
  })
  expect(answer).toMatchObject({
    object: 'text_completion',
    choices: [{ index: 0, text: ' a time', finish_reason: 'stop' }],
  })
  expect(answer.usage).toMatchObject({ prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 })
  expect(stage.last().body).toEqual({
    model: 'up-small',
    messages: asked('Once upon'),
    max_tokens: 20,
  })
})

test('a prompt is completed as streamed text', async () => {
  stage.mock.onMessage('There was', { content: ' a cat and a dog', ...COUNTED }, { chunkSize: 4 })
  const chunks = await Array.fromAsync(
    await client.completions.create({ model: 'acme/small', prompt: 'There was', stream: true }),
  )
  expect(chunks.map(chunk => chunk.choices[0]?.text ?? '').join('')).toBe(' a cat and a dog')
  expect(new Set(chunks.map(chunk => chunk.object))).toEqual(new Set(['text_completion']))
})

test('the effort is sent; text and details come back and are sent again unchanged', async () => {
  const reasoning_details = [
    {
      type: 'reasoning.text',
      text: 'Hm… "so"',
      signature: 'c2ln/+==',
      format: 'anthropic-claude-v1',
      index: 0,
      odd: { z: 1, a: [null] },
    },
    {
      type: 'reasoning.encrypted',
      data: 'AAECAw==',
      id: 'rs_1',
      format: 'openai-responses-v1',
      index: 1,
    },
  ]
  stage.scripted.plan(
    completion('Eight', {
      choices: [
        {
          index: 0,
          message: {
            role: 'assistant',
            content: 'Eight',
            reasoning: 'Hm… "so"',
            reasoning_details,
          },
          finish_reason: 'stop',
        },
      ],
    }),
  )
  const before = stage.scripted.hits.length
  const messages = asked('Five and three?')
  const first = await client.chat.completions.create({
    model: 'acme/thinker',
    messages,
    reasoning_effort: 'high',
  })
  const message = first.choices[0]?.message
  expect(message).toMatchObject({ content: 'Eight', reasoning: 'Hm… "so"', reasoning_details })
  expect(stage.scripted.hits[before]?.json).toEqual({
    model: 'up-thinker',
    messages: [...messages],
    reasoning_effort: 'high',
  })
  expect(stage.scripted.hits[before]?.headers.authorization).toBe('Bearer mock')
  if (message) messages.push(message, { role: 'user', content: 'Sure?' })
  await client.chat.completions.create({ model: 'acme/thinker', messages })
  expect(stage.scripted.hits[before + 1]?.body).toContain(JSON.stringify(reasoning_details))
  expect(stage.scripted.hits[before + 1]?.json).toMatchObject({
    messages: [{}, { role: 'assistant', content: 'Eight', reasoning: 'Hm… "so"' }, {}],
  })
})

test('streamed reasoning_content arrives as reasoning, before the answer', async () => {
  stage.scripted.plan([
    sseHead(),
    delta({ role: 'assistant', reasoning_content: 'Let me ' }),
    delta({ reasoning_content: 'see' }),
    delta('Nine'),
    ending(),
  ])
  const chunks = await Array.fromAsync(
    await client.chat.completions.create({
      model: 'acme/thinker',
      messages: asked('Nine?'),
      stream: true,
    }),
  )
  const deltas = chunks.flatMap(chunk => chunk.choices[0]?.delta ?? []) as {
    reasoning?: string
    content?: string
  }[]
  expect(deltas.map(one => one.reasoning ?? '').join('')).toBe('Let me see')
  expect(deltas.map(one => one.content ?? '').join('')).toBe('Nine')
})

test('an unknown key is an AuthenticationError', async () => {
  const call = clientWith({ apiKey: 'gw-v1-nobody' }).chat.completions.create({
    model: 'acme/small',
    messages: asked('Let me in'),
  })
  const failure = await failureOf(call)
  expect(failure).toBeInstanceOf(AuthenticationError)
  expect(failure).toMatchObject({ status: 401, error: { code: 401 } })
  expect(stage.received()).toEqual([])
})

test('a value out of range is a BadRequestError that names the field', async () => {
  const failure = await failureOf(
    client.chat.completions.create({ model: 'acme/small', messages: asked('Hot'), temperature: 3 }),
  )
  expect(failure).toBeInstanceOf(BadRequestError)
  expect(failure).toMatchObject({
    status: 400,
    error: {
      code: 400,
      message: expect.stringContaining('temperature'),
      metadata: { field: 'temperature' },
    },
  })
  expect((failure as APIError).requestID).toStartWith('gen-')
  expect(stage.received()).toEqual([])
})

test('an unknown model is a BadRequestError that names it', async () => {
  const failure = await failureOf(
    client.chat.completions.create({ model: 'acme/none', messages: asked('Anyone') }),
  )
  expect(failure).toBeInstanceOf(BadRequestError)
  expect((failure as APIError).message).toContain('acme/none')
})

test.each([
  [400, BadRequestError, 400],
  [401, InternalServerError, 502],
  [404, InternalServerError, 502],
  [429, RateLimitError, 429],
  [500, InternalServerError, 502],
  [503, InternalServerError, 502],
])(
  'a provider that fails with %p is a typed error, with its words where the caller can mend it',
  async (status, type, seen) => {
    stage.mock.nextRequestError(status, {
      message: 'Words of the provider',
      type: 'some_error',
      code: 'some_code',
    })
    const failure = await failureOf(
      client.chat.completions.create({ model: 'acme/small', messages: asked('Fail') }),
    )
    expect(failure).toBeInstanceOf(type)
    expect(failure).toMatchObject({
      status: seen,
      error: { code: seen, metadata: { provider_name: 'Together', provider_code: 'some_code' } },
    })
    const text = JSON.stringify((failure as APIError).error)
    expect(text.includes('Words of the provider')).toBe(status === 400)
  },
)

test('the client’s own retry gets the answer after a failure that passes', async () => {
  stage.mock.onMessage('Try again', { content: 'Second time', ...COUNTED })
  stage.mock.nextRequestError(503)
  const answer = await clientWith({ maxRetries: 1 }).chat.completions.create({
    model: 'acme/small',
    messages: asked('Try again'),
  })
  expect(answer.choices[0]?.message.content).toBe('Second time')
  expect(stage.received()).toHaveLength(2)
})

test('another endpoint answers when the first fails, and the client does not notice', async () => {
  stage.mock.onMessage('Hold on', { content: 'Steady', ...COUNTED })
  stage.mock.nextRequestError(500)
  const answer = await client.chat.completions
    .stream({ model: 'acme/steady', messages: asked('Hold on') })
    .finalChatCompletion()
  expect(answer).toMatchObject({
    model: 'acme/steady',
    choices: [{ message: { content: 'Steady' } }],
  })
  expect(stage.received().map(({ body }) => body.model)).toEqual(['up-steady', 'up-steady'])
})

test('a stream that breaks off is an error after the pieces that came, not an end', async () => {
  stage.mock.onMessage(
    'Break off',
    { content: 'Not all of this arrives', ...COUNTED },
    { chunkSize: 4, latency: 20, truncateAfterChunks: 4 },
  )
  const pieces: string[] = []
  const read = async () => {
    const stream = await client.chat.completions.create({
      model: 'acme/small',
      messages: asked('Break off'),
      stream: true,
    })
    for await (const chunk of stream) pieces.push(chunk.choices[0]?.delta.content ?? '')
  }
  const failure = await failureOf(read())
  expect(failure).toBeInstanceOf(APIError)
  expect(failure).toMatchObject({
    error: { code: 502, metadata: { error_type: 'provider_unavailable' } },
  })
  expect(pieces.join('')).toStartWith('Not ')
  expect('Not all of this arrives').toStartWith(pieces.join(''))
})

test('the models are listed', async () => {
  const models = await Array.fromAsync(client.models.list())
  expect(models.map(model => model.id)).toEqual(
    expect.arrayContaining(['sandbox/echo', 'acme/small', 'acme/thinker']),
  )
})

test('a model is retrieved by its slug and by its plain name', async () => {
  const direct = clientWith({ baseURL: `${stage.server.url}/v1` })
  for (const id of ['acme/small', 'small'])
    expect(await direct.models.retrieve(id)).toMatchObject({
      id,
      object: 'model',
      owned_by: 'acme',
      created: expect.any(Number),
    })
  expect(await direct.models.retrieve('small')).toMatchObject({
    alias_target: { slug: 'acme/small' },
  })
  const plain = await fetch(`${stage.server.url}/v1/models/acme/small`)
  expect(await plain.json()).toMatchObject({ id: 'acme/small', object: 'model' })
  const failure = await failureOf(direct.models.retrieve('acme/smal'))
  expect(failure).toBeInstanceOf(NotFoundError)
  expect((failure as Error).message).toContain('did you mean: acme/small?')
})

test('a plain name means the model that has it', async () => {
  stage.mock.on({ userMessage: 'Plain' }, { content: 'Here', ...COUNTED })
  const { model, choices } = await client.chat.completions.create({
    model: 'small',
    messages: asked('Plain'),
  })
  expect([model, choices[0]?.message.content]).toEqual(['acme/small', 'Here'])
})

test('an unknown model is a NotFoundError', async () => {
  expect(await failureOf(client.get('/model/acme/none'))).toBeInstanceOf(NotFoundError)
})

test.skipIf(!hasWirecheck)(
  'every answer matched the public schema (skipped if the checker is not installed)',
  async () => {
    const { seen, violations } = await stage.report()
    expect(violations).toEqual([])
    expect(Object.keys(seen)).toEqual(
      expect.arrayContaining([
        ...[200, 400, 401, 429, 502].map(status => `sendChatCompletionRequest ${status}`),
        'getModels 200',
        'getModel 404',
      ]),
    )
  },
)
