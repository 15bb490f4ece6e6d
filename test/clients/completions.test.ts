import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { protocols } from '../../src/translation/protocols/registry.ts'
import { type FakeProviderServer, startFakeProviders } from '../support/fake-provider-server.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/* Text completions with OpenAI's client over every protocol of a provider. */

const PROTOCOLS = Object.keys(protocols.text).filter(name => name !== 'sandbox')

let upstream: FakeProviderServer
let server: LocalServer
let openai: OpenAI

beforeAll(async () => {
  upstream = startFakeProviders({
    tale: () => ({ answer: { text: ' a king', finish: 'stop' } }),
    long: () => ({ answer: { text: ' a ki', finish: 'length' } }),
  })
  server = await startLocalServer({
    providers: Object.fromEntries(
      PROTOCOLS.map(name => [
        name,
        { protocol: name, base_url: upstream.getBaseUrl(name), api_key: 'mock' },
      ]),
    ),
    models: PROTOCOLS.flatMap(provider =>
      ['tale', 'long'].map(model => ({
        id: `${provider}/${model}`,
        endpoints: [{ provider, model, usd_per_million_tokens: { prompt: 1, completion: 2 } }],
      })),
    ),
  })
  openai = new OpenAI({
    baseURL: `${server.url}/api/v1`,
    apiKey: server.inference_key,
    maxRetries: 0,
  })
})

afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
})

describe.each(PROTOCOLS)('over %s', protocol => {
  test('a prompt is continued, whole', async () => {
    const answer = await openai.completions.create({
      model: `${protocol}/tale`,
      prompt: 'There was',
    })
    expect(answer).toMatchObject({
      object: 'text_completion',
      choices: [{ index: 0, text: ' a king', finish_reason: 'stop' }],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    })
    expect(upstream.getLastRequest(protocol).lines).toEqual(['user: There was'])
  })

  test('a prompt is continued, streamed', async () => {
    const stream = await openai.completions.create({
      model: `${protocol}/long`,
      prompt: 'There was',
      stream: true,
    })
    let text = ''
    const reasons: unknown[] = []
    for await (const { choices } of stream)
      for (const choice of choices) {
        text += choice.text
        if (choice.finish_reason) reasons.push(choice.finish_reason)
      }
    expect([text, ...reasons]).toEqual([' a ki', 'length'])
  })
})
