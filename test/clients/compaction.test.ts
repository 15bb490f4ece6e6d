import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createAnthropic } from '@ai-sdk/anthropic'
import Anthropic from '@anthropic-ai/sdk'
import { streamText } from 'ai'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { json, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * Claude summarizes a long conversation in a block of its answer, and goes on from the summary that
 * clients send back. Official clients get it, whole and streamed.
 */

let upstream: Upstream
let server: LocalServer
let client: Anthropic

beforeAll(async () => {
  upstream = await startUpstream()
  server = await startLocalServer({
    providers: { anthropic: { base_url: upstream.url, api_key: 'mock' } },
    models: [
      {
        id: 'anthropic/claude',
        endpoints: [{ provider: 'anthropic', model: 'claude-sonnet-4-6' }],
      },
    ],
  })
  client = new Anthropic({
    baseURL: `${server.url}/api`,
    apiKey: server.inference_key,
    maxRetries: 0,
  })
})

afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
})

const COMPACTION = { type: 'compaction', content: 'They said hi.', encrypted_content: 'c2Vhb' }
const TEXT = { type: 'text', text: 'Hello' }
const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude',
  stop_sequence: null,
  usage: { input_tokens: 10, output_tokens: 5 },
}

const event = (data: { type: string }) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`
const EVENTS = [
  { type: 'message_start', message: { ...MESSAGE, content: [], stop_reason: null } },
  {
    type: 'content_block_start',
    index: 0,
    content_block: { type: 'compaction', content: null, encrypted_content: null },
  },
  {
    type: 'content_block_delta',
    index: 0,
    delta: { ...COMPACTION, type: 'compaction_delta' },
  },
  { type: 'content_block_stop', index: 0 },
  { type: 'content_block_start', index: 1, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 1, delta: { type: 'text_delta', text: 'Hello' } },
  { type: 'content_block_stop', index: 1 },
  {
    type: 'message_delta',
    delta: { stop_reason: 'end_turn', stop_sequence: null },
    usage: { output_tokens: 5 },
  },
  { type: 'message_stop' },
]

const planStream = () => {
  const body = EVENTS.map(event).join('')
  upstream.plan([
    `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ${body.length}\r\n\r\n`,
    body,
  ])
}

const BODY: Anthropic.Beta.MessageCreateParamsNonStreaming = {
  model: 'anthropic/claude',
  max_tokens: 100,
  messages: [{ role: 'user', content: 'Hi' }],
  betas: ['compact-2026-01-12'],
  context_management: { edits: [{ type: 'compact_20260112' }] },
}

test('a compaction arrives whole', async () => {
  upstream.plan(json({ ...MESSAGE, content: [COMPACTION, TEXT], stop_reason: 'end_turn' }))
  const { content } = await client.beta.messages.create(BODY)
  expect(content).toMatchObject([COMPACTION, TEXT])
})

test('a compaction arrives in a stream, where clients look for it', async () => {
  planStream()
  const stream = client.beta.messages.stream(BODY)
  const summaries: string[] = []
  stream.on('compaction', summary => summaries.push(summary))
  expect((await stream.finalMessage()).content).toMatchObject([COMPACTION, TEXT])
  expect(summaries).toEqual(['They said hi.'])
})

test('the client of another vendor reads the summary of a stream too', async () => {
  planStream()
  const anthropic = createAnthropic({ baseURL: server.base, apiKey: server.inference_key })
  const { text } = streamText({ model: anthropic('anthropic/claude'), prompt: 'Hi' })
  expect(await text).toBe('They said hi.Hello')
})

test('a compaction goes back to Claude as it came', async () => {
  upstream.plan(json({ ...MESSAGE, content: [TEXT], stop_reason: 'end_turn' }))
  const sent = [COMPACTION, TEXT] as Anthropic.Beta.BetaContentBlockParam[]
  await client.beta.messages.create({
    ...BODY,
    messages: [
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: sent },
      { role: 'user', content: 'And then?' },
    ],
  })
  const received = upstream.hits.at(-1)?.json as { messages: { content: unknown }[] }
  expect(received.messages[1]?.content).toEqual([COMPACTION, TEXT])
})
