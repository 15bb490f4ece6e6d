import { afterAll, beforeAll, describe, expect, spyOn, test } from 'bun:test'
import { buildPicture, type MediaStage, openMediaStage } from '../support/media.ts'
import { chunk, chunkedEnd, event, json, type Script, sseHead } from '../support/upstream.ts'

/*
 * What is accepted whole is accepted streamed: one large picture, by every protocol that draws, at
 * every door, with OpenAI's client.
 */

/** More than any event of texts has: `LARGEST_EVENT`. */
const LARGE = buildPicture(3_300_000)
/** In MiB: the largest answer, and so the largest event that may bring a picture. */
const LARGEST_ANSWER = 8

const streamOf = (...events: unknown[]): Script => [sseHead(), ...events.map(event), chunkedEnd()]
const MIME = 'image/png'

/** How a protocol answers with a picture: whole, and streamed. */
const DRAWN: Record<string, { protocol: string; whole: () => Script; streamed: () => Script }> = {
  'gemini draws': {
    protocol: 'gemini',
    whole: () => json(GEMINI),
    streamed: () => streamOf(GEMINI),
  },
  'a chat model draws': {
    protocol: 'openai-chat',
    whole: () =>
      json({
        choices: [
          { index: 0, message: { content: 'A cat', images: [IMAGE] }, finish_reason: 'stop' },
        ],
        usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
      }),
    streamed: () =>
      streamOf(
        { choices: [{ index: 0, delta: { content: 'A cat', images: [IMAGE] } }] },
        { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
        '[DONE]',
      ),
  },
  'the Responses API draws': {
    protocol: 'openai-responses',
    whole: () => json(RESPONSE),
    streamed: () =>
      streamOf(
        { type: 'response.created', response: { ...RESPONSE, status: 'in_progress', output: [] } },
        {
          type: 'response.output_item.added',
          output_index: 0,
          item: { ...DRAWING, status: 'in_progress', result: null },
        },
        { type: 'response.output_item.done', output_index: 0, item: DRAWING },
        { type: 'response.completed', response: RESPONSE },
      ),
  },
}

const GEMINI = {
  candidates: [
    {
      content: { role: 'model', parts: [{ inlineData: { mimeType: MIME, data: LARGE } }] },
      finishReason: 'STOP',
    },
  ],
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 2 },
}
const IMAGE = { type: 'image_url', image_url: { url: `data:${MIME};base64,${LARGE}` } }
const DRAWING = { id: 'ig_1', type: 'image_generation_call', status: 'completed', result: LARGE }
const RESPONSE = {
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  output: [DRAWING],
  usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
}

let stage: MediaStage
const names = Object.keys(DRAWN)
const idOf = (name: string) => `acme/${DRAWN[name]?.protocol}`
const prices = { image_output: 40 }

beforeAll(async () => {
  const drawing = names.map(name => ({
    id: idOf(name),
    output: ['text', 'image'],
    providers: [{ protocol: DRAWN[name]?.protocol }],
    prices,
  }))
  const images = {
    id: 'acme/draw',
    output: 'image',
    providers: [{ protocol: 'openai-chat' }],
    model: 'gpt-image-1',
    prices,
  }
  const limits = { answer_mib: LARGEST_ANSWER }
  stage = await openMediaStage([...drawing, images], { limits })
})
afterAll(() => stage[Symbol.asyncDispose]())

const messages = [{ role: 'user' as const, content: 'Draw a cat' }]

describe.each(names)('%s', name => {
  const model = idOf(name)

  test('the chat API brings it, whole and streamed', async () => {
    stage.upstreamOf(model).plan(DRAWN[name]?.whole() ?? [])
    const whole = await stage.openai.chat.completions.create({ model, messages })
    expect(JSON.stringify(whole.choices[0]?.message)).toContain(LARGE)
    stage.upstreamOf(model).plan(DRAWN[name]?.streamed() ?? [])
    const texts: string[] = []
    const stream = await stage.openai.chat.completions.create({ model, messages, stream: true })
    for await (const one of stream) texts.push(JSON.stringify(one))
    expect(texts.join('').includes(LARGE)).toBe(true)
    expect(texts.join('')).toContain('"finish_reason":"stop"')
  })

  test('the Responses API brings it, whole and streamed', async () => {
    const ask = { model, input: 'Draw a cat' }
    stage.upstreamOf(model).plan(DRAWN[name]?.whole() ?? [])
    expect(JSON.stringify(await stage.openai.responses.create(ask)).includes(LARGE)).toBe(true)
    stage.upstreamOf(model).plan(DRAWN[name]?.streamed() ?? [])
    const types: string[] = []
    let isThere = false
    for await (const one of await stage.openai.responses.create({ ...ask, stream: true })) {
      types.push(one.type)
      isThere ||= JSON.stringify(one).includes(LARGE)
    }
    expect([isThere, types.at(-1)]).toEqual([true, 'response.completed'])
  })

  test('is drawn by the images API', async () => {
    stage.upstreamOf(model).plan(DRAWN[name]?.whole() ?? [])
    const { data } = await stage.openai.images.generate({ model, prompt: 'A cat' })
    expect(data?.[0]?.b64_json === LARGE).toBe(true)
  })
})

test('the images API streams one of a provider that streams', async () => {
  stage.upstreamOf('acme/draw').plan(
    streamOf({
      type: 'image_generation.completed',
      b64_json: LARGE,
      usage: { input_tokens: 1, output_tokens: 2 },
    }),
  )
  const stream = await stage.openai.images.generate({
    ...{ model: 'acme/draw', prompt: 'A cat', stream: true as const },
  })
  const drawn: string[] = []
  for await (const one of stream)
    if (one.type === 'image_generation.completed') drawn.push(one.b64_json)
  expect(drawn.map(one => one === LARGE)).toEqual([true])
})

test('a large event has its memory, and one past the bound of a whole answer is a failure', async () => {
  const model = idOf(names[0] ?? '')
  const grow = spyOn(stage.server.gateway.traffic.admission, 'growAnswer')
  const ask = () => stage.openai.chat.completions.create({ model, messages, stream: true })
  try {
    stage.upstreamOf(model).plan(DRAWN[names[0] ?? '']?.streamed() ?? [])
    for await (const one of await ask()) expect(one.id).toBeString()
    const most = Math.max(...grow.mock.calls.map(([, bytes]) => bytes))
    expect(most).toBeGreaterThan(LARGE.length)
    const past = Array(LARGEST_ANSWER + 1).fill(chunk('x'.repeat(1024 * 1024)))
    stage.upstreamOf(model).plan([sseHead(), chunk('data: {"x":"'), ...past])
    expect(await ask().catch(({ status }) => status)).toBe(502)
  } finally {
    grow.mockRestore()
  }
})

test('large events of several streams wait for each other within limits.memory', async () => {
  // One event, in its copies, leaves no room for another.
  const limits = { memory: 24 }
  const models = [
    { id: 'acme/gemini', output: ['text', 'image'], providers: [{ protocol: 'gemini' }] },
  ]
  const tight = await openMediaStage(models, { limits })
  try {
    tight.upstreamOf('acme/gemini').answer(() => streamOf(GEMINI))
    const { memory } = tight.server.gateway.traffic.admission
    const draw = async () => {
      const stream = await tight.openai.chat.completions.create({
        ...{ model: 'acme/gemini', messages, stream: true as const },
      })
      let isThere = false
      for await (const one of stream) isThere ||= JSON.stringify(one).includes(LARGE)
      return isThere
    }
    expect(await Promise.all([draw(), draw(), draw(), draw()])).toEqual([true, true, true, true])
    expect(memory.used).toBe(0)
  } finally {
    await tight[Symbol.asyncDispose]()
  }
})
