import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createAmazonBedrock } from '@ai-sdk/amazon-bedrock'
import {
  BedrockRuntimeClient,
  ConverseCommand,
  ConverseStreamCommand,
  InvokeModelCommand,
  InvokeModelWithResponseStreamCommand,
  type Message,
  type ToolChoice,
} from '@aws-sdk/client-bedrock-runtime'
import { NodeHttpHandler } from '@smithy/node-http-handler'
import { generateText, isStepCount, jsonSchema, tool } from 'ai'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  chunkedEnd,
  event,
  json,
  sseHead,
  startUpstream,
  type Upstream,
} from '../support/upstream.ts'

/* Clients of Bedrock with a bearer token, unmodified, over providers of other APIs and of its own. */

const PROTOCOLS = ['openai-chat', 'anthropic-messages', 'bedrock-converse']
const CITY = '{"city":"Paris"}'
const THOUGHT = { text: 'Which city is it?', signature: 'c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg==' }
const CALL = { id: 'call_1', name: 'get_weather', input: CITY }
const SCENES: Record<string, Scenario> = {
  hello: () => ({ answer: { text: 'Hello thére', finish: 'stop' } }),
  weather: heard =>
    heard.results.length > 0
      ? { answer: { text: 'Sunny', finish: 'stop' } }
      : { answer: { calls: [CALL], finish: 'tool_calls' } },
  broken: () => ({ failsAfter: 'Hello th' }),
  busy: () => 'is overloaded',
  'claude-sonnet-4-5': heard =>
    heard.results.length > 0
      ? { answer: { text: 'Sunny', finish: 'stop' } }
      : { answer: { thought: THOUGHT, calls: [CALL], finish: 'tool_calls' } },
}

const CLAUDE = 'scripted/claude'

let upstream: FakeProviderServer
let server: LocalServer
let client: BedrockRuntimeClient
let scripted: Upstream
beforeAll(async () => {
  upstream = startFakeProviders(SCENES)
  scripted = await startUpstream()
  server = await startLocalServer({
    providers: {
      ...Object.fromEntries(
        PROTOCOLS.map(name => [
          name,
          { protocol: name, base_url: upstream.getBaseUrl(name), api_key: 'mock' },
        ]),
      ),
      scripted: { protocol: 'anthropic-messages', base_url: scripted.url, api_key: 'mock' },
    },
    models: [
      ...PROTOCOLS.flatMap(provider =>
        Object.keys(SCENES).map(model => ({
          id: `${provider}/${model}`,
          endpoints: [{ provider, model, usd_per_million_tokens: { prompt: 1, completion: 2 } }],
        })),
      ),
      { id: CLAUDE, endpoints: [{ provider: 'scripted', model: 'claude-sonnet-4-5' }] },
    ],
    timeouts: { keep_alive_seconds: 0.1 },
  })
  client = open(server.inference_key)
})
afterAll(async () => {
  client?.destroy()
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
  await scripted?.close()
})

const open = (token: string, requestHandler = new NodeHttpHandler()) =>
  new BedrockRuntimeClient({
    region: 'us-east-1',
    endpoint: server.url,
    token: { token },
    authSchemePreference: ['httpBearerAuth'],
    maxAttempts: 1,
    // Its own one speaks HTTP/2, which needs TLS before the gateway.
    requestHandler,
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
    expect(whole.$metadata.requestId).toStartWith('gen-')
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

test.each(['anthropic-messages', 'bedrock-converse'])(
  'what a model of %s has thought and signed goes back to it',
  async protocol => {
    const input = {
      modelId: `${protocol}/claude-sonnet-4-5`,
      messages: ask('Weather in Paris?'),
      toolConfig: TOOLS,
    }
    const whole = await client.send(new ConverseCommand(input))
    const content = whole.output?.message?.content ?? []
    const { text, signature } = THOUGHT
    expect(content[0]).toEqual({
      reasoningContent: { reasoningText: { text, signature } },
    } as never)
    const { stream } = await client.send(new ConverseStreamCommand(input))
    const deltas = (await Array.fromAsync(stream ?? [])).flatMap(
      one => one.contentBlockDelta?.delta?.reasoningContent ?? [],
    )
    expect(deltas.map(delta => delta.text ?? '').join('')).toBe(text)
    expect(deltas.map(delta => delta.signature ?? '').join('')).toBe(signature)
    await client.send(
      new ConverseCommand({
        ...input,
        messages: [
          ...input.messages,
          { role: 'assistant', content },
          {
            role: 'user',
            content: [{ toolResult: { toolUseId: CALL.id, content: [{ text: 'Sunny' }] } }],
          },
        ],
      }),
    )
    expect(upstream.getLastRequest(protocol).thoughts).toEqual([THOUGHT])
  },
)

test.each(PROTOCOLS)('a tool is forced and an answer has its schema over %s', async protocol => {
  const input = { modelId: `${protocol}/hello`, messages: ask('Hi') }
  const choose = async (toolChoice: ToolChoice) => {
    await client.send(new ConverseCommand({ ...input, toolConfig: { ...TOOLS, toolChoice } }))
    return upstream.getLastRequest(protocol).choice
  }
  expect(await choose({ tool: { name: 'get_weather' } })).toBe('get_weather')
  expect(await choose({ any: {} })).toBe('required')
  expect(['auto', null]).toContain(await choose({ auto: {} }))
  const schema = {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  }
  await client.send(
    new ConverseCommand({
      ...input,
      outputConfig: {
        textFormat: {
          type: 'json_schema',
          structure: { jsonSchema: { schema: JSON.stringify(schema), name: 'city' } },
        },
      },
    }),
  )
  expect(upstream.getLastRequest(protocol).schema).toMatchObject(schema)
})

const MESSAGE = {
  ...{ id: 'msg_1', type: 'message', role: 'assistant', model: 'claude', stop_reason: 'end_turn' },
  content: [
    { type: 'redacted_thinking', data: 'EpQB-hidden' },
    { type: 'text', text: 'Hello' },
  ],
  usage: {
    ...{ input_tokens: 10, output_tokens: 5 },
    ...{ cache_read_input_tokens: 7, cache_creation_input_tokens: 3 },
  },
}

const INVOKED = {
  modelId: CLAUDE,
  body: JSON.stringify({
    anthropic_beta: ['context-1m-2025-08-07'],
    messages: [{ role: 'user', content: 'Hi' }],
  }),
}

test('hidden thoughts go back as they came, and what a cache had is counted', async () => {
  scripted.plan(json(MESSAGE))
  const input = { modelId: CLAUDE, messages: ask('Hi') }
  const { output, usage } = await client.send(new ConverseCommand(input))
  expect(usage).toMatchObject({
    ...{ inputTokens: 10, outputTokens: 5, totalTokens: 25 },
    ...{ cacheReadInputTokens: 7, cacheWriteInputTokens: 3 },
  })
  const { content = [] } = output?.message ?? {}
  expect(content).toHaveLength(2)
  const again: Message = { role: 'assistant', content }
  await client.send(
    new ConverseCommand({ ...input, messages: [...input.messages, again, ...ask('And then?')] }),
  )
  const sent = scripted.hits.at(-1)?.json as { messages: { content: unknown }[] }
  expect(sent.messages[1]?.content).toEqual(MESSAGE.content)
})

test('features that a body names are asked of Anthropic’s API', async () => {
  scripted.plan(json(MESSAGE))
  await client.send(new InvokeModelCommand(INVOKED))
  const { headers, json: sent } = scripted.hits.at(-1) ?? {}
  expect(headers?.['anthropic-beta']).toBe('context-1m-2025-08-07')
  expect(sent).not.toContainKey('anthropic_beta')
})

const STREAM: object[] = [
  { type: 'message_start', message: { ...MESSAGE, content: [] } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hello' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: MESSAGE.usage },
  { type: 'message_stop' },
]

/** Notes that a server has begun its answers: the client itself waits for their first events. */
class NotingHandler extends NodeHttpHandler {
  readonly #begun = Array.from({ length: 2 }, () => Promise.withResolvers<void>())
  #count = 0

  begun = () => Promise.all(this.#begun.map(({ promise }) => promise))

  override async handle(...given: Parameters<NodeHttpHandler['handle']>) {
    const answer = await super.handle(...given)
    this.#begun[this.#count++]?.resolve()
    return answer
  }
}

test('clients that wait hear frames that they pass over', async () => {
  scripted.plan([sseHead(), { wait: 'answer' }, STREAM.map(event), chunkedEnd()])
  const requestHandler = new NotingHandler()
  const waiting = open(server.inference_key, requestHandler)
  const answers = Promise.all([
    waiting.send(new ConverseStreamCommand({ modelId: CLAUDE, messages: ask('Hi') })),
    waiting.send(new InvokeModelWithResponseStreamCommand(INVOKED)),
  ])
  await requestHandler.begun()
  scripted.open('answer')
  const [{ stream }, { body }] = await answers
  const names = (await Array.fromAsync(stream ?? [])).flatMap(one => Object.keys(one))
  expect([names[0], names.at(-1)]).toEqual(['messageStart', 'metadata'])
  const types = (await Array.fromAsync(body ?? [])).map(
    ({ chunk }) => JSON.parse(new TextDecoder().decode(chunk?.bytes)).type,
  )
  expect([types[0], types.at(-1)]).toEqual(['ping', 'message_stop'])
  waiting.destroy()
})

test('a block that Converse has no form for leaves no trace', async () => {
  const block = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }
  const hidden = [
    { type: 'content_block_start', index: 1, content_block: block },
    { type: 'content_block_stop', index: 1 },
  ]
  scripted.plan([sseHead(), STREAM.toSpliced(4, 0, ...hidden).map(event), chunkedEnd()])
  const { stream } = await client.send(
    new ConverseStreamCommand({ modelId: CLAUDE, messages: ask('Hi') }),
  )
  const events = await Array.fromAsync(stream ?? [])
  expect(events.filter(one => one.contentBlockStop)).toHaveLength(1)
})

test('the model hears of a client that leaves', async () => {
  scripted.plan([sseHead(), STREAM.slice(0, 3).map(event), { wait: 'never' }])
  const hit = scripted.hit(scripted.hits.length + 1)
  const controller = new AbortController()
  const response = await fetch(`${server.url}/model/${CLAUDE}/converse-stream`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.inference_key}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify({ messages: ask('Hi') }),
    signal: controller.signal,
  })
  await response.body?.getReader().read()
  controller.abort()
  await (await hit).clientLeft
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
  const response = await post(path)
  expect(response.status).toBe(expected)
  const name = response.headers.get('x-amzn-errortype')
  expect(name).toBe(NAMES[expected] ?? null)
})

const NAMES: Record<number, string> = {
  400: 'ValidationException',
  404: 'ResourceNotFoundException',
}

const ECHO = '/model/sandbox%2Fecho/converse'

test('what has no effect is named', async () => {
  const { headers } = await post(ECHO, {
    messages: [{ role: 'user', content: [{ text: 'Hi' }] }],
    performanceConfig: { latency: 'optimized' },
  })
  expect(headers.get('x-gateway-ignored')).toBe('performanceConfig')
})

test('a signature of AWS and keys of other doors are refused in its form', async () => {
  const signed = await post(ECHO, undefined, {
    authorization: 'AWS4-HMAC-SHA256 Credential=AKIA/20261128/us-east-1/bedrock/aws4_request',
  })
  expect(signed.status).toBe(401)
  expect(signed.headers.get('x-amzn-errortype')).toBe('UnrecognizedClientException')
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
