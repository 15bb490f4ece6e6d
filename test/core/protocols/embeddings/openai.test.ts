import { describe, expect, test } from 'bun:test'
import { NO_QUIRKS } from '../../../../src/core/config/quirks.ts'
import { GatewayError } from '../../../../src/core/errors.ts'
import type { EmbeddingCall } from '../../../../src/core/language/embedding.ts'
import {
  jinaEmbeddings,
  openaiEmbeddings,
  voyageEmbeddings,
} from '../../../../src/core/protocols/embeddings/openai.ts'
import { embeddingCall, endpointOf, providerOf } from '../../../support/call.ts'

const at = (quirks: object) =>
  endpointOf({ provider: providerOf({ quirks: { ...NO_QUIRKS, ...quirks } }) })
const sent = (more: Partial<EmbeddingCall>, quirks = {}) =>
  openaiEmbeddings.request(embeddingCall(more), at(quirks)).body
const read = (body: unknown, more: Partial<EmbeddingCall> = {}) =>
  openaiEmbeddings.parts(body, embeddingCall(more), endpointOf())

/** Rows of one, since a bare list would be taken for a row. */
const each = (...values: unknown[]) => values.map(value => [value])

const text = (words: string) => ({ type: 'text' as const, text: words })
const answer = (...vectors: unknown[]) => ({
  data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
})
const two = { inputs: [text('a'), text('b')] }
const vectors = (body: unknown, more: Partial<EmbeddingCall> = {}) =>
  read(body, more).flatMap(part => (part.type === 'embedding' ? [part.vector] : []))

const typeOf = (act: () => unknown) => {
  try {
    act()
  } catch (thrown) {
    return thrown instanceof GatewayError ? thrown.type : thrown
  }
  return 'nothing thrown'
}

describe('request', () => {
  test('one text is the provider’s model and the text, and nothing else', () => {
    expect(openaiEmbeddings.request(embeddingCall(), endpointOf())).toEqual({
      path: '/embeddings',
      body: { model: 'up-small', input: 'Hi' },
    })
  })

  test('every kind of input goes as it came', () => {
    expect(sent(two).input).toEqual(['a', 'b'])
    expect(sent({ inputs: [{ type: 'tokens', tokens: [1, 2] }] }).input).toEqual([1, 2])
    expect(
      sent({
        inputs: [
          { type: 'tokens', tokens: [1] },
          { type: 'tokens', tokens: [2] },
        ],
      }).input,
    ).toEqual([[1], [2]])
  })

  test('contents go as the parts that they are', () => {
    const blocks = [
      text('a'),
      { type: 'image' as const, url: 'https://a.example/b.png' },
      { type: 'audio' as const, data: 'AA==', format: 'mp3' },
      { type: 'video' as const, url: 'data:video/mp4;base64,AA==' },
      { type: 'file' as const, file: { file_data: 'https://a.example/c.pdf' } },
    ]
    expect(sent({ inputs: [{ type: 'content', blocks }] }).input).toEqual([
      {
        content: [
          { type: 'text', text: 'a' },
          { type: 'image_url', image_url: { url: 'https://a.example/b.png' } },
          { type: 'input_audio', input_audio: { data: 'AA==', format: 'mp3' } },
          { type: 'input_video', input_video: { data: 'AA==', format: 'mp4' } },
          { type: 'input_file', input_file: { data: 'https://a.example/c.pdf' } },
        ],
      },
    ])
  })

  test('floats are not asked for, since everybody gives them; base64 is', () => {
    expect(sent({ params: { encoding_format: 'float' } })).not.toHaveProperty('encoding_format')
    expect(sent({ params: { encoding_format: 'base64' } })).toHaveProperty(
      'encoding_format',
      'base64',
    )
  })

  test('parameters go on, known or not, and unknown ones stand in for none of them', () => {
    const params = { dimensions: 256, input_type: 'search_query' }
    expect(sent({ params, user: 'hashed', extra: { truncate: 'END', model: 'other' } })).toEqual({
      model: 'up-small',
      input: 'Hi',
      dimensions: 256,
      input_type: 'search_query',
      user: 'hashed',
      truncate: 'END',
    })
  })

  test('what the provider calls otherwise or refuses is told by its quirks', () => {
    const quirks = { renamed: { dimensions: 'output_dimension' }, dropped: ['input_type'] }
    expect(sent({ params: { dimensions: 2, input_type: 'query' } }, quirks)).toEqual({
      model: 'up-small',
      input: 'Hi',
      output_dimension: 2,
    })
  })

  test('Azure’s dated API has the model in the path', () => {
    expect(openaiEmbeddings.request(embeddingCall(), at({ api_version: '2024-10-21' })).path).toBe(
      '/deployments/up-small/embeddings?api-version=2024-10-21',
    )
  })

  test.each([
    [voyageEmbeddings, 'search_query', { output_dimension: 2, input_type: 'query' }],
    [voyageEmbeddings, 'passage', { output_dimension: 2, input_type: 'document' }],
    [voyageEmbeddings, 'clustering', { output_dimension: 2 }],
    [jinaEmbeddings, 'search_document', { dimensions: 2, task: 'retrieval.passage' }],
    [jinaEmbeddings, 'code.query', { dimensions: 2, task: 'code.query' }],
  ])('%#: %2$s in the words of those who have their own', (protocol, input_type, expected) => {
    const {
      model: _,
      input: __,
      ...rest
    } = protocol.request(
      embeddingCall({ params: { dimensions: 2, input_type } }),
      endpointOf(),
    ).body
    expect(rest).toEqual(expected)
  })
})

describe('answer', () => {
  test('is the vectors in the order of the inputs, and the count', () => {
    const body = {
      ...answer([1, 2], 'AACAPwAAAEA='),
      id: 'e-1',
      usage: { prompt_tokens: 7, total_tokens: 7 },
    }
    expect(read({ ...body, data: body.data.toReversed() }, two)).toMatchObject([
      { type: 'start', upstream_id: 'e-1' },
      { type: 'embedding', index: 0, vector: [1, 2] },
      { type: 'embedding', index: 1, vector: 'AACAPwAAAEA=' },
      { type: 'usage', usage: { input: { text: 7 }, output: { text: 0 } } },
    ])
  })

  test('without an index is in the order in which it stands', () => {
    expect(vectors({ data: [{ embedding: [1] }, { embedding: [2] }] }, two)).toEqual([[1], [2]])
  })

  test('may count the whole only, or not at all', () => {
    expect(read({ ...answer([1]), usage: { total_tokens: 5 } }).at(-1)).toMatchObject({
      type: 'usage',
      usage: { input: { text: 5 } },
    })
    expect(read({ ...answer([1]), usage: {} }).at(-1)).toMatchObject({ type: 'embedding' })
  })

  test('tells sound apart where the provider does', () => {
    const usage = { prompt_tokens: 9, total_tokens: 9, prompt_tokens_details: { audio_tokens: 4 } }
    expect(read({ ...answer([1]), usage }).at(-1)).toMatchObject({
      usage: { input: { text: 5, audio: 4 } },
    })
  })

  test.each(
    each(
      null,
      [],
      'x',
      {},
      { data: [] },
      { data: {} },
      answer(),
      answer([1]),
      answer([1], [2], [3]),
      answer([1], []),
      answer([1], [null]),
      answer([1], ['x']),
      answer([1], 'no base64!'),
      answer([1], {}),
      {
        data: [
          { index: 0, embedding: [1] },
          { index: 0, embedding: [2] },
        ],
      },
      {
        data: [
          { index: 5, embedding: [1] },
          { index: 0, embedding: [2] },
        ],
      },
    ),
  )('%j is none', body => {
    expect(typeOf(() => read(body, two))).toBe('provider_unavailable')
  })

  test('trap 75: an error in it is a failure', () => {
    expect(typeOf(() => read({ error: { message: 'rate limited', code: 429 } }))).toBe(
      'rate_limit_exceeded',
    )
  })

  test('is never a stream', () => {
    expect(typeOf(() => openaiEmbeddings.reader(embeddingCall(), endpointOf()))).toBe(
      'provider_unavailable',
    )
  })
})
