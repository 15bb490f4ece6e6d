import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createOpenRouter } from '@openrouter/ai-sdk-provider'
import {
  APICallError,
  generateObject,
  generateText,
  isStepCount,
  jsonSchema,
  type ModelMessage,
  Output,
  streamText,
  tool,
} from 'ai'
import { COST, COUNTED, openStage, type Stage } from '../support/stage.ts'
import {
  chunkedEnd,
  completion,
  delta,
  done,
  ending,
  finish,
  type Script,
  sseHead,
  stream,
  usage,
} from '../support/upstream.ts'
import { hasWirecheck } from '../support/wirecheck.ts'

let stage: Stage
let provider: ReturnType<typeof createOpenRouter>

beforeAll(async () => {
  stage = await openStage()
  provider = createOpenRouter({ baseURL: stage.base, apiKey: stage.server.inference_key })
})
afterAll(() => stage.close())
beforeEach(() => {
  stage.mock.clearFixtures().clearRequests()
})

const small = () => provider.chat('acme/small')

/** Returns the error of a call that must fail. */
const failureOf = (call: PromiseLike<unknown>): Promise<unknown> =>
  Promise.resolve(call).then(
    () => undefined,
    thrown => thrown,
  )

/** Returns the provider metadata: name, usage and cost. */
const toldBy = (metadata: unknown) =>
  (metadata as { openrouter?: { provider?: string; usage?: Record<string, unknown> } })?.openrouter

const schema = jsonSchema<{ city: string }>({
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
})

/** A tool that records the cities of its calls. */
const weatherTool = (cities: string[]) => ({
  get_weather: tool({
    description: 'The weather of a city',
    inputSchema: schema,
    execute: async ({ city }) => ({ city, visits: cities.push(city) }),
  }),
})

const WEATHER_CALL = {
  toolCalls: [{ id: 'call_1', name: 'get_weather', arguments: '{"city":"Zürich"}' }],
  ...COUNTED,
}

describe('text', () => {
  test('is generated, counted and priced, and the provider receives the request', async () => {
    stage.mock.onMessage('Say hello', { content: 'Hello!', ...COUNTED })
    const answer = await generateText({
      model: small(),
      instructions: 'Be brief',
      prompt: 'Say hello',
      temperature: 0.3,
      maxOutputTokens: 40,
      seed: 7,
      stopSequences: ['END'],
    })
    expect(answer).toMatchObject({
      text: 'Hello!',
      finishReason: 'stop',
      usage: { inputTokens: 10, outputTokens: 5, totalTokens: 15 },
    })
    expect(answer.response.id).toStartWith('gen-')
    expect(answer.response.modelId).toBe('acme/small')
    expect(toldBy(answer.providerMetadata)).toMatchObject({
      provider: 'Together',
      usage: {
        promptTokens: 10,
        completionTokens: 5,
        totalTokens: 15,
        cost: COST,
        costDetails: { upstreamInferenceCost: COST },
      },
    })
    expect(stage.last().body).toEqual({
      model: 'up-small',
      messages: [
        { role: 'system', content: 'Be brief' },
        { role: 'user', content: 'Say hello' },
      ],
      temperature: 0.3,
      max_tokens: 40,
      seed: 7,
      stop: ['END'],
    })
  })

  test('is streamed in pieces, with the same numbers at the end', async () => {
    stage.mock.onMessage(
      'Stream please',
      { content: 'One two three four', ...COUNTED },
      { chunkSize: 4, latency: 3 },
    )
    const answer = streamText({ model: small(), prompt: 'Stream please' })
    const pieces = await Array.fromAsync(answer.textStream)
    expect(pieces.length).toBeGreaterThan(1)
    expect(pieces.join('')).toBe('One two three four')
    expect(await answer.finishReason).toBe('stop')
    expect(await answer.usage).toMatchObject({ inputTokens: 10, outputTokens: 5, totalTokens: 15 })
    expect(toldBy(await answer.providerMetadata)).toMatchObject({
      provider: 'Together',
      usage: { totalTokens: 15, cost: COST },
    })
    expect(stage.last().body).toMatchObject({
      stream: true,
      stream_options: { include_usage: true },
    })
  })

  test('that was read from a cache is counted and priced as such', async () => {
    const counts = usage(1000, 20, {
      prompt_tokens_details: { cached_tokens: 800 },
      completion_tokens_details: { reasoning_tokens: 5 },
    })
    stage.scripted.plan(completion('Cached', { usage: counts }))
    const answer = await generateText({ model: provider.chat('acme/thinker'), prompt: 'Again' })
    expect(answer.usage).toMatchObject({
      inputTokens: 1000,
      inputTokenDetails: { cacheReadTokens: 800, noCacheTokens: 200 },
      outputTokens: 20,
      outputTokenDetails: { reasoningTokens: 5, textTokens: 15 },
    })
    const price = (200 * 0.15 + 800 * 0.075 + 20 * 0.6) / 1_000_000
    expect(toldBy(answer.providerMetadata)?.usage?.cost).toBeCloseTo(price, 9)
  })

  test('takes pictures', async () => {
    stage.mock.onMessage('What is this', { content: 'A dot', ...COUNTED })
    const content = [
      { type: 'text' as const, text: 'What is this' },
      { type: 'file' as const, data: new Uint8Array([137, 80, 78, 71]), mediaType: 'image/png' },
    ]
    await generateText({ model: small(), messages: [{ role: 'user', content }] })
    expect(stage.last().body.messages).toEqual([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw==' } },
        ],
      },
    ])
  })

  // The completion model refuses the tool choice that generateText sends, so it is called directly.
  test('is completed from a prompt', async () => {
    stage.mock.onMessage('Once upon', { content: ' a time', ...COUNTED })
    const prompt = [
      { role: 'user' as const, content: [{ type: 'text' as const, text: 'Once upon' }] },
    ]
    const answer = await provider.completion('acme/small').doGenerate({ prompt })
    expect(answer.content).toEqual([{ type: 'text', text: ' a time' }])
    expect(answer.usage).toMatchObject({ inputTokens: { total: 10 }, outputTokens: { total: 5 } })
  })
})

describe('tools', () => {
  /** The conversation that the provider gets once the tool has answered. */
  const conversation = (question: string) => [
    { role: 'user', content: question },
    {
      role: 'assistant',
      content: null,
      tool_calls: [
        {
          id: 'call_1',
          type: 'function',
          function: { name: 'get_weather', arguments: '{"city":"Zürich"}' },
        },
      ],
    },
    expect.objectContaining({
      role: 'tool',
      tool_call_id: 'call_1',
      content: '{"city":"Zürich","visits":1}',
    }),
  ]

  test('are called and answered until there is a text', async () => {
    stage.mock.on({ userMessage: 'Weather in Zürich', hasToolResult: false }, WEATHER_CALL)
    stage.mock.on({ toolCallId: 'call_1' }, { content: 'Sunny', ...COUNTED })
    const cities: string[] = []
    const tools = weatherTool(cities)
    const answer = await generateText({
      model: small(),
      prompt: 'Weather in Zürich',
      tools,
      stopWhen: isStepCount(3),
    })
    expect(answer.text).toBe('Sunny')
    expect(answer.steps.map(step => step.finishReason)).toEqual(['tool-calls', 'stop'])
    expect(answer.steps[0]?.toolCalls).toMatchObject([
      { toolCallId: 'call_1', toolName: 'get_weather', input: { city: 'Zürich' } },
    ])
    expect(cities).toEqual(['Zürich'])
    const [first, second] = stage.received()
    expect(first?.body).toMatchObject({
      tool_choice: 'auto',
      tools: [
        {
          type: 'function',
          function: { name: 'get_weather', description: 'The weather of a city' },
        },
      ],
    })
    expect(second?.body.messages).toEqual(conversation('Weather in Zürich'))
  })

  test('are called and answered while everything is streamed', async () => {
    stage.mock.on({ userMessage: 'Stream the weather', hasToolResult: false }, WEATHER_CALL, {
      chunkSize: 3,
    })
    stage.mock.on({ toolCallId: 'call_1' }, { content: 'Sunny too', ...COUNTED }, { chunkSize: 3 })
    const cities: string[] = []
    const answer = streamText({
      model: small(),
      prompt: 'Stream the weather',
      tools: weatherTool(cities),
      stopWhen: isStepCount(3),
    })
    const kinds = (await Array.fromAsync(answer.stream)).map(part => part.type)
    expect(kinds).toEqual(
      expect.arrayContaining([
        'tool-input-start',
        'tool-input-delta',
        'tool-call',
        'tool-result',
        'text-delta',
        'finish',
      ]),
    )
    expect(await answer.text).toBe('Sunny too')
    expect(cities).toEqual(['Zürich'])
    expect(await answer.totalUsage).toMatchObject({ inputTokens: 20, outputTokens: 10 })
    expect(stage.last().body.messages).toEqual(conversation('Stream the weather'))
  })
})

describe('structured output', () => {
  const format = (name: unknown) => ({
    type: 'json_schema',
    json_schema: expect.objectContaining({
      name,
      strict: true,
      schema: expect.objectContaining({ required: ['city'], additionalProperties: false }),
    }),
  })

  test('is an object of the schema', async () => {
    stage.mock.onMessage('Name a city', { content: '{"city":"Bern"}', ...COUNTED })
    const { object } = await generateObject({
      model: small(),
      schema,
      schemaName: 'city',
      prompt: 'Name a city',
    })
    expect(object).toEqual({ city: 'Bern' })
    expect(stage.last().body.response_format).toEqual(format('city'))
  })

  test('is streamed as partial objects', async () => {
    stage.mock.onMessage(
      'Stream a city',
      { content: '{"city":"Lausanne"}', ...COUNTED },
      { chunkSize: 4, latency: 2 },
    )
    const answer = streamText({
      model: small(),
      output: Output.object({ schema }),
      prompt: 'Stream a city',
    })
    const partial = await Array.fromAsync(answer.partialOutputStream)
    expect(partial.at(-1)).toEqual({ city: 'Lausanne' })
    expect(await answer.output).toEqual({ city: 'Lausanne' })
    expect(stage.last().body.response_format).toEqual(format(expect.any(String)))
  })

  test('is invented by the sandbox', async () => {
    const { object } = await generateObject({
      model: provider.chat('sandbox/echo'),
      schema,
      prompt: 'Anywhere',
    })
    expect(object).toEqual({ city: 'Anywhere' })
  })
})

describe('reasoning', () => {
  const DETAILS = [
    {
      type: 'reasoning.text',
      text: 'Hm… "so"',
      signature: 'c2ln/+==',
      format: 'anthropic-claude-v1',
      index: 0,
    },
    {
      type: 'reasoning.encrypted',
      data: 'AAECAw==',
      id: 'rs_1',
      format: 'openai-responses-v1',
      index: 1,
    },
  ]

  const thinker = () => provider.chat('acme/thinker', { reasoning: { effort: 'high' } })

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

  /** Continues the conversation and returns the request that the provider then receives. */
  async function goneOn(said: ModelMessage[]) {
    stage.scripted.plan(completion('Sure'))
    const count = stage.scripted.hits.length + 1
    await generateText({
      model: thinker(),
      messages: [
        { role: 'user', content: 'Five and three?' },
        ...said,
        { role: 'user', content: 'Sure?' },
      ],
    })
    return stage.scripted.hit(count)
  }

  const called = {
    id: 'call_1',
    type: 'function',
    function: { name: 'get_weather', arguments: '{"city":"Zürich"}' },
  }

  test('is requested by effort, and details are sent again with the tool’s result', async () => {
    stage.scripted.plan(
      thinking({
        content: null,
        reasoning: 'Hm… "so"',
        reasoning_details: DETAILS,
        tool_calls: [called],
      }),
      completion('Sunny'),
    )
    const count = stage.scripted.hits.length + 1
    const prompt = 'Weather in Zürich'
    const answer = await generateText({
      model: thinker(),
      prompt,
      tools: weatherTool([]),
      stopWhen: isStepCount(2),
    })
    expect(answer.text).toBe('Sunny')
    expect(answer.steps[0]?.reasoningText).toBe('Hm… "so"')
    expect((await stage.scripted.hit(count)).json).toMatchObject({
      messages: [{ role: 'user', content: prompt }],
      reasoning_effort: 'high',
    })
    const next = await stage.scripted.hit(count + 1)
    expect(next.body).toContain(`"reasoning_details":${JSON.stringify(DETAILS)}`)
    expect(next.json).toMatchObject({
      messages: [
        {},
        { role: 'assistant', content: null, reasoning: 'Hm… "so"', tool_calls: [called] },
        {},
      ],
    })
  })

  /**
   * A stream of reasoning as text and details, a signature, encrypted data, and then the answer.
   */
  const thinkingStream = (...rest: Script[]): Script => {
    const piece = (fields: Record<string, unknown>) => [
      { type: 'reasoning.text', ...fields, format: 'anthropic-claude-v1', index: 0 },
    ]
    return [
      sseHead(),
      delta({ role: 'assistant', reasoning: 'Hm… ', reasoning_details: piece({ text: 'Hm… ' }) }),
      delta({ reasoning: '"so"', reasoning_details: piece({ text: '"so"' }) }),
      delta({ reasoning_details: piece({ signature: 'c2ln/+==' }) }),
      delta({ reasoning_details: DETAILS.slice(1) }),
      ...rest,
    ]
  }

  test('is streamed before the answer, and the assembled details are sent again', async () => {
    stage.scripted.plan(thinkingStream(delta('Eight'), ending()))
    const answer = streamText({ model: thinker(), prompt: 'Five and three?' })
    const kinds = (await Array.fromAsync(answer.stream)).map(part => part.type)
    expect(kinds.indexOf('reasoning-delta')).toBeGreaterThan(0)
    expect(kinds.indexOf('reasoning-delta')).toBeLessThan(kinds.indexOf('text-delta'))
    const next = await goneOn(await answer.responseMessages)
    expect(next.json).toMatchObject({
      messages: [{}, { role: 'assistant', content: 'Eight', reasoning_details: DETAILS }, {}],
    })
  })

  test('is streamed before a tool call, and sent again with the tool’s result', async () => {
    stage.scripted.plan(
      thinkingStream(
        delta({ tool_calls: [{ index: 0, ...called }] }),
        finish('tool_calls'),
        done(),
        chunkedEnd(),
      ),
      stream(['Sunny']),
    )
    const count = stage.scripted.hits.length + 2
    const answer = streamText({
      model: thinker(),
      prompt: 'Weather in Zürich',
      tools: weatherTool([]),
      stopWhen: isStepCount(2),
    })
    expect(await answer.text).toBe('Sunny')
    expect((await stage.scripted.hit(count)).json).toMatchObject({
      messages: [
        {},
        { role: 'assistant', reasoning_details: DETAILS, tool_calls: [called] },
        { role: 'tool', tool_call_id: 'call_1' },
      ],
    })
  })

  // The client reads a delta's text only if it has no details, so both must come in one delta.
  test('that a provider sends both as text and as details is shown once', async () => {
    stage.scripted.plan(thinkingStream(delta('Eight'), ending()))
    const answer = streamText({ model: thinker(), prompt: 'Five and three?' })
    await answer.consumeStream()
    expect(await answer.reasoningText).toBe('Hm… "so"')
  })

  test.each(['reasoning', 'reasoning_content'])(
    'that comes as bare %s is shown, and sent again',
    async field => {
      stage.scripted.plan(thinking({ [field]: 'On fingers' }))
      const whole = await generateText({ model: thinker(), prompt: 'Five and three?' })
      expect(whole.reasoningText).toBe('On fingers')
      stage.scripted.plan([
        sseHead(),
        delta({ role: 'assistant', [field]: 'On ' }),
        delta({ [field]: 'fingers' }),
        delta('Eight'),
        ending(),
      ])
      const streamed = streamText({ model: thinker(), prompt: 'Five and three?' })
      await streamed.consumeStream()
      expect(await streamed.reasoningText).toBe('On fingers')
      for (const said of [whole.responseMessages, await streamed.responseMessages]) {
        expect((await goneOn(said)).json).toMatchObject({
          messages: [{}, { role: 'assistant', content: 'Eight', reasoning: 'On fingers' }, {}],
        })
      }
    },
  )

  test('is left out if the caller excludes it', async () => {
    stage.scripted.plan(thinking({ reasoning: 'Secret', reasoning_details: DETAILS }))
    const model = provider.chat('acme/thinker', { reasoning: { effort: 'high', exclude: true } })
    const answer = await generateText({ model, prompt: 'Five and three?' })
    expect(answer.text).toBe('Eight')
    expect(answer.reasoningText).toBeUndefined()
  })

  test('of the sandbox is counted', async () => {
    const answer = await generateText({
      model: provider.chat('sandbox/echo', { reasoning: { effort: 'low' } }),
      prompt: 'Think',
    })
    expect(answer).toMatchObject({ text: 'Think', reasoningText: 'The user said: Think' })
    expect(answer.usage.outputTokenDetails.reasoningTokens).toBeGreaterThan(0)
    expect(toldBy(answer.providerMetadata)?.usage?.cost).toBe(0)
  })
})

describe('failures', () => {
  test.each([
    [400, 400, false],
    [429, 429, true],
    [500, 502, true],
  ])(
    'a provider that fails with %p is an APICallError with status %p (worth a retry: %p)',
    async (status, seen, isRetryable) => {
      stage.mock.nextRequestError(status, { message: 'Words of the provider' })
      const failure = await failureOf(
        generateText({ model: small(), prompt: 'Fail', maxRetries: 0 }),
      )
      expect(APICallError.isInstance(failure)).toBe(true)
      expect(failure).toMatchObject({ statusCode: seen, isRetryable })
      const { responseBody } = failure as APICallError
      expect(responseBody?.includes('Words of the provider')).toBe(status === 400)
    },
  )

  test('an unknown key is an APICallError with status 401', async () => {
    const model = createOpenRouter({ baseURL: stage.base, apiKey: 'gw-v1-nobody' }).chat(
      'acme/small',
    )
    expect(await failureOf(generateText({ model, prompt: 'Hi', maxRetries: 0 }))).toMatchObject({
      statusCode: 401,
      isRetryable: false,
    })
  })

  test('a stream that breaks off ends with an error after the pieces that came', async () => {
    stage.mock.onMessage(
      'Break off',
      { content: 'Not all of this arrives', ...COUNTED },
      { chunkSize: 4, latency: 20, truncateAfterChunks: 4 },
    )
    const answer = streamText({
      model: small(),
      prompt: 'Break off',
      maxRetries: 0,
      onError: () => {},
    })
    const parts = await Array.fromAsync(answer.stream)
    const text = parts.map(part => (part.type === 'text-delta' ? part.text : '')).join('')
    expect(text).toStartWith('Not ')
    expect(parts.some(part => part.type === 'error')).toBe(true)
    expect(parts.findLast(part => part.type === 'finish')).toMatchObject({ finishReason: 'error' })
  })

  test('another endpoint answers when the first fails', async () => {
    stage.mock.onMessage('Hold on', { content: 'Steady', ...COUNTED })
    stage.mock.nextRequestError(503)
    const answer = await generateText({
      model: provider.chat('acme/steady'),
      prompt: 'Hold on',
      maxRetries: 0,
    })
    expect(answer.text).toBe('Steady')
    expect(toldBy(answer.providerMetadata)?.provider).toBe('Groq')
  })
})

test.skipIf(!hasWirecheck)(
  'every answer matched the public schema (skipped if the checker is not installed)',
  async () => {
    const { seen, violations } = await stage.report()
    expect(violations).toEqual([])
    expect(Object.keys(seen)).toEqual(
      expect.arrayContaining(
        [200, 400, 401, 429, 502].map(status => `sendChatCompletionRequest ${status}`),
      ),
    )
  },
)
