import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { type MediaStage, openMediaStage, PNG } from '../support/media.ts'
import { chunkedEnd, event, type Hit, json, sseHead } from '../support/upstream.ts'

/* OpenAI's own fields of pictures and files, with its client. */

const DRAW = 'acme/gpt-image'
const RATIO = 'acme/imagen'
const USAGE = { input_tokens: 10, output_tokens: 300, total_tokens: 310 }

let stage: MediaStage

beforeAll(async () => {
  stage = await openMediaStage([
    { id: DRAW, output: 'image', model: 'gpt-image-1', providers: [{ protocol: 'openai-chat' }] },
    {
      id: RATIO,
      output: 'image',
      model: 'imagen-4.0-generate-001',
      providers: [{ protocol: 'gemini' }],
    },
    {
      id: 'acme/either',
      output: ['image'],
      model: 'gpt-image-1',
      providers: [{ protocol: 'stability' }, { protocol: 'openai-chat' }],
    },
  ])
})
afterAll(() => stage[Symbol.asyncDispose]())

/** Draws as OpenAI does: as many previews as it is asked for, under the name of the path. */
const draw = (hit: Hit) => {
  const isEdit = hit.path.endsWith('/edits')
  const form = new Map(
    [...hit.body.matchAll(/name="(\w+)"\r\n\r\n([^\r]*)/g)].map(([, name, value]) => [name, value]),
  )
  const body = (isEdit ? Object.fromEntries(form) : hit.json) as Json
  const data = [{ b64_json: PNG }]
  if (String(body.stream) !== 'true') return json({ created: 1, data, usage: USAGE })
  const noun = isEdit ? 'image_edit' : 'image_generation'
  return [
    sseHead(),
    ...Array.from({ length: Number(body.partial_images) }, (_, i) =>
      event({ type: `${noun}.partial_image`, partial_image_index: i, b64_json: PNG }),
    ),
    event({ type: `${noun}.completed`, b64_json: PNG, usage: USAGE }),
    chunkedEnd(),
  ]
}

beforeEach(() => {
  stage.upstreamOf(DRAW).answer(draw)
  stage.upstreamOf('acme/either', 1).answer(draw)
  stage.upstreamOf(RATIO).plan(json({ predictions: [{ bytesBase64Encoded: PNG }] }))
})

const openFile = (name: string) =>
  new File([Buffer.from(PNG, 'base64')], `${name}.png`, { type: 'image/png' })

const sentForm = (hit: Hit | undefined) =>
  new Response(hit?.bytes as BodyInit | undefined, {
    headers: { 'content-type': hit?.headers['content-type'] ?? '' },
  }).formData()

async function listTypes(stream: AsyncIterable<{ type: string }>): Promise<string[]> {
  const types: string[] = []
  for await (const { type } of stream) types.push(type)
  return types
}

describe('previews', () => {
  test.each([0, 1, 3])('as many as the call says: %d', async partial_images => {
    const stream = await stage.openai.images.generate({
      ...{ model: DRAW, prompt: 'A cat', stream: true as const, partial_images },
    })
    expect(await listTypes(stream)).toEqual([
      ...Array(partial_images).fill('image_generation.partial_image'),
      'image_generation.completed',
    ])
  })

  test('none where nothing is streamed, or previews are not known', async () => {
    for (const model of [DRAW, RATIO]) {
      const { data } = await stage.openai.images.generate({
        ...{ model, prompt: 'A cat', partial_images: 2, moderation: 'low' as const },
      })
      expect(data).toMatchObject([{ b64_json: PNG }])
    }
    expect(stage.upstreamOf(DRAW).hits.at(-1)?.json).toMatchObject({ moderation: 'low' })
  })

  test('of a change have its name', async () => {
    const stream = await stage.openai.images.edit({
      ...{ model: DRAW, prompt: 'A dog', image: openFile('cat') },
      ...{ stream: true as const, partial_images: 1 },
    })
    expect(await listTypes(stream)).toEqual(['image_edit.partial_image', 'image_edit.completed'])
  })
})

test('quality may be in the words of older models', async () => {
  for (const [quality, sent] of [
    ['hd', 'high'],
    ['standard', 'medium'],
  ] as const) {
    await stage.openai.images.generate({ model: DRAW, prompt: 'A cat', quality })
    expect(stage.upstreamOf(DRAW).hits.at(-1)?.json).toMatchObject({ quality: sent })
  }
})

describe('a mask', () => {
  test('says where a picture is changed, at an endpoint that has masks', async () => {
    for (const [model, endpoint] of [
      [DRAW, 0],
      ['acme/either', 1],
    ] as const) {
      const { data } = await stage.openai.images.edit({
        ...{ model, prompt: 'A hat', image: openFile('cat'), mask: openFile('mask') },
        input_fidelity: 'high',
      })
      expect(data).toMatchObject([{ b64_json: PNG }])
      const form = await sentForm(stage.upstreamOf(model, endpoint).hits.at(-1))
      expect(form.getAll('image[]')).toHaveLength(1)
      expect(await (form.get('mask') as File).bytes()).toEqual(
        new Uint8Array(Buffer.from(PNG, 'base64')),
      )
      expect(form.get('input_fidelity')).toBe('high')
    }
    expect(stage.upstreamOf('acme/either').hits).toEqual([])
  })

  test('is refused by name where no endpoint has any', async () => {
    const asked = stage.openai.images.edit({
      ...{ model: RATIO, prompt: 'A hat', image: openFile('cat'), mask: openFile('mask') },
    })
    const failed = await asked.catch(thrown => thrown)
    expect([failed.status, failed.message]).toEqual([404, expect.stringContaining('mask')])
  })

  test('is a picture', async () => {
    const asked = stage.openai.images.edit({
      ...{ model: DRAW, prompt: 'A hat', image: openFile('cat'), mask: new File(['x'], 'm.png') },
    })
    const failed = await asked.catch(thrown => thrown)
    expect([failed.status, failed.message]).toEqual([400, expect.stringContaining('mask')])
  })
})

describe('files', () => {
  test('are listed by their purpose', async () => {
    const { files } = stage.openai
    const made = await files.create({ file: openFile('cat'), purpose: 'vision' })
    const other = await files.create({ file: new File(['hi'], 'a.txt'), purpose: 'user_data' })
    const list = async (purpose?: string) => {
      const ids: string[] = []
      const query = purpose === undefined ? { limit: 1 } : { purpose, limit: 1 }
      for await (const { id } of files.list(query)) ids.push(id)
      return ids
    }
    expect(await list()).toEqual([other.id, made.id])
    expect(await list('vision')).toEqual([made.id])
    expect(await list('user_data')).toEqual([other.id])
    expect(await list('batch')).toEqual([])
    expect(await list('anything').catch(({ status }) => status)).toBe(400)
  })
})
