import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { createOpenRouter } from '@openrouter/ai-sdk-provider'
import { OpenRouter } from '@openrouter/sdk'
import type {
  ChatRequest,
  ChatResult,
  ChatStreamChunk,
  OpenResponsesResult,
  ResponsesRequest,
} from '@openrouter/sdk/models'
import { generateText, streamText } from 'ai'
import OpenAI from 'openai'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { answerAsPeer, PEER_KEY, SEARCH_PEERS } from '../support/search-peers.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { startUpstream, type Upstream } from '../support/upstream.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

/*
 * The official clients ask for a search by an engine of the gateway and read its sources, unmodified
 * and watched: each answer is what the public schema says.
 */

const PAGE = { url: 'https://news.example/cellar', title: 'Cellar', text: 'It holds 37 barrels.' }
const TEXT = `As ${PAGE.url} says, 37.`
const scenario: Scenario = () => ({ answer: { text: TEXT, finish: 'stop' } })

const searching: Scenario = heard =>
  heard.results.length > 0
    ? scenario(heard)
    : {
        answer: {
          calls: [{ id: 'call_1', name: 'web_search', input: '{"query":"barrels"}' }],
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
let exa: Upstream
let server: LocalServer
let wirecheck: Wirecheck | undefined
let base: string

beforeAll(async () => {
  upstream = startFakeProviders({ say: scenario, search: searching })
  exa = await startUpstream()
  exa.answer(hit => answerAsPeer(SEARCH_PEERS.exa, hit, [PAGE]))
  const providers = Object.entries(PROVIDERS).map(([id, { name, protocol }]) => [
    id,
    { name, protocol, base_url: upstream.getBaseUrl(protocol), api_key: 'mock' },
  ])
  server = await startLocalServer({
    security: { allow_private_urls: [new URL(exa.url).host] },
    providers: Object.fromEntries(providers),
    models: Object.keys(PROVIDERS).flatMap(provider =>
      ['say', 'search'].map(model => ({
        id: `acme/${provider}${model === 'say' ? '' : '-search'}`,
        context_length: 100_000,
        endpoints: [{ provider, model, usd_per_million_tokens: { prompt: 1, completion: 2 } }],
      })),
    ),
    web_search: {
      engines: { exa: { base_url: exa.url, api_key: PEER_KEY, usd_per_search: 0.005 } },
    },
  })
  wirecheck = hasWirecheck ? await startWirecheck(server.url) : undefined
  base = `${wirecheck?.url ?? server.url}/api`
})
afterAll(async () => {
  await wirecheck?.close()
  await server?.[Symbol.asyncDispose]()
  await exa?.close()
  await upstream?.close()
})

const PLUGIN = { id: 'web', engine: 'exa', max_results: 2 } as const

describe.each(MODELS)('%s', model => {
  test('the AI SDK’s provider for OpenRouter', async () => {
    const provider = createOpenRouter({ baseURL: `${base}/v1`, apiKey: server.inference_key })
    const asked = { model: provider.chat(model, { plugins: [PLUGIN] }), prompt: 'How many?' }
    const whole = await generateText(asked)
    expect(whole.text).toBe(TEXT)
    expect(whole.sources).toMatchObject([{ url: PAGE.url, title: PAGE.title }])
    const streamed = streamText(asked)
    expect(await streamed.text).toBe(TEXT)
    expect(await streamed.sources).toMatchObject([{ url: PAGE.url, title: PAGE.title }])
    const options = { web_search_options: { engine: 'exa', max_results: 1 } } as const
    const other = await generateText({ ...asked, model: provider.chat(model, options) })
    expect(other.sources).toHaveLength(1)
  })

  test('OpenRouter’s client', async () => {
    const client = new OpenRouter({ apiKey: server.inference_key, serverURL: `${base}/v1` })
    const body = { model, messages: [{ role: 'user', content: 'How many?' }] }
    const plugins = [{ id: 'web', engine: 'exa', maxResults: 2, includeDomains: ['news.example'] }]
    const send = (stream: boolean): Promise<unknown> =>
      client.chat.send({ chatRequest: { ...body, plugins, stream } as unknown as ChatRequest })
    const whole = (await send(false)) as ChatResult
    expect(whole.choices[0]?.message.content).toBe(TEXT)
    expect(whole.usage?.serverToolUseDetails).toMatchObject({ webSearchRequests: 1 })
    let text = ''
    for await (const chunk of (await send(true)) as AsyncIterable<ChatStreamChunk>)
      text += chunk.choices[0]?.delta.content ?? ''
    expect(text).toBe(TEXT)
    const responsesRequest = { model, input: 'How many?', plugins, stream: false }
    const response: unknown = await client.beta.responses.send({
      responsesRequest: responsesRequest as unknown as ResponsesRequest,
    })
    const { output = [] } = response as OpenResponsesResult
    expect(JSON.stringify(output)).toContain(PAGE.title)
  })

  test('OpenAI’s client, responses', async () => {
    const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: server.inference_key })
    const body = { model, input: 'How many?', plugins: [PLUGIN] }
    const stream = client.responses.stream(
      body as unknown as Parameters<typeof client.responses.stream>[0],
    )
    const streamed = await stream.finalResponse()
    const whole = await client.responses.create(
      body as unknown as OpenAI.Responses.ResponseCreateParamsNonStreaming,
    )
    for (const response of [whole, streamed]) expectSource(response)
  })

  test('OpenAI’s client, responses, where the model calls the tool', async () => {
    const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: server.inference_key })
    const tools = [{ type: 'openrouter:web_search', parameters: { engine: 'exa' } }]
    const body = { model: `${model}-search`, input: 'How many?', tools }
    expectSource(
      await client.responses.create(
        body as unknown as OpenAI.Responses.ResponseCreateParamsNonStreaming,
      ),
    )
  })

  test('Anthropic’s client', async () => {
    const client = new Anthropic({ baseURL: base, apiKey: server.inference_key })
    const body = {
      model,
      max_tokens: 100,
      messages: [{ role: 'user', content: 'How many?' }],
      plugins: [PLUGIN],
    } as unknown as Anthropic.MessageCreateParamsNonStreaming
    for (const message of [
      await client.messages.create(body),
      await client.messages.stream(body).finalMessage(),
    ]) {
      const texts = message.content.flatMap(block => (block.type === 'text' ? block : []))
      expect(texts.map(({ text }) => text).join('')).toBe(TEXT)
      expect(texts.flatMap(({ citations }) => citations ?? [])).toMatchObject([
        { type: 'web_search_result_location', url: PAGE.url, title: PAGE.title },
      ])
      expect(message.usage.server_tool_use).toMatchObject({ web_search_requests: 1 })
    }
  })
})

/** Expects one message, with its source beside its words. */
function expectSource({ output, output_text }: OpenAI.Responses.Response): void {
  expect(output_text).toBe(TEXT)
  const contents = output.flatMap(item => (item.type === 'message' ? item.content : []))
  expect(contents).toMatchObject([
    {
      type: 'output_text',
      annotations: [
        {
          ...{ type: 'url_citation', url: PAGE.url, title: PAGE.title },
          ...{ start_index: 3, end_index: 3 + PAGE.url.length },
        },
      ],
    },
  ])
}

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
