import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { matchesSchema } from '../../../../src/base/schema.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import {
  EmbeddingsRequest,
  toEmbeddingCall,
} from '../../../../src/translation/dialects/embeddings.ts'
import { buildEmbeddingCall } from '../../../support/call.ts'
import { testGateway } from '../../../support/gateway.ts'

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway()
})

const { id, origin } = buildEmbeddingCall()

/** Translates a valid body into a call. */
function callOf(body: object, session_id: string | null = null) {
  const whole: unknown = { model: 'acme/embed', input: 'Hi', ...body }
  if (!matchesSchema(EmbeddingsRequest, whole)) throw new Error('The body does not fit')
  return toEmbeddingCall(gateway, getOperator(gateway), whole, {
    id,
    origin,
    session_id,
    betas: [],
  })
}

describe('an embeddings request', () => {
  test('with one text becomes a call for one vector', () => {
    expect(callOf({})).toEqual(buildEmbeddingCall())
  })

  test.each([
    ['a text', 'Hi', [{ type: 'text', text: 'Hi' }]],
    [
      'texts',
      ['a', 'b'],
      [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
    ],
    ['tokens', [1, 2], [{ type: 'tokens', tokens: [1, 2] }]],
    [
      'texts in tokens',
      [[1], [2]],
      [
        { type: 'tokens', tokens: [1] },
        { type: 'tokens', tokens: [2] },
      ],
    ],
    [
      'contents',
      [{ content: [{ type: 'text', text: 'a' }] }],
      [{ type: 'content', blocks: [{ type: 'text', text: 'a' }] }],
    ],
  ])('%s', (_name, input, inputs) => {
    expect(callOf({ input }).inputs).toEqual(inputs as never)
  })

  test('has the same content parts as a conversation', () => {
    const content = [
      { type: 'image_url', image_url: { url: 'https://a.example/b.png' } },
      { type: 'input_audio', input_audio: { data: 'AA==' } },
      { type: 'input_video', input_video: { data: 'AA==', format: 'webm' } },
      { type: 'input_file', input_file: { data: 'AA==', format: 'text/plain' } },
      { type: 'input_file', input_file: { data: 'https://a.example/c.pdf' } },
    ]
    expect(callOf({ input: [{ content }] }).inputs).toEqual([
      {
        type: 'content',
        blocks: [
          { type: 'image', url: 'https://a.example/b.png' },
          { type: 'audio', data: 'AA==', format: 'wav' },
          { type: 'video', url: 'data:video/webm;base64,AA==' },
          { type: 'file', file: { file_data: 'data:text/plain;base64,AA==' } },
          { type: 'file', file: { file_data: 'https://a.example/c.pdf' } },
        ],
      },
    ])
  })

  test('keeps known parameters, forwards unknown ones and never streams', () => {
    const params = { dimensions: 8, encoding_format: 'base64', input_type: 'search_query' }
    const call = callOf({ ...params, truncate: 'END', stream: false, models: null })
    expect(call).toMatchObject({
      params,
      extra: { truncate: 'END' },
      stream: false,
      models: ['acme/embed'],
    })
  })

  test.each([
    ['models', ['a/b']],
    ['plugins', [{ id: 'web' }]],
    ['preset', 'p'],
    ['route', 'fallback'],
    ['stream', true],
  ])('refuses %s, which would have no effect', (field, value) => {
    expect(() => callOf({ [field]: value })).toThrow(`${field}: expected`)
  })

  test('ignores fields that are null', () => {
    expect(
      callOf({
        dimensions: null,
        encoding_format: null,
        input_type: null,
        provider: null,
        user: null,
      }),
    ).toEqual(buildEmbeddingCall())
  })

  test('has provider preferences, user and session as in a conversation', () => {
    const call = callOf(
      { user: 'ann', session_id: 's-1', trace: { a: 1 }, provider: { only: ['OpenAI'] } },
      's-2',
    )
    expect(call).toMatchObject({
      session_id: 's-1',
      trace: { a: 1 },
      routing: { only: ['openai'] },
    })
    expect(call.user).toMatch(/^[0-9a-f]{64}$/)
    expect(callOf({}, 's-2').session_id).toBe('s-2')
    expect(() => callOf({ provider: { only: [] } })).toThrow(/provider.only/)
  })
})
