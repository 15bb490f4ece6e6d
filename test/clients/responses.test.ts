import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { OpenRouter } from '@openrouter/sdk'
import type { OpenResponsesResult, ResponsesRequest } from '@openrouter/sdk/models'
import { generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai'
import OpenAI, { BadRequestError } from 'openai'
import { makeParseableTextFormat } from 'openai/lib/parser'
import { protocols } from '../../src/translation/protocols/registry.ts'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { LONG } from '../support/random.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

/*
 * The official clients of the Responses API over every protocol of a provider, unmodified and
 * watched: each answer is what the public schema says.
 */

const PROTOCOLS = Object.keys(protocols.text).filter(name => name !== 'sandbox')
/** Each of the two other clients is tried with every other protocol: OpenAI’s own is with all. */
const BY_TURNS = [0, 1].map(turn => PROTOCOLS.filter((_, i) => LONG || i % 2 === turn))
const CITY = '{"city":"Paris"}'
const THOUGHT = { text: 'Which city is it?', signature: 'c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg==' }
const CALL = { id: 'call_1', name: 'get_weather', input: CITY }

const SCENES: Record<string, Scenario> = {
  hello: () => ({ answer: { text: 'Hello there', finish: 'stop' } }),
  weather: heard =>
    heard.results.length > 0
      ? { answer: { text: 'Sunny', finish: 'stop' } }
      : { answer: { thought: THOUGHT, calls: [CALL], finish: 'tool_calls' } },
  // Cohere signs no thoughts.
  forecast: heard =>
    heard.results.length > 0
      ? { answer: { text: 'Sunny', finish: 'stop' } }
      : { answer: { calls: [CALL], finish: 'tool_calls' } },
  schema: heard =>
    heard.tools.includes('json')
      ? { answer: { calls: [{ id: 'call_1', name: 'json', input: CITY }], finish: 'tool_calls' } }
      : { answer: { text: CITY, finish: 'stop' } },
  patch: heard =>
    heard.results.length > 0
      ? { answer: { text: 'Done', finish: 'stop' } }
      : {
          answer: {
            calls: [{ id: 'call_1', name: 'patch', input: '{"input":"+ \\"a\\""}' }],
            finish: 'tool_calls',
          },
        },
  refusal: () => ({ answer: { finish: 'refusal' } }),
  length: () => ({ answer: { text: 'Hello th', finish: 'length' } }),
  broken: () => ({ failsAfter: 'Hello th' }),
}

let upstream: FakeProviderServer
let server: LocalServer
let wirecheck: Wirecheck | undefined
let openai: OpenAI
let aiSdk: ReturnType<typeof createOpenAI>
let openrouter: OpenRouter

beforeAll(async () => {
  upstream = startFakeProviders(SCENES)
  server = await startLocalServer(buildConfig(upstream))
  wirecheck = hasWirecheck ? await startWirecheck(server.url) : undefined
  const baseURL = `${wirecheck?.url ?? server.url}/api/v1`
  const apiKey = server.inference_key
  openai = new OpenAI({ baseURL, apiKey, maxRetries: 0 })
  aiSdk = createOpenAI({ baseURL, apiKey })
  openrouter = new OpenRouter({ apiKey, serverURL: baseURL, retryConfig: { strategy: 'none' } })
})

afterAll(async () => {
  await wirecheck?.close()
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
})

const buildConfig = (fakes: FakeProviderServer) => ({
  providers: Object.fromEntries(
    PROTOCOLS.map(name => [
      name,
      { protocol: name, base_url: fakes.getBaseUrl(name), api_key: 'mock' },
    ]),
  ),
  models: PROTOCOLS.flatMap(provider =>
    Object.keys(SCENES).map(model => ({
      id: `${provider}/${model}`,
      endpoints: [{ provider, model, usd_per_million_tokens: { prompt: 1, completion: 2 } }],
    })),
  ),
})

const PARAMETERS = {
  type: 'object' as const,
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const TOOL = {
  type: 'function' as const,
  name: 'get_weather',
  description: 'The weather of a city',
  parameters: PARAMETERS,
  strict: true,
}
const weatherOf = (protocol: string) =>
  `${protocol}/${protocol === 'cohere-chat' ? 'forecast' : 'weather'}`

describe.each(PROTOCOLS)('over %s, the client of OpenAI', protocol => {
  test('gets a whole response', async () => {
    const response = await openai.responses.create({
      model: `${protocol}/hello`,
      instructions: 'Be kind',
      input: 'Hi',
      metadata: { trip: '7' },
    })
    expect(response).toMatchObject({
      object: 'response',
      status: 'completed',
      output_text: 'Hello there',
      instructions: 'Be kind',
      metadata: { trip: '7' },
      usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
    })
    expect(upstream.getLastRequest(protocol)).toMatchObject({
      system: 'Be kind',
      lines: ['user: Hi'],
    })
  })

  test('streams, and its helper assembles the response', async () => {
    const stream = openai.responses.stream({ model: `${protocol}/hello`, input: 'Hi' })
    let text = ''
    stream.on('response.output_text.delta', ({ delta }) => {
      text += delta
    })
    expect((await stream.finalResponse()).output_text).toBe('Hello there')
    expect(text).toBe('Hello there')
  })

  test('parses an answer in a format', async () => {
    const format = makeParseableTextFormat(
      { type: 'json_schema', name: 'place', strict: true, schema: PARAMETERS },
      content => JSON.parse(content) as { city: string },
    )
    const response = await openai.responses.parse({
      model: `${protocol}/schema`,
      input: 'Where?',
      text: { format },
    })
    expect(response.output_parsed).toEqual({ city: 'Paris' })
  })

  test.each([false, true])('replays its conversation after a call (streamed: %j)', async stream => {
    const body = {
      model: weatherOf(protocol),
      tools: [TOOL],
      reasoning: { effort: 'low' as const, summary: 'auto' as const },
      include: ['reasoning.encrypted_content' as const],
      store: false,
    }
    const ask = async (input: OpenAI.Responses.ResponseInput) =>
      stream
        ? openai.responses.stream({ ...body, input }).finalResponse()
        : openai.responses.create({ ...body, input })
    const first = await ask([{ role: 'user', content: 'Weather?' }])
    const call = first.output.find(item => item.type === 'function_call')
    expect(call).toMatchObject({ name: 'get_weather', arguments: CITY, status: 'completed' })
    const second = await ask([
      { role: 'user', content: 'Weather?' },
      ...(first.output as OpenAI.Responses.ResponseInput),
      {
        type: 'function_call_output',
        call_id: call && 'call_id' in call ? (call.call_id ?? '') : '',
        output: '21 degrees',
      },
    ])
    expect(second.output_text).toBe('Sunny')
    const { results, thoughts } = upstream.getLastRequest(protocol)
    expect(results.map(({ text }) => text)).toEqual(['21 degrees'])
    const signatures = protocol === 'cohere-chat' ? [] : [THOUGHT.signature]
    expect(thoughts.map(({ signature }) => signature)).toEqual(signatures)
  })

  test('learns that an answer was cut, refused or broken', async () => {
    const ask = (scene: string) =>
      openai.responses.stream({ model: `${protocol}/${scene}`, input: 'Hi' }).finalResponse()
    expect(await ask('length')).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
    })
    expect(await ask('refusal')).toMatchObject({ error: null })
    const events = await openai.responses.create({
      model: `${protocol}/broken`,
      input: 'Hi',
      stream: true,
    })
    const types: string[] = []
    for await (const { type } of events) types.push(type)
    expect(types.at(-1)).toBe('response.failed')
  })
})

// The fake provider of the API itself knows no tools but functions.
const FOREIGN = PROTOCOLS.filter(name => name !== 'openai-responses')

test.each(FOREIGN)(
  'over %s, a custom tool gets its text, and its result comes back',
  async protocol => {
    const grammar = { type: 'grammar' as const, syntax: 'lark' as const, definition: 'start: "+"' }
    for (const stream of [false, true]) {
      const body = {
        model: `${protocol}/patch`,
        tools: [{ type: 'custom' as const, name: 'patch', format: grammar }],
      }
      const ask = async (input: OpenAI.Responses.ResponseInput) =>
        stream
          ? openai.responses.stream({ ...body, input }).finalResponse()
          : openai.responses.create({ ...body, input })
      const { output } = await ask([{ role: 'user', content: 'Change it' }])
      expect(output).toMatchObject([{ type: 'custom_tool_call', name: 'patch', input: '+ "a"' }])
      const second = await ask([
        { role: 'user', content: 'Change it' },
        ...(output as OpenAI.Responses.ResponseInput),
        { type: 'custom_tool_call_output', call_id: callIdOf(output), output: 'changed' },
      ])
      expect(second.output_text).toBe('Done')
      const heard = upstream.getLastRequest(protocol)
      expect(heard.tools).toEqual(['patch'])
      expect(heard.calls.map(({ input }) => JSON.parse(input))).toEqual([{ input: '+ "a"' }])
      expect(heard.results.map(({ text }) => text)).toEqual(['changed'])
    }
  },
)

const callIdOf = ([item]: OpenAI.Responses.ResponseOutputItem[]) =>
  item?.type === 'custom_tool_call' ? item.call_id : ''

describe.each(BY_TURNS[0] ?? [])('over %s, the AI SDK', protocol => {
  const tools = {
    get_weather: tool({
      inputSchema: jsonSchema<{ city: string }>(PARAMETERS),
      execute: async ({ city }) => `21 degrees in ${city}`,
    }),
  }
  const options = { openai: { store: false, include: ['reasoning.encrypted_content' as const] } }

  test('runs its tools, whole, and its reasoning comes back', async () => {
    const result = await generateText({
      model: aiSdk.responses(weatherOf(protocol)),
      prompt: 'Weather?',
      tools,
      stopWhen: isStepCount(3),
      providerOptions: options,
    })
    expect(result.text).toBe('Sunny')
    expect(result.steps[0]?.toolResults).toMatchObject([{ output: '21 degrees in Paris' }])
    const { thoughts } = upstream.getLastRequest(protocol)
    const signatures = protocol === 'cohere-chat' ? [] : [THOUGHT.signature]
    expect(thoughts.map(({ signature }) => signature)).toEqual(signatures)
  })

  test('runs its tools, streamed', async () => {
    const result = streamText({
      model: aiSdk.responses(weatherOf(protocol)),
      prompt: 'Weather?',
      tools,
      stopWhen: isStepCount(3),
      providerOptions: options,
    })
    expect(await result.text).toBe('Sunny')
    expect(await result.finishReason).toBe('stop')
  })

  test('runs its tools with its defaults, as long as there is no reasoning to refer to', async () => {
    const result = await generateText({
      model: aiSdk.responses(`${protocol}/forecast`),
      prompt: 'Weather?',
      tools,
      stopWhen: isStepCount(3),
    })
    expect(result.text).toBe('Sunny')
  })

  // Its default is to refer to what OpenAI has stored.
  test('is told what to set where it refers to items instead of sending them', async () => {
    const text = { type: 'text' as const, text: 'Hello' }
    const failure = await generateText({
      model: aiSdk.responses(`${protocol}/hello`),
      maxRetries: 0,
      messages: [
        { role: 'user', content: 'Hi' },
        {
          role: 'assistant',
          content: [{ ...text, providerOptions: { openai: { itemId: 'msg_1' } } }],
        },
        { role: 'user', content: 'And?' },
      ],
    }).catch(thrown => thrown)
    expect(failure).toMatchObject({ statusCode: 400 })
    expect(String(failure.message)).toContain('store: false')
  })

  test('gets an object', async () => {
    const { output } = await generateText({
      model: aiSdk.responses(`${protocol}/schema`),
      prompt: 'Where?',
      output: Output.object({ schema: jsonSchema<{ city: string }>(PARAMETERS) }),
    })
    expect(output).toEqual({ city: 'Paris' })
  })
})

describe.each(BY_TURNS[1] ?? [])('over %s, the client of OpenRouter', protocol => {
  const send = async (responsesRequest: ResponsesRequest): Promise<OpenResponsesResult> => {
    const answer = await openrouter.beta.responses.send({
      responsesRequest: { ...responsesRequest, stream: false },
    })
    if ('output' in answer) return answer
    throw new Error('A stream came where an answer was asked for')
  }

  test('gets a whole response, and sends it back', async () => {
    const body = {
      model: weatherOf(protocol),
      tools: [TOOL],
      reasoning: { effort: 'low' as const },
    }
    const first = await send({ ...body, input: 'Weather?' })
    expect(first).toMatchObject({ status: 'completed', usage: { inputTokens: 10 } })
    const call = first.output.find(item => item.type === 'function_call')
    const second = await send({
      ...body,
      input: [
        { role: 'user', content: 'Weather?' },
        ...(first.output as never[]),
        {
          type: 'function_call_output',
          callId: call && 'callId' in call ? String(call.callId) : '',
          output: '21 degrees',
        },
      ],
    })
    expect(second.output).toMatchObject([{ type: 'message', content: [{ text: 'Sunny' }] }])
  })

  test('streams', async () => {
    const events = await openrouter.beta.responses.send({
      responsesRequest: { model: `${protocol}/hello`, input: 'Hi', stream: true },
    })
    if (!(Symbol.asyncIterator in events)) throw new Error('An answer came, and no stream')
    const types: string[] = []
    for await (const { type } of events) types.push(String(type))
    expect(types.at(0)).toBe('response.created')
    expect(types.at(-1)).toBe('response.completed')
  })

  test('asks under both names of the method, and in the loop of its agent', async () => {
    const model = `${protocol}/hello`
    const answer = await openrouter.responses.send({
      responsesRequest: { model, input: 'Hi', stream: false },
    })
    expect(answer).toMatchObject({ status: 'completed' })
    expect(await openrouter.callModel({ model, input: 'Hi' }).getText()).toContain('Hello')
  })
})

test('a field that is wrong is named in `param`', async () => {
  const failure = await openai.responses
    .create({ model: 'openai-chat/hello', input: 'Hi', store: true })
    .catch(thrown => thrown)
  expect(failure).toBeInstanceOf(BadRequestError)
  expect(failure).toMatchObject({ status: 400, param: 'store' })
})

test.skipIf(!hasWirecheck)('all answers are what the public schema says', async () => {
  const report = await wirecheck?.report()
  expect(report?.violations).toEqual([])
  expect(report?.seen['createResponses 200']).toBeGreaterThan(50)
})
