import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { createGoogle } from '@ai-sdk/google'
import { LLMock } from '@copilotkit/aimock'
import { embed } from 'ai'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/* One model of each family of providers, against an independent mock server. */

const VECTOR = [0.125, -0.5, 0.25]

let mock: LLMock
let server: LocalServer

beforeAll(async () => {
  mock = new LLMock({ port: 0, strict: true })
  await mock.start()
  const model = (provider: string, upstream = 'm') => ({
    id: `${provider}/embed`,
    output_modalities: ['embeddings'],
    endpoints: [
      { provider, model: upstream, usd_per_million_tokens: { prompt: 0.1, completion: 0 } },
    ],
  })
  server = await startLocalServer({
    providers: {
      openai: { api_key: 'mock', base_url: `${mock.url}/v1` },
      azure: {
        api_key: 'mock',
        base_url: `${mock.url}/openai`,
        quirks: { api_version: '2024-10-21' },
      },
      cohere: { api_key: 'mock', base_url: `${mock.url}/v2` },
      google: { api_key: 'mock', base_url: `${mock.url}/v1beta` },
    },
    models: [
      model('openai'),
      model('azure', 'my-deployment'),
      model('cohere'),
      model('google', 'gemini-embedding-001'),
    ],
  })
})

afterEach(() => mock.reset())

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await mock.stop()
})

/** Returns the gateway's answer for this text. */
async function given(
  model: string,
): Promise<{ data: { embedding: number[] }[]; usage: { prompt_tokens: number } }> {
  const response = await server.fetch('/embeddings', {
    json: { model, input: 'Hello there', input_type: 'search_query' },
  })
  expect(response.status).toBe(200)
  return response.json() as never
}

test.each([
  ['openai/embed', '/v1/embeddings'],
  ['azure/embed', '/openai/deployments/my-deployment/embeddings?api-version=2024-10-21'],
  ['cohere/embed', '/v2/embed'],
  ['google/embed', '/v1beta/models/gemini-embedding-001:embedContent'],
])('%s is called at %s', async (model, path) => {
  mock.onEmbedding('Hello there', { embedding: VECTOR })
  const { data, usage } = await given(model)
  expect(data).toMatchObject([{ index: 0, embedding: VECTOR }])
  expect(usage.prompt_tokens).toBeGreaterThan(0)
  expect(mock.getLastRequest()?.path).toBe(path)
})

test('google/embed returns what Google’s own client reads', async () => {
  mock.onEmbedding('Hello there', { embedding: VECTOR })
  const google = createGoogle({ apiKey: 'mock', baseURL: `${mock.url}/v1beta` })
  const { embedding } = await embed({
    model: google.embedding('gemini-embedding-001'),
    value: 'Hello there',
  })
  expect((await given('google/embed')).data[0]?.embedding).toEqual(embedding)
})
