import { beforeAll, describe, expect, test } from 'bun:test'
import { type MediaHouse, openMediaHouse, readRefusal, testMediaLife } from '../suites/media.ts'
import { createLimitedKey, fetchGeneration, fetchKeyState } from '../support/chat.ts'
import {
  body as answerBody,
  chunkedEnd,
  event,
  head,
  htmlError,
  json,
  type Script,
  sseHead,
  status,
} from '../support/upstream.ts'

const TOKEN_PRICES = { prompt: 5, completion: 0, image_output: 40 }
const IMAGE_PRICES = { prompt: 0, completion: 0, per_image: 0.04 }
const EDIT_PRICES = { prompt: 5, completion: 0, image: 10, image_output: 40 }
const VARIANT_PRICES = {
  prompt: 0,
  completion: 0,
  per_image: 0.04,
  variants: [
    { quality: 'high', per_image: 0.1 },
    { resolution: '2K', per_image: 0.06 },
  ],
}
const MEGAPIXEL_PRICES = { prompt: 0, completion: 0, per_megapixel: 0.5 }

/** The smallest of pictures: one pixel. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
const DATA_URL = `data:image/png;base64,${PNG}`
const reference = { type: 'image_url', image_url: { url: DATA_URL } }
const draw = (...pictures: object[]) =>
  json({ created: 1, data: pictures.length > 0 ? pictures : [{ b64_json: PNG }] })

const TALKS = { output_modalities: ['image', 'text'] }

const house = openMediaHouse({
  modality: 'image',
  model: 'draw-1',
  providers: {
    grok: { quirks: { images: 'xai' } },
    tog: { quirks: { images: 'together' } },
    other: { isSecond: true, quirks: { images: 'together' } },
    router: { quirks: { images: 'openrouter' } },
    google: { protocol: 'gemini' },
  },
  models: [
    ['acme/priced', ['local', 'spare'], IMAGE_PRICES],
    ['acme/pixels', ['local'], MEGAPIXEL_PRICES],
    ['openai/gpt-image-9', ['local', 'spare'], TOKEN_PRICES],
    ['openai/gpt-image-8', ['local'], EDIT_PRICES],
    ['acme/variants', ['local'], VARIANT_PRICES],
    ['acme/grok', ['grok'], IMAGE_PRICES],
    ['acme/tog', ['tog'], IMAGE_PRICES],
    ['acme/few', ['tog', 'other'], IMAGE_PRICES],
    ['acme/routed', ['router'], IMAGE_PRICES],
    ['acme/talks', ['local'], TOKEN_PRICES, TALKS],
    ['acme/nano', ['google'], TOKEN_PRICES, TALKS],
    ['acme/imagen', ['google'], IMAGE_PRICES, { model: 'imagen-4' }],
  ],
  answer: draw(),
})
let { server, first, second }: MediaHouse = house
beforeAll(() => {
  ;({ server, first, second } = house)
})

const ask = (body: object, more: object = {}) =>
  server.fetch('/images', { json: { model: 'acme/priced', prompt: 'A cat', ...body }, ...more })

interface Drawn {
  created: number
  data: { b64_json: string; media_type: string }[]
  usage: { completion_tokens: number; prompt_tokens: number; cost: number }
}

async function picture(body: object = {}) {
  const response = await ask(body)
  const drawn = (await response.json()) as Drawn
  expect([response.status, drawn]).toEqual([200, expect.anything()])
  return { ...drawn, id: response.headers.get('x-generation-id') ?? '' }
}

const sent = (upstream = first) => upstream.hits[0]?.json as Record<string, unknown>

const refusal = (body: object) => readRefusal(ask(body))

describe('POST /images', () => {
  test('draws, prices each picture and records', async () => {
    const before = (await fetchKeyState(server)).usage
    first.plan(draw({ b64_json: PNG }, { b64_json: PNG }))
    const { id, ...drawn } = await picture({ n: 2, user: 'ann', session_id: 's-1' })
    expect(drawn).toMatchObject({
      created: expect.any(Number),
      data: [
        { b64_json: PNG, media_type: 'image/png' },
        { b64_json: PNG, media_type: 'image/png' },
      ],
      usage: { cost: 0.08 },
    })
    expect((await fetchKeyState(server)).usage - before).toBeCloseTo(0.08)
    expect(await fetchGeneration(server, id)).toMatchObject({
      api_type: 'image',
      total_cost: 0.08,
      session_id: 's-1',
    })
    expect(first.hits[0]?.path).toBe('/v1/images/generations')
    expect(sent()).toEqual({
      model: 'draw-1',
      prompt: 'A cat',
      n: 2,
      user: expect.stringMatching(/^[0-9a-f]{64}$/),
      response_format: 'b64_json',
    })
  })

  test('prices tokens as OpenAI counts them', async () => {
    const usage = { input_tokens: 100, output_tokens: 1_000, total_tokens: 1_100 }
    first.plan(json({ created: 1, data: [{ b64_json: PNG }], usage }))
    const drawn = await picture({ model: 'openai/gpt-image-9' })
    expect(drawn.usage).toMatchObject({
      prompt_tokens: 100,
      completion_tokens: 1_000,
      completion_tokens_details: { image_tokens: 1_000 },
      cost: 0.0405,
    })
  })

  test('prices the pictures of an edit as pictures, and not as text', async () => {
    const input_tokens_details = { text_tokens: 20, image_tokens: 300 }
    const usage = { input_tokens: 320, input_tokens_details, output_tokens: 1_000 }
    first.plan(json({ created: 1, data: [{ b64_json: PNG }], usage }))
    const drawn = await picture({ model: 'openai/gpt-image-8', input_references: [reference] })
    expect(drawn.usage.prompt_tokens).toBe(320)
    expect(drawn.usage.cost).toBeCloseTo((20 * 5 + 300 * 10 + 1_000 * 40) / 1e6, 9)
  })

  test.each<[object, number]>([
    [{}, 0.04],
    [{ quality: 'low', resolution: '1K' }, 0.04],
    [{ quality: 'high', resolution: '1K' }, 0.1],
    [{ quality: 'high', size: '2048x2048' }, 0.06],
    [{ resolution: '2K', n: 2 }, 0.12],
  ])('prices %j as its variant', async (params, cost) => {
    first.plan(draw({ b64_json: PNG }, { b64_json: PNG }))
    expect((await picture({ model: 'acme/variants', ...params })).usage.cost).toBe(cost)
  })

  test('sets aside the dearest variant that a call leaves open', async () => {
    const key = await createLimitedKey(server, 0.05)
    const model = 'acme/variants'
    expect((await ask({ model }, { key })).status).toBe(402)
    expect(first.hits).toEqual([])
    const cheap = { model, quality: 'low', resolution: '1K' }
    expect((await ask(cheap, { key })).status).toBe(200)
  })

  test('prices megapixels by the pixels that were drawn', async () => {
    first.plan(draw({ b64_json: PNG }))
    // One pixel is a thousandth of a megapixel, which is the smallest part.
    expect((await picture({ model: 'acme/pixels' })).usage.cost).toBe(0.0005)
  })

  test('delivers and charges no more pictures than were asked for', async () => {
    first.plan(draw({ b64_json: PNG }, { b64_json: PNG }, { b64_json: PNG }))
    const { data, usage } = await picture({ n: 2 })
    expect([data.length, usage.cost]).toEqual([2, 0.08])
  })

  test('charges no picture that a provider leaves out', async () => {
    const { data, usage } = await picture({ n: 3 })
    expect([data.length, usage.cost]).toEqual([1, 0.04])
  })

  test('fetches what a provider only names by URL', async () => {
    const png = Buffer.from(PNG, 'base64').toString('latin1')
    first.plan(draw({ url: `${first.url}/a.png` }), [
      'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/plain\r\n\r\n',
      Buffer.from(png, 'latin1'),
    ])
    expect((await picture()).data).toEqual([{ b64_json: PNG, media_type: 'image/png' }])
  })

  test('asks the next provider after a URL that answers with a page', async () => {
    first.plan(draw({ url: `${first.url}/a.png` }), htmlError(200))
    expect((await picture()).data).toHaveLength(1)
    expect(second.hits).toHaveLength(1)
  })

  test('sends references as files of a form', async () => {
    await picture({ input_references: [{ type: 'image_url', image_url: { url: DATA_URL } }] })
    const [hit] = first.hits
    expect(hit?.path).toBe('/v1/images/edits')
    const form = await new Response(hit?.bytes as BodyInit | undefined, {
      headers: { 'content-type': hit?.headers['content-type'] ?? '' },
    }).formData()
    const file = form.get('image[]') as File
    expect([form.get('prompt'), form.get('n'), file.type]).toEqual(['A cat', '1', 'image/png'])
    expect(Buffer.from(await file.arrayBuffer()).toString('base64')).toBe(PNG)
  })

  test('fetches references by URL before they are sent', async () => {
    const url = `${first.url}/a.png`
    first.plan(
      [
        'HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: image/png\r\n\r\n',
        Buffer.from(PNG, 'base64'),
      ],
      draw(),
    )
    await picture({ input_references: [{ type: 'image_url', image_url: { url } }] })
    expect(first.hits.map(({ method, path }) => [method, path])).toEqual([
      ['GET', '/v1/a.png'],
      ['POST', '/v1/images/edits'],
    ])
  })

  test.each<[string, object, object]>([
    ['acme/priced', { size: '640x480' }, { size: '640x480' }],
    ['acme/priced', { size: '2K' }, { size: '2048x2048' }],
    ['acme/priced', { resolution: '1K', aspect_ratio: '16:9' }, { size: '1360x768' }],
    ['acme/priced', { quality: 'high', seed: 7 }, { quality: 'high', seed: 7 }],
    [
      'acme/priced',
      { output_format: 'webp', output_compression: 50 },
      { output_format: 'webp', output_compression: 50 },
    ],
    [
      'acme/priced',
      { background: 'transparent' },
      { background: 'transparent', output_format: 'png' },
    ],
    ['openai/gpt-image-9', { aspect_ratio: '16:9' }, { size: '1360x768' }],
    ['openai/gpt-image-9', { aspect_ratio: '9:16' }, { size: '768x1360' }],
    [
      'acme/grok',
      { aspect_ratio: '21:9', resolution: '2K' },
      { aspect_ratio: '20:9', resolution: '2k' },
    ],
    ['acme/tog', { size: '512x768' }, { width: 512, height: 768, response_format: 'base64' }],
    [
      'acme/priced',
      { provider: { options: { local: { steps: 4 }, other: { x: 1 } } } },
      { steps: 4 },
    ],
  ])('sends to %s: %j', async (model, params, expected) => {
    await picture({ model, ...params })
    expect(sent()).toMatchObject(expected)
    expect(sent()).not.toHaveProperty('options')
  })

  test('asks a server of the same API in its own form', async () => {
    await picture({ model: 'acme/routed', size: '2K', n: 2, input_references: [reference] })
    expect(first.hits[0]?.path).toBe('/v1/images')
    expect(sent()).toEqual({
      model: 'draw-1',
      prompt: 'A cat',
      n: 2,
      resolution: '2K',
      input_references: [reference],
    })
  })

  test('draws in a conversation where a model talks too', async () => {
    const images = [{ type: 'image_url', image_url: { url: DATA_URL } }]
    const message = { role: 'assistant', content: 'Here', images }
    const usage = { prompt_tokens: 10, completion_tokens: 1_290, total_tokens: 1_300 }
    first.plan(json({ id: 'c', choices: [{ index: 0, message, finish_reason: 'stop' }], usage }))
    const drawn = await picture({ model: 'acme/talks', aspect_ratio: '16:9' })
    expect(drawn.data).toEqual([{ b64_json: PNG, media_type: 'image/png' }])
    expect(sent()).toMatchObject({
      messages: [{ role: 'user', content: 'A cat' }],
      modalities: ['image', 'text'],
      image_config: { aspect_ratio: '16:9' },
    })
  })

  test('draws with Gemini', async () => {
    const parts = [{ inlineData: { mimeType: 'image/png', data: PNG } }]
    first.plan(
      json({
        candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }],
        usageMetadata: {
          promptTokenCount: 10,
          candidatesTokenCount: 1_290,
          candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: 1_290 }],
        },
      }),
    )
    const drawn = await picture({ model: 'acme/nano', resolution: '2K' })
    expect(drawn.data).toHaveLength(1)
    expect(drawn.usage.cost).toBeCloseTo((10 * 5 + 1_290 * 40) / 1e6)
    expect(first.hits[0]?.path).toBe('/v1/models/draw-1:generateContent')
    expect(sent()).toMatchObject({
      generationConfig: { responseModalities: ['IMAGE', 'TEXT'], imageConfig: { imageSize: '2K' } },
    })
  })

  test('converts what a model draws in another format, and charges the same', async () => {
    const parts = [{ inlineData: { mimeType: 'image/png', data: PNG } }]
    const counts = { promptTokenCount: 10, candidatesTokenCount: 1_290 }
    const content = { role: 'model', parts }
    first.plan(
      json({ candidates: [{ content, finishReason: 'STOP' }], usageMetadata: { ...counts } }),
    )
    const { data } = await picture({
      model: 'acme/nano',
      output_format: 'webp',
      output_compression: 50,
    })
    expect(data).toEqual([{ b64_json: expect.any(String), media_type: 'image/webp' }])
    const bytes = Buffer.from(data[0]?.b64_json ?? '', 'base64')
    expect(await new Bun.Image(bytes).metadata()).toEqual({ width: 1, height: 1, format: 'webp' })
  })

  test('asks the next provider if the other format cannot be made', async () => {
    const cut = Buffer.from(PNG, 'base64').subarray(0, 40).toString('base64')
    first.plan(draw({ b64_json: cut }))
    const { data, usage } = await picture({ output_format: 'jpeg' })
    expect([data[0]?.media_type, usage.cost, second.hits.length]).toEqual(['image/jpeg', 0.04, 1])
  })

  test('draws with Imagen', async () => {
    first.plan(json({ predictions: [{ bytesBase64Encoded: PNG, mimeType: 'image/png' }] }))
    const drawn = await picture({ model: 'acme/imagen', n: 4, aspect_ratio: '3:2' })
    expect([drawn.data.length, drawn.usage.cost]).toEqual([1, 0.04])
    expect(first.hits[0]?.path).toBe('/v1/models/imagen-4:predict')
    expect(sent()).toEqual({
      instances: [{ prompt: 'A cat' }],
      parameters: { includeRaiReason: true, sampleCount: 4, aspectRatio: '4:3' },
    })
  })

  test('works in the sandbox, the same each time', async () => {
    const body = { model: 'sandbox/image', n: 2, size: '64x32', seed: 3 }
    const drawn = await picture(body)
    expect(drawn.usage.cost).toBe(0)
    const [one, other] = drawn.data.map(({ b64_json }) => b64_json)
    expect(one).not.toBe(other)
    expect(await new Bun.Image(Buffer.from(one ?? '', 'base64')).metadata()).toMatchObject({
      width: 64,
      height: 32,
      format: 'png',
    })
    expect((await picture(body)).data).toEqual(drawn.data)
  })

  test.each<[object, number, number, string | null]>([
    [{ size: '2048x1024' }, 2_048, 1_024, null],
    [{ size: '4096x2048' }, 2_048, 1_024, 'size'],
    [{ resolution: '2K' }, 2_048, 2_048, null],
    [{ resolution: '4K' }, 2_048, 2_048, 'resolution'],
    [{ resolution: '512', quality: 'high', background: 'opaque' }, 512, 512, 'quality, background'],
    [{ aspect_ratio: '8:1' }, 2_048, 260, null],
  ])('the sandbox draws %j as nearly as it can', async (body, width, height, ignored) => {
    const answer = await ask({ model: 'sandbox/image', ...body })
    const { data } = (await answer.json()) as { data: { b64_json: string }[] }
    const image = new Bun.Image(Buffer.from(data[0]?.b64_json ?? '', 'base64'))
    expect(await image.metadata()).toMatchObject({ width, height })
    expect(answer.headers.get('x-gateway-ignored')).toBe(ignored)
  })

  test.each<[string, object]>([
    ['size', { size: '1024x1024', resolution: '1K', aspect_ratio: '1:1' }],
    ['size', { size: '1344x768', aspect_ratio: '16:9' }],
    ['size', { size: '2K', resolution: '2K' }],
    ['n', { n: 10 }],
    ['output_compression', { output_compression: 0, output_format: 'jpeg' }],
    ['references', { input_references: Array.from({ length: 16 }, () => reference) }],
  ])('accepts the largest %s', async (_, body) => {
    await picture(body)
  })

  type Fields = Record<string, unknown>
  test.each<[string, Fields, string, Fields]>([
    ['openai/gpt-image-9', { resolution: '512' }, 'resolution', { size: '1024x1024' }],
    ['acme/grok', { resolution: '4K' }, 'resolution', { resolution: '2k' }],
    ['acme/grok', { quality: 'high', background: 'opaque' }, 'quality, background', {}],
  ])('%s does without %j, and the answer names it', async (model, body, ignored, sentBody) => {
    const answer = await ask({ model, ...body })
    expect([answer.status, answer.headers.get('x-gateway-ignored')]).toEqual([200, ignored])
    expect(first.hits[0]?.json).toMatchObject(sentBody)
    for (const name of Object.keys(body).filter(name => !(name in sentBody)))
      expect(first.hits[0]?.json).not.toHaveProperty(name)
    const { status, message } = await refusal({
      ...{ model, ...body },
      provider: { require_parameters: true },
    })
    expect([status, message]).toEqual([404, expect.stringContaining('require_parameters')])
  })

  const BROKEN: [string, object][] = [
    ['base64 that does not decode', { b64_json: 'not base64!' }],
    ['bytes that are no picture', { b64_json: Buffer.from('hello there').toString('base64') }],
    ['a page', { b64_json: Buffer.from('<!DOCTYPE html><html></html>').toString('base64') }],
    ['a picture that is a zip', { b64_json: 'UEsDBBQAAAAIAAAAIQAAAAAAAAAAAAAAAAAFAAAAYS50eHQ=' }],
    ['a URL of a private network', { url: 'http://10.0.0.1/a.png' }],
    ['a URL of a file', { url: 'file:///etc/passwd' }],
    ['neither', { revised_prompt: 'A cat' }],
  ]
  const WRONG: [field: string, body: object][] = [
    ['prompt', { prompt: '' }],
    ['n', { n: 0 }],
    ['n', { n: 11 }],
    ['n', { n: -1 }],
    ['n', { n: 1.5 }],
    ['n', { n: '2' }],
    ['output_compression', { output_compression: 101 }],
    ['output_compression', { output_compression: -1 }],
    ['seed', { seed: 1e300 }],
    ['size', { size: '17000x1' }],
    ['size', { size: '0x0' }],
    ['size', { size: '2K', resolution: '1K' }],
    ['size', { size: '1024x1024', resolution: '4K' }],
    ['size', { size: '1024x1024', aspect_ratio: '16:9' }],
    ['size', { size: '1600x720', aspect_ratio: '21:9' }],
    ['background', { background: 'transparent', output_format: 'jpeg' }],
    ['background', { background: 'transparent', output_format: 'svg' }],
    ['input_references', { input_references: Array.from({ length: 17 }, () => reference) }],
    [
      'input_references.0.image_url.url',
      { input_references: [{ type: 'image_url', image_url: { url: 'file:///etc/passwd' } }] },
    ],
    ...[
      'data:image/svg+xml;base64,PHN2Zy8+',
      'data:text/html;base64,PGh0bWw+',
      'data:application/zip;base64,UEsDBBQAAAAI',
      'data:image/png;base64,UEsDBBQAAAAI',
      'data:image/png;base64,',
      'data:,',
    ].map((url): [string, object] => [
      'input_references.0.image_url.url',
      { input_references: [{ type: 'image_url', image_url: { url } }] },
    ]),
    ['provider.options.local.n', { provider: { options: { local: { n: 9 } } } }],
    ['num_images', { num_images: 9 }],
    ['user', { user: 'x'.repeat(257) }],
  ]
  testMediaLife(house, {
    ask,
    async expectSpare(response) {
      expect(((await response.json()) as Drawn).data).toHaveLength(1)
    },
    failures: [
      ...BROKEN.map(([what, one]): [string, Script] => [`an answer with ${what}`, draw(one)]),
      ['a failure', status(503)],
      ['a page', htmlError(200)],
      ['a cut answer', answerBody('application/json', '{"created":1,"data":[{"b64_js')],
    ],
    usd: 0.04,
    useless: draw({ b64_json: 'bm8=' }),
    lacking: [
      ['acme/imagen', { input_references: [reference] }, 'input_references'],
      ['acme/nano', { output_format: 'svg' }, 'output_format'],
    ],
    wrong: WRONG.map(([field, body]) => [body, field]),
    reserve: { usd: 0.1, over: { n: 3 }, within: { n: 2 } },
  })
})

describe('a form, as OpenAI’s clients send it', () => {
  const file = (bytes: string | Uint8Array<ArrayBuffer> = Buffer.from(PNG, 'base64')) =>
    new File([bytes], 'a.png')
  const send = (files: File[], fields: Record<string, string | File> = {}, path = '/edits') => {
    const form = new FormData()
    const all = { model: 'acme/priced', prompt: 'A cat', ...fields }
    for (const [name, value] of Object.entries(all)) form.append(name, value)
    for (const one of files) form.append(files.length === 1 ? 'image' : 'image[]', one)
    const headers = { authorization: `Bearer ${server.inference_key}` }
    return fetch(`${server.base}/images${path}`, { method: 'POST', body: form, headers })
  }

  test.each([
    [0, '/v1/images/generations'],
    [1, '/v1/images/edits'],
    [16, '/v1/images/edits'],
  ])('with %d pictures is the same as JSON', async (count, path) => {
    const response = await send(
      Array.from({ length: count }, () => file()),
      { n: '2' },
    )
    expect([response.status, first.hits.at(-1)?.path]).toEqual([200, path])
  })

  test.each<[Record<string, string>, object]>([
    [{ prompt: '猫'.repeat(32_000) }, { prompt: '猫'.repeat(32_000) }],
    [{ seed: '9007199254740991' }, { seed: 9_007_199_254_740_991 }],
    [{ seed: '-9007199254740991' }, { seed: -9_007_199_254_740_991 }],
    [
      { n: '1e0', size: '16384x16384' },
      { n: 1, size: '16384x16384' },
    ],
  ])('takes the largest: %j', async (fields, expected) => {
    expect((await send([], fields, '/generations')).status).toBe(200)
    expect(sent()).toMatchObject(expected)
  })

  test.each<[string, File[], Record<string, string | File>, number, string | null]>([
    ['17 pictures', Array.from({ length: 17 }, () => file()), {}, 400, 'image[]'],
    ['a page', [file('<html>')], {}, 400, 'image'],
    ['an SVG', [file('<svg xmlns="http://www.w3.org/2000/svg"/>')], {}, 400, 'image'],
    ['an empty picture', [file('')], {}, 400, 'image'],
    ['64 MiB and a byte', [file(new Uint8Array(64 * 1024 * 1024 + 1))], {}, 413, null],
    ['URLs as answers', [file()], { response_format: 'url' }, 400, 'response_format'],
    ['half a picture', [file()], { n: '0.5' }, 400, 'n'],
    ['a stream that is no boolean', [file()], { stream: 'yes' }, 400, 'stream'],
  ])('with %s is refused', async (_, files, fields, code, field) => {
    const response = await send(files, fields)
    const { error } = (await response.json()) as { error: { metadata?: { field?: string } } }
    expect([response.status, error.metadata?.field ?? null]).toEqual([code, field])
    expect(first.hits).toEqual([])
  })
})

describe('more pictures than a provider draws at once', () => {
  const talked = (url = DATA_URL) =>
    json({
      id: 'up-1',
      choices: [{ index: 0, message: { content: '', images: [{ image_url: { url } }] } }],
      usage: {
        ...{ prompt_tokens: 10, completion_tokens: 100, total_tokens: 110 },
        completion_tokens_details: { image_tokens: 100 },
      },
    })
  const drawn = (count: number) => draw(...Array(count).fill({ b64_json: PNG }))

  test('are asked for at once, each by itself, and charged together', async () => {
    let open = 0
    const all = Promise.withResolvers<void>()
    first.answer(() => {
      open += 1
      if (open === 3) all.resolve()
      return [{ wait: 'all' }, talked()]
    })
    const drawing = picture({ model: 'acme/talks', n: 3, seed: 7, stream: true })
    await all.promise
    first.open('all')
    const { data, usage } = await drawing
    expect(data).toHaveLength(3)
    expect(first.hits.map(({ json: body }) => (body as { seed: number }).seed).toSorted()).toEqual([
      ...[7, 8, 9],
    ])
    expect(usage).toMatchObject({ prompt_tokens: 30, completion_tokens: 300 })
    expect(usage.cost).toBeCloseTo((30 * 5 + 300 * 40) / 1e6)
  })

  test('are asked for in as few requests as that takes, and never more than asked', async () => {
    const counts: number[] = []
    first.answer(({ json: body }) => {
      const { parameters } = body as { parameters: { sampleCount: number } }
      counts.push(parameters.sampleCount)
      // One more than it was asked for.
      const predictions = Array(parameters.sampleCount + 1).fill({ bytesBase64Encoded: PNG })
      return json({ predictions })
    })
    const { data, usage } = await picture({ model: 'acme/imagen', n: 10 })
    expect([data.length, counts.toSorted()]).toEqual([10, [2, 4, 4]])
    expect(usage.cost).toBeCloseTo(0.4)
  })

  test.each<[string, Script]>([
    ['fail', status(500)],
    ['are refused', status(400)],
    ['are no pictures', draw({ b64_json: Buffer.from('<html>').toString('base64') })],
    ['are cut', [head(200, { 'content-length': '99' }), '{', { end: 'fin' }]],
  ])('of which some %s are what is there, and only that is charged', async (_, failure) => {
    const answers = [drawn(4), failure, drawn(2)]
    first.answer(() => answers.shift() ?? failure)
    const before = (await fetchKeyState(server)).usage
    const { data, usage } = await picture({ model: 'acme/few', n: 10 })
    expect([data.length, usage.cost]).toEqual([6, expect.closeTo(0.24)])
    expect((await fetchKeyState(server)).usage - before).toBeCloseTo(0.24)
    expect(second.hits).toEqual([])
  })

  test('are asked for elsewhere where all fail, and cost nothing here', async () => {
    first.plan(status(500))
    const pictures = [drawn(4), drawn(4), drawn(2)]
    second.answer(() => pictures.shift() ?? status(500))
    const { data, usage } = await picture({ model: 'acme/few', n: 10 })
    expect([data.length, usage.cost]).toEqual([10, expect.closeTo(0.4)])
    expect([first.hits.length, second.hits.length]).toEqual([3, 3])
  })

  test('are set aside before any is asked for', async () => {
    const key = await createLimitedKey(server, 0.39)
    expect((await ask({ model: 'acme/few', n: 10 }, { key })).status).toBe(402)
    expect(first.hits).toEqual([])
  })

  test('end at the provider, all of them, when the client leaves', async () => {
    first.plan({ wait: 'never' })
    const controller = new AbortController()
    const call = ask({ model: 'acme/few', n: 10 }, { signal: controller.signal }).catch(() => null)
    await first.hit(3)
    controller.abort()
    await call
    await Promise.all(first.hits.map(({ clientLeft }) => clientLeft))
    expect(second.hits).toEqual([])
  })
})

describe('POST /images, streamed', () => {
  const preview = (index: number, b64_json = PNG) =>
    event({ type: 'image_generation.partial_image', partial_image_index: index, b64_json })
  const completed = event({
    type: 'image_generation.completed',
    b64_json: PNG,
    usage: { input_tokens: 10, output_tokens: 300, total_tokens: 310 },
  })

  const stream = async (body: object = {}) => {
    const response = await ask({ model: 'openai/gpt-image-9', stream: true, ...body })
    return { type: response.headers.get('content-type'), text: await response.text() }
  }
  const readEvents = (text: string) =>
    [...text.matchAll(/^data: (\{.*)$/gm)].map(([, event = '']) => JSON.parse(event))

  test('sends previews and then the picture with its usage', async () => {
    first.plan([sseHead(), preview(0), preview(1), completed, chunkedEnd()])
    const { type, text } = await stream()
    expect(type).toContain('text/event-stream')
    expect(readEvents(text)).toMatchObject([
      { type: 'image_generation.partial_image', partial_image_index: 0, b64_json: PNG },
      { type: 'image_generation.partial_image', partial_image_index: 1, b64_json: PNG },
      {
        type: 'image_generation.completed',
        b64_json: PNG,
        media_type: 'image/png',
        usage: { completion_tokens: 300, cost: 0.01205 },
      },
    ])
    expect(text).toEndWith('data: [DONE]\n\n')
    expect(sent()).toMatchObject({ stream: true, partial_images: 2 })
  })

  test('is one JSON value where the provider does not stream', async () => {
    const { type, text } = await stream({ model: 'acme/priced' })
    expect(type).toContain('application/json')
    expect(JSON.parse(text).data).toHaveLength(1)
  })

  test('ends with an error if the provider breaks off, and is not finished', async () => {
    first.plan([sseHead(), preview(0), chunkedEnd()])
    const events = readEvents((await stream()).text)
    expect(events.map(({ type }) => type)).toEqual(['image_generation.partial_image', 'error'])
  })

  test('asks the next provider if the first preview is no picture', async () => {
    first.plan([sseHead(), preview(0, 'bm8='), completed, chunkedEnd()])
    second.plan([sseHead(), completed, chunkedEnd()])
    const events = readEvents((await stream()).text)
    expect(events.map(({ type }) => type)).toEqual(['image_generation.completed'])
    expect(second.hits).toHaveLength(1)
  })
})

describe('GET /images/models', () => {
  test('lists what draws, with its parameters', async () => {
    const response = await server.fetch('/images/models')
    const { data } = (await response.json()) as { data: { id: string; endpoints: string }[] }
    expect(data.map(({ id }) => id)).toContain('acme/priced')
    expect(data.map(({ id }) => id)).not.toContain('acme/text')
    expect(data.find(({ id }) => id === 'openai/gpt-image-9')).toMatchObject({
      endpoints: '/api/v1/images/models/openai/gpt-image-9/endpoints',
      supports_streaming: true,
      supported_parameters: {
        n: { type: 'range', min: 1, max: 10 },
        quality: { type: 'enum', values: ['auto', 'low', 'medium', 'high'] },
      },
    })
  })

  test('lists the endpoints of a model, with prices and passthrough', async () => {
    const response = await server.fetch('/images/models/acme/pixels/endpoints')
    expect(await response.json()).toMatchObject({
      id: 'acme/pixels',
      endpoints: [
        {
          provider_slug: 'local',
          pricing: [{ billable: 'output_image', unit: 'megapixel', cost_usd: 0.5 }],
          allowed_passthrough_parameters: expect.arrayContaining(['steps']),
        },
      ],
    })
  })

  test('lists the prices of variants beside those that they change', async () => {
    const response = await server.fetch('/images/models/acme/variants/endpoints')
    const { endpoints } = (await response.json()) as { endpoints: { pricing: object[] }[] }
    const price = { billable: 'output_image', unit: 'image' }
    expect(endpoints[0]?.pricing).toEqual([
      { ...price, cost_usd: 0.04 },
      { ...price, cost_usd: 0.1, variant: 'high' },
      { ...price, cost_usd: 0.06, variant: '2K' },
    ])
  })

  test.each(['acme/text', 'acme/nothing'])('is a 404 for %s', async id => {
    expect((await server.fetch(`/images/models/${id}/endpoints`)).status).toBe(404)
  })
})
