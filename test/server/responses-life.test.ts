import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import {
  buildRoutesConfig,
  createLimitedKey,
  fetchGeneration,
  fetchKeyState,
  readGenerationId,
  readMetric,
  waitUntil,
} from '../support/chat.ts'
import { type Outcome, type RawCall, request } from '../support/raw-client.ts'
import { assembleResponse, parseEvents } from '../support/response-events.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  completion,
  delta,
  type Hit,
  type Script,
  sseHead,
  startUpstream,
  stream,
  type Upstream,
} from '../support/upstream.ts'

/* The life of a call through the Responses API is that of any other. */

let upstreams: [Upstream, Upstream]
let server: LocalServer
let key: string

const from =
  (name: string) =>
  ({ json }: Hit): Script =>
    (json as { stream?: boolean }).stream ? stream([name]) : completion(name)

beforeAll(async () => {
  upstreams = [await startUpstream(), await startUpstream()]
  const [first, second] = upstreams
  const config = buildRoutesConfig(
    { 'acme/small': { first: first.url, second: second.url }, 'acme/one': { first: first.url } },
    { routing: { choice: 'listed', failures: 0 } },
  )
  const models = config.models.map(model => ({
    ...model,
    endpoints: model.endpoints.map(endpoint => ({
      ...endpoint,
      // Staying where a prompt is cached must be cheaper.
      usd_per_million_tokens: { prompt: 1, completion: 2, cache_read: 0.1 },
      supported_parameters:
        endpoint.provider === 'second'
          ? ['max_tokens', 'temperature', 'top_k', 'tools']
          : ['max_tokens', 'temperature', 'tools'],
    })),
  }))
  server = await startLocalServer({ ...config, models })
})

afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await Promise.all(upstreams.map(upstream => upstream.close()))
})

beforeEach(async () => {
  key = await createLimitedKey(server)
  for (const [i, upstream] of upstreams.entries()) {
    upstream.hits.length = 0
    upstream.answer(from(i === 0 ? 'first' : 'second'))
  }
})

afterEach(() => Promise.all(upstreams.map(upstream => upstream.emptied())))

const send = (body: Json = {}): RawCall =>
  request(`${server.base}/responses`, {
    json: { model: 'acme/small', input: 'Hi', max_output_tokens: 50, ...body },
    headers: { authorization: `Bearer ${key}` },
  })
const ask = (body: Json = {}): Promise<Outcome> => send(body).outcome()
const hits = () => upstreams.map(upstream => upstream.hits.length)

/** Reads a response, whole or streamed. */
const readResponse = ({ headers, body }: Outcome): Json =>
  headers['content-type']?.startsWith('text/event-stream')
    ? assembleResponse(parseEvents(body))
    : JSON.parse(body)

test('a slow provider is hedged by the next, and both are on record', async () => {
  upstreams[0].answer(() => [sseHead(), { wait: `${key} slow` }])
  const outcome = await ask({ stream: true, provider: { hedge: { after_ms: 20 } } })
  expect(readResponse(outcome)).toMatchObject({ status: 'completed', output_text: 'second' })
  expect(hits()).toEqual([1, 1])
  upstreams[0].open(`${key} slow`)
  const generation = await fetchGeneration(server, readGenerationId(outcome), key)
  expect(generation.provider_responses).toHaveLength(2)
})

test('a session stays at the endpoint that served it', async () => {
  const session_id = `session of ${key}`
  const only = { provider: { only: ['second'] } }
  expect(readResponse(await ask({ session_id, ...only })).output_text).toBe('second')
  expect(readResponse(await ask({ session_id })).output_text).toBe('second')
  expect(readResponse(await ask({ session_id: `another of ${key}` })).output_text).toBe('first')
})

test('a key without money left is refused, and nothing is sent', async () => {
  key = await createLimitedKey(server, 0.000001)
  const outcome = await ask({ max_output_tokens: 10_000 })
  expect(outcome.status).toBe(402)
  expect(JSON.parse(outcome.body).error).toMatchObject({ code: 402, param: null })
  expect(hits()).toEqual([0, 0])
})

test.each([false, true])(
  'its cost is in the answer and on the key (streamed: %j)',
  async stream => {
    const { usage } = readResponse(await ask({ stream })) as { usage: { cost: number } }
    expect(usage.cost).toBeGreaterThan(0)
    await waitUntil(async () => (await fetchKeyState(server, key)).usage > 0)
    expect((await fetchKeyState(server, key)).usage).toBeCloseTo(usage.cost, 12)
  },
)

test.each([
  ['before the first word', [sseHead()], ''],
  ['in the middle', [sseHead(), delta('Hel'), delta('lo')], '"lo"'],
])('a client that leaves %s ends the provider’s request', async (_, said, seen) => {
  upstreams[0].answer(() => [...said, { wait: `${key} gone` }])
  const call = send({ stream: true })
  await upstreams[0].reached(`${key} gone`)
  if (seen) await call.sees(seen)
  const [hit] = upstreams[0].hits
  call.hangUp('fin')
  await hit?.clientLeft
  await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
  expect(upstreams[0].hits[0]?.leftAt).not.toBeNull()
})

test('a parameter that an endpoint does not have is ignored, or excludes it on request', async () => {
  expect(readResponse(await ask({ top_k: 5 })).output_text).toBe('first')
  expect(upstreams[0].hits[0]?.json).not.toHaveProperty('top_k')
  const provider = { require_parameters: true }
  expect(readResponse(await ask({ top_k: 5, provider })).output_text).toBe('second')
  expect(upstreams[1].hits[0]?.json).toMatchObject({ top_k: 5 })
  const refused = await ask({ model: 'acme/one', top_k: 5, provider })
  expect([refused.status, refused.body]).toEqual([404, expect.stringContaining('require')])
})

test('a tool that no provider has is left out and named, or excludes every endpoint on request', async () => {
  const tools = [{ type: 'code_interpreter', container: { type: 'auto' } }]
  const refused = await ask({ tools, provider: { require_parameters: true } })
  expect(refused.status).toBe(404)
  expect(hits()).toEqual([0, 0])
  const named = await ask({ tools })
  expect([named.status, named.headers['x-gateway-ignored']]).toEqual([
    200,
    expect.stringContaining('code_interpreter'),
  ])
  expect(upstreams[0].hits[0]?.json).not.toHaveProperty('tools')
})

test('a dry run says where the call would go, and sends nothing', async () => {
  key = server.management_key
  const outcome = await ask({ debug: { dry_run: true } })
  expect(outcome.status).toBe(200)
  const { endpoints } = JSON.parse(outcome.body) as { endpoints: Json[] }
  expect(endpoints).toHaveLength(2)
  expect(hits()).toEqual([0, 0])
})

test('an address of a private network is refused with its item, and nothing is sent', async () => {
  const parts = [
    { type: 'input_image', image_url: 'http://169.254.169.254/a.png' },
    { type: 'input_file', file_url: 'http://10.0.0.1/a.pdf' },
    { type: 'input_video', video_url: 'http://[::1]/a.mp4' },
  ]
  for (const [i, part] of parts.entries()) {
    const text = { type: 'input_text', text: 'Look' }
    const input = [
      { role: 'user', content: 'Hi' },
      { role: 'user', content: [text, part] },
    ]
    const { status, body } = await ask({ input })
    const { error } = JSON.parse(body)
    expect([i, status, error.param ?? error.message]).toEqual([i, 400, 'input.1.content.1'])
  }
  expect(hits()).toEqual([0, 0])
})
