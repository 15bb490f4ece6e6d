import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { fetchGeneration, fetchKeyState, readMetric, waitUntil } from '../support/chat.ts'
import { type Outcome, type RawCall, request } from '../support/raw-client.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { json, startUpstream, status, type Upstream } from '../support/upstream.ts'

/** A marker in every body that no answer may repeat. */
const CANARY = 'canary-9a1c'

let server: LocalServer
let first: Upstream
let second: Upstream

beforeAll(async () => {
  ;[first, second] = await Promise.all([startUpstream(), startUpstream()])
  const provider = (base_url: string, protocol = 'openai-chat') => ({
    protocol,
    base_url,
    api_key: 'mock',
  })
  const model = (id: string, providers: string[], more: object = {}) => ({
    id,
    output_modalities: ['embeddings'],
    endpoints: providers.map(slug => ({
      provider: slug,
      model: 'up-embed',
      usd_per_million_tokens: { prompt: 0.02, completion: 0 },
    })),
    ...more,
  })
  server = await startLocalServer({
    routing: { choice: 'listed', failures: 0 },
    providers: {
      first: provider(first.url),
      second: provider(second.url),
      google: { base_url: first.url, api_key: 'mock' },
    },
    models: [
      model('acme/embed', ['first', 'second']),
      model('google/embed', ['google']),
      model('acme/small', ['first'], { output_modalities: ['text'] }),
    ],
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([first.close(), second.close()])
})

beforeEach(() => {
  for (const upstream of [first, second]) {
    upstream.hits.length = 0
    upstream.plan(vectors([[0.5, -0.25]]))
  }
})

const USAGE = { prompt_tokens: 1000, total_tokens: 1000 }
const COST = 0.00002
const vectors = (given: unknown[], usage: object | null = USAGE) =>
  json({
    object: 'list',
    data: given.map((embedding, index) => ({ object: 'embedding', index, embedding })),
    ...(usage ? { usage } : {}),
  })

const embed = (body: object, headers: Record<string, string> = {}): RawCall =>
  request(`${server.base}/embeddings`, {
    json: { model: 'acme/embed', input: 'Hi', ...body },
    headers: { authorization: `Bearer ${server.inference_key}`, ...headers },
  })

interface Answer {
  id: string
  data: { embedding: number[] | string; index: number }[]
  usage: Record<string, unknown>
}

async function answerOf(body: object): Promise<Answer> {
  const outcome = await embed(body).outcome()
  expect(outcome.status).toBe(200)
  return JSON.parse(outcome.body)
}

describe('POST /embeddings', () => {
  test('answers from the sandbox, without a provider, the same each time', async () => {
    const one = await answerOf({
      model: 'sandbox/embed',
      input: ['The sky is blue', 'The sky is blue'],
    })
    expect(one).toMatchObject({
      object: 'list',
      model: 'sandbox/embed',
      provider: 'Sandbox',
      data: [{ index: 0 }, { index: 1 }],
    })
    expect(one.data[0]?.embedding).toHaveLength(8)
    expect(one.data[0]?.embedding).toEqual(one.data[1]?.embedding as never)
    expect(one.usage.cost).toBe(0)
  })

  test('answers, counts, prices and records', async () => {
    const before = (await fetchKeyState(server)).usage
    const { id, data, usage } = await answerOf({
      user: 'ann',
      dimensions: 2,
      truncate: 'END',
      session_id: 's-1',
    })
    expect(data).toEqual([{ object: 'embedding', index: 0, embedding: [0.5, -0.25] }] as never)
    expect(usage).toMatchObject({
      ...USAGE,
      cost: COST,
      is_byok: false,
      cost_details: { upstream_inference_cost: COST },
    })
    expect((await fetchKeyState(server)).usage - before).toBeCloseTo(COST)
    expect(await fetchGeneration(server, id)).toMatchObject({
      api_type: 'embeddings',
      model: 'acme/embed',
      provider_name: 'first',
      streamed: false,
      usage_source: 'exact',
      native_tokens_prompt: 1000,
      native_tokens_completion: 0,
      total_cost: COST,
      session_id: 's-1',
    })
    const [hit] = first.hits
    expect(hit?.path).toBe('/v1/embeddings')
    expect(hit?.json).toEqual({
      model: 'up-embed',
      input: 'Hi',
      dimensions: 2,
      truncate: 'END',
      user: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
  })

  test('estimates what a provider does not count', async () => {
    first.plan(vectors([[1]], null))
    const { id, usage } = await answerOf({ input: 'Hello there, how are you?' })
    expect(usage.prompt_tokens).toBeGreaterThan(3)
    expect((await fetchGeneration(server, id)).usage_source).toBe('estimated')
  })

  test('converts numbers and little-endian bytes, as the client requests', async () => {
    const bytes = Buffer.from(new Float32Array([0.5, -0.25]).buffer).toString('base64')
    expect((await answerOf({ encoding_format: 'base64' })).data[0]?.embedding).toBe(bytes)
    first.plan(vectors([bytes]))
    expect((await answerOf({ encoding_format: 'base64' })).data[0]?.embedding).toBe(bytes)
    expect((await answerOf({})).data[0]?.embedding).toEqual([0.5, -0.25])
  })

  test('falls back to another endpoint where one fails or returns no vectors', async () => {
    for (const failure of [status(503), vectors([]), vectors([['x']]), json({ data: CANARY })]) {
      first.plan(failure)
      const { id } = await answerOf({})
      const { provider_name, provider_responses } = await fetchGeneration(server, id)
      expect([provider_name, provider_responses.length]).toEqual(['second', 2])
    }
  })

  test('reports a provider’s refusal as the caller’s error, with its reason', async () => {
    first.plan(status(400, CANARY))
    const outcome = await embed({}).outcome()
    expect(outcome.status).toBe(400)
    expect(outcome.body).toContain(`The provider refused the request as invalid: ${CANARY}`)
    expect(second.hits).toHaveLength(0)
  })

  test('charges a client that leaves for its input, and closes the provider’s connection', async () => {
    first.plan([{ wait: 'never' }])
    const before = (await fetchKeyState(server)).usage
    const call = embed({})
    const hit = await first.hit()
    call.hangUp('rst')
    await hit.clientLeft
    await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
    expect((await fetchKeyState(server)).usage).toBeGreaterThan(before)
    expect(second.hits).toHaveLength(0)
  })
})

describe('bad input', () => {
  const each = (name: string, ...values: unknown[]) => values.map(value => [name, value] as const)
  const WRONG: (readonly [field: string, value: unknown])[] = [
    ...each(
      'input',
      '',
      [],
      [''],
      [[]],
      [[], [1]],
      null,
      5,
      {},
      true,
      [null],
      [true],
      [-1],
      [1.5],
      [[1.5]],
      ['a', 1],
      [1, CANARY],
      [[1], 'a'],
    ),
    ...each(
      'input',
      [{}],
      [{ content: [] }],
      [{ content: CANARY }],
      [{ content: [{ type: CANARY }] }],
      [{ content: [{ type: 'text' }] }],
    ),
    ...each(
      'input',
      [{ content: [{ type: 'image_url', image_url: CANARY }] }],
      [{ content: [{ type: 'input_audio', input_audio: {} }] }],
    ),
    ...each('model', undefined, null, '', 5, [CANARY]),
    ...each('dimensions', 0, -1, 1.5, '8', CANARY, 1e9),
    ...each('encoding_format', CANARY, 5, 'float32'),
    ...each('input_type', 5, '', {}),
    ...each('provider', CANARY, { only: [] }, { order: CANARY }, { sort: CANARY }),
    ...each('user', 5, CANARY.repeat(30)),
    ...each('session_id', 5, CANARY.repeat(30)),
    ...each('trace', CANARY),
  ]

  /**
   * Expects a refusal in the error envelope that reached no provider and repeats nothing of the
   * body.
   */
  function expectRefused(outcome: Outcome, code: number, message: string | RegExp): void {
    expect(outcome).toMatchObject({ status: code, complete: true })
    const { error } = JSON.parse(outcome.body)
    expect(error).toMatchObject({
      code,
      message: expect.stringMatching(message),
      metadata: { error_type: expect.any(String) },
    })
    expect(outcome.headers['x-generation-id']).toStartWith('gen-')
    expect(outcome.body).not.toContain(CANARY)
    expect(first.hits.length + second.hits.length).toBe(0)
  }

  test.each(WRONG)('%s: %j is refused with its name', async (field, value) => {
    expectRefused(await embed({ [field]: value }).outcome(), 400, new RegExp(`^${field}\\b`))
  })

  test.each([
    ['acme/none', '"acme/none" is not a valid model ID'],
    ['acme/small', 'acme/small gives text, not embeddings'],
    ['sandbox/echo', 'sandbox/echo gives text, not embeddings'],
  ])('the model %s is refused', async (model, message) => {
    expectRefused(await embed({ model }).outcome(), 400, message)
  })

  test('an embedding model cannot chat', async () => {
    const body = { model: 'acme/embed', messages: [{ role: 'user', content: 'Hi' }] }
    const response = await server.fetch('/chat/completions', { json: body })
    expect(response.status).toBe(400)
    expect(await response.text()).toContain('acme/embed gives embeddings, not text')
  })

  test('an inference key is required', async () => {
    expect((await embed({}, { authorization: 'Bearer nobody' }).outcome()).status).toBe(401)
    expect(
      (await embed({}, { authorization: `Bearer ${server.management_key}` }).outcome()).status,
    ).toBe(403)
  })
})
