import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createOpenRouter } from '@openrouter/ai-sdk-provider'
import { OpenRouter } from '@openrouter/sdk'
import { embedMany } from 'ai'
import OpenAI, { BadRequestError } from 'openai'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { type Hit, json, startUpstream, type Upstream } from '../support/upstream.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

/** A provider that returns the length of each text as its vector, always as numbers. */
const lengths = ({ json: body }: Hit) => {
  const { input } = body as { input: string | string[] }
  const data = [input]
    .flat()
    .map((text, index) => ({ object: 'embedding', index, embedding: [text.length, 0.5] }))
  return json({ object: 'list', data, usage: { prompt_tokens: 10, total_tokens: 10 } })
}

let upstream: Upstream
let server: LocalServer
let checker: Wirecheck | null
let base: string

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(lengths)
  // The public schema has a closed list of provider names, so this provider uses one of them.
  const local = {
    name: 'Together',
    protocol: 'openai-chat',
    base_url: upstream.url,
    api_key: 'mock',
  }
  const endpoints = [
    {
      provider: 'local',
      model: 'up-embed',
      usd_per_million_tokens: { prompt: 0.02, completion: 0 },
    },
  ]
  server = await startLocalServer({
    providers: { local },
    models: [{ id: 'acme/embed', output_modalities: ['embeddings'], endpoints }],
  })
  checker = hasWirecheck ? await startWirecheck(server.url) : null
  base = `${checker?.url ?? server.url}/api/v1`
})

afterAll(async () => {
  await checker?.close()
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

beforeEach(() => {
  upstream.hits.length = 0
})

const COST = 0.0000002
const openai = () => new OpenAI({ baseURL: base, apiKey: server.inference_key, maxRetries: 0 })
const openrouter = () =>
  new OpenRouter({
    apiKey: server.inference_key,
    serverURL: base,
    retryConfig: { strategy: 'none' },
  })

test('openai requests base64 by default, and reads numbers', async () => {
  const { data, usage, object } = await openai().embeddings.create({
    model: 'acme/embed',
    input: ['Hi', 'Hello'],
  })
  expect(data).toEqual([
    { object: 'embedding', index: 0, embedding: [2, 0.5] },
    { object: 'embedding', index: 1, embedding: [5, 0.5] },
  ])
  expect([object, usage.prompt_tokens]).toEqual(['list', 10])
  expect(upstream.hits[0]?.json).toEqual({
    model: 'up-embed',
    input: ['Hi', 'Hello'],
    encoding_format: 'base64',
  })
})

test('openai can request floats, and base64 as text', async () => {
  const ask = (encoding_format: 'float' | 'base64') =>
    openai().embeddings.create({ model: 'acme/embed', input: 'Hi', encoding_format })
  expect((await ask('float')).data[0]?.embedding).toEqual([2, 0.5])
  expect((await ask('base64')).data[0]?.embedding).toBe(
    Buffer.from(new Float32Array([2, 0.5]).buffer).toString('base64') as never,
  )
})

test('openai gets an error for a model without vectors', async () => {
  const failure = await openai()
    .embeddings.create({ model: 'sandbox/echo', input: 'Hi' })
    .catch((thrown: unknown) => thrown)
  expect(failure).toBeInstanceOf(BadRequestError)
})

test('@openrouter/sdk gets vectors, their count and their cost', async () => {
  const answer = await openrouter().embeddings.generate({
    requestBody: {
      model: 'acme/embed',
      input: ['Hi', 'Hello'],
      dimensions: 2,
      inputType: 'search_query',
      user: 'ann',
    },
  })
  if (typeof answer === 'string') throw new Error('A text came where vectors were asked for')
  expect(answer).toMatchObject({
    object: 'list',
    model: 'acme/embed',
    data: [{ embedding: [2, 0.5] }, { embedding: [5, 0.5] }],
  })
  expect(answer.usage).toMatchObject({ promptTokens: 10, totalTokens: 10, cost: COST })
  expect(upstream.hits[0]?.json).toMatchObject({ dimensions: 2, input_type: 'search_query' })
})

test('@openrouter/sdk gets the sandbox’s vectors, which cost nothing', async () => {
  const answer = await openrouter().embeddings.generate({
    requestBody: { model: 'sandbox/embed', input: 'Hi' },
  })
  if (typeof answer === 'string') throw new Error('A text came where vectors were asked for')
  expect(answer.data[0]?.embedding).toHaveLength(8)
  expect(answer.usage?.cost).toBe(0)
})

test('@openrouter/sdk finds the record of the call', async () => {
  const answer = await openrouter().embeddings.generate({
    requestBody: { model: 'acme/embed', input: 'Hi' },
  })
  if (typeof answer === 'string') throw new Error('A text came where vectors were asked for')
  const { data } = await openrouter().generations.getGeneration({ id: answer.id ?? '' })
  expect(data).toMatchObject({
    apiType: 'embeddings',
    model: 'acme/embed',
    totalCost: COST,
    nativeTokensPrompt: 10,
  })
})

test('@openrouter/ai-sdk-provider embeds many', async () => {
  const provider = createOpenRouter({ baseURL: base, apiKey: server.inference_key })
  const { embeddings, usage } = await embedMany({
    model: provider.textEmbeddingModel('acme/embed'),
    values: ['Hi', 'Hello'],
  })
  expect(embeddings).toEqual([
    [2, 0.5],
    [5, 0.5],
  ])
  expect(usage.tokens).toBe(10)
})

test.skipIf(!hasWirecheck)('every answer matches the public schema', async () => {
  const report = await checker?.report()
  expect(report?.violations).toEqual([])
  expect(Object.keys(report?.seen ?? {})).toEqual(
    expect.arrayContaining(['createEmbeddings 200', 'createEmbeddings 400']),
  )
})
