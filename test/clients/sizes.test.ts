import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { type MediaStage, openMediaStage, PNG } from '../support/media.ts'
import { type Hit, json, type Script } from '../support/upstream.ts'

/*
 * A size in pixels is followed as nearly as the endpoint can, and told where it could not be exact:
 * every family that draws or films, with OpenAI's client.
 */

const DATA = `data:image/png;base64,${PNG}`
const bodyOf = ({ json: body }: Hit) => body as Json
const chat = (hit: Hit) => (bodyOf(hit).generationConfig as Json).imageConfig

/** A family: its models' answer, and what it is asked for in the place of some pixels. */
interface Family {
  settings: Json
  model: string
  output?: string[]
  answer: Script
  read(hit: Hit): unknown
  asked: Record<string, unknown>
  /** The pixels that it is asked for exactly. */
  exact: string[]
}

const gemini: Script = json({
  candidates: [
    {
      content: { parts: [{ inlineData: { mimeType: 'image/png', data: PNG } }] },
      finishReason: 'STOP',
    },
  ],
})

const IMAGES: Record<string, Family> = {
  'Gemini 3': {
    settings: { protocol: 'gemini' },
    model: 'gemini-3-pro-image',
    output: ['text', 'image'],
    answer: gemini,
    read: chat,
    asked: {
      '1024x1024': { aspectRatio: '1:1', imageSize: '1K' },
      '1792x1024': { aspectRatio: '16:9', imageSize: '1K' },
      '4000x6000': { aspectRatio: '2:3', imageSize: '4K' },
    },
    exact: [],
  },
  'Gemini 2.5': {
    settings: { protocol: 'gemini' },
    model: 'gemini-2.5-flash-image',
    output: ['text', 'image'],
    answer: gemini,
    read: chat,
    asked: { '1024x1024': { aspectRatio: '1:1' }, '1024x1536': { aspectRatio: '2:3' } },
    exact: [],
  },
  Imagen: {
    settings: { protocol: 'gemini' },
    model: 'imagen-4.0-generate-001',
    answer: json({ predictions: [{ bytesBase64Encoded: PNG }] }),
    read: hit => {
      const { aspectRatio, sampleImageSize } = bodyOf(hit).parameters as Json
      return { aspectRatio, sampleImageSize }
    },
    asked: {
      '1024x1024': { aspectRatio: '1:1', sampleImageSize: '1K' },
      '1920x1080': { aspectRatio: '16:9', sampleImageSize: '1K' },
    },
    exact: [],
  },
  'GPT Image 1': {
    settings: { protocol: 'openai-chat' },
    model: 'gpt-image-1',
    answer: json({ data: [{ b64_json: PNG }] }),
    read: hit => bodyOf(hit).size,
    asked: { '512x512': '1024x1024', '1792x1024': '1536x1024', '1080x1920': '1024x1536' },
    exact: [],
  },
  'a server of any size': {
    settings: { protocol: 'openai-chat' },
    model: 'flux',
    answer: json({ data: [{ b64_json: PNG }] }),
    read: hit => bodyOf(hit).size,
    asked: { '1024x1024': '1024x1024', '640x480': '640x480' },
    exact: ['1024x1024', '640x480'],
  },
  xAI: {
    settings: { protocol: 'openai-chat', quirks: { images: 'xai' } },
    model: 'grok-2-image',
    answer: json({ data: [{ b64_json: PNG }] }),
    read: hit => [bodyOf(hit).aspect_ratio, bodyOf(hit).resolution],
    asked: { '1024x1024': ['1:1', '1k'], '2048x4096': ['1:2', '2k'] },
    exact: [],
  },
  Stability: {
    settings: { protocol: 'stability' },
    model: 'stable-image-core',
    answer: json({ image: PNG, finish_reason: 'SUCCESS' }),
    read: ({ body }) => /name="aspect_ratio"\r\n\r\n(\S+)/.exec(body)?.[1],
    asked: { '1024x1024': '1:1', '1536x1024': '3:2' },
    exact: [],
  },
  'Black Forest Labs': {
    settings: { protocol: 'bfl' },
    model: 'flux-kontext-pro',
    answer: json({ result: { sample: DATA }, status: 'Ready' }),
    read: hit => bodyOf(hit).aspect_ratio,
    asked: { '1024x1024': '1:1' },
    exact: [],
  },
}

const VIDEOS: Record<string, Family> = {
  Sora: {
    settings: { protocol: 'openai-chat' },
    model: 'sora-2',
    answer: json({ id: 'video-1', status: 'failed' }),
    read: hit => bodyOf(hit).size,
    asked: { '1280x720': '1280x720', '1920x1080': '1280x720', '1024x1792': '720x1280' },
    exact: ['1280x720'],
  },
  Veo: {
    settings: { protocol: 'gemini' },
    model: 'veo-3.1-generate-preview',
    answer: json({ name: 'models/veo-3.1-generate-preview/operations/1', done: true }),
    read: hit => {
      const { aspectRatio, resolution } = bodyOf(hit).parameters as Json
      return { aspectRatio, resolution }
    },
    asked: {
      '1280x720': { aspectRatio: '16:9', resolution: '720p' },
      '1024x1792': { aspectRatio: '9:16', resolution: '1080p' },
    },
    exact: ['1280x720'],
  },
  Luma: {
    settings: { protocol: 'luma' },
    model: 'ray-2',
    answer: json({ id: 'video-1', state: 'failed' }),
    read: hit => [bodyOf(hit).resolution, bodyOf(hit).aspect_ratio],
    asked: { '1280x720': ['720p', '16:9'], '1000x1000': ['1080p', '1:1'] },
    exact: [],
  },
  Runway: {
    settings: { protocol: 'runway' },
    model: 'gen4.5',
    answer: json({ id: 'video-1', status: 'FAILED' }),
    read: hit => bodyOf(hit).ratio,
    asked: { '1280x720': '1280:720', '1024x1024': '960:960' },
    exact: ['1280x720'],
  },
}

let stage: MediaStage
const idOf = (name: string) => `size/${name.toLowerCase().replace(/[^a-z0-9]+/g, '-')}`

beforeAll(async () => {
  const toModel =
    (usual: string) =>
    ([name, { settings, model, output = [usual] }]: [string, Family]) => ({
      ...{ id: idOf(name), output, model, providers: [settings] },
      prices: { per_image: 0, per_second: 0 },
    })
  stage = await openMediaStage([
    ...Object.entries(IMAGES).map(toModel('image')),
    ...Object.entries(VIDEOS).map(toModel('video')),
    {
      id: 'size/either',
      output: 'image',
      model: 'm',
      providers: [{ protocol: 'stability' }, { protocol: 'openai-chat' }],
    },
  ])
})
afterAll(() => stage[Symbol.asyncDispose]())

const cases = (families: Record<string, Family>) =>
  Object.entries(families).flatMap(([name, { asked }]) =>
    Object.entries(asked).map(([size, expected]) => ({ name, size, expected })),
  )

async function explain(path: string, body: Json): Promise<Json> {
  const response = await stage.server.fetch(path, {
    ...{ json: { ...body, debug: { dry_run: true } }, key: stage.server.management_key },
  })
  const { endpoints } = (await response.json()) as { endpoints: Json[] }
  return endpoints[0] ?? {}
}

describe('a picture', () => {
  beforeEach(() => {
    for (const [name, { answer }] of Object.entries(IMAGES))
      stage.upstreamOf(idOf(name)).plan(answer)
  })

  test.each(cases(IMAGES))('of $name in $size', async ({ name, size, expected }) => {
    const { read, exact } = IMAGES[name] as Family
    const ask = { model: idOf(name), prompt: 'A cat', size: size as '1024x1024' }
    const drawn = await stage.openai.images.generate(ask)
    expect(drawn.data).toMatchObject([{ b64_json: PNG }])
    // The picture has one pixel: the answer says what it is, and not what was asked for.
    expect(drawn.size as string).toBe('1x1')
    const hit = stage.upstreamOf(idOf(name)).hits.at(-1)
    expect(hit && read(hit)).toEqual(expected)
    const { ignored_parameters } = await explain('/images', ask)
    expect(ignored_parameters).toEqual(exact.includes(size) ? [] : ['size'])
  })
})

describe('a video', () => {
  beforeEach(() => {
    for (const [name, { answer }] of Object.entries(VIDEOS))
      stage.upstreamOf(idOf(name)).plan(answer)
  })

  test.each(cases(VIDEOS))('of $name in $size', async ({ name, size, expected }) => {
    const { read, exact } = VIDEOS[name] as Family
    const ask = { model: idOf(name), prompt: 'A cat', size: size as '1280x720' }
    const begun = await stage.openai.videos.create(ask)
    expect(begun.id).toStartWith('job-')
    const last = stage.upstreamOf(idOf(name)).hits.findLast(({ method }) => method === 'POST')
    expect(last && read(last)).toEqual(expected)
    const { ignored_parameters } = await explain('/videos', ask)
    expect(ignored_parameters).toEqual(exact.includes(size) ? [] : ['size'])
  })
})

test('an endpoint that follows it exactly is asked first', async () => {
  stage.upstreamOf('size/either', 1).plan(json({ data: [{ b64_json: PNG }] }))
  await stage.openai.images.generate({ model: 'size/either', prompt: 'A cat', size: '512x512' })
  expect(stage.upstreamOf('size/either').hits).toEqual([])
})
