import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { planRoute } from '../../../src/engine/plan.ts'
import type { TextCall } from '../../../src/language/call.ts'
import type { Block } from '../../../src/language/message.ts'
import { buildEmbeddingCall, buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'

const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const endpoint = { provider: 'local', model: 'up' }
const CONFIG = {
  providers: { local: provider, groq: { api_key: 'mock' } },
  models: [
    { id: 'acme/text', input_modalities: ['text'], context_length: 1_000, endpoints: [endpoint] },
    { id: 'acme/eyes', input_modalities: ['text', 'image'], endpoints: [endpoint] },
    { id: 'acme/unknown', endpoints: [endpoint] },
    { id: 'acme/wide', context_length: 100_000, endpoints: [endpoint] },
    {
      id: 'acme/embed',
      input_modalities: ['text'],
      output_modalities: ['embeddings'],
      endpoints: [endpoint],
    },
  ],
}

let gateway: Gateway
beforeAll(async () => {
  gateway = await testGateway({ config: CONFIG })
})

const IMAGE: Block = { type: 'image', url: 'data:image/png;base64,AAAA' }
const PDF: Block = { type: 'file', file: { file_data: 'data:application/pdf;base64,AAAA' } }
const TEXT_FILE: Block = { type: 'file', file: { file_data: 'data:text/plain;base64,AAAA' } }
const STORED: Block = { type: 'file', file: { file_id: 'file_1' } }

const say = (...blocks: Block[]): Pick<TextCall, 'messages'> => ({
  messages: [{ role: 'user', blocks: [{ type: 'text', text: 'What is it?' }, ...blocks] }],
})
const planned = (call: Partial<TextCall>) =>
  planRoute(gateway, 'text', buildTextCall(call)).endpoints.map(({ model }) => model)

function refusal(call: Partial<TextCall>): GatewayError {
  try {
    planned(call)
  } catch (thrown) {
    return GatewayError.from(thrown)
  }
  throw new Error('The call was planned')
}

describe('what a model is known not to accept', () => {
  test.each([
    ['a picture', IMAGE, 'image'],
    ['a PDF', PDF, 'file'],
    ['sound', { type: 'audio', data: 'AAAA', format: 'wav' } as Block, 'audio'],
  ])('%s is not sent there; the 404 names it', (_, block, name) => {
    const { status, message, metadata } = refusal({ models: ['acme/text'], ...say(block) })
    expect(status).toBe(404)
    expect(message).toContain(name)
    expect(metadata).toMatchObject({
      excluded_by: ['input_modalities'],
      availability: { code: 'constraint_filtered', retryable: false },
    })
  })

  test('another model of the call serves', () => {
    expect(planned({ models: ['acme/text', 'acme/eyes'], ...say(IMAGE) })).toEqual(['acme/eyes'])
    expect(planned({ models: ['acme/text', 'acme/unknown'], ...say(PDF) })).toEqual([
      'acme/unknown',
    ])
  })

  test('text files are texts, and what a provider keeps may be anything', () => {
    expect(planned({ models: ['acme/text'], ...say(TEXT_FILE, STORED) })).toEqual(['acme/text'])
  })

  test('what is not known may be accepted', () => {
    expect(planned({ models: ['acme/unknown'], ...say(IMAGE, PDF) })).toEqual(['acme/unknown'])
  })

  test('a built-in model for text alone is one, by the data', () => {
    const { metadata } = refusal({ models: ['openai/gpt-oss-120b'], ...say(IMAGE) })
    expect(metadata.excluded_by).toContain('input_modalities')
  })

  test('a picture is no input of an embedding model for texts', () => {
    const inputs = [{ type: 'content' as const, blocks: [IMAGE] }]
    const plan = () =>
      planRoute(gateway, 'embedding', buildEmbeddingCall({ models: ['acme/embed'], inputs }))
    expect(plan).toThrow(/image/)
  })
})

describe('a prompt that no tokenizer could fit into the context', () => {
  const whole = { plugins: { 'context-compression': null } }
  const long = { messages: [{ role: 'user' as const, blocks: words(8_000) }], ...whole }

  test('is a 400 that names the prompt', () => {
    expect(refusal({ models: ['acme/text'], ...long })).toMatchObject({
      type: 'context_length_exceeded',
      status: 400,
      metadata: { field: 'messages', excluded_by: ['context_length'] },
    })
  })

  test('goes to a model with a longer context', () => {
    expect(planned({ models: ['acme/text', 'acme/wide'], ...long })).toEqual(['acme/wide'])
  })

  test('one that may fit is sent: estimates are generous', () => {
    const short = { messages: [{ role: 'user' as const, blocks: words(1_900) }] }
    expect(planned({ models: ['acme/text'], ...short })).toEqual(['acme/text'])
  })

  test('with max_tokens beyond the rest is a 400 that names max_tokens', () => {
    const short = { messages: [{ role: 'user' as const, blocks: words(1_000) }], ...whole }
    expect(refusal({ models: ['acme/text'], ...short, params: { max_tokens: 900 } })).toMatchObject(
      { type: 'max_tokens_exceeded', metadata: { field: 'max_tokens' } },
    )
  })
})

/** Returns a text of so many words, which have one token each. */
function words(count: number): Block[] {
  return [{ type: 'text', text: 'hello '.repeat(count) }]
}
