import { describe, expect, test } from 'bun:test'
import type { EmbeddingCall } from '../../../../src/language/embedding.ts'
import { bedrockEmbeddings } from '../../../../src/translation/protocols/embeddings/bedrock.ts'
import { buildEmbeddingCall, buildEndpoint } from '../../../support/call.ts'

const TITAN = 'amazon.titan-embed-text-v2:0'
const COHERE = 'us.cohere.embed-v4:0'
const NOVA = 'amazon.nova-2-multimodal-embeddings-v1:0'

const at = (upstreamModel: string) => buildEndpoint({ upstreamModel })
const sent = (model: string, more: Partial<EmbeddingCall> = {}) =>
  bedrockEmbeddings.buildRequest(buildEmbeddingCall(more), at(model))
const read = (model: string, body: unknown, more: Partial<EmbeddingCall> = {}) =>
  bedrockEmbeddings.parseAnswer(body, buildEmbeddingCall(more), at(model))
/** Returns rows of one value each, because a plain list would be taken for a row. */
const each = (...values: unknown[]) => values.map(value => [value])

const text = (words: string) => ({ type: 'text' as const, text: words })
const params = { dimensions: 256, input_type: 'search_query' }
const two = { inputs: [text('a'), text('b')] }

test('Titan accepts one text', () => {
  expect(sent(TITAN, { params, extra: { normalize: false } })).toEqual({
    path: '/model/amazon.titan-embed-text-v2%3A0/invoke',
    body: { inputText: 'Hi', dimensions: 256, normalize: false },
  })
  expect(() => sent(TITAN, two)).toThrow(/at most 1 at a time for this model’s provider, found 2/)
})

test('Titan returns one vector and its usage', () => {
  expect(read(TITAN, { embedding: [1], inputTextTokenCount: 3 })).toMatchObject([
    { type: 'start' },
    { vector: [1] },
    { type: 'usage', usage: { input: { text: 3 } } },
  ])
})

test('Cohere’s models get Cohere’s body without the model', () => {
  expect(sent(COHERE, { ...two, params })).toEqual({
    path: '/model/us.cohere.embed-v4%3A0/invoke',
    body: {
      texts: ['a', 'b'],
      input_type: 'search_query',
      output_dimension: 256,
      embedding_types: ['float'],
    },
  })
  expect(read(COHERE, { embeddings: { float: [[1], [2]] } }, two)).toMatchObject([
    { type: 'start' },
    { vector: [1] },
    { vector: [2] },
  ])
})

test('Nova gets the purpose of the vector', () => {
  expect(sent(NOVA, { params }).body).toEqual({
    taskType: 'SINGLE_EMBEDDING',
    singleEmbeddingParams: {
      embeddingPurpose: 'GENERIC_RETRIEVAL',
      embeddingDimension: 256,
      text: { truncationMode: 'NONE', value: 'Hi' },
    },
  })
  expect(read(NOVA, { embeddings: [{ embeddingType: 'TEXT', embedding: [1] }] })).toMatchObject([
    { type: 'start' },
    { vector: [1] },
  ])
})

describe.each([TITAN, COHERE, NOVA])('%s', model => {
  test.each(each(null, [], 'x', {}, { embedding: {} }, { embeddings: 1 }))(
    '%j is no answer',
    body => {
      expect(() => read(model, body)).toThrow('Provider returned error')
    },
  )
})

test.each([
  [400, 'com.amazonaws#ValidationException', 'invalid_request'],
  [429, 'ThrottlingException', 'rate_limit_exceeded'],
  [403, 'AccessDeniedException', 'provider_unavailable'],
  [400, undefined, 'invalid_request'],
] as const)('%i %s means %s', (status, __type, type) => {
  expect(
    bedrockEmbeddings.readFailure(status, {
      ...(__type ? { __type } : {}),
      message: 'its own words',
    }).type,
  ).toBe(type)
})

test.each([
  ['classification', 'CLASSIFICATION'],
  ['clustering', 'CLUSTERING'],
  ['image_retrieval', 'IMAGE_RETRIEVAL'],
  ['similarity', 'GENERIC_INDEX'],
])('Nova is asked for %s as %s', (input_type, embeddingPurpose) => {
  expect(sent(NOVA, { params: { input_type } }).body).toMatchObject({
    singleEmbeddingParams: { embeddingPurpose },
  })
})
