import { describe, expect, test } from 'bun:test'
import type { EmbeddingCall } from '../../../../src/language/embedding.ts'
import { geminiEmbeddings } from '../../../../src/translation/protocols/embeddings/gemini.ts'
import { buildEmbeddingCall, buildEndpoint, buildProvider } from '../../../support/call.ts'

const endpoint = buildEndpoint({ upstreamModel: 'gemini-embedding-001' })
const vertex = (upstreamModel: string) =>
  buildEndpoint({
    upstreamModel,
    provider: buildProvider({
      base_url: 'http://127.0.0.1:1/v1/projects/p/locations/l/publishers/google',
    }),
  })
const sent = (more: Partial<EmbeddingCall> = {}, at = endpoint) =>
  geminiEmbeddings.buildRequest(buildEmbeddingCall(more), at)
const read = (body: unknown, more: Partial<EmbeddingCall> = {}) =>
  geminiEmbeddings.parseAnswer(body, buildEmbeddingCall(more), endpoint)
/** Returns rows of one value each, because a plain list would be taken for a row. */
const each = (...values: unknown[]) => values.map(value => [value])

const text = (words: string) => ({ type: 'text' as const, text: words })
const content = (words: string) => ({
  model: 'models/gemini-embedding-001',
  content: { parts: [{ text: words }] },
})

describe('buildRequest', () => {
  test('embeds one text by itself, and several in a batch', () => {
    expect(sent()).toEqual({
      path: '/models/gemini-embedding-001:embedContent',
      body: content('Hi'),
    })
    expect(sent({ inputs: [text('a'), text('b')] })).toEqual({
      path: '/models/gemini-embedding-001:batchEmbedContents',
      body: { requests: [content('a'), content('b')] },
    })
  })

  test.each([
    ['search_query', 'RETRIEVAL_QUERY'],
    ['search_document', 'RETRIEVAL_DOCUMENT'],
    ['semantic_similarity', 'SEMANTIC_SIMILARITY'],
    ['clustering', 'CLUSTERING'],
    ['classification', 'CLASSIFICATION'],
    ['code_retrieval_query', 'CODE_RETRIEVAL_QUERY'],
    ['nobody knows it', undefined],
  ])('sends the purpose %s as %s', (input_type, expected) => {
    expect(sent({ params: { input_type } }).body.taskType).toBe(expected)
  })

  test('puts dimensions and unknown parameters into each request of a batch', () => {
    const { body } = sent({
      inputs: [text('a'), text('b')],
      params: { dimensions: 8 },
      extra: { title: 'T' },
    })
    const wishes = { outputDimensionality: 8, title: 'T' }
    expect(body.requests).toMatchObject([wishes, wishes])
  })

  test('sends images and files as bytes', () => {
    const blocks = [text('a'), { type: 'image' as const, url: 'data:image/png;base64,AA==' }]
    expect(sent({ inputs: [{ type: 'content', blocks }] }).body.content).toEqual({
      parts: [{ text: 'a' }, { inlineData: { mimeType: 'image/png', data: 'AA==' } }],
    })
  })

  test('refuses tokens, URLs and more than 100 inputs', () => {
    expect(() => sent({ inputs: [{ type: 'tokens', tokens: [1] }] })).toThrow(/tokens/)
    expect(() =>
      sent({
        inputs: [{ type: 'content', blocks: [{ type: 'image', url: 'https://a.example/' }] }],
      }),
    ).toThrow(/image/)
    expect(() => sent({ inputs: Array.from({ length: 101 }, () => text('a')) })).toThrow(
      /at most 100/,
    )
  })

  test('uses predict for Vertex’s older models', () => {
    const params = { dimensions: 8, input_type: 'query' }
    expect(sent({ inputs: [text('a'), text('b')], params }, vertex('text-embedding-005'))).toEqual({
      path: '/models/text-embedding-005:predict',
      body: {
        instances: [
          { content: 'a', task_type: 'RETRIEVAL_QUERY' },
          { content: 'b', task_type: 'RETRIEVAL_QUERY' },
        ],
        parameters: { outputDimensionality: 8 },
      },
    })
  })

  test('embeds one input at a time with Vertex’s newer models, without a model in the body', () => {
    expect(sent({}, vertex('gemini-embedding-2'))).toEqual({
      path: '/models/gemini-embedding-2:embedContent',
      body: { content: { parts: [{ text: 'Hi' }] } },
    })
    expect(() => sent({ inputs: [text('a'), text('b')] }, vertex('gemini-embedding-2'))).toThrow(
      /at most 1 at a time/,
    )
  })
})

describe('answer', () => {
  test('has the vectors, and the usage if there is one', () => {
    expect(read({ embedding: { values: [1, 2] } })).toMatchObject([
      { type: 'start' },
      { type: 'embedding', vector: [1, 2] },
    ])
    expect(
      read({ embedding: { values: [1] }, usageMetadata: { promptTokenCount: 3 } }).at(-1),
    ).toMatchObject({
      usage: { input: { text: 3 } },
    })
    expect(
      read({ embeddings: [{ values: [1] }, { values: [2] }] }, { inputs: [text('a'), text('b')] }),
    ).toMatchObject([{ type: 'start' }, { index: 0, vector: [1] }, { index: 1, vector: [2] }])
  })

  test('of Vertex has usage for each text', () => {
    const one = (value: number) => ({
      embeddings: { values: [value], statistics: { token_count: 4, truncated: false } },
    })
    expect(
      read({ predictions: [one(1), one(2)] }, { inputs: [text('a'), text('b')] }),
    ).toMatchObject([
      { type: 'start' },
      { vector: [1] },
      { vector: [2] },
      { type: 'usage', usage: { input: { text: 8 } } },
    ])
  })

  test.each(
    each(
      null,
      [],
      {},
      { embeddings: [] },
      { embedding: null },
      { embedding: {} },
      { predictions: [1] },
    ),
  )('%j is no answer', body => {
    expect(() => read(body)).toThrow('Provider returned error')
  })
})

test.each([
  [400, 'INVALID_ARGUMENT', 'invalid_request'],
  [429, 'RESOURCE_EXHAUSTED', 'rate_limit_exceeded'],
  [404, 'NOT_FOUND', 'provider_unavailable'],
] as const)('%i %s means %s', (status, code, type) => {
  const error = geminiEmbeddings.readFailure(status, {
    error: { code: status, status: code, message: 'its own words' },
  })
  expect([error.type, error.message.includes('its own words')]).toEqual([type, false])
})
