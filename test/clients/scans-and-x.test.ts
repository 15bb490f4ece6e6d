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
  StreamEvents,
} from '@openrouter/sdk/models'
import { type FilePart, generateText, type ModelMessage, streamText } from 'ai'
import OpenAI from 'openai'
import type { Json } from '../../src/base/json.ts'
import { buildPageContent, buildPdf } from '../support/documents-of-office.ts'
import { PEER_KEY } from '../support/search-peers.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { body, json, startUpstream, type Upstream } from '../support/upstream.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

/*
 * The official clients send scans to the engine mistral-ocr and have xAI search X, unmodified and
 * watched: each answer is what the public schema says.
 */

const POST = { url: 'https://x.com/acme/status/1', title: 'Acme on X' }
const TEXT = 'Seven apples.'

let xai: Upstream
let mistral: Upstream
let server: LocalServer
let wirecheck: Wirecheck | undefined
let base: string

const ANNOTATION = { type: 'url_citation', ...POST, start_index: 0, end_index: 5 }
const CONTENT = { type: 'output_text', text: TEXT, annotations: [ANNOTATION], logprobs: [] }
const MESSAGE = { id: 'msg_1', type: 'message', role: 'assistant', status: 'completed' }
/** What xAI ran itself is a call of a custom tool. */
const SEARCH = {
  ...{ id: 'ctc_1', type: 'custom_tool_call', call_id: 'xs_1', name: 'x_keyword_search' },
  ...{ input: '{"query":"apples"}', status: 'completed' },
}
const RESPONSE = { id: 'resp_1', object: 'response', created_at: 1, model: 'm' }
const ANSWER = {
  ...{ ...RESPONSE, status: 'completed', output: [SEARCH, { ...MESSAGE, content: [CONTENT] }] },
  usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
}

/** The events with which xAI streams the same answer. */
const EVENTS: Json[] = [
  { type: 'response.created', response: { ...RESPONSE, status: 'in_progress', output: [] } },
  { type: 'response.output_item.added', output_index: 0, item: { ...SEARCH, input: '' } },
  { type: 'response.output_item.done', output_index: 0, item: SEARCH },
  { type: 'response.output_item.added', output_index: 1, item: { ...MESSAGE, content: [] } },
  {
    ...{ type: 'response.content_part.added', output_index: 1, content_index: 0 },
    ...{ item_id: 'msg_1', part: { ...CONTENT, text: '', annotations: [] } },
  },
  {
    ...{ type: 'response.output_text.delta', output_index: 1, content_index: 0 },
    ...{ item_id: 'msg_1', delta: TEXT },
  },
  {
    ...{ type: 'response.output_text.annotation.added', output_index: 1, content_index: 0 },
    ...{ item_id: 'msg_1', annotation_index: 0, annotation: ANNOTATION },
  },
  {
    ...{ type: 'response.output_item.done', output_index: 1 },
    item: { ...MESSAGE, content: [CONTENT] },
  },
  { type: 'response.completed', response: ANSWER },
]
const renderEvents = () =>
  EVENTS.map((event, i) => {
    const data = JSON.stringify({ ...event, sequence_number: i })
    return `event: ${event.type}\ndata: ${data}\n\n`
  }).join('')

beforeAll(async () => {
  xai = await startUpstream()
  xai.answer(({ json: asked }) =>
    (asked as Json).stream ? body('text/event-stream', renderEvents()) : json(ANSWER),
  )
  mistral = await startUpstream()
  mistral.answer(() =>
    json({
      pages: [{ index: 0, markdown: '# Invoice' }],
      usage_info: { pages_processed: 1, doc_size_bytes: 1 },
    }),
  )
  server = await startLocalServer({
    providers: {
      xai: { name: 'xAI', protocol: 'openai-responses', base_url: xai.url, api_key: 'mock' },
    },
    models: [
      {
        id: 'acme/xai',
        context_length: 100_000,
        input_modalities: ['text'],
        endpoints: [
          {
            ...{ provider: 'xai', model: 'm' },
            usd_per_million_tokens: { prompt: 1, completion: 2, web_search: 0.005 },
          },
        ],
      },
    ],
    plugins: {
      // Each call sends the scan to the service.
      read_documents_mib: 0,
      mistral_ocr: {
        ...{ api_key: PEER_KEY, usd_per_page: 0.002 },
        base_url: mistral.url.replace(/\/v1$/, ''),
      },
    },
  })
  wirecheck = hasWirecheck ? await startWirecheck(server.url) : undefined
  base = `${wirecheck?.url ?? server.url}/api`
})
afterAll(async () => {
  await wirecheck?.close()
  await server?.[Symbol.asyncDispose]()
  await xai?.close()
  await mistral?.close()
})

const PDF = Buffer.from(buildPdf(buildPageContent('own'))).toString('base64')
const SCAN = `data:application/pdf;base64,${PDF}`
const PLUGIN = { id: 'file-parser', pdf: { engine: 'mistral-ocr' } } as const

/** Checks that each of so many calls had the scan recognized. */
async function expectRecognized(count: number, ask: () => Promise<void>): Promise<void> {
  const [pages, calls] = [mistral.hits.length, xai.hits.length]
  await ask()
  expect(mistral.hits.length - pages).toBe(count)
  for (const hit of xai.hits.slice(calls)) expect(hit.body).toContain('# Invoice')
}

/** Checks that each of so many calls had X searched. */
async function expectSearched(count: number, ask: () => Promise<void>): Promise<void> {
  const calls = xai.hits.length
  await ask()
  const asked = xai.hits.slice(calls).map(hit => (hit.json as { tools?: unknown }).tools)
  const tools = [{ type: 'web_search' }, { type: 'x_search', allowed_x_handles: ['acme'] }]
  expect(asked).toEqual(Array(count).fill(tools))
}

const X = { allowed_x_handles: ['acme'] }
const TOOL = { type: 'openrouter:web_search', parameters: { x_search: X } }

describe('OpenRouter’s client', () => {
  const open = () => new OpenRouter({ apiKey: server.inference_key, serverURL: `${base}/v1` })
  const file = { type: 'file', file: { filename: 'scan.pdf', fileData: SCAN } }
  const part = { type: 'input_file', filename: 'scan.pdf', fileData: SCAN }
  const say = (content: unknown) => [{ role: 'user', content }]

  async function chat(body: Json): Promise<void> {
    const send = (stream: boolean): Promise<unknown> =>
      open().chat.send({
        chatRequest: { model: 'acme/xai', ...body, stream } as unknown as ChatRequest,
      })
    const whole = (await send(false)) as ChatResult
    expect(whole.choices[0]?.message.content).toBe(TEXT)
    let text = ''
    for await (const chunk of (await send(true)) as AsyncIterable<ChatStreamChunk>)
      text += chunk.choices[0]?.delta.content ?? ''
    expect(text).toBe(TEXT)
  }

  async function respond(body: Json): Promise<void> {
    const send = (stream: boolean): Promise<unknown> =>
      open().beta.responses.send({
        responsesRequest: { model: 'acme/xai', ...body, stream } as unknown as ResponsesRequest,
      })
    const { output = [] } = (await send(false)) as OpenResponsesResult
    expect(JSON.stringify(output)).toContain(POST.url)
    let text = ''
    for await (const event of (await send(true)) as AsyncIterable<StreamEvents>)
      if (event.type === 'response.output_text.delta') text += event.delta
    expect(text).toBe(TEXT)
  }

  test('sends scans', () =>
    expectRecognized(4, async () => {
      await chat({ messages: say([{ type: 'text', text: 'Read.' }, file]), plugins: [PLUGIN] })
      await respond({ input: say([part]), plugins: [PLUGIN] })
    }))

  test('has X searched', () =>
    expectSearched(6, async () => {
      const plugins = [{ id: 'web', xSearch: { allowedXHandles: ['acme'] } }]
      const tools = [{ ...TOOL, parameters: { xSearch: { allowedXHandles: ['acme'] } } }]
      await chat({ messages: say('How many?'), plugins })
      await respond({ input: 'How many?', plugins })
      await respond({ input: 'How many?', tools })
    }))
})

describe('OpenAI’s client', () => {
  const open = () => new OpenAI({ baseURL: `${base}/v1`, apiKey: server.inference_key })

  async function chat(more: Json): Promise<void> {
    const asked = { model: 'acme/xai', ...more }
    const { completions } = open().chat
    const whole = await completions.create(
      asked as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming,
    )
    expect(whole.choices[0]?.message.content).toBe(TEXT)
    const stream = completions.stream(asked as unknown as Parameters<typeof completions.stream>[0])
    expect(await stream.finalContent()).toBe(TEXT)
  }

  async function respond(more: Json): Promise<void> {
    const asked = { model: 'acme/xai', ...more }
    const { responses } = open()
    const whole = await responses.create(
      asked as unknown as OpenAI.Responses.ResponseCreateParamsNonStreaming,
    )
    const stream = responses.stream(asked as unknown as Parameters<typeof responses.stream>[0])
    for (const response of [whole, await stream.finalResponse()]) {
      expect(response.output_text).toBe(TEXT)
      expect(JSON.stringify(response.output)).toContain(POST.url)
    }
  }

  test('sends scans', () =>
    expectRecognized(4, async () => {
      const file = { type: 'file', file: { filename: 'scan.pdf', file_data: SCAN } }
      await chat({ messages: [{ role: 'user', content: [file] }], plugins: [PLUGIN] })
      const part = { type: 'input_file', filename: 'scan.pdf', file_data: SCAN }
      await respond({ input: [{ role: 'user', content: [part] }], plugins: [PLUGIN] })
    }))

  test('has X searched', () =>
    expectSearched(8, async () => {
      const messages = [{ role: 'user', content: 'How many?' }]
      const plugins = [{ id: 'web', x_search: X }]
      await chat({ messages, plugins })
      await chat({ messages, tools: [TOOL] })
      await respond({ input: 'How many?', plugins })
      await respond({ input: 'How many?', tools: [TOOL] })
    }))
})

describe('Anthropic’s client', () => {
  async function ask(content: unknown, more: Json): Promise<void> {
    const client = new Anthropic({ baseURL: base, apiKey: server.inference_key })
    const asked = {
      ...{ model: 'acme/xai', max_tokens: 100, messages: [{ role: 'user', content }] },
      ...more,
    } as unknown as Anthropic.MessageCreateParamsNonStreaming
    for (const message of [
      await client.messages.create(asked),
      await client.messages.stream(asked).finalMessage(),
    ]) {
      const texts = message.content.flatMap(block => (block.type === 'text' ? block : []))
      expect(texts.map(({ text }) => text).join('')).toBe(TEXT)
    }
  }

  test('sends scans', () =>
    expectRecognized(2, () => {
      const source = { type: 'base64', media_type: 'application/pdf', data: PDF }
      return ask([{ type: 'document', source }], { plugins: [PLUGIN] })
    }))

  test('has X searched', () =>
    expectSearched(4, async () => {
      await ask('How many?', { plugins: [{ id: 'web', x_search: X }] })
      await ask('How many?', { tools: [TOOL] })
    }))
})

describe('the AI SDK’s provider for OpenRouter', () => {
  const open = () => createOpenRouter({ baseURL: `${base}/v1`, apiKey: server.inference_key })

  test('sends scans', () =>
    expectRecognized(2, async () => {
      const model = open().chat('acme/xai', { plugins: [PLUGIN] })
      const file: FilePart = { type: 'file', data: SCAN, mediaType: 'application/pdf' }
      const messages: ModelMessage[] = [{ role: 'user', content: [file] }]
      const whole = await generateText({ model, messages })
      expect(whole.text).toBe(TEXT)
      expect(await streamText({ model, messages }).text).toBe(TEXT)
    }))

  test('has X searched', () =>
    expectSearched(2, async () => {
      const body = { plugins: [{ id: 'web', x_search: X }] }
      const model = open().chat('acme/xai', { extraBody: body })
      const whole = await generateText({ model, prompt: 'How many?' })
      expect(whole.sources).toMatchObject([{ url: POST.url }])
      const streamed = streamText({ model, prompt: 'How many?' })
      expect(await streamed.sources).toMatchObject([{ url: POST.url }])
    }))
})

test.skipIf(!hasWirecheck)(
  'every answer matched the public schema (skipped if the checker is not installed)',
  async () => {
    const { seen, violations } = (await wirecheck?.report()) ?? { seen: {}, violations: [] }
    expect(violations).toEqual([])
    for (const name of ['sendChatCompletionRequest', 'createResponses', 'createMessages'])
      expect(seen[`${name} 200`]).toBeGreaterThan(3)
  },
)
