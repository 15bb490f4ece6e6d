import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { OpenRouter } from '@openrouter/sdk'
import type {
  ChatFunctionTool,
  ChatMessages,
  ChatRequest,
  ChatResult,
  ChatStreamChunk,
} from '@openrouter/sdk/models'
import {
  BadGatewayResponseError,
  BadRequestResponseError,
  ForbiddenResponseError,
  NotFoundResponseError,
  TooManyRequestsResponseError,
  UnauthorizedResponseError,
} from '@openrouter/sdk/models/errors'
import { COST, COUNTED, openStage, type Stage } from '../support/stage.ts'
import { completion, delta, ending, sseHead } from '../support/upstream.ts'
import { hasWirecheck } from '../support/wirecheck.ts'

let stage: Stage
let client: OpenRouter
let management: OpenRouter

beforeAll(async () => {
  stage = await openStage()
  client = clientWith(stage.server.inference_key)
  management = clientWith(stage.server.management_key)
})
afterAll(() => stage.close())
beforeEach(() => {
  stage.mock.clearFixtures().clearRequests()
})

const clientWith = (apiKey: string) =>
  new OpenRouter({ apiKey, serverURL: stage.base, retryConfig: { strategy: 'none' } })

const asked = (content: string): ChatMessages[] => [{ role: 'user', content }]

async function send(chatRequest: ChatRequest): Promise<ChatResult> {
  const answer = await client.chat.send({
    chatRequest: { model: 'acme/small', ...chatRequest, stream: false },
  })
  if ('choices' in answer) return answer
  throw new Error('A stream came where an answer was asked for')
}

async function stream(chatRequest: ChatRequest): Promise<ChatStreamChunk[]> {
  const answer = await client.chat.send({
    chatRequest: { model: 'acme/small', ...chatRequest, stream: true },
  })
  if ('choices' in answer) throw new Error('An answer came where a stream was asked for')
  return Array.fromAsync(answer)
}

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

const weather: ChatFunctionTool = {
  type: 'function',
  function: {
    name: 'get_weather',
    description: 'The weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
}

const WEATHER_CALL = {
  toolCalls: [{ id: 'call_1', name: 'get_weather', arguments: '{"city":"Zürich"}' }],
  ...COUNTED,
}

describe('chat', () => {
  test('is answered, counted and priced, and sent under the provider’s field names', async () => {
    stage.mock.onMessage('Say hello', { content: 'Hello!', ...COUNTED })
    const answer = await send({
      messages: [{ role: 'system', content: 'Be brief' }, ...asked('Say hello')],
      temperature: 0.2,
      topP: 0.9,
      topK: 40,
      maxTokens: 30,
      frequencyPenalty: 0.5,
      stop: 'END',
      user: 'ada',
      sessionId: 'session-1',
      metadata: { team: 'a' },
      provider: { order: ['local'], allowFallbacks: false },
    })
    expect(answer).toMatchObject({
      object: 'chat.completion',
      model: 'acme/small',
      systemFingerprint: null,
    })
    expect(answer.choices).toMatchObject([
      {
        index: 0,
        finishReason: 'stop',
        message: { role: 'assistant', content: 'Hello!', refusal: null },
      },
    ])
    expect(answer.usage).toMatchObject({
      promptTokens: 10,
      completionTokens: 5,
      totalTokens: 15,
      cost: COST,
      isByok: false,
      costDetails: {
        upstreamInferencePromptCost: 0.0000015,
        upstreamInferenceCompletionsCost: 0.000003,
      },
    })
    expect(stage.last().body).toEqual({
      model: 'up-small',
      messages: [{ role: 'system', content: 'Be brief' }, ...asked('Say hello')],
      temperature: 0.2,
      top_p: 0.9,
      top_k: 40,
      max_tokens: 30,
      frequency_penalty: 0.5,
      stop: ['END'],
      user: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
  })

  test('is streamed in pieces, and ends with the usage', async () => {
    stage.mock.onMessage(
      'Stream please',
      { content: 'One two three four', ...COUNTED },
      { chunkSize: 4, latency: 3 },
    )
    const chunks = await stream({ messages: asked('Stream please') })
    expect(chunks.map(chunk => chunk.choices[0]?.delta.content ?? '').join('')).toBe(
      'One two three four',
    )
    expect(chunks.filter(chunk => chunk.choices[0]?.delta.content).length).toBeGreaterThan(1)
    expect(chunks.at(-2)?.choices[0]?.finishReason).toBe('stop')
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { promptTokens: 10, completionTokens: 5, totalTokens: 15, cost: COST },
    })
    expect(stage.last().body).toEqual({
      model: 'up-small',
      messages: asked('Stream please'),
      stream: true,
      stream_options: { include_usage: true },
    })
  })

  test('calls a tool, takes its result and answers', async () => {
    stage.mock.on({ userMessage: 'Weather in Zürich', hasToolResult: false }, WEATHER_CALL)
    stage.mock.on({ toolCallId: 'call_1' }, { content: 'Sunny', ...COUNTED })
    const messages = asked('Weather in Zürich')
    const first = await send({
      messages,
      tools: [weather],
      toolChoice: 'auto',
      parallelToolCalls: false,
    })
    const message = first.choices[0]?.message
    expect(first.choices[0]?.finishReason).toBe('tool_calls')
    expect(message?.toolCalls).toEqual([
      {
        id: 'call_1',
        type: 'function',
        function: { name: 'get_weather', arguments: '{"city":"Zürich"}' },
      },
    ])
    expect(stage.last().body).toEqual({
      model: 'up-small',
      messages: [...messages],
      tools: [weather],
      tool_choice: 'auto',
      parallel_tool_calls: false,
    })
    if (message)
      messages.push(message, { role: 'tool', toolCallId: 'call_1', content: 'clear sky' })
    const second = await send({ messages, tools: [weather] })
    expect(second.choices[0]?.message.content).toBe('Sunny')
    expect(stage.last().body.messages).toEqual([
      ...asked('Weather in Zürich'),
      { role: 'assistant', content: null, tool_calls: message?.toolCalls },
      { role: 'tool', tool_call_id: 'call_1', content: 'clear sky' },
    ])
  })

  test('streams tool calls under their indices', async () => {
    const toolCalls = ['Oslo', 'Rome'].map((city, i) => ({
      id: `call_${i}`,
      name: 'get_weather',
      arguments: `{"city":"${city}"}`,
    }))
    stage.mock.onMessage('Two cities', { toolCalls, ...COUNTED }, { chunkSize: 4 })
    const chunks = await stream({ messages: asked('Two cities'), tools: [weather] })
    const pieces = chunks.flatMap(chunk => chunk.choices[0]?.delta.toolCalls ?? [])
    const input = (index: number) =>
      pieces
        .filter(one => one.index === index)
        .map(one => one.function?.arguments ?? '')
        .join('')
    expect(
      pieces.filter(one => one.id).map(one => [one.index, one.id, one.function?.name]),
    ).toEqual([
      [0, 'call_0', 'get_weather'],
      [1, 'call_1', 'get_weather'],
    ])
    expect([input(0), input(1)]).toEqual(['{"city":"Oslo"}', '{"city":"Rome"}'])
    expect(chunks.find(chunk => chunk.choices[0]?.finishReason)?.choices[0]?.finishReason).toBe(
      'tool_calls',
    )
  })

  test('answers in the requested format', async () => {
    stage.mock.onMessage('Name a city', { content: '{"city":"Bern"}', ...COUNTED })
    const jsonSchema = {
      name: 'city',
      strict: true,
      schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    }
    const answer = await send({
      messages: asked('Name a city'),
      responseFormat: { type: 'json_schema', jsonSchema },
    })
    expect(answer.choices[0]?.message.content).toBe('{"city":"Bern"}')
    expect(stage.last().body.response_format).toEqual({
      type: 'json_schema',
      json_schema: jsonSchema,
    })
  })

  test('takes pictures', async () => {
    stage.mock.onMessage('What is this', { content: 'A dot', ...COUNTED })
    const url = 'data:image/png;base64,iVBORw0KGgo='
    await send({
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this' },
            { type: 'image_url', imageUrl: { url, detail: 'high' } },
          ],
        },
      ],
    })
    expect(stage.last().body.messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this' },
          { type: 'image_url', image_url: { url, detail: 'high' } },
        ],
      },
    ])
  })

  test('includes the upstream body if the caller requests it', async () => {
    stage.mock.onMessage('Echo it', { content: 'Fine', ...COUNTED })
    const chunks = await stream({ messages: asked('Echo it'), debug: { echoUpstreamBody: true } })
    expect(chunks[0]?.choices).toEqual([])
    expect(chunks.map(chunk => chunk.choices[0]?.delta.content ?? '').join('')).toBe('Fine')
  })

  test('breaks off with an error in the stream', async () => {
    stage.mock.onMessage(
      'Break off',
      { content: 'Not all of this arrives', ...COUNTED },
      { chunkSize: 4, latency: 20, truncateAfterChunks: 4 },
    )
    const chunks = await stream({ messages: asked('Break off') })
    const failed = chunks.find(chunk => chunk.error)
    expect(chunks.map(chunk => chunk.choices[0]?.delta.content ?? '').join('')).toStartWith('Not ')
    expect(failed?.error).toMatchObject({
      code: 502,
      metadata: { errorType: 'provider_unavailable' },
    })
    expect(failed?.choices[0]?.finishReason).toBe('error')
  })
})

describe('reasoning', () => {
  const DETAILS = [
    {
      type: 'reasoning.summary' as const,
      summary: 'In short',
      format: 'openai-responses-v1',
      index: 0,
    },
    {
      type: 'reasoning.encrypted' as const,
      data: 'AAECAw==',
      id: 'rs_1',
      format: 'openai-responses-v1',
      index: 1,
    },
    {
      type: 'reasoning.text' as const,
      text: 'Hm… "so"',
      signature: 'c2ln/+==',
      format: 'anthropic-claude-v1',
      index: 2,
    },
  ]

  const thinking = (fields: Record<string, unknown>) =>
    completion('', {
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: 'Eight', ...fields },
          finish_reason: 'stop',
        },
      ],
    })

  test('is sent as an effort, comes back as text and details, and is sent again', async () => {
    const before = stage.scripted.hits.length
    stage.scripted.plan(thinking({ reasoning: 'Hm', reasoning_details: DETAILS }))
    const messages = asked('Five and three?')
    const first = await send({ model: 'acme/thinker', messages, reasoning: { effort: 'high' } })
    const message = first.choices[0]?.message
    expect(message).toMatchObject({ content: 'Eight', reasoning: 'Hm', reasoningDetails: DETAILS })
    if (message) messages.push(message, ...asked('Sure?'))
    await send({ model: 'acme/thinker', messages })
    expect(stage.scripted.hits[before]?.json).toEqual({
      model: 'up-thinker',
      messages: asked('Five and three?'),
      reasoning_effort: 'high',
    })
    expect(stage.scripted.hits[before + 1]?.json).toMatchObject({
      messages: [
        {},
        { role: 'assistant', content: 'Eight', reasoning: 'Hm', reasoning_details: DETAILS },
        {},
      ],
    })
  })

  test('is sent as the whole object to a provider that accepts it', async () => {
    const before = stage.scripted.hits.length
    stage.scripted.plan(thinking({ reasoning: 'Hm' }))
    await send({
      model: 'acme/muser',
      messages: asked('Muse'),
      reasoning: { effort: 'low', summary: 'concise' },
    })
    expect(stage.scripted.hits[before]?.json).toEqual({
      model: 'up-muser',
      messages: asked('Muse'),
      reasoning: { effort: 'low', summary: 'concise' },
    })
  })

  test('that comes as reasoning_content becomes reasoning with a detail to send back', async () => {
    stage.scripted.plan(thinking({ reasoning_content: 'Counted on fingers' }))
    const answer = await send({ model: 'acme/thinker', messages: asked('Eight?') })
    expect(answer.choices[0]?.message).toMatchObject({
      reasoning: 'Counted on fingers',
      reasoningDetails: [{ type: 'reasoning.text', text: 'Counted on fingers' }],
    })
  })

  test('is streamed before the answer, as text and as details', async () => {
    const [summary, encrypted, text] = DETAILS
    stage.scripted.plan([
      sseHead(),
      delta({ role: 'assistant', reasoning: 'In short', reasoning_details: [summary] }),
      delta({ reasoning_details: [encrypted] }),
      delta({ reasoning: 'Hm… "so"', reasoning_details: [text] }),
      delta('Eight'),
      ending(),
    ])
    const chunks = await stream({ model: 'acme/thinker', messages: asked('Stream thoughts') })
    const deltas = chunks.flatMap(chunk => chunk.choices[0]?.delta ?? [])
    expect(deltas.flatMap(one => one.reasoningDetails ?? [])).toMatchObject(DETAILS)
    expect(deltas.map(one => one.reasoning ?? '').join('')).toBe('In shortHm… "so"')
    expect(deltas.findLastIndex(one => one.reasoning)).toBeLessThan(
      deltas.findIndex(one => one.content === 'Eight'),
    )
  })

  test('is done by the sandbox only if the call has an effort', async () => {
    const loud = await send({
      model: 'sandbox/echo',
      messages: asked('Think'),
      reasoning: { effort: 'low' },
    })
    const quiet = await send({ model: 'sandbox/echo', messages: asked('Think') })
    expect(loud.choices[0]?.message).toMatchObject({
      content: 'Think',
      reasoning: 'The user said: Think',
    })
    expect(loud.usage?.completionTokensDetails?.reasoningTokens).toBeGreaterThan(0)
    expect(loud.usage?.cost).toBe(0)
    expect(quiet.choices[0]?.message.reasoning).toBeNull()
  })
})

describe('errors', () => {
  test('an unknown key is an UnauthorizedResponseError', async () => {
    const failure = await failureOf(
      clientWith('gw-v1-nobody').chat.send({
        chatRequest: { model: 'acme/small', messages: asked('Hi') },
      }),
    )
    expect(failure).toBeInstanceOf(UnauthorizedResponseError)
    expect(failure).toMatchObject({ statusCode: 401, error: { code: 401 } })
  })

  test('a value out of range is a BadRequestResponseError that names the field', async () => {
    const failure = await failureOf(send({ messages: asked('Hot'), temperature: 3 }))
    expect(failure).toBeInstanceOf(BadRequestResponseError)
    expect(failure).toMatchObject({ error: { code: 400, metadata: { field: 'temperature' } } })
  })

  test.each([
    [400, BadRequestResponseError],
    [401, BadGatewayResponseError],
    [429, TooManyRequestsResponseError],
    [500, BadGatewayResponseError],
  ])(
    'a provider that fails with %p is a typed error before a whole and a streamed answer',
    async (status, type) => {
      for (const ask of [send, stream]) {
        stage.mock.nextRequestError(status, { message: 'Words of the provider' })
        const failure = await failureOf(ask({ messages: asked('Fail') }))
        expect(failure).toBeInstanceOf(type)
        const { body } = failure as BadRequestResponseError
        expect(String(body).includes('Words of the provider')).toBe(status === 400)
      }
    },
  )

  test('an unknown model or generation is a NotFoundResponseError', async () => {
    expect(await failureOf(client.models.get({ author: 'acme', slug: 'none' }))).toBeInstanceOf(
      NotFoundResponseError,
    )
    expect(await failureOf(client.endpoints.list({ author: 'acme', slug: 'none' }))).toBeInstanceOf(
      NotFoundResponseError,
    )
    expect(await failureOf(client.generations.getGeneration({ id: 'gen-0-none' }))).toBeInstanceOf(
      NotFoundResponseError,
    )
  })

  test('a key of the wrong kind is a ForbiddenResponseError, in both directions', async () => {
    const chatRequest = { model: 'acme/small', messages: asked('Hi') }
    expect(
      await failureOf(client.apiKeys.create({ requestBody: { name: 'Mine' } })),
    ).toBeInstanceOf(ForbiddenResponseError)
    expect(await failureOf(management.chat.send({ chatRequest }))).toBeInstanceOf(
      ForbiddenResponseError,
    )
  })
})

describe('provider keys', () => {
  const key = 'sk-canary-0123456789'

  test('are added, read, updated, listed and deleted, and never revealed', async () => {
    const createBYOKKeyRequest = {
      provider: 'openai' as const,
      key,
      name: 'Mine',
      allowedModels: ['acme/small'],
      declaredZdr: true,
    }
    const { data } = await management.byok.create({ createBYOKKeyRequest })
    expect(data).toMatchObject({
      provider: 'openai',
      name: 'Mine',
      label: 'sk-c...789',
      disabled: false,
      isFallback: false,
      sortOrder: 0,
    })
    expect((await management.byok.get({ id: data.id })).data).toEqual(data)
    const changed = await management.byok.update({
      id: data.id,
      updateBYOKKeyRequest: { isFallback: true, allowedModels: null, key: `${key}0` },
    })
    expect(changed.data).toEqual({
      ...data,
      isFallback: true,
      allowedModels: null,
      label: 'sk-c...890',
    })
    const pages = await Array.fromAsync(await management.byok.list({ provider: 'openai' }))
    expect(pages.flatMap(page => page.result.data)).toEqual([changed.data])
    expect(await management.byok.delete({ id: data.id })).toEqual({ deleted: true })
    expect(await failureOf(management.byok.get({ id: data.id }))).toBeInstanceOf(
      NotFoundResponseError,
    )
    expect(await failureOf(management.byok.delete({ id: data.id }))).toBeInstanceOf(
      NotFoundResponseError,
    )
  })

  test('that are invalid, unknown, or managed with an inference key are refused', async () => {
    expect(
      await failureOf(
        management.byok.create({ createBYOKKeyRequest: { provider: 'openai', key: 'ключ' } }),
      ),
    ).toBeInstanceOf(BadRequestResponseError)
    expect(
      await failureOf(client.byok.create({ createBYOKKeyRequest: { provider: 'openai', key } })),
    ).toBeInstanceOf(ForbiddenResponseError)
    expect(
      await failureOf(
        clientWith('gw-v1-nobody').byok.create({
          createBYOKKeyRequest: { provider: 'openai', key },
        }),
      ),
    ).toBeInstanceOf(UnauthorizedResponseError)
  })

  test('serve a call, whose record then says so', async () => {
    stage.scripted.plan(completion('Yours'))
    const createBYOKKeyRequest = { provider: 'modelrun' as const, key }
    const { data } = await management.byok.create({ createBYOKKeyRequest })
    const answer = await send({ model: 'acme/muser', messages: asked('Mine') })
    expect(stage.scripted.hits.at(-1)?.headers.authorization).toBe(`Bearer ${key}`)
    expect(answer.usage).toMatchObject({
      isByok: true,
      cost: 0,
      costDetails: { upstreamInferenceCost: COST },
    })
    await management.byok.delete({ id: data.id })
  })
})

describe('keys', () => {
  test('are created, read, updated, listed and deleted', async () => {
    const expiresAt = new Date('2100-01-02T03:04:05.000Z')
    const requestBody = {
      name: 'Robot',
      limit: 2.5,
      limitReset: 'monthly' as const,
      includeByokInLimit: true,
      expiresAt,
      external: { user: 'partner-7' },
    }
    const { key, data } = await management.apiKeys.create({ requestBody })
    const { hash } = data
    expect(data).toMatchObject({
      name: 'Robot',
      limit: 2.5,
      limitRemaining: 2.5,
      limitReset: 'monthly',
      includeByokInLimit: true,
      disabled: false,
      usage: 0,
    })
    expect(data).toMatchObject({ expiresAt, externalUser: 'partner-7', updatedAt: null })
    expect(hash).toMatch(/^[0-9a-f]{64}$/)
    expect(data.label).not.toBe(key)
    expect((await management.apiKeys.get({ hash })).data).toEqual(data)

    const changed = await management.apiKeys.update({
      hash,
      requestBody: { name: 'Robot 2', disabled: true, limit: null, limitReset: null },
    })
    expect(changed.data).toMatchObject({
      hash,
      name: 'Robot 2',
      disabled: true,
      limit: null,
      limitRemaining: null,
      limitReset: null,
    })
    expect(changed.data.updatedAt).not.toBeNull()
    const listed = async (includeDisabled: boolean) =>
      (await management.apiKeys.list({ includeDisabled })).data.map(one => one.hash)
    expect(await listed(false)).not.toContain(hash)
    expect(await listed(true)).toContain(hash)

    expect(await management.apiKeys.delete({ hash })).toEqual({ deleted: true })
    expect(await failureOf(management.apiKeys.get({ hash }))).toBeInstanceOf(NotFoundResponseError)
  })

  test('are valid from creation until they are disabled, and count their spending', async () => {
    stage.mock.onMessage('Spend', { content: 'Spent', ...COUNTED })
    const { key, data } = await management.apiKeys.create({
      requestBody: { name: 'Spender', limit: 1 },
    })
    const spender = clientWith(key)
    const spend = () =>
      spender.chat.send({ chatRequest: { model: 'acme/small', messages: asked('Spend') } })
    await spend()
    const { data: current } = await spender.apiKeys.getCurrentKeyMetadata()
    expect(current).toMatchObject({
      label: data.label,
      limit: 1,
      usage: COST,
      usageDaily: COST,
      usageMonthly: COST,
      isManagementKey: false,
      isFreeTier: false,
    })
    expect(current.limitRemaining).toBeCloseTo(1 - COST, 9)
    await management.apiKeys.update({ hash: data.hash, requestBody: { disabled: true } })
    expect(await failureOf(spend())).toBeInstanceOf(UnauthorizedResponseError)
  })

  test('a management key can read itself', async () => {
    expect((await management.apiKeys.getCurrentKeyMetadata()).data).toMatchObject({
      isManagementKey: true,
      limit: null,
      limitRemaining: null,
    })
  })

  test('a key without a name is refused', async () => {
    expect(
      await failureOf(management.apiKeys.create({ requestBody: { name: '' } })),
    ).toBeInstanceOf(BadRequestResponseError)
  })
})

describe('generations', () => {
  test('a whole answer has a record that can be read at once', async () => {
    stage.mock.onMessage('Record me', { content: 'Recorded', id: 'chatcmpl-mock-1', ...COUNTED })
    const { id } = await send({ messages: asked('Record me'), sessionId: 'session-9' })
    const { data } = await client.generations.getGeneration({ id })
    expect(data).toMatchObject({
      id,
      model: 'acme/small',
      providerName: 'Together',
      upstreamId: 'chatcmpl-mock-1',
      apiType: 'completions',
      streamed: false,
      cancelled: false,
      finishReason: 'stop',
      nativeFinishReason: 'stop',
      nativeTokensPrompt: 10,
      nativeTokensCompletion: 5,
      tokensPrompt: 10,
      tokensCompletion: 5,
      totalCost: COST,
      usage: COST,
      isByok: false,
      sessionId: 'session-9',
    })
  })

  test('a streamed answer after a fallback has a record of both attempts', async () => {
    stage.mock.onMessage('Fall back', { content: 'Recorded too', ...COUNTED })
    stage.mock.nextRequestError(500)
    const chunks = await stream({ model: 'acme/steady', messages: asked('Fall back') })
    const { data } = await client.generations.getGeneration({ id: chunks[0]?.id ?? '' })
    expect(data).toMatchObject({ streamed: true, providerName: 'Groq', totalCost: COST })
    expect(data.providerResponses?.map(one => `${one.providerName} ${one.status}`)).toEqual([
      'Together 500',
      'Groq 200',
    ])
  })
})

describe('models', () => {
  test('are listed with their prices, those of the config first', async () => {
    const pages = await Array.fromAsync(await client.models.list())
    const listed = pages.flatMap(page => page.result.data)
    expect(listed.slice(0, 5).map(model => model.id)).toEqual([
      'sandbox/echo',
      'acme/small',
      'acme/steady',
      'acme/thinker',
      'acme/muser',
    ])
    expect(listed[1]).toMatchObject({
      name: 'Acme small',
      contextLength: 128_000,
      pricing: { prompt: '0.00000015', completion: '0.0000006' },
    })
    expect(listed.find(model => model.id === 'anthropic/claude-haiku-4.5')).toMatchObject({
      architecture: { tokenizer: 'Claude', inputModalities: ['text', 'image', 'file'] },
      pricing: { prompt: '0.000001', completion: '0.000005', inputCacheRead: '0.0000001' },
    })
  })

  test('of every kind, with their price tiers and efforts, match the client’s schema', async () => {
    const pages = await Array.fromAsync(await client.models.list({ outputModalities: 'all' }))
    const listed = pages.flatMap(page => page.result.data)
    expect(listed.length).toBeGreaterThan(400)
    expect(listed.find(model => model.id === 'google/gemini-2.5-pro')).toMatchObject({
      reasoning: { mandatory: true },
      pricing: {
        overrides: [{ minPromptTokens: 200_000, prompt: '0.0000025', completion: '0.000015' }],
      },
    })
  })

  // The client requests pages as long as they are full, so a list without paging would never end.
  test('can be read page by page, to the end', async () => {
    const pages: string[][] = []
    for await (const page of await client.models.list({ limit: 3, q: 'acme' })) {
      pages.push(page.result.data.map(model => model.id))
      if (pages.length > 5) break
    }
    expect(pages.map(page => page.length)).toEqual([3, 1])
    expect(new Set(pages.flat()).size).toBe(4)
  })

  test('can be counted, and those listed that a key can call', async () => {
    const { data } = await client.models.count({ outputModalities: 'all' })
    expect(data.count).toBeGreaterThan(400)
    const callable = await Array.fromAsync(
      await client.models.listForUser({ bearer: stage.server.inference_key }),
    )
    const ids = callable.flatMap(page => page.result.data.map(model => model.id))
    const routers = [
      'gateway/auto',
      'gateway/auto-beta',
      'gateway/free',
      'gateway/switchyard',
      'gateway/bodybuilder',
    ]
    expect(ids).toEqual([
      'sandbox/echo',
      'acme/small',
      'acme/steady',
      'acme/thinker',
      'acme/muser',
      ...routers,
    ])
  })

  test('can be read one by one, also by an alias', async () => {
    const { data } = await client.models.get({ author: 'acme', slug: 'small' })
    expect(data).toMatchObject({
      id: 'acme/small',
      architecture: {
        inputModalities: expect.arrayContaining(['text', 'image']),
        outputModalities: ['text'],
      },
    })
    const alias = await client.models.get({ author: '~anthropic', slug: 'claude-haiku-latest' })
    expect(alias.data.aliasTarget?.slug).toStartWith('anthropic/claude-haiku-')
  })

  test('list their endpoints', async () => {
    const { data } = await client.endpoints.list({ author: 'acme', slug: 'steady' })
    expect(data.id).toBe('acme/steady')
    expect(data.endpoints.map(one => [one.providerName, one.tag, one.pricing.prompt])).toEqual([
      ['Together', 'local', '0.00000015'],
      ['Groq', 'spare', '0.00000015'],
    ])
    const known = await client.endpoints.list({ author: 'google', slug: 'gemini-embedding-001' })
    expect(known.data.endpoints.map(one => [one.providerName, one.tag])).toEqual([
      ['Google AI Studio', 'google'],
      ['Google', 'vertex'],
    ])
  })

  test('for embeddings are listed separately, and so are ZDR endpoints', async () => {
    const pages = await Array.fromAsync(await client.embeddings.listModels())
    const listed = pages.flatMap(page => page.result.data)
    expect(listed.map(model => model.id)).toContain('openai/text-embedding-3-small')
    expect(listed.every(model => model.architecture.outputModalities.includes('embeddings'))).toBe(
      true,
    )
    const { data } = await client.endpoints.listZdrEndpoints()
    expect(new Set(data.map(one => one.tag))).toContain('bedrock')
    expect(data.map(one => one.tag)).not.toContain('openai')
  })

  test('have providers with a name, a slug and their known facts', async () => {
    const { data } = await client.providers.list()
    expect(data.find(one => one.slug === 'anthropic')).toMatchObject({
      name: 'Anthropic',
      headquarters: 'US',
    })
    expect(data.length).toBeGreaterThan(40)
  })
})

describe('presets', () => {
  test('are created in every dialect, listed and read, version by version', async () => {
    const { data: first } = await client.presets.createPresetsMessages({
      slug: 'writer',
      messagesRequest: {
        model: 'acme/small',
        maxTokens: 50,
        system: 'Be brief',
        stopSequences: ['END'],
        messages: [{ role: 'user', content: 'Hi' }],
      },
    })
    expect(first).toMatchObject({
      slug: 'writer',
      name: 'writer',
      status: 'active',
      statusUpdatedAt: null,
      description: null,
    })
    expect(first.designatedVersion).toMatchObject({
      version: 1,
      systemPrompt: 'Be brief',
      presetId: first.id,
    })
    expect(first.designatedVersion?.config).toEqual({
      model: 'acme/small',
      max_tokens: 50,
      stop: ['END'],
    })
    const { data: second } = await client.presets.createPresetsChatCompletions({
      slug: 'writer',
      chatRequest: {
        model: 'acme/small',
        temperature: 0.5,
        messages: [{ role: 'system', content: 'Two' }, ...asked('Hi')],
      },
    })
    expect(second).toMatchObject({
      id: first.id,
      designatedVersion: { version: 2, systemPrompt: 'Two' },
    })
    const { data: other } = await client.presets.createPresetsResponses({
      slug: 'other',
      responsesRequest: {
        model: 'acme/small',
        maxOutputTokens: 5,
        instructions: 'Three',
        input: 'Hi',
      },
    })
    expect(other.designatedVersion).toMatchObject({
      config: { model: 'acme/small', max_tokens: 5 },
      systemPrompt: 'Three',
    })

    const pages = await Array.fromAsync(await client.presets.list())
    expect(pages.flatMap(page => page.result.data).map(one => one.slug)).toEqual([
      'other',
      'writer',
    ])
    expect((await client.presets.get({ slug: 'writer' })).data).toEqual(second)
    const versions = await Array.fromAsync(
      await client.presets.listVersions({ slug: 'writer', limit: 1 }),
    )
    expect(versions.flatMap(page => page.result.data)).toMatchObject([
      { version: 1 },
      { version: 2 },
    ])
    expect((await client.presets.getVersion({ slug: 'writer', version: '1' })).data).toEqual(
      first.designatedVersion,
    )
  })

  test('apply to a call, and its record names them', async () => {
    stage.mock.onMessage('With a preset', { content: 'Done', ...COUNTED })
    const chatRequest = {
      model: 'acme/small',
      temperature: 0.5,
      messages: [{ role: 'system' as const, content: 'Be brief' }],
    }
    const { data } = await client.presets.createPresetsChatCompletions({
      slug: 'used',
      chatRequest,
    })
    const { id } = await send({ model: '@preset/used', messages: asked('With a preset') })
    expect(stage.last().body).toMatchObject({
      temperature: 0.5,
      messages: [{ role: 'system', content: 'Be brief' }, ...asked('With a preset')],
    })
    expect((await client.generations.getGeneration({ id })).data.presetId).toBe(data.id)
  })

  test('are refused with typed errors', async () => {
    const chatRequest = { model: 'acme/small', messages: asked('Hi') }
    const { presets } = client
    expect(await failureOf(presets.get({ slug: 'none' }))).toBeInstanceOf(NotFoundResponseError)
    expect(await failureOf(presets.listVersions({ slug: 'none' }))).toBeInstanceOf(
      NotFoundResponseError,
    )
    expect(await failureOf(presets.getVersion({ slug: 'none', version: '1' }))).toBeInstanceOf(
      NotFoundResponseError,
    )
    expect(await failureOf(presets.getVersion({ slug: 'none', version: 'x' }))).toBeInstanceOf(
      BadRequestResponseError,
    )
    expect(
      await failureOf(presets.createPresetsChatCompletions({ slug: 'a b', chatRequest })),
    ).toBeInstanceOf(BadRequestResponseError)
    expect(
      await failureOf(management.presets.createPresetsChatCompletions({ slug: 'x', chatRequest })),
    ).toBeInstanceOf(ForbiddenResponseError)
    expect(await failureOf(clientWith('gw-v1-nobody').presets.list())).toBeInstanceOf(
      UnauthorizedResponseError,
    )
    expect(await failureOf(send({ model: '@preset/none', messages: asked('Hi') }))).toBeInstanceOf(
      NotFoundResponseError,
    )
  })
})

test.skipIf(!hasWirecheck)(
  'every answer matched the public schema (skipped if the checker is not installed)',
  async () => {
    const { seen, violations } = await stage.report()
    expect(violations).toEqual([])
    expect(Object.keys(seen)).toEqual(
      expect.arrayContaining([
        ...[200, 400, 401, 403, 429, 502].map(status => `sendChatCompletionRequest ${status}`),
        ...[
          'createKeys 201',
          'createKeys 400',
          'createKeys 403',
          'getKey 200',
          'getKey 404',
          'updateKeys 200',
          'list 200',
          'deleteKeys 200',
        ],
        ...[
          'createBYOKKey 201',
          'createBYOKKey 400',
          'createBYOKKey 401',
          'createBYOKKey 403',
          'listBYOKKeys 200',
          'getBYOKKey 200',
        ],
        ...['getBYOKKey 404', 'updateBYOKKey 200', 'deleteBYOKKey 200', 'deleteBYOKKey 404'],
        ...['getCurrentKey 200', 'getGeneration 200', 'getGeneration 404'],
        ...[
          'getModels 200',
          'getModel 200',
          'getModel 404',
          'listEndpoints 200',
          'listEndpoints 404',
          'listModelsCount 200',
        ],
        ...[
          'createPresetsMessages 200',
          'createPresetsChatCompletions 200',
          'createPresetsChatCompletions 400',
          'createPresetsChatCompletions 403',
        ],
        ...[
          'createPresetsResponses 200',
          'listPresets 200',
          'listPresets 401',
          'getPreset 200',
          'getPreset 404',
          'listPresetVersions 200',
        ],
        ...[
          'listPresetVersions 404',
          'getPresetVersion 200',
          'getPresetVersion 400',
          'getPresetVersion 404',
        ],
        ...[
          'listModelsUser 200',
          'listEmbeddingsModels 200',
          'listEndpointsZdr 200',
          'listProviders 200',
        ],
      ]),
    )
  },
)
