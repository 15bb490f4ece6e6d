import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { fetchGeneration, fetchKeyState } from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { json, startUpstream, status, type Upstream } from '../support/upstream.ts'

let server: LocalServer
let first: Upstream
let second: Upstream

const TOKEN_PRICES = { prompt: 0.05, completion: 0 }
const UNIT_PRICES = { prompt: 0, completion: 0, per_search_unit: 0.002 }

beforeAll(async () => {
  ;[first, second] = await Promise.all([startUpstream(), startUpstream()])
  const provider = (base_url: string, protocol: string) => ({ protocol, base_url, api_key: 'mock' })
  const model = (id: string, providers: string[], prices: object, output = 'rerank') => ({
    id,
    output_modalities: [output],
    endpoints: providers.map(slug => ({
      provider: slug,
      model: 'up-rank',
      usd_per_million_tokens: prices,
    })),
  })
  server = await startLocalServer({
    routing: { choice: 'listed', failures: 0 },
    providers: {
      cohere: provider(first.url, 'cohere-chat'),
      compatible: provider(first.url, 'openai-chat'),
      spare: provider(second.url, 'openai-chat'),
      jina: provider(first.url, 'jina-rerank'),
    },
    models: [
      model('acme/units', ['cohere'], UNIT_PRICES),
      model('acme/tokens', ['compatible', 'spare'], TOKEN_PRICES),
      model('acme/sees', ['jina'], TOKEN_PRICES),
      model('acme/vectors', ['compatible'], TOKEN_PRICES, 'embeddings'),
      model('acme/text', ['compatible'], TOKEN_PRICES, 'text'),
    ],
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([first.close(), second.close()])
})

const RESULTS = [
  { index: 2, relevance_score: 0.9 },
  { index: 0, relevance_score: 0.25 },
  { index: 1, relevance_score: -0.5 },
]
const ranked = json({ id: 'up-1', results: RESULTS, usage: { total_tokens: 1000 } })

beforeEach(() => {
  for (const upstream of [first, second]) {
    upstream.hits.length = 0
    upstream.plan(ranked)
  }
})

const DOCUMENTS = ['one', { text: 'two' }, 'three']

const ask = (body: object) =>
  server.fetch('/rerank', {
    json: { model: 'acme/tokens', query: 'Which?', documents: DOCUMENTS, ...body },
  })

interface Ranked {
  id: string
  model: string
  provider: string
  method?: string
  results: { index: number; relevance_score: number; document: object }[]
  meta: object
  usage: { search_units?: number; total_tokens?: number; cost?: number }
}

async function rank(body: object = {}): Promise<Ranked> {
  const response = await ask(body)
  expect(response.status).toBe(200)
  return (await response.json()) as Ranked
}

describe('POST /rerank', () => {
  test('sorts, counts tokens, prices and records', async () => {
    const before = (await fetchKeyState(server)).usage
    const answer = await rank({ user: 'ann', session_id: 's-1', max_chunks_per_doc: 3 })
    expect(answer).toEqual({
      id: expect.stringMatching(/^gen-/),
      model: 'acme/tokens',
      provider: 'compatible',
      results: [
        { index: 2, relevance_score: 0.9, document: { text: 'three' } },
        { index: 0, relevance_score: 0.25, document: { text: 'one' } },
        { index: 1, relevance_score: -0.5, document: { text: 'two' } },
      ],
      usage: { total_tokens: 1000, cost: 0.00005 },
      meta: { billed_units: {} },
    })
    expect((await fetchKeyState(server)).usage - before).toBeCloseTo(0.00005)
    expect(await fetchGeneration(server, answer.id)).toMatchObject({
      api_type: 'rerank',
      usage_source: 'exact',
      native_tokens_prompt: 1000,
      total_cost: 0.00005,
      session_id: 's-1',
    })
    expect(first.hits[0]?.path).toBe('/v1/rerank')
    expect(first.hits[0]?.json).toEqual({
      model: 'up-rank',
      query: 'Which?',
      documents: ['one', 'two', 'three'],
      top_n: 3,
      max_chunks_per_doc: 3,
    })
  })

  test('counts the units that Cohere charges for', async () => {
    first.plan(json({ results: RESULTS, meta: { billed_units: { search_units: 2 } } }))
    const { usage, meta } = await rank({ model: 'acme/units' })
    expect(usage).toEqual({ search_units: 2, cost: 0.004 })
    expect(meta).toEqual({ billed_units: { search_units: 2 } })
  })

  test('estimates the units that a provider does not count: one for every hundred', async () => {
    const documents = Array.from({ length: 101 }, () => 'short')
    first.plan(json({ results: RESULTS }))
    const { id, usage } = await rank({ model: 'acme/units', documents })
    expect(usage).toMatchObject({ search_units: 2, cost: 0.004 })
    expect((await fetchGeneration(server, id)).usage_source).toBe('estimated')
  })

  test('returns no more than top_n, and asks for no more', async () => {
    const { results } = await rank({ top_n: 2 })
    expect(results.map(({ index }) => index)).toEqual([2, 0])
    expect(first.hits[0]?.json).toMatchObject({ top_n: 2 })
    expect((await rank({ top_n: 1_000 })).results).toHaveLength(3)
    expect(first.hits[1]?.json).toMatchObject({ top_n: 3 })
  })

  test('keeps the order of documents that are equally relevant', async () => {
    first.plan(json({ results: [2, 0, 1].map(index => ({ index, relevance_score: 0.5 })) }))
    expect((await rank()).results.map(({ index }) => index)).toEqual([0, 1, 2])
  })

  test('sends pictures where the provider takes them, and echoes them', async () => {
    const picture = 'data:image/png;base64,AAAA'
    const { results } = await rank({
      model: 'acme/sees',
      documents: [{ image: picture }, { text: 'two' }, { text: 'both', image: picture }],
    })
    expect(results.map(({ document }) => document)).toEqual([
      { text: 'both', image: picture },
      { image: picture },
      { text: 'two' },
    ])
    expect(first.hits[0]?.json).toMatchObject({
      documents: [{ image: 'AAAA' }, 'two', { text: 'both', image: 'AAAA' }],
      return_documents: false,
    })
  })

  test('ranks by vectors where a model computes only those, and says so', async () => {
    const vectors = [
      [1, 0],
      [0, 1],
      [1, 1],
      [2, 0],
    ].map((embedding, index) => ({
      index,
      embedding,
    }))
    first.plan(json({ data: vectors, usage: { prompt_tokens: 1000, total_tokens: 1000 } }))
    const { method, results, usage } = await rank({ model: 'acme/vectors' })
    expect(method).toBe('cosine')
    expect(results.map(({ index }) => index)).toEqual([2, 1, 0])
    expect(results.map(one => one.relevance_score)).toEqual([1, expect.closeTo(Math.SQRT1_2), 0])
    expect(usage).toEqual({ total_tokens: 1000, cost: 0.00005 })
    expect(first.hits[0]?.path).toBe('/v1/embeddings')
    expect(first.hits[0]?.json).toEqual({
      model: 'up-rank',
      input: ['Which?', 'one', 'two', 'three'],
    })
  })

  test('works in the sandbox, without a provider', async () => {
    const body = {
      model: 'sandbox/embed',
      query: 'blue sky',
      documents: ['Green grass', 'Blue sky'],
    }
    const { method, results, usage } = await rank(body)
    expect([method, results[0]?.index, usage.cost]).toEqual(['cosine', 1, 0])
  })

  test.each<[string, unknown]>([
    ['no result', { results: [] }],
    ['an index beyond the documents', { results: [{ index: 3, relevance_score: 1 }] }],
    ['a negative index', { results: [{ index: -1, relevance_score: 1 }] }],
    ['the same document twice', { results: [RESULTS[0], RESULTS[0]] }],
    ['no score', { results: [{ index: 0 }] }],
    ['a score that is text', { results: [{ index: 0, relevance_score: '0.5' }] }],
    ['a list', [RESULTS]],
  ])('asks the next provider after an answer with %s', async (_, body) => {
    first.plan(json(body))
    const { provider } = await rank()
    expect(provider).toBe('spare')
  })

  test('asks the next provider after a failure', async () => {
    first.plan(status(503))
    expect((await rank()).provider).toBe('spare')
  })

  test.each<[string, object]>([
    ['query', { query: '' }],
    ['query', { query: null }],
    ['documents', { documents: [] }],
    ['documents', { documents: 'one' }],
    ['documents.1', { documents: ['one', {}] }],
    ['documents.1', { documents: ['one', { text: null, image: null }] }],
    ['documents.1', { documents: ['one', { title: 'A', text: 'two' }] }],
    ['top_n', { top_n: 0 }],
    ['top_n', { top_n: -1 }],
    ['top_n', { top_n: 1.5 }],
    ['top_n', { top_n: '2' }],
    ['top_n', { top_n: 1e300 }],
    ['models', { models: ['acme/units'] }],
    ['plugins', { plugins: [{ id: 'web' }] }],
    ['preset', { preset: 'p' }],
    ['route', { route: 'fallback' }],
    ['documents', { documents: Array.from({ length: 10_001 }, () => 'x') }],
  ])('names %s in the 400 for %j', async (field, body) => {
    const response = await ask(body)
    const { error } = (await response.json()) as { error: { metadata: { field: string } } }
    expect(response.status).toBe(400)
    expect(error.metadata.field).toBe(field)
    expect(first.hits).toEqual([])
  })

  test('refuses a picture where no endpoint takes one, and names the document', async () => {
    const response = await ask({ documents: ['one', { image: 'data:image/png;base64,AAAA' }] })
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining('documents.1: an image'),
    ])
  })

  test('refuses a model that neither ranks nor computes vectors', async () => {
    const response = await ask({ model: 'acme/text' })
    expect([response.status, await response.text()]).toEqual([
      400,
      expect.stringContaining('acme/text gives text, not rerank'),
    ])
  })

  test('lists its models under their modality', async () => {
    const response = await server.fetch('/models?output_modalities=rerank')
    const { data } = (await response.json()) as { data: { id: string }[] }
    expect(data.map(({ id }) => id).toSorted()).toEqual([
      'acme/sees',
      'acme/tokens',
      'acme/units',
      'cohere/rerank-v3.5',
    ])
  })
})
