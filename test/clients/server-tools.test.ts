import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { OpenRouter } from '@openrouter/sdk'
import type {
  ChatRequest,
  ChatResult,
  ChatStreamChunk,
  OpenResponsesResult,
  ResponsesRequest,
  StreamEvents,
} from '@openrouter/sdk/models'
import OpenAI from 'openai'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { answerAsFetchPeer, FETCH_PEERS } from '../support/fetch-peers.ts'
import { PEER_KEY } from '../support/search-peers.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

/*
 * The official clients read what the gateway's own tools do, unmodified and watched: each answer is
 * what the public schema says.
 */

const ZONE = '{"timezone":"Asia/Tokyo"}'
/** What models call of tools that do more: the panel and the judge of fusion say the same. */
const OTHERS: Record<string, Record<string, unknown>> = {
  advisor: { prompt: 'Which apple?' },
  fusion: { prompt: 'Which apple?' },
  image_generation: { prompt: 'An apple' },
  files: { operation: 'write', filename: 'apple.txt', content: 'Red' },
  web_fetch: { url: 'https://8.8.8.8/apples' },
}
const ANALYSIS = JSON.stringify({
  consensus: ['Red'],
  contradictions: [{ topic: 'Size', stances: [{ model: 'acme/groq', stance: 'Small' }] }],
  partial_coverage: [{ models: ['acme/groq'], point: 'Taste' }],
  unique_insights: [{ model: 'acme/groq', insight: 'Pie' }],
  blind_spots: ['Price'],
})
const scenario: Scenario = heard => {
  if (heard.lines.some(line => line.startsWith('user: Which apple?')))
    return { answer: { text: ANALYSIS, finish: 'stop' } }
  const [name = ''] = heard.tools
  if (!OTHERS[name] || heard.results.length > 0) return tellTime(heard)
  const calls = [{ id: 'call_1', name, input: JSON.stringify(OTHERS[name]) }]
  return { answer: { text: 'Let me see. ', calls, finish: 'tool_calls' } }
}
const tellTime: Scenario = heard =>
  heard.results.length > 0
    ? { answer: { text: 'It is noon.', finish: 'stop' } }
    : {
        answer: {
          text: 'Let me see. ',
          calls: ['call_1', 'call_2'].map(id => ({ id, name: 'datetime', input: ZONE })),
          finish: 'tool_calls',
        },
      }

// The public schema has a closed list of provider names, so these use some of them.
const PROVIDERS = {
  together: { name: 'Together', protocol: 'openai-chat' },
  groq: { name: 'Groq', protocol: 'anthropic-messages' },
  mistral: { name: 'Mistral', protocol: 'gemini' },
  fireworks: { name: 'Fireworks', protocol: 'openai-responses' },
}
const MODELS = Object.keys(PROVIDERS).map(name => `acme/${name}`)

let upstream: FakeProviderServer
let reader: Upstream
let server: LocalServer
let wirecheck: Wirecheck | undefined
let base: string

beforeAll(async () => {
  upstream = startFakeProviders({ loop: scenario })
  reader = await startUpstream()
  reader.answer(hit => answerAsFetchPeer(FETCH_PEERS.exa, hit, { title: 'Apples', text: 'Red' }))
  const providers = Object.entries(PROVIDERS).map(([id, { name, protocol }]) => [
    id,
    { name, protocol, base_url: upstream.getBaseUrl(protocol), api_key: 'mock' },
  ])
  server = await startLocalServer({
    providers: Object.fromEntries(providers),
    web_fetch: { engines: { exa: { api_key: PEER_KEY, base_url: reader.url } } },
    models: Object.keys(PROVIDERS).map(provider => ({
      id: `acme/${provider}`,
      context_length: 100_000,
      endpoints: [
        {
          provider,
          model: 'loop',
          usd_per_million_tokens: { prompt: 1, completion: 2 },
        },
      ],
    })),
  })
  wirecheck = hasWirecheck ? await startWirecheck(server.url) : undefined
  base = `${wirecheck?.url ?? server.url}/api`
})
afterAll(async () => {
  await wirecheck?.close()
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
  await reader?.close()
})

const TOOL = { type: 'openrouter:datetime', parameters: { timezone: 'Europe/Berlin' } }
const TEXT = 'Let me see. It is noon.'
const FOUND = [
  { type: 'openrouter:datetime', timezone: 'Asia/Tokyo', status: 'completed' },
  { type: 'openrouter:datetime', timezone: 'Asia/Tokyo', status: 'completed' },
]
const USED = { tool_calls_requested: 2, tool_calls_executed: 2 }

describe.each([
  ['advisor', { model: 'acme/groq', stream: true }],
  ['fusion', { analysis_models: ['acme/groq', 'acme/mistral'], tools: [] }],
  ['image_generation', { model: 'sandbox/image' }],
  ['files', {}],
  ['web_fetch', { engine: 'exa' }],
])('%s', (tool, parameters) => {
  const tools = [{ type: `openrouter:${tool}`, parameters }]
  const messages = [{ role: 'user', content: 'Hi' }]
  test.each([
    ['/v1/chat/completions', { messages }],
    ['/v1/messages', { messages, max_tokens: 100 }],
    ['/v1/responses', { input: 'Hi' }],
  ])('is what the public schema says: %s', async (path, body) => {
    for (const stream of [false, true]) {
      const response = await fetch(base + path, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          authorization: `Bearer ${server.inference_key}`,
        },
        body: JSON.stringify({ model: 'acme/together', ...body, stream, tools }),
      })
      expect([response.status, await response.text()]).toEqual([
        200,
        expect.stringContaining('noon.'),
      ])
    }
  })
})

describe('a stream of the Responses API shows what tools say that ask models', () => {
  const TOOLS = [
    { type: 'openrouter:advisor', parameters: { model: 'acme/groq', stream: true } },
    { type: 'openrouter:fusion', parameters: { analysisModels: ['acme/mistral'], tools: [] } },
  ]
  const PANEL = { analysis_models: ['acme/mistral'], tools: [] }
  const SHOWN = ['response.output_text.delta', 'response.fusion_call.panel.delta']

  // Its helper `responses.stream()` throws at events that OpenAI itself does not send.
  test.each([
    ['advice', TOOLS[0]],
    ['what a panel says', { type: 'openrouter:fusion', parameters: PANEL }],
  ])('OpenAI’s client: %s', async (_, tool) => {
    const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: server.inference_key })
    const body = { model: 'acme/together', input: 'Hi', tools: [tool], stream: true }
    const events = (await client.responses.create(
      body as unknown as OpenAI.Responses.ResponseCreateParamsStreaming,
    )) as AsyncIterable<{ type: string; output_index?: number; delta?: string }>
    let shown = ''
    for await (const { type, output_index, delta } of events)
      if (SHOWN.includes(type) && output_index === 1) shown += delta
    expect(shown).toBe(ANALYSIS)
  })

  test.each(TOOLS)('OpenRouter’s client: %j', async tool => {
    const client = new OpenRouter({ apiKey: server.inference_key, serverURL: `${base}/v1` })
    const responsesRequest = { model: 'acme/together', input: 'Hi', tools: [tool], stream: true }
    const events: unknown = await client.beta.responses.send({
      responsesRequest: responsesRequest as unknown as ResponsesRequest,
    })
    let shown = ''
    for await (const event of events as AsyncIterable<StreamEvents>) {
      if (event.type === 'response.output_text.delta' && event.outputIndex === 1)
        shown += event.delta
      if (event.type === 'response.fusion_call.panel.delta') shown += event.delta
    }
    expect(shown).toBe(ANALYSIS)
  })
})

describe.each(MODELS)('%s', model => {
  test('OpenAI’s client, chat', async () => {
    const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: server.inference_key })
    const body = { model, messages: [{ role: 'user', content: 'Hi' }], tools: [TOOL] }
    const whole = await client.chat.completions.create(
      body as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming,
    )
    expect(whole.choices[0]).toMatchObject({ finish_reason: 'stop', message: { content: TEXT } })
    expect(whole.usage).toMatchObject({ server_tool_use_details: USED })
    const stream = client.chat.completions.stream(
      body as unknown as Parameters<typeof client.chat.completions.stream>[0],
    )
    expect(await stream.finalContent()).toBe(TEXT)
  })

  test('OpenAI’s client, responses', async () => {
    const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: server.inference_key })
    const body = { model, input: 'Hi', tools: [TOOL] }
    const whole = await client.responses.create(
      body as unknown as OpenAI.Responses.ResponseCreateParamsNonStreaming,
    )
    expect(whole.output_text).toBe(TEXT)
    const items = whole.output.filter(({ type }) => type !== 'message') as unknown
    expect(items).toMatchObject(FOUND)
    const events = await client.responses.create({
      ...body,
      stream: true,
    } as unknown as OpenAI.Responses.ResponseCreateParamsStreaming)
    const steps: string[] = []
    for await (const event of events)
      if (event.type === 'response.output_item.added' || event.type === 'response.output_item.done')
        steps.push(`${event.type.split('.').at(-1)} ${event.output_index} ${event.item.type}`)
    const tool = 'openrouter:datetime'
    expect(steps).toEqual([
      ...['added 0 message', 'done 0 message'],
      ...[`added 1 ${tool}`, `added 2 ${tool}`, `done 1 ${tool}`, `done 2 ${tool}`],
      ...['added 3 message', 'done 3 message'],
    ])
  })

  test('Anthropic’s client', async () => {
    const client = new Anthropic({ baseURL: base, apiKey: server.inference_key })
    const body = {
      model,
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [TOOL],
    } as unknown as Anthropic.MessageCreateParamsNonStreaming
    for (const message of [
      await client.messages.create(body),
      await client.messages.stream(body).finalMessage(),
    ]) {
      expect(message.stop_reason).toBe('end_turn')
      expect(message.content).toMatchObject([
        { type: 'text', text: 'Let me see. ' },
        { type: 'server_tool_use', name: 'datetime', input: { timezone: 'Asia/Tokyo' } },
        { type: 'server_tool_use', name: 'datetime', input: { timezone: 'Asia/Tokyo' } },
        { type: 'text', text: 'It is noon.' },
      ])
    }
  })

  test('OpenRouter’s client', async () => {
    const client = new OpenRouter({ apiKey: server.inference_key, serverURL: `${base}/v1` })
    const body = { model, messages: [{ role: 'user', content: 'Hi' }], tools: [TOOL] }
    const send = (stream: boolean): Promise<unknown> =>
      client.chat.send({ chatRequest: { ...body, stream } as unknown as ChatRequest })
    const whole = (await send(false)) as ChatResult
    expect(whole.choices[0]?.message).toMatchObject({
      content: TEXT,
      reasoningDetails: [
        { type: 'reasoning.server_tool_call', toolName: 'openrouter:datetime' },
        { type: 'reasoning.server_tool_call', toolName: 'openrouter:datetime' },
      ],
    })
    expect(whole.usage?.serverToolUseDetails).toMatchObject({ toolCallsExecuted: 2 })
    let text = ''
    for await (const chunk of (await send(true)) as AsyncIterable<ChatStreamChunk>)
      text += chunk.choices[0]?.delta.content ?? ''
    expect(text).toBe(TEXT)
    const responsesRequest = { model, input: 'Hi', tools: [TOOL], stream: false }
    const response: unknown = await client.beta.responses.send({
      responsesRequest: responsesRequest as unknown as ResponsesRequest,
    })
    const { output = [] } = response as OpenResponsesResult
    expect(output.filter(({ type }) => type !== 'message') as unknown[]).toMatchObject(FOUND)
  })
})

test.skipIf(!hasWirecheck)(
  'every answer matched the public schema (skipped if the checker is not installed)',
  async () => {
    const { seen, violations } = (await wirecheck?.report()) ?? { seen: {}, violations: [] }
    expect(violations).toEqual([])
    expect(Object.keys(seen)).toEqual(
      expect.arrayContaining([
        'sendChatCompletionRequest 200',
        'createResponses 200',
        'createMessages 200',
      ]),
    )
  },
)
