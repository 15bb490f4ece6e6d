import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../../src/base/errors.ts'
import { NO_QUIRKS } from '../../../../src/config/quirks.ts'
import type { EmbeddingCall } from '../../../../src/language/embedding.ts'
import {
  jinaEmbeddings,
  openaiEmbeddings,
  voyageEmbeddings,
} from '../../../../src/translation/protocols/embeddings/openai.ts'
import { buildEmbeddingCall, buildEndpoint, buildProvider } from '../../../support/call.ts'

const at = (quirks: object) =>
  buildEndpoint({ provider: buildProvider({ quirks: { ...NO_QUIRKS, ...quirks } }) })
const sent = (more: Partial<EmbeddingCall>, quirks = {}) =>
  openaiEmbeddings.buildRequest(buildEmbeddingCall(more), at(quirks)).body
const read = (body: unknown, more: Partial<EmbeddingCall> = {}) =>
  openaiEmbeddings.parseAnswer(body, buildEmbeddingCall(more), buildEndpoint())

/** Returns rows of one value each, because a plain list would be taken for a row. */
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

describe('buildRequest', () => {
  test('sends the provider’s model and one text, and nothing else', () => {
    expect(openaiEmbeddings.buildRequest(buildEmbeddingCall(), buildEndpoint())).toEqual({
      path: '/embeddings',
      body: { model: 'up-small', input: 'Hi' },
    })
  })

  test('sends every kind of input unchanged', () => {
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

  test('sends contents as parts', () => {
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

  test('requests base64, but not floats, which every server returns by default', () => {
    expect(sent({ params: { encoding_format: 'float' } })).not.toHaveProperty('encoding_format')
    expect(sent({ params: { encoding_format: 'base64' } })).toHaveProperty(
      'encoding_format',
      'base64',
    )
  })

  test('sends known and unknown parameters, and no unknown one replaces a known one', () => {
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

  test('renames and removes parameters by the provider’s quirks', () => {
    const quirks = { renamed: { dimensions: 'output_dimension' }, dropped: ['input_type'] }
    expect(sent({ params: { dimensions: 2, input_type: 'query' } }, quirks)).toEqual({
      model: 'up-small',
      input: 'Hi',
      output_dimension: 2,
    })
  })

  test('puts the model into the path for Azure’s dated API', () => {
    expect(
      openaiEmbeddings.buildRequest(buildEmbeddingCall(), at({ api_version: '2024-10-21' })).path,
    ).toBe('/deployments/up-small/embeddings?api-version=2024-10-21')
  })

  test.each([
    [voyageEmbeddings, 'search_query', { output_dimension: 2, input_type: 'query' }],
    [voyageEmbeddings, 'passage', { output_dimension: 2, input_type: 'document' }],
    [voyageEmbeddings, 'clustering', { output_dimension: 2 }],
    [jinaEmbeddings, 'search_document', { dimensions: 2, task: 'retrieval.passage' }],
    [jinaEmbeddings, 'code.query', { dimensions: 2, task: 'code.query' }],
  ])('%#: sends %2$s by the provider’s own name', (protocol, input_type, expected) => {
    const {
      model: _,
      input: __,
      ...rest
    } = protocol.buildRequest(
      buildEmbeddingCall({ params: { dimensions: 2, input_type } }),
      buildEndpoint(),
    ).body
    expect(rest).toEqual(expected)
  })
})

describe('answer', () => {
  test('has the vectors in the order of the inputs, and the usage', () => {
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

  test('keeps its order if it has no indexes', () => {
    expect(vectors({ data: [{ embedding: [1] }, { embedding: [2] }] }, two)).toEqual([[1], [2]])
  })

  test('may have a total only, or no usage at all', () => {
    expect(read({ ...answer([1]), usage: { total_tokens: 5 } }).at(-1)).toMatchObject({
      type: 'usage',
      usage: { input: { text: 5 } },
    })
    expect(read({ ...answer([1]), usage: {} }).at(-1)).toMatchObject({ type: 'embedding' })
  })

  test('counts audio separately if the provider does', () => {
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
      // Half a float, one that is no number, and one that is infinite.
      answer([1], 'AAA='),
      answer([1], 'AADAfw=='),
      answer([1], 'AAAAPwAAgH8='),
      answer([1], {}),
    ),
  )('%j is no answer', body => {
    expect(typeOf(() => read(body, two))).toBe('provider_unavailable')
  })

  test('trap 75: is a failure if it contains an error', () => {
    expect(typeOf(() => read({ error: { message: 'rate limited', code: 429 } }))).toBe(
      'rate_limit_exceeded',
    )
  })

  test('is never a stream', () => {
    expect(typeOf(() => openaiEmbeddings.createReader(buildEmbeddingCall(), buildEndpoint()))).toBe(
      'provider_unavailable',
    )
  })
})

test('only OpenAI’s own form has the caller’s user: Voyage refuses a field that it does not know', () => {
  const call = buildEmbeddingCall({ user: 'hash' })
  const users = [openaiEmbeddings, voyageEmbeddings, jinaEmbeddings].map(
    protocol => protocol.buildRequest(call, buildEndpoint()).body.user,
  )
  expect(users).toEqual(['hash', undefined, undefined])
})
