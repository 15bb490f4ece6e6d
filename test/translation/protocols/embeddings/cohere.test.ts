import { describe, expect, test } from 'bun:test'
import type { EmbeddingCall } from '../../../../src/language/embedding.ts'
import { cohereEmbeddings } from '../../../../src/translation/protocols/embeddings/cohere.ts'
import { buildEmbeddingCall, buildEndpoint } from '../../../support/call.ts'

const endpoint = buildEndpoint({ upstreamModel: 'embed-v4.0' })
const sent = (more: Partial<EmbeddingCall> = {}) =>
  cohereEmbeddings.buildRequest(buildEmbeddingCall(more), endpoint)
const read = (body: unknown) => cohereEmbeddings.parseAnswer(body, buildEmbeddingCall(), endpoint)
const text = (words: string) => ({ type: 'text' as const, text: words })

describe('buildRequest', () => {
  test('sends texts, requests floats, and is for documents by default', () => {
    expect(sent({ inputs: [text('a'), text('b')] })).toEqual({
      path: '/embed',
      body: {
        model: 'embed-v4.0',
        texts: ['a', 'b'],
        input_type: 'search_document',
        embedding_types: ['float'],
      },
    })
  })

  test.each([
    ['search_query', 'search_query'],
    ['query', 'search_query'],
    ['passage', 'search_document'],
    ['RETRIEVAL_DOCUMENT', 'search_document'],
    ['clustering', 'clustering'],
    ['semantic_similarity', 'search_document'],
    ['image', 'image'],
  ])('sends the purpose %s as %s', (input_type, expected) => {
    expect(sent({ params: { input_type } }).body.input_type).toBe(expected)
  })

  test('sends dimensions as output_dimension, and unknown parameters unchanged', () => {
    const { body } = sent({
      params: { dimensions: 256 },
      extra: { truncate: 'NONE', embedding_types: ['int8'] },
    })
    expect(body).toMatchObject({
      output_dimension: 256,
      truncate: 'NONE',
      embedding_types: ['float'],
    })
  })

  test('sends anything but plain text as contents', () => {
    const blocks = [text('a'), { type: 'image' as const, url: 'data:image/png;base64,AA==' }]
    expect(sent({ inputs: [{ type: 'content', blocks }, text('b')] }).body.inputs).toEqual([
      {
        content: [
          { type: 'text', text: 'a' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } },
        ],
      },
      { content: [{ type: 'text', text: 'b' }] },
    ])
  })

  test('refuses tokens, audio and more than 96 inputs', () => {
    expect(() => sent({ inputs: [{ type: 'tokens', tokens: [1] }] })).toThrow(/tokens/)
    expect(() =>
      sent({ inputs: [{ type: 'content', blocks: [{ type: 'audio', data: '', format: 'wav' }] }] }),
    ).toThrow(/audio/)
    expect(() => sent({ inputs: Array.from({ length: 97 }, () => text('a')) })).toThrow(
      /at most 96 at a time.*found 97/,
    )
  })
})

describe('answer', () => {
  const meta = { billed_units: { input_tokens: 3, image_tokens: 4 } }

  test('has the vectors and the usage', () => {
    expect(read({ id: 'e-1', embeddings: { float: [[1, 2]] }, meta })).toMatchObject([
      { type: 'start', upstream_id: 'e-1' },
      { type: 'embedding', index: 0, vector: [1, 2] },
      { type: 'usage', usage: { input: { text: 7 } } },
    ])
  })

  test('of older models is a plain list without usage', () => {
    expect(read({ embeddings: [[1]] })).toMatchObject([
      { type: 'start' },
      { type: 'embedding', vector: [1] },
    ])
  })

  test.each([
    null,
    {},
    { embeddings: {} },
    { embeddings: { float: [] } },
    { embeddings: { float: 'x' } },
  ])('%j is no answer', body => {
    expect(() => read(body)).toThrow('Provider returned error')
  })
})
