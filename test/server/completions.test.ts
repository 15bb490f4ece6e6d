import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { protocols } from '../../src/translation/protocols/registry.ts'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/* Text completions, the older form of chat completions, over every protocol of a provider. */

const PROTOCOLS = Object.keys(protocols.text).filter(name => name !== 'sandbox')

const SCENES: Record<string, Scenario> = {
  text: () => ({ answer: { text: ' upon a time', finish: 'stop' } }),
  length: () => ({ answer: { text: ' upon', finish: 'length' } }),
}

let upstream: FakeProviderServer
let server: LocalServer
let client: OpenAI

beforeAll(async () => {
  upstream = startFakeProviders(SCENES)
  server = await startLocalServer(buildConfig(upstream))
  client = new OpenAI({ baseURL: server.base, apiKey: server.inference_key, maxRetries: 0 })
})

afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
})

const buildConfig = (fakes: FakeProviderServer) => ({
  providers: Object.fromEntries(
    PROTOCOLS.map(name => [
      name,
      { protocol: name, base_url: fakes.getBaseUrl(name), api_key: 'mock' },
    ]),
  ),
  models: PROTOCOLS.flatMap(provider =>
    Object.keys(SCENES).map(model => ({
      id: `${provider}/${model}`,
      endpoints: [{ provider, model, usd_per_million_tokens: { prompt: 1, completion: 2 } }],
    })),
  ),
})

describe.each(PROTOCOLS)('a completion over %s', protocol => {
  const body = (scene: string) => ({
    model: `${protocol}/${scene}`,
    prompt: 'Once',
    max_tokens: 50,
  })

  test('is a text, whole', async () => {
    const answer = await client.completions.create(body('text'))
    expect(answer).toMatchObject({
      object: 'text_completion',
      choices: [{ index: 0, text: ' upon a time', finish_reason: 'stop' }],
      usage: { prompt_tokens: 10, completion_tokens: 5 },
    })
    expect(upstream.getLastRequest(protocol).lines).toEqual(['user: Once'])
  })

  test('is a text, streamed, and says why it ended', async () => {
    let text = ''
    let finish: string | null = null
    for await (const { choices } of await client.completions.create({
      ...body('length'),
      stream: true,
    })) {
      text += choices[0]?.text ?? ''
      finish = choices[0]?.finish_reason ?? finish
    }
    expect([text, finish]).toEqual([' upon', 'length'])
  })
})
