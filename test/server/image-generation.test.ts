import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import type { Scenario } from '../support/fake-provider-server.ts'
import { expectBooks } from '../support/invariants.ts'
import { DOORS, type LoopStage, openLoopStage, TURN } from '../support/tool-loop.ts'
import { json, startUpstream, status, type Upstream } from '../support/upstream.ts'

/** The smallest of pictures: one pixel. */
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='
/** The price of a picture, in nano-dollars. */
const PICTURE = 40_000_000n

let painter: Upstream
let stage: LoopStage | undefined
beforeAll(async () => {
  painter = await startUpstream()
})
afterAll(() => painter.close())
beforeEach(() => {
  painter.hits.length = 0
  painter.answer(() => json({ created: 1, data: [{ b64_json: PNG }] }))
})
afterEach(async () => {
  await stage?.close()
  stage = undefined
})

const drawing: Scenario = ({ results }) =>
  results.length > 0
    ? { answer: { text: 'Done.', finish: 'stop' } }
    : {
        answer: {
          calls: [{ id: 'a', name: 'image_generation', input: '{"prompt": "A red apple"}' }],
          finish: 'tool_calls',
        },
      }

/** Opens a stage with a model that draws, which may be the one of the config. */
async function open(config: Json = {}, limit = 1): Promise<LoopStage> {
  const prices = { prompt: 0, completion: 0, per_image: 0.04 }
  stage = await openLoopStage(drawing, {
    limit,
    config,
    changeConfig: ({ providers, models }) => ({
      providers: {
        ...(providers as Json),
        painter: { protocol: 'openai-chat', base_url: painter.url, api_key: 'mock' },
      },
      models: [
        ...(models as Json[]),
        {
          id: 'acme/painter',
          output_modalities: ['image'],
          endpoints: [{ provider: 'painter', model: 'draw-1', usd_per_million_tokens: prices }],
        },
      ],
    }),
  })
  return stage
}

const TOOL = (parameters: Json = {}) => ({
  tools: [
    { type: 'openrouter:image_generation', parameters: { model: 'acme/painter', ...parameters } },
  ],
})

describe('a picture that is drawn within a call', () => {
  test.each(DOORS)('is shown to the client, charged and on record: %s', async door => {
    const at = await open()
    const readings = []
    for (const stream of [false, true])
      readings.push(await at.ask(door, { stream, ...TOOL({ n: 1, quality: 'low' }) }))
    for (const { status, raw, error } of readings) {
      expect([status, error]).toEqual([200, null])
      expect(JSON.stringify(raw)).toContain(PNG)
    }
    if (door === 'responses')
      expect(
        ((readings[0]?.raw[0]?.output ?? []) as Json[]).map(({ type, result }) => [type, result]),
      ).toEqual([
        ['openrouter:image_generation', undefined],
        ['image_generation_call', PNG],
        ['message', undefined],
      ])
    const [hit] = painter.hits
    expect(hit?.json).toMatchObject({ model: 'draw-1', prompt: 'A red apple', quality: 'low' })
    expect(at.generations.map(({ total_cost }) => total_cost)).toEqual(
      Array(2).fill(2n * TURN + PICTURE),
    )
    expect(at.generations[0]?.steps).toMatchObject([
      { type: 'model', cost: TURN },
      { type: 'tool', function: 'image_generation', is_error: false },
      { type: 'model', name: 'acme/painter', depth: 1, cost: PICTURE },
      { type: 'model', cost: TURN },
    ])
    const [result] = at.heard.find(({ results }) => results.length > 0)?.results ?? []
    expect(JSON.parse(result?.text ?? '')).toEqual({
      status: 'ok',
      pictures: 1,
      shown_to_user: true,
    })
    await expectBooks(at)
  })

  test('gives back its memory and its place among large answers', async () => {
    const at = await open()
    const picture = Buffer.concat([Buffer.from(PNG, 'base64'), Buffer.alloc(600_000)])
    painter.answer(() => json({ created: 1, data: [{ b64_json: picture.toString('base64') }] }))
    const { status, raw } = await at.ask('chat', TOOL())
    expect([status, JSON.stringify(raw).length > 600_000]).toEqual([200, true])
    const { admission, largeAnswers } = at.gateway.traffic
    expect([admission.memory.used, largeAnswers.size]).toEqual([0, 0])
  })

  test('is of the config’s model if the call names none', async () => {
    const config = { server_tools: { image_generation: { model: 'acme/painter' } } }
    const at = await open(config)
    await at.ask('chat', { tools: [{ type: 'gateway:image_generation' }] })
    expect(painter.hits).toHaveLength(1)
  })

  test('that cannot be drawn is an error to the model, and costs nothing', async () => {
    const at = await open()
    painter.answer(() => status(500, 'no'))
    const { text, uses } = await at.ask('responses', TOOL())
    expect([text, uses]).toMatchObject(['Done.', [{ status: 'incomplete', prompt: 'A red apple' }]])
    expect(at.money.spent).toBe(2n * TURN)
    await expectBooks(at)
  })

  test('beyond a limit is not drawn, and the model is told so', async () => {
    const at = await open({}, 0.03)
    const { text } = await at.ask('chat', TOOL())
    expect(text).toBe('Done.')
    expect(at.heard.at(-1)?.results[0]?.text).toContain('Key limit exceeded')
    expect(painter.hits).toEqual([])
    await expectBooks(at)
  })

  test('whose prompt content filters block is not drawn', async () => {
    const at = await open()
    const operator = getOperator(at.gateway)
    const { data } = await createGuardrail(at.gateway, operator, {
      name: 'g',
      content_filters: [{ pattern: 'apple', action: 'block' }],
    })
    await assignKeys(at.gateway, operator, data.id, { key_hashes: [at.key.hash] })
    const { error } = await at.ask('chat', TOOL())
    expect(error).toMatchObject({ code: 403 })
    expect(painter.hits).toEqual([])
    await expectBooks(at)
  })

  test('of a model that no provider is configured for is a 404', async () => {
    const at = await open()
    const { status, error } = await at.ask('chat', TOOL({ model: null }))
    expect([status, error?.message]).toEqual([404, expect.stringContaining('openai/gpt-5-image')])
  })

  test.each([
    ['an unknown model', { model: 'acme/none' }, 'tools.0.type'],
    ['a model that does not draw', { model: 'acme/gemini' }, 'tools.0.type'],
    ['too many pictures', { n: 11 }, 'tools.0.parameters.n'],
    ['an unknown field', { partial_images: 2 }, 'tools.0.parameters.partial_images'],
    ['sizes that disagree', { size: '64x64', resolution: '4K' }, 'tools.0.parameters.size'],
    [
      'a background that JPEG lacks',
      { background: 'transparent', output_format: 'jpeg' },
      'tools.0.parameters.background',
    ],
  ])('with %s is a 400 that names the field', async (_, parameters, field) => {
    const at = await open()
    const { status, error } = await at.ask('chat', TOOL(parameters))
    expect([status, error?.metadata]).toMatchObject([400, { field }])
    expect([at.heard, painter.hits]).toEqual([[], []])
  })
})

describe('image_generation in the form of OpenAI’s API', () => {
  const PLAIN = (more: Json = {}) => ({ tools: [{ type: 'image_generation', ...more }] })
  const config = { server_tools: { image_generation: { model: 'acme/painter' } } }

  test.each([false, true])('is run where no provider has it, streamed: %p', async stream => {
    const at = await open(config)
    const { raw, text } = await at.ask('responses', { stream, ...PLAIN({ partial_images: 0 }) })
    expect(text).toBe('Done.')
    const response = (stream ? raw.at(-1)?.response : raw[0]) as { output: Json[] }
    expect(response.output.map(({ type, status, result }) => [type, status, result])).toEqual([
      ['image_generation_call', 'completed', PNG],
      ['message', 'completed', undefined],
    ])
    const events = raw.map(({ type }) => String(type))
    if (stream)
      expect(events.filter(type => type.startsWith('response.image_generation_call'))).toEqual([
        'response.image_generation_call.in_progress',
        'response.image_generation_call.generating',
        'response.image_generation_call.completed',
      ])
    await expectBooks(at)
  })

  test('that fails has an item that says so', async () => {
    const at = await open(config)
    painter.answer(() => status(500, 'no'))
    const { raw } = await at.ask('responses', PLAIN())
    expect(raw[0]?.output).toMatchObject([
      { type: 'image_generation_call', status: 'failed', result: null },
      { type: 'message' },
    ])
  })

  test('is left to a provider that has it', async () => {
    const at = await open(config)
    const body = { model: 'acme/openai-responses', ...PLAIN() }
    const { status, calls } = await at.ask('responses', body)
    // The gateway runs no function of that name: it is for the client.
    expect([status, painter.hits]).toEqual([200, []])
    expect(calls).toMatchObject([{ name: 'image_generation' }])
  })

  test.each([
    ['what only OpenAI can do', config, { partial_images: 2 }, 'tools.0.partial_images'],
    ['a mask', config, { input_image_mask: { file_id: 'a' } }, 'tools.0.input_image_mask'],
    ['an unknown model', config, { model: 'none' }, 'tools.0.type'],
    ['a model that does not draw', config, { model: 'acme/gemini' }, 'tools.0.type'],
  ])('with %s is a 400 that names the field', async (_, given, more, field) => {
    const at = await open(given)
    const { status, error, raw } = await at.ask('responses', PLAIN(more))
    expect([status, error?.metadata ?? raw]).toMatchObject([400, { field }])
  })
})
