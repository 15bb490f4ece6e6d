import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createAmazonBedrock } from '@ai-sdk/amazon-bedrock'
import {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
  InvokeModelCommand,
  InvokeModelWithResponseStreamCommand,
  type Message,
} from '@aws-sdk/client-bedrock-runtime'
import { NodeHttpHandler } from '@smithy/node-http-handler'
import { generateText, isStepCount, jsonSchema, tool } from 'ai'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { type Server, startServer } from '../support/server.ts'

/* Clients of Bedrock with a bearer token, unmodified, over providers of other APIs and of its own. */

const PROTOCOLS = ['openai-chat', 'anthropic-messages', 'bedrock-converse']
const CITY = '{"city":"Paris"}'
const CALL = { id: 'call_1', name: 'get_weather', input: CITY }
const SCENES: Record<string, Scenario> = {
  hello: () => ({ answer: { text: 'Hello thére', finish: 'stop' } }),
  weather: heard =>
    heard.results.length > 0
      ? { answer: { text: 'Sunny', finish: 'stop' } }
      : { answer: { calls: [CALL], finish: 'tool_calls' } },
  broken: () => ({ failsAfter: 'Hello th' }),
  busy: () => 'is overloaded',
}

let upstream: FakeProviderServer
let server: Server
let client: BedrockRuntimeClient
beforeAll(async () => {
  upstream = startFakeProviders(SCENES)
  server = await startServer({
    config: {
      providers: Object.fromEntries(
        PROTOCOLS.map(name => [
          name,
          { protocol: name, base_url: upstream.getBaseUrl(name), api_key: 'mock' },
        ]),
      ),
      models: PROTOCOLS.flatMap(provider =>
        Object.keys(SCENES).map(model => ({
          id: `${provider}/${model}`,
          endpoints: [{ provider, model, usd_per_million_tokens: { prompt: 1, completion: 2 } }],
        })),
      ),
    },
  })
  client = open(server.inference_key)
})
afterAll(async () => {
  client?.destroy()
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
})

const open = (token: string) =>
  new BedrockRuntimeClient({
    region: 'us-east-1',
    endpoint: server.url,
    token: { token },
    authSchemePreference: ['httpBearerAuth'],
    maxAttempts: 1,
    // Its own one speaks HTTP/2, which needs TLS before the gateway.
    requestHandler: new NodeHttpHandler(),
  })

const ask = (text: string): Message[] => [{ role: 'user', content: [{ text }] }]
const TOOLS = {
  tools: [
    {
      toolSpec: {
        name: 'get_weather',
        description: 'The weather of a city',
        inputSchema: {
          json: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
        },
      },
    },
  ],
}

describe.each(PROTOCOLS)('over %s', protocol => {
  test('Converse answers, whole and streamed', async () => {
    const input = {
      modelId: `${protocol}/hello`,
      messages: ask('Hi'),
      system: [{ text: 'Be kind' }],
      inferenceConfig: { maxTokens: 50, temperature: 0.5, topP: 0.9, stopSequences: ['END'] },
    }
    const whole = await client.send(new ConverseCommand(input))
    expect(whole.output?.message?.content).toEqual([{ text: 'Hello thére' }] as never)
    expect(whole.stopReason).toBe('end_turn')
    const { inputTokens = 0, outputTokens = 0, totalTokens } = whole.usage ?? {}
    expect([inputTokens > 0, totalTokens]).toEqual([true, inputTokens + outputTokens])
    const { stream } = await client.send(new ConverseStreamCommand(input))
    const events = await Array.fromAsync(stream ?? [])
    expect(events.map(one => one.contentBlockDelta?.delta?.text ?? '').join('')).toBe('Hello thére')
    expect(events[0]).toEqual({ messageStart: { role: 'assistant' } } as never)
    expect(events.at(-2)).toMatchObject({ messageStop: { stopReason: 'end_turn' } })
    expect(events.at(-1)?.metadata?.usage).toEqual(whole.usage as never)
  })

  test.each([false, true])(
    'a tool is called, and its result goes back, streamed: %p',
    async streamed => {
      const modelId = `${protocol}/weather`
      const messages = ask('Weather in Paris?')
      const call = streamed
        ? await callStreamed(modelId, messages)
        : await callWhole(modelId, messages)
      expect(call).toMatchObject({ name: 'get_weather', input: { city: 'Paris' } })
      const answer = await client.send(
        new ConverseCommand({
          modelId,
          toolConfig: TOOLS,
          messages: [
            ...messages,
            { role: 'assistant', content: [{ toolUse: call as never }] },
            {
              role: 'user',
              content: [
                {
                  toolResult: { toolUseId: call.toolUseId, content: [{ json: { sky: 'clear' } }] },
                },
              ],
            },
          ],
        }),
      )
      expect(answer.output?.message?.content).toEqual([{ text: 'Sunny' }] as never)
      expect(upstream.getLastRequest(protocol).results).toMatchObject([
        { text: expect.stringContaining('clear') },
      ])
    },
  )

  test('InvokeModel answers bodies of Anthropic’s models, whole and streamed', async () => {
    const input = {
      modelId: `${protocol}/hello`,
      body: JSON.stringify({
        anthropic_version: 'bedrock-2023-05-31',
        max_tokens: 50,
        messages: [{ role: 'user', content: 'Hi' }],
      }),
    }
    const whole = await client.send(new InvokeModelCommand(input))
    expect(JSON.parse(new TextDecoder().decode(whole.body))).toMatchObject({
      type: 'message',
      content: [{ type: 'text', text: 'Hello thére' }],
    })
    const { body } = await client.send(new InvokeModelWithResponseStreamCommand(input))
    const events = (await Array.fromAsync(body ?? [])).map(({ chunk }) =>
      JSON.parse(new TextDecoder().decode(chunk?.bytes)),
    )
    expect(events[0].type).toBe('message_start')
    expect(events.map(({ delta }) => delta?.text ?? '').join('')).toBe('Hello thére')
    expect(events.at(-1).type).toBe('message_stop')
  })

  test('the AI SDK finishes two steps', async () => {
    const bedrock = createAmazonBedrock({
      baseURL: server.url,
      apiKey: server.inference_key,
      region: 'us-east-1',
    })
    const { text, steps } = await generateText({
      model: bedrock(`${protocol}/weather`),
      prompt: 'Weather in Paris?',
      stopWhen: isStepCount(3),
      tools: {
        get_weather: tool({
          inputSchema: jsonSchema<{ city: string }>({
            type: 'object',
            properties: { city: { type: 'string' } },
            required: ['city'],
          }),
          execute: ({ city }) => `Sunny in ${city}`,
        }),
      },
    })
    expect([text, steps.length]).toEqual(['Sunny', 2])
  })

  test('failures are in its own form, also in the middle of a stream', async () => {
    const busy = await client
      .send(new ConverseCommand({ modelId: `${protocol}/busy`, messages: ask('Hi') }))
      .catch(error => error)
    expect(busy.name).toMatch(/^(ServiceUnavailable|Throttling|ModelError)Exception$/)
    const input = { modelId: `${protocol}/broken`, messages: ask('Hi') }
    const { stream } = await client.send(new ConverseStreamCommand(input))
    const failed = await Array.fromAsync(stream ?? []).catch(error => error)
    expect(failed.name).toBe('ModelStreamErrorException')
  })
})

async function callWhole(modelId: string, messages: Message[]) {
  const { output, stopReason } = await client.send(
    new ConverseCommand({ modelId, messages, toolConfig: TOOLS }),
  )
  expect(stopReason).toBe('tool_use')
  const found = output?.message?.content?.find(({ toolUse }) => toolUse)?.toolUse
  return { toolUseId: found?.toolUseId, name: found?.name, input: found?.input }
}

async function callStreamed(modelId: string, messages: Message[]) {
  const { stream } = await client.send(
    new ConverseStreamCommand({ modelId, messages, toolConfig: TOOLS }),
  )
  const events = await Array.fromAsync(stream ?? [])
  const start = events.find(one => one.contentBlockStart)?.contentBlockStart?.start?.toolUse
  const input = events.map(one => one.contentBlockDelta?.delta?.toolUse?.input ?? '').join('')
  return { toolUseId: start?.toolUseId, name: start?.name, input: JSON.parse(input) }
}

const post = (
  path: string,
  body: unknown = { messages: [{ role: 'user', content: [{ text: 'Hi' }] }] },
  headers: Record<string, string> = { authorization: `Bearer ${server.inference_key}` },
) =>
  fetch(server.url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

test.each([
  ['the model with its slash', '/model/sandbox/echo/converse', 200],
  ['the model as one segment', '/model/sandbox%2Fecho/converse', 200],
  ['a model that is not there', '/model/acme%2Fnone/converse', 400],
  ['another action', '/model/sandbox%2Fecho/apply', 404],
  ['a path that leads elsewhere', '/model/..%2Fmetrics/converse', 404],
])('%s: %s is %d', async (_, path, expected) => {
  expect((await post(path)).status).toBe(expected)
})

const ECHO = '/model/sandbox%2Fecho/converse'

test('a signature of AWS and keys of other doors are refused in its form', async () => {
  const signed = await post(ECHO, undefined, {
    authorization: 'AWS4-HMAC-SHA256 Credential=AKIA/20261128/us-east-1/bedrock/aws4_request',
  })
  expect(signed.status).toBe(401)
  expect(await signed.json()).toMatchObject({
    __type: 'UnrecognizedClientException',
    message: expect.stringContaining('bearer token'),
  })
  const other = await post(ECHO, undefined, { 'api-key': server.inference_key })
  expect(other.status).toBe(401)
})

test.each([
  ['half a body', '{"messages":[', 400],
  ['another dialect’s body', { messages: [{ role: 'user', content: 'Hi' }] }, 400],
  ['content of no kind', { messages: [{ role: 'user', content: [{ smell: 'x' }] }] }, 400],
  [
    'a file at AWS',
    {
      messages: [
        {
          role: 'user',
          content: [{ image: { format: 'png', source: { s3Location: { uri: 's3://x' } } } }],
        },
      ],
    },
    400,
  ],
  [
    'a guardrail of AWS',
    {
      messages: [{ role: 'user', content: [{ text: 'Hi' }] }],
      guardrailConfig: { guardrailIdentifier: 'g' },
    },
    400,
  ],
  [
    'a bound that is misspelt',
    { messages: [{ role: 'user', content: [{ text: 'Hi' }] }], inferenceConfig: { maxToken: 5 } },
    400,
  ],
  [
    '33 MB of it',
    { messages: [{ role: 'user', content: [{ text: 'x'.repeat(33 * 2 ** 20) }] }] },
    413,
  ],
])('%s is refused', async (_, body, expected) => {
  expect((await post(ECHO, body)).status).toBe(expected)
})
