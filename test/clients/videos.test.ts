import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createOpenRouter } from '@openrouter/ai-sdk-provider'
import { OpenRouter } from '@openrouter/sdk'
import OpenAI from 'openai'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { json, startUpstream, type Upstream } from '../support/upstream.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

let upstream: Upstream
let server: LocalServer
let checker: Wirecheck | null
let base: string

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.plan(json({ id: 'video-1', status: 'failed', error: { message: 'Too dark' } }))
  const local = { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' }
  const config = {
    providers: { local },
    models: [
      {
        id: 'acme/film',
        output_modalities: ['video'],
        endpoints: [{ provider: 'local', model: 'film-1' }],
      },
    ],
  }
  server = await startLocalServer(config, { pollPace: { firstPause: 1, longestPause: 1 } })
  await server.gateway.videos.start()
  checker = hasWirecheck ? await startWirecheck(server.url) : null
  base = `${checker?.url ?? server.url}/api/v1`
})

afterAll(async () => {
  await checker?.close()
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

/** Resolves when the call is on record. */
async function recorded(id: string): Promise<void> {
  const { events, store } = server.gateway
  const { promise, resolve } = Promise.withResolvers<void>()
  const unlisten = events.on('generation.finished', one => one.id === id && resolve())
  if (!(await store.generations.byId(id))) await promise
  unlisten()
}

const openClient = () =>
  new OpenRouter({
    apiKey: server.inference_key,
    serverURL: base,
    retryConfig: { strategy: 'none' },
  })

test('@openrouter/sdk makes a video, asks about it and downloads it', async () => {
  const { videoGeneration } = openClient()
  const begun = await videoGeneration.generate({
    videoGenerationRequest: { model: 'sandbox/video', prompt: 'A cat', duration: 4 },
  })
  expect(begun).toMatchObject({ status: 'pending', pollingUrl: `/api/v1/videos/${begun.id}` })
  await recorded(begun.generationId ?? '')
  const done = await videoGeneration.getGeneration({ jobId: begun.id })
  expect(done).toMatchObject({ status: 'completed', usage: { cost: 0 } })
  const content = await videoGeneration.getVideoContent({ jobId: begun.id, index: 0 })
  const bytes = Buffer.from(await new Response(content as unknown as BodyInit).arrayBuffer())
  expect(bytes.subarray(4, 8).toString()).toBe('ftyp')
})

test('@openrouter/sdk reads why there is no video', async () => {
  const { videoGeneration } = openClient()
  const begun = await videoGeneration.generate({
    videoGenerationRequest: {
      model: 'acme/film',
      prompt: 'A cat',
      size: '1280x720',
      frameImages: [
        {
          type: 'image_url',
          imageUrl: { url: 'data:image/png;base64,iVBORw0KGgo=' },
          frameType: 'first_frame',
        },
      ],
    },
  })
  await recorded(begun.generationId ?? '')
  const failed = await videoGeneration.getGeneration({ jobId: begun.id })
  expect(failed).toMatchObject({ status: 'failed', error: 'Too dark' })
  const download = videoGeneration.getVideoContent({ jobId: begun.id })
  expect(await download.catch(({ statusCode }) => statusCode)).toBe(410)
  const unknown = videoGeneration.getGeneration({ jobId: 'job-nothing' })
  expect(await unknown.catch(({ statusCode }) => statusCode)).toBe(404)
})

test('@openrouter/sdk lists what makes videos', async () => {
  const { data } = await openClient().videoGeneration.listVideosModels()
  expect(data.find(({ id }) => id === 'acme/film')).toMatchObject({
    supportedFrameImages: ['first_frame'],
    seed: true,
  })
})

test('the AI SDK makes a video with the model of OpenRouter’s provider', async () => {
  const provider = createOpenRouter({ baseURL: base, apiKey: server.inference_key })
  const model = provider.videoModel('sandbox/video', { pollIntervalMs: 1 })
  const { videos } = await model.doGenerate({
    prompt: 'A cat',
    n: 1,
    aspectRatio: undefined,
    resolution: undefined,
    duration: 4,
    fps: undefined,
    seed: undefined,
    image: undefined,
    providerOptions: {},
  } as never)
  expect(videos).toMatchObject([{ type: 'url', mediaType: 'video/mp4' }])
})

test('openai begins a job, asks about it and downloads what it made', async () => {
  const client = new OpenAI({ apiKey: server.inference_key, baseURL: base, maxRetries: 0 })
  const begun = await client.videos.create({
    model: 'sandbox/video',
    prompt: 'A dog',
    seconds: '4',
  })
  await recorded((begun as unknown as { generation_id: string }).generation_id)
  expect((await client.videos.retrieve(begun.id)).status).toBe('completed')
  const content = await client.videos.downloadContent(begun.id)
  expect(content.headers.get('content-type')).toBe('video/mp4')
  expect((await content.arrayBuffer()).byteLength).toBeGreaterThan(1_000)
})

test('openai takes a picture along, as a file or by its URL', async () => {
  const client = new OpenAI({ apiKey: server.inference_key, baseURL: base, maxRetries: 0 })
  const picture = Buffer.from('iVBORw0KGgo=', 'base64')
  const file = new File([picture], 'cat.png', { type: 'image/png' })
  const image_url = `data:image/png;base64,${picture.toString('base64')}`
  for (const input_reference of [file, { image_url }]) {
    const fields = { model: 'acme/film', prompt: 'A cat', size: '1280x720' as const }
    const begun = await client.videos.create({ ...fields, seconds: '8', input_reference })
    await recorded((begun as unknown as { generation_id: string }).generation_id)
    const { headers, bytes } = upstream.hits.findLast(({ method }) => method === 'POST') ?? {}
    const sent = await new Response(new Uint8Array(bytes ?? []), {
      headers: { 'content-type': headers?.['content-type'] ?? '' },
    }).formData()
    expect([sent.get('seconds'), sent.get('size'), sent.get('prompt')]).toEqual([
      ...['8', '1280x720', 'A cat'],
    ])
    expect(await (sent.get('input_reference') as File).bytes()).toEqual(new Uint8Array(picture))
  }
})

test.skipIf(!hasWirecheck)('every exchange matches the public schema', async () => {
  const report = await checker?.report()
  expect(report?.violations).toEqual([])
  expect(report?.seen).toMatchObject({
    'createVideos 202': 6,
    'listVideosModels 200': 1,
    'listVideosContent 200': 2,
  })
})
