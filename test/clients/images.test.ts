import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenRouter } from '@openrouter/ai-sdk-provider'
import { OpenRouter } from '@openrouter/sdk'
import { generateImage } from 'ai'
import OpenAI from 'openai'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  chunkedEnd,
  event,
  type Hit,
  json,
  sseHead,
  startUpstream,
  type Upstream,
} from '../support/upstream.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

/** The smallest of pictures: one pixel. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
const USAGE = { input_tokens: 10, output_tokens: 300, total_tokens: 310 }

/** A provider that draws as OpenAI does: with previews if it is asked for a stream. */
function drawPictures({ json: body }: Hit) {
  const { n = 1, stream } = (body ?? {}) as { n?: number; stream?: boolean }
  const data = Array.from({ length: n }, () => ({ b64_json: PNG }))
  if (!stream) return json({ created: 1, data, usage: USAGE })
  const picture = { b64_json: PNG }
  return [
    sseHead(),
    event({ type: 'image_generation.partial_image', partial_image_index: 0, ...picture }),
    event({ type: 'image_generation.completed', ...picture, usage: USAGE }),
    chunkedEnd(),
  ]
}

let upstream: Upstream
let server: LocalServer
let checker: Wirecheck | null
let base: string

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(drawPictures)
  // The public schema has a closed list of provider names, so this provider uses one of them.
  const local = {
    name: 'OpenAI',
    protocol: 'openai-chat',
    base_url: upstream.url,
    api_key: 'mock',
  }
  const prices = { prompt: 5, completion: 0, image_output: 40 }
  const endpoints = [{ provider: 'local', model: 'gpt-image-1', usd_per_million_tokens: prices }]
  server = await startLocalServer({
    providers: { local },
    models: [{ id: 'acme/draw', output_modalities: ['image'], endpoints }],
  })
  checker = hasWirecheck ? await startWirecheck(server.url) : null
  base = `${checker?.url ?? server.url}/api/v1`
})

afterAll(async () => {
  await checker?.close()
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const openClient = () =>
  new OpenRouter({
    apiKey: server.inference_key,
    serverURL: base,
    retryConfig: { strategy: 'none' },
  })

test('@openrouter/sdk draws, after references too', async () => {
  const drawn = await openClient().images.generate({
    imageGenerationRequest: { model: 'acme/draw', prompt: 'A cat', n: 2, aspectRatio: '3:2' },
  })
  expect(drawn).toMatchObject({
    data: [{ b64Json: PNG, mediaType: 'image/png' }, { b64Json: PNG }],
    usage: { promptTokens: 10, completionTokens: 300, cost: 0.01205 },
  })
  const changed = await openClient().images.generate({
    imageGenerationRequest: {
      model: 'acme/draw',
      prompt: 'A dog',
      inputReferences: [{ type: 'image_url', imageUrl: { url: `data:image/png;base64,${PNG}` } }],
    },
  })
  expect(changed).toMatchObject({ data: [{ b64Json: PNG }] })
  expect(upstream.hits.at(-1)?.path).toBe('/v1/images/edits')
})

test('@openrouter/sdk reads a stream of previews', async () => {
  const stream = await openClient().images.generate({
    imageGenerationRequest: { model: 'acme/draw', prompt: 'A cat', stream: true },
  })
  const types: string[] = []
  for await (const one of stream as unknown as AsyncIterable<{ data?: object }>)
    types.push((('data' in one ? one.data : one) as { type: string }).type)
  expect(types).toEqual(['image_generation.partial_image', 'image_generation.completed'])
})

test('@openrouter/sdk lists what draws', async () => {
  const { data } = await openClient().images.listModels()
  expect(data.map(({ id }) => id)).toContain('acme/draw')
  const one = await openClient().images.listModelEndpoints({ author: 'acme', slug: 'draw' })
  expect(one.endpoints).toMatchObject([{ providerSlug: 'local', supportsStreaming: true }])
})

test('the AI SDK draws with the model of OpenRouter’s provider', async () => {
  const provider = createOpenRouter({ baseURL: base, apiKey: server.inference_key })
  const { images } = await generateImage({
    model: provider.imageModel('acme/draw'),
    prompt: 'A cat',
    n: 2,
    aspectRatio: '16:9',
  })
  expect(images.map(({ base64, mediaType }) => [base64, mediaType])).toEqual([
    [PNG, 'image/png'],
    [PNG, 'image/png'],
  ])
})

const openOpenAi = () => new OpenAI({ apiKey: server.inference_key, baseURL: base, maxRetries: 0 })

test('openai draws, unmodified', async () => {
  const { images } = openOpenAi()
  const size = '1024x1024' as const
  const drawn = await images.generate({ model: 'acme/draw', prompt: 'A cat', n: 2, size })
  expect(drawn.data?.map(({ b64_json }) => b64_json)).toEqual([PNG, PNG])
  expect(upstream.hits.at(-1)?.json).toMatchObject({ n: 2, size })
})

test('openai changes pictures, one or several, unmodified', async () => {
  const { images } = openOpenAi()
  const file = () => new File([Buffer.from(PNG, 'base64')], 'cat.png', { type: 'image/png' })
  for (const image of [file(), [file(), file()]]) {
    const fields = { model: 'acme/draw', prompt: 'A dog', n: 1, quality: 'low' as const }
    const { data } = await images.edit({ ...fields, image, response_format: 'b64_json' })
    expect(data?.map(({ b64_json }) => b64_json)).toEqual([PNG])
    const { path, headers, bytes } = upstream.hits.at(-1) ?? {}
    expect(path).toBe('/v1/images/edits')
    const sent = await new Response(new Uint8Array(bytes ?? []), {
      headers: { 'content-type': headers?.['content-type'] ?? '' },
    }).formData()
    expect(sent.getAll('image[]').length + sent.getAll('image').length).toBe([image].flat().length)
  }
})

test('openai reads a stream of previews, unmodified', async () => {
  const stream = await openOpenAi().images.generate({
    ...{ model: 'acme/draw', prompt: 'A cat', stream: true as const },
  })
  const types: string[] = []
  for await (const { type } of stream) types.push(type)
  expect(types).toEqual(['image_generation.partial_image', 'image_generation.completed'])
})

test('the AI SDK draws with its model for OpenAI', async () => {
  const openai = createOpenAI({ baseURL: base, apiKey: server.inference_key })
  const { images } = await generateImage({ model: openai.image('acme/draw'), prompt: 'A cat' })
  expect(images.map(({ base64 }) => base64)).toEqual([PNG])
})

test.skipIf(!hasWirecheck)('every exchange matches the public schema', async () => {
  const report = await checker?.report()
  expect(report?.violations).toEqual([])
  expect(report?.seen).toMatchObject({
    'createImages 200': 4,
    'listImageModels 200': 1,
    'listImageModelEndpoints 200': 1,
  })
})
