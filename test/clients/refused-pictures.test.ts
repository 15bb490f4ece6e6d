import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { APIError } from 'openai'
import type { Json } from '../../src/base/json.ts'
import { type MediaStage, openMediaStage, PNG } from '../support/media.ts'
import { chunkedEnd, event, json, type Script, sseHead, status } from '../support/upstream.ts'

/*
 * A 2xx without a picture is refused, nothing or part, at every protocol that draws: refused is 400
 * in the provider's words and asks no other provider, nothing is the failure of this provider, and
 * part is what there is.
 */

/** A protocol: its answers with a picture, with none and no word why, and refused in these words. */
interface Family {
  settings: Json
  model: string
  output?: string[]
  drawn: unknown
  nothing: unknown
  refused: [answer: unknown, words: string][]
  /** Two pictures asked for in one request, of which one is there. */
  part?: unknown
}

const candidate = (more: Json, ...parts: Json[]) => ({
  candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', ...more }],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 2 },
})
const inlineData = { inlineData: { mimeType: 'image/png', data: PNG } }
const message = (content: string | null, more: Json = {}) => ({
  choices: [{ index: 0, message: { role: 'assistant', content, ...more }, finish_reason: 'stop' }],
})
const image_url = { url: `data:image/png;base64,${PNG}` }

const FAMILIES: Record<string, Family> = {
  OpenAI: {
    settings: { protocol: 'openai-chat' },
    model: 'gpt-image-1',
    drawn: { data: [{ b64_json: PNG }] },
    nothing: { created: 1, data: [] },
    refused: [
      [
        { error: { code: 'moderation_blocked', message: 'Rejected by the safety system' } },
        'Rejected by the safety system',
      ],
      [{ error: { code: 'contentFilter', message: 'Your task failed' } }, 'Your task failed'],
      // https://learn.microsoft.com/azure/ai-services/openai/concepts/content-filter
      [
        {
          created: 1,
          data: [
            {
              content_filter_results: { violence: { filtered: true, severity: 'high' } },
              prompt_filter_results: { hate: { filtered: false, severity: 'safe' } },
            },
          ],
        },
        'Filtered for violence',
      ],
    ],
    part: {
      data: [{ b64_json: PNG }, { content_filter_results: { sexual: { filtered: true } } }],
    },
  },
  Imagen: {
    settings: { protocol: 'gemini' },
    model: 'imagen-4.0-generate-001',
    drawn: { predictions: [{ bytesBase64Encoded: PNG }] },
    nothing: { predictions: [] },
    refused: [
      [
        { predictions: [{ raiFilteredReason: 'Unable to show generated images' }] },
        'Unable to show generated images',
      ],
    ],
    part: { predictions: [{ bytesBase64Encoded: PNG }, { raiFilteredReason: 'Unable' }] },
  },
  Gemini: {
    settings: { protocol: 'gemini' },
    model: 'gemini-3-pro-image',
    output: ['text', 'image'],
    drawn: candidate({}, inlineData),
    nothing: candidate({}),
    refused: [
      [candidate({}, { text: 'I do not draw this person.' }), 'I do not draw this person.'],
      [candidate({ finishReason: 'IMAGE_SAFETY', finishMessage: 'Unsafe' }), 'Unsafe'],
      [candidate({ finishReason: 'PROHIBITED_CONTENT' }), 'PROHIBITED_CONTENT'],
      [{ promptFeedback: { blockReason: 'SAFETY' } }, 'SAFETY'],
    ],
  },
  'a chat model': {
    settings: { protocol: 'openai-chat' },
    model: 'm',
    output: ['text', 'image'],
    drawn: message('Here', { images: [{ type: 'image_url', image_url }] }),
    nothing: message(null),
    refused: [
      [message('I cannot draw that.'), 'I cannot draw that.'],
      [message(null, { refusal: 'I will not.' }), 'I will not.'],
    ],
  },
  Responses: {
    settings: { protocol: 'openai-responses' },
    model: 'gpt-5',
    output: ['text', 'image'],
    drawn: {
      id: 'r',
      status: 'completed',
      output: [{ type: 'image_generation_call', id: 'i', status: 'completed', result: PNG }],
    },
    nothing: { id: 'r', status: 'completed', output: [] },
    refused: [
      [
        {
          id: 'r',
          status: 'completed',
          output: [
            {
              type: 'message',
              id: 'm',
              role: 'assistant',
              status: 'completed',
              content: [{ type: 'output_text', text: 'No.', annotations: [] }],
            },
          ],
        },
        'No.',
      ],
    ],
  },
  'Black Forest Labs': {
    settings: { protocol: 'bfl' },
    model: 'flux-2-pro',
    drawn: { status: 'Ready', result: { sample: image_url.url } },
    nothing: { status: 'Ready', result: {} },
    refused: [
      [{ status: 'Request Moderated', result: null }, 'Request Moderated'],
      [{ status: 'Content Moderated', details: 'Derivative works' }, 'Derivative works'],
    ],
  },
  fal: {
    settings: { protocol: 'fal' },
    model: 'fal-ai/flux/dev',
    drawn: { images: [{ url: image_url.url }] },
    nothing: { images: [] },
    refused: [[{ images: [{ url: image_url.url }], has_nsfw_concepts: [true] }, 'nsfw']],
    part: {
      images: [{ url: image_url.url }, { url: image_url.url }],
      has_nsfw_concepts: [false, true],
    },
  },
  Stability: {
    settings: { protocol: 'stability' },
    model: 'stable-image-core',
    drawn: { image: PNG, finish_reason: 'SUCCESS' },
    nothing: { finish_reason: 'SUCCESS' },
    refused: [[{ image: PNG, finish_reason: 'CONTENT_FILTERED' }, 'CONTENT_FILTERED']],
  },
  Fireworks: {
    settings: { protocol: 'openai-chat', quirks: { images: 'fireworks' } },
    model: 'accounts/fireworks/models/flux-1-dev',
    drawn: { base64: [PNG], finishReason: 'SUCCESS' },
    nothing: { base64: [], finishReason: 'SUCCESS' },
    refused: [[{ base64: [PNG], finishReason: 'CONTENT_FILTERED' }, 'CONTENT_FILTERED']],
  },
}

let stage: MediaStage
const idOf = (name: string) => `drawn/${name.toLowerCase().replace(/[^a-z]+/g, '-')}`

beforeAll(async () => {
  stage = await openMediaStage(
    Object.entries(FAMILIES).map(([name, { settings, model, output = ['image'] }]) => ({
      ...{ id: idOf(name), output, model, providers: [settings, settings] },
      prices: { per_image: 0.01 },
    })),
  )
})
afterAll(() => stage[Symbol.asyncDispose]())

const draw = (name: string, n = 1) =>
  stage.openai.images.generate({ model: idOf(name), prompt: 'A cat', n })

const plan = (name: string, first: Script, second: Script) => {
  stage.upstreamOf(idOf(name)).plan(first)
  stage.upstreamOf(idOf(name), 1).plan(second)
}

describe.each(Object.entries(FAMILIES))('%s', (name, { drawn, nothing, refused }) => {
  beforeEach(() => {
    for (const endpoint of [0, 1]) stage.upstreamOf(idOf(name), endpoint).hits.length = 0
  })

  test.each(refused)('refused: %j', async (answer, words) => {
    plan(name, json(answer), json(drawn))
    const error = (await draw(name).catch(thrown => thrown)) as APIError
    expect(error).toBeInstanceOf(APIError)
    expect([error.status, error.message]).toEqual([400, expect.stringContaining(words)])
    expect(stage.upstreamOf(idOf(name), 1).hits).toEqual([])
  })

  test('nothing: the next provider is asked', async () => {
    plan(name, json(nothing), json(drawn))
    expect((await draw(name)).data).toMatchObject([{ b64_json: PNG }])
    plan(name, json(nothing), json(nothing))
    expect(await draw(name).catch(({ status }) => status)).toBe(502)
  })
})

const parts = Object.entries(FAMILIES).flatMap(([name, { part }]) => (part ? [{ name, part }] : []))

test.each(parts)('$name, part: what there is', async ({ name, part }) => {
  plan(name, json(part), status(500))
  const { data, usage } = await draw(name, 2)
  expect(data).toMatchObject([{ b64_json: PNG }])
  expect(usage as unknown).toMatchObject({ cost: 0.01 })
})

test('a stream that ends in a refusal is refused', async () => {
  const error = { type: 'error', error: { code: 'moderation_blocked', message: 'Not this' } }
  plan('OpenAI', [sseHead(), event(error), chunkedEnd()], json({ data: [{ b64_json: PNG }] }))
  const asked = stage.openai.images.generate({
    ...{ model: idOf('OpenAI'), prompt: 'A cat', stream: true as const },
  })
  const failed = await asked.catch(thrown => thrown)
  expect([failed.status, failed.message]).toEqual([400, expect.stringContaining('Not this')])
})
