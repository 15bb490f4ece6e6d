import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { fetchKeyState } from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  body as answerBody,
  type Hit,
  htmlError,
  json,
  type Script,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

/*
 * Providers whose pictures are asked for in a form of their own: one table of them, and the same
 * cases for each.
 */

/** The smallest of pictures: one pixel. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
const DATA_URL = `data:image/png;base64,${PNG}`
const reference = { type: 'image_url', image_url: { url: DATA_URL } }

/** A provider as the config names it, and how its servers answer. */
interface Row {
  /** A slug of the built-in list: the row is all that the config leaves out. */
  provider: string
  model: string
  credential: [header: string, value: string]
  path: string
  /** What one call sends: `SHAPE`, and a seed where it takes one. */
  sends: object
  /** The answers of the provider in turn, the last of which has the picture. */
  answers(upstream: Upstream): Script[]
  refusal: Script
}

const SHAPE = { prompt: 'A cat', aspect_ratio: '16:9' }
const KEY: [string, string] = ['authorization', 'Bearer mock']
const bytes: Script = [
  'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/octet-stream\r\n\r\n',
  Buffer.from(PNG, 'base64'),
]

const PENDING = json({ id: 't-1', status: 'Pending' })
const ready = ({ url }: Upstream) =>
  json({ id: 't-1', status: 'Ready', result: { sample: `${url}/a.png` } })

const ROWS: Record<string, Row> = {
  'Black Forest Labs, by pixels': {
    provider: 'black-forest-labs',
    model: 'flux-2-pro',
    credential: ['x-key', 'mock'],
    path: '/v1/flux-2-pro',
    sends: { prompt: 'A cat', width: 1_376, height: 768, seed: 7 },
    answers: upstream => [
      json({ id: 't-1', polling_url: `${upstream.url}/get_result?id=t-1` }),
      PENDING,
      ready(upstream),
      bytes,
    ],
    refusal: json({ id: 't-1', status: 'Content Moderated', result: null }),
  },
  'Black Forest Labs, by a ratio': {
    provider: 'black-forest-labs',
    model: 'flux-kontext-max',
    credential: ['x-key', 'mock'],
    path: '/v1/flux-kontext-max',
    sends: { ...SHAPE, seed: 7 },
    answers: upstream => [
      json({ id: 't-1', polling_url: `${upstream.url}/get_result?id=t-1` }),
      ready(upstream),
      bytes,
    ],
    refusal: json({ id: 't-1', status: 'Request Moderated', result: null }),
  },
  'fal, by pixels': {
    provider: 'fal',
    model: 'fal-ai/flux-2',
    credential: ['authorization', 'Key mock'],
    path: '/v1/fal-ai/flux-2',
    sends: {
      prompt: 'A cat',
      num_images: 1,
      image_size: { width: 1_360, height: 768 },
      seed: 7,
    },
    answers: ({ url }) => [json({ images: [{ url: `${url}/a.png` }] }), bytes],
    refusal: json({ images: [{ url: DATA_URL }], has_nsfw_concepts: [true] }),
  },
  'fal, by a ratio': {
    provider: 'fal',
    model: 'fal-ai/nano-banana-2',
    credential: ['authorization', 'Key mock'],
    path: '/v1/fal-ai/nano-banana-2',
    sends: { ...SHAPE, num_images: 1, seed: 7 },
    answers: () => [json({ images: [{ url: DATA_URL }] })],
    refusal: json(
      { detail: [{ loc: ['body', 'prompt'], msg: 'Unsafe', type: 'content_policy_violation' }] },
      { status: 422 },
    ),
  },
  Recraft: {
    provider: 'recraft',
    model: 'recraftv4_1',
    credential: KEY,
    path: '/v1/images/generations',
    sends: {
      model: 'recraftv4_1',
      prompt: 'A cat',
      n: 1,
      size: '16:9',
      response_format: 'b64_json',
    },
    answers: () => [json({ created: 1, credits: 40, data: [{ b64_json: PNG }] })],
    refusal: json({ error: { code: 'content_policy_violation', message: 'No' } }, { status: 400 }),
  },
  'Stability, Core': {
    provider: 'stability',
    model: 'stable-image-core',
    credential: KEY,
    path: '/v1/stable-image/generate/core',
    sends: { ...SHAPE, seed: '7' },
    answers: () => [json({ image: PNG, finish_reason: 'SUCCESS', seed: 7 })],
    refusal: json({ image: PNG, finish_reason: 'CONTENT_FILTERED', seed: 7 }),
  },
  'Stability, Stable Diffusion': {
    provider: 'stability',
    model: 'sd3.5-large',
    credential: KEY,
    path: '/v1/stable-image/generate/sd3',
    sends: { ...SHAPE, seed: '7', model: 'sd3.5-large' },
    answers: () => [json({ image: PNG, finish_reason: 'SUCCESS', seed: 7 })],
    refusal: json(
      { id: 'e', name: 'content_moderation', errors: ['Your request was flagged'] },
      { status: 403 },
    ),
  },
  Fireworks: {
    provider: 'fireworks',
    model: 'flux-1-dev-fp8',
    credential: KEY,
    path: '/v1/workflows/accounts/fireworks/models/flux-1-dev-fp8/text_to_image',
    sends: { ...SHAPE, seed: 7 },
    answers: () => [json({ id: 'f', base64: [PNG], finishReason: 'SUCCESS', seed: 7 })],
    refusal: json({ id: 'f', base64: [], finishReason: 'CONTENT_FILTERED', seed: 7 }),
  },
  'Fireworks, Kontext': {
    provider: 'fireworks',
    model: 'flux-kontext-pro',
    credential: KEY,
    path: '/v1/workflows/accounts/fireworks/models/flux-kontext-pro',
    sends: { ...SHAPE, seed: 7 },
    answers: upstream => [json({ request_id: 't-1' }), PENDING, ready(upstream), bytes],
    refusal: json({ status: 'Content Moderated' }),
  },
}

let server: LocalServer
let first: Upstream
let second: Upstream

const slugs = [...new Set(Object.values(ROWS).map(({ provider }) => provider))]
const toId = (model: string) => `acme/${model.replaceAll('/', '-')}`
const prices = { prompt: 0, completion: 0, per_image: 0.04 }

beforeAll(async () => {
  ;[first, second] = await Promise.all([startUpstream(), startUpstream()])
  server = await startLocalServer({
    routing: { choice: 'listed', failures: 0 },
    security: { allow_private_urls: [new URL(first.url).host] },
    providers: {
      ...Object.fromEntries(slugs.map(slug => [slug, { base_url: first.url, api_key: 'mock' }])),
      spare: { protocol: 'openai-chat', base_url: second.url, api_key: 'mock' },
    },
    models: Object.values(ROWS).map(({ provider, model }) => ({
      id: toId(model),
      output_modalities: ['image'],
      endpoints: [
        { provider, model, usd_per_million_tokens: prices },
        { provider: 'spare', model: 'draw-1', usd_per_million_tokens: prices },
      ],
    })),
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([first.close(), second.close()])
})

beforeEach(() => {
  for (const upstream of [first, second]) upstream.hits.length = 0
  second.plan(json({ created: 1, data: [{ b64_json: PNG }] }))
})

interface Drawn {
  data: { b64_json: string; media_type: string }[]
  usage: { cost: number }
  error: { message: string; code: number }
}

async function draw(row: Row, more: object = {}, init: object = {}) {
  const body = { model: toId(row.model), prompt: 'A cat', ...more }
  const response = await server.fetch('/images', { json: body, ...init })
  return { status: response.status, ...((await response.json()) as Drawn) }
}

/** Reads the fields of a request, as JSON or as a form. */
async function readFields({ json: body, bytes: form, headers }: Hit): Promise<object> {
  if (body !== undefined) return body as object
  const type = headers['content-type'] ?? ''
  const fields = await new Response(form as BodyInit, {
    headers: { 'content-type': type },
  }).formData()
  return Object.fromEntries(fields.entries())
}

/** The answer after which nothing more is asked, and those before it. */
const replaceLast = (row: Row, last: Script): [Script, ...Script[]] => {
  const [start = last, ...rest] = row.answers(first)
  return rest.includes(PENDING) || row.path.includes('flux-k') ? [start, last] : [last]
}

describe.each(Object.entries(ROWS))('%s', (_, row) => {
  test('draws, and a picture is charged', async () => {
    first.plan(...(row.answers(first) as [Script]))
    const seed = 'seed' in row.sends ? { seed: 7 } : {}
    const drawn = await draw(row, { aspect_ratio: '16:9', ...seed })
    expect(drawn).toMatchObject({
      status: 200,
      data: [{ b64_json: PNG, media_type: 'image/png' }],
      usage: { cost: 0.04 },
    })
    const [hit] = first.hits
    expect([hit?.path, hit?.headers[row.credential[0]]]).toEqual([row.path, row.credential[1]])
    expect(hit && (await readFields(hit))).toEqual(row.sends)
    expect(second.hits).toEqual([])
  })

  test('a refusal of its moderators is no failure, and costs nothing', async () => {
    const before = (await fetchKeyState(server)).usage
    first.plan(...replaceLast(row, row.refusal))
    const refused = await draw(row, { provider: { only: [row.provider] } })
    expect([refused.status, refused.error.message]).toEqual([400, expect.stringMatching(/refused/)])
    expect((await fetchKeyState(server)).usage).toBe(before)
  })

  test.each<[string, () => Script]>([
    ['a failure', () => status(503)],
    ['a page', () => htmlError(200)],
    ['no picture', () => json({})],
    ['a cut answer', () => answerBody('application/json', '{"id":"t-1","ima')],
  ])('the next provider is asked after %s', async (_, failure) => {
    first.plan(failure())
    expect(await draw(row)).toMatchObject({ status: 200, usage: { cost: 0.04 } })
    expect(second.hits).toHaveLength(1)
  })
})

describe('work that goes on', () => {
  const row = ROWS['Black Forest Labs, by pixels'] as Row
  const task = (polling_url: string) => json({ id: 't-1', polling_url })

  test('is asked for with the credential, where the provider says', async () => {
    first.plan(...(row.answers(first) as [Script]))
    await draw(row)
    expect(first.hits.map(({ method, path }) => [method, path])).toEqual([
      ['POST', '/v1/flux-2-pro'],
      ['GET', '/v1/get_result?id=t-1'],
      ['GET', '/v1/get_result?id=t-1'],
      ['GET', '/v1/a.png'],
    ])
    expect(first.hits.map(({ headers }) => headers['x-key'])).toEqual([
      'mock',
      'mock',
      'mock',
      undefined,
    ])
  })

  test.each([
    'https://evil.example/get_result?id=t-1',
    'http://169.254.169.254/latest/meta-data',
    'file:///etc/passwd',
    'not a URL',
  ])('is asked for at the provider’s own address, and not at %s', async polling_url => {
    first.plan(task(polling_url), ready(first), bytes)
    expect((await draw(row)).status).toBe(200)
    expect(first.hits[1]?.path).toBe('/v1/get_result?id=t-1')
  })

  test.each<[string, Script]>([
    ['fails', json({ id: 't-1', status: 'Error', result: null })],
    ['is forgotten', json({ id: 't-1', status: 'Task not found' })],
    ['is refused', status(500)],
    ['is a page', htmlError(200)],
    ['has a word that nobody knows', json({ id: 't-1', status: 'Elsewhere' })],
  ])('goes to the next provider if it %s', async (_, answer) => {
    first.plan(task(`${first.url}/get_result?id=t-1`), answer)
    expect(await draw(row)).toMatchObject({ status: 200, usage: { cost: 0.04 } })
    expect(second.hits).toHaveLength(1)
  })

  test.each<[string, Script]>([
    ['a page', htmlError(200)],
    ['nothing', status(404)],
    ['a zip', [bytes[0] as string, Buffer.from('UEsDBBQAAAAIAAAAIQAAAAAA', 'base64')]],
  ])('goes to the next provider if its picture is %s', async (_, answer) => {
    first.plan(task(`${first.url}/get_result?id=t-1`), ready(first), answer)
    expect(await draw(row)).toMatchObject({ status: 200, usage: { cost: 0.04 } })
    expect(second.hits).toHaveLength(1)
  })

  test('is not asked for once the client has left', async () => {
    first.answer(hit =>
      hit.method === 'POST' ? task(`${first.url}/get_result?id=t-1`) : { wait: 'never' },
    )
    const controller = new AbortController()
    const call = draw(row, { provider: { only: [row.provider] } }, { signal: controller.signal })
    const left = call.catch(() => null)
    await first.hit(2)
    controller.abort()
    await left
    expect(second.hits).toEqual([])
  })
})

describe('references', () => {
  const of = (name: string) => ROWS[name] as Row

  test('are pictures in base64 for Black Forest Labs', async () => {
    const row = of('Black Forest Labs, by pixels')
    first.plan(...(row.answers(first) as [Script]))
    await draw(row, { input_references: [reference, reference] })
    expect(first.hits[0]?.json).toMatchObject({ input_image: PNG, input_image_2: PNG })
  })

  test('have a path of their own at fal', async () => {
    const row = of('fal, by a ratio')
    first.plan(...(row.answers(first) as [Script]))
    await draw(row, { input_references: [reference] })
    expect(first.hits[0]?.path).toBe('/v1/fal-ai/nano-banana-2/edit')
    expect(first.hits[0]?.json).toMatchObject({ image_urls: [DATA_URL] })
  })

  test('are a file for Stability, which asks how far to leave it', async () => {
    const row = of('Stability, Stable Diffusion')
    first.plan(...(row.answers(first) as [Script]))
    const options = { stability: { strength: 0.3 } }
    await draw(row, { input_references: [reference], provider: { options } })
    const [hit] = first.hits
    const fields = (hit && (await readFields(hit))) as Record<string, unknown>
    expect(fields).toMatchObject({ mode: 'image-to-image', strength: '0.3' })
    expect((fields.image as File).type).toBe('image/png')
    expect(fields).not.toHaveProperty('aspect_ratio')
  })
})
