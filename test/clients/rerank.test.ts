import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createCohere } from '@ai-sdk/cohere'
import { OpenRouter } from '@openrouter/sdk'
import { rerank } from 'ai'
import { CohereClient } from 'cohere-ai'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { type Hit, json, startUpstream, type Upstream } from '../support/upstream.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

/** A provider for which the longest document is the most relevant. */
const rankLengths = ({ json: body }: Hit) => {
  const { documents } = body as { documents: string[] }
  const results = documents.map((text, index) => ({ index, relevance_score: text.length / 100 }))
  return json({ id: 'r-1', results, usage: { total_tokens: 10 } })
}

let upstream: Upstream
let server: LocalServer
let checker: Wirecheck | null
let base: string

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(rankLengths)
  // The public schema has a closed list of provider names, so this provider uses one of them.
  const local = {
    name: 'Together',
    protocol: 'openai-chat',
    base_url: upstream.url,
    api_key: 'mock',
  }
  const prices = { prompt: 0.02, completion: 0 }
  const endpoints = [{ provider: 'local', model: 'up', usd_per_million_tokens: prices }]
  server = await startLocalServer({
    providers: { local },
    models: [{ id: 'acme/rank', output_modalities: ['rerank'], endpoints }],
  })
  checker = hasWirecheck ? await startWirecheck(server.url) : null
  base = `${checker?.url ?? server.url}/api/v1`
})

afterAll(async () => {
  await checker?.close()
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const DOCUMENTS = ['short', 'the longest of all', 'not so short']

test('@openrouter/sdk ranks texts and objects', async () => {
  const client = new OpenRouter({
    apiKey: server.inference_key,
    serverURL: base,
    retryConfig: { strategy: 'none' },
  })
  const answer = await client.rerank.rerank({
    requestBody: {
      model: 'acme/rank',
      query: 'Which?',
      documents: ['short', { text: 'the longest of all' }, 'not so short'],
      topN: 2,
    },
  })
  if (typeof answer === 'string') throw new Error(answer)
  expect(answer).toMatchObject({
    model: 'acme/rank',
    provider: 'Together',
    results: [
      { index: 1, relevanceScore: 0.18, document: { text: 'the longest of all' } },
      { index: 2, relevanceScore: 0.12, document: { text: 'not so short' } },
    ],
    usage: { totalTokens: 10, cost: 0.0000002 },
  })
})

test('the AI SDK ranks with its model for Cohere', async () => {
  const cohere = createCohere({ baseURL: base, apiKey: server.inference_key })
  const { ranking } = await rerank({
    model: cohere.reranking('acme/rank'),
    query: 'Which?',
    documents: DOCUMENTS,
    topN: 2,
  })
  expect(ranking).toEqual([
    { originalIndex: 1, score: 0.18, document: 'the longest of all' },
    { originalIndex: 2, score: 0.12, document: 'not so short' },
  ])
})

test.each(['', '/api', '/v1', '/api/v1'])('cohere-ai ranks at the base %p', async path => {
  const client = new CohereClient({
    token: server.inference_key,
    environment: `${server.url}${path}`,
    maxRetries: 0,
  })
  const answer = await client.v2.rerank({
    model: 'acme/rank',
    query: 'Which?',
    documents: DOCUMENTS,
    topN: 2,
  })
  expect(answer.results).toMatchObject([
    { index: 1, relevanceScore: 0.18 },
    { index: 2, relevanceScore: 0.12 },
  ])
  expect(answer.id).toStartWith('gen-')
})

test.each([
  ['acme/none', 400],
  ['acme/rank', 401],
])('cohere-ai reads the refusal of %s as its own', async (model, statusCode) => {
  const token = statusCode === 401 ? 'none' : server.inference_key
  const client = new CohereClient({ token, environment: server.url, maxRetries: 0 })
  const refused = await client.v2.rerank({ model, query: 'Which?', documents: DOCUMENTS }).then(
    () => null,
    error => error,
  )
  expect(refused).toMatchObject({ statusCode })
})

test.skipIf(!hasWirecheck)('every answer matches the public schema', async () => {
  const report = await checker?.report()
  expect(report?.violations).toEqual([])
  expect(report?.seen).toMatchObject({ 'createRerank 200': 2 })
})
