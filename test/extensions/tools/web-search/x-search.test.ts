import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import type { Json } from '../../../../src/base/json.ts'
import { askDoor, DOORS, type DoorCall } from '../../../support/doors.ts'
import { createTestKeys, testGateway } from '../../../support/gateway.ts'
import { json, startUpstream, type Upstream } from '../../../support/upstream.ts'

let upstream: Upstream
let gateway: Gateway
let key: string
beforeAll(async () => {
  upstream = await startUpstream()
  const model = (provider: string) => ({
    id: `acme/${provider}`,
    context_length: 100_000,
    endpoints: [
      {
        ...{ provider, model: 'm' },
        usd_per_million_tokens: { prompt: 1, completion: 1, web_search: 0.005 },
      },
    ],
  })
  const provider = { protocol: 'openai-responses', base_url: upstream.url, api_key: 'mock' }
  gateway = await testGateway({
    config: {
      providers: { xai: provider, other: provider },
      models: ['xai', 'other'].map(model),
      web_search: { engines: { exa: { api_key: 'k', base_url: upstream.url } } },
    },
  })
  key = (await createTestKeys(gateway)).inference
})
beforeEach(() => {
  upstream.hits.length = 0
  upstream.answer(() => json(ANSWER))
})
afterAll(() => Promise.all([upstream.close(), gateway.close()]))

const message = (text: string) => ({
  ...{ id: 'msg_1', type: 'message', role: 'assistant', status: 'completed' },
  content: [{ type: 'output_text', text, annotations: [] }],
})
/** An answer as xAI gives it: what it ran itself is a call of a custom tool. */
const ANSWER = {
  ...{ id: 'resp_1', object: 'response', created_at: 1, status: 'completed', model: 'm' },
  output: [
    {
      ...{ id: 'ctc_1', type: 'custom_tool_call', call_id: 'xs_1', name: 'x_keyword_search' },
      ...{ input: '{"query":"apples"}', status: 'completed' },
    },
    message('Apples trend.'),
  ],
  usage: { input_tokens: 10, output_tokens: 5, total_tokens: 15 },
}

const LIMITS = { allowed_x_handles: ['acme'], from_date: '2026-01-01', to_date: '2026-02-28' }

const ask = (door: (typeof DOORS)[number], more: Partial<DoorCall> & { model: string }) =>
  askDoor(gateway, key, door, { stream: false, ...more })

const viaTool = (x_search: unknown, parameters: Json = {}) => ({
  more: { tools: [{ type: 'gateway:web_search', parameters: { x_search, ...parameters } }] },
})
const viaPlugin = (x_search: unknown, options: Json = {}) => ({
  plugins: [{ id: 'web', x_search, ...options }],
})
const WAYS = [
  ['the tool', viaTool],
  ['the plugin', viaPlugin],
] as const

describe.each(DOORS)('X at %s', door => {
  test.each(WAYS)('is searched by xAI, asked for by %s, and priced', async (_, via) => {
    const { status, text } = await ask(door, { model: 'acme/xai', ...via(LIMITS) })
    expect([status, text]).toEqual([200, 'Apples trend.'])
    expect((upstream.hits[0]?.json as Json | undefined)?.tools).toEqual([
      { type: 'web_search' },
      { type: 'x_search', ...LIMITS },
    ])
    await gateway.recorder.flush()
    const [generation] = await gateway.store.generations.list({}, 1)
    expect(generation?.total_cost).toBe(5_000_000n + 15_000n)
  })

  test.each(WAYS)('is not searched by others, asked for by %s', async (_, via) => {
    const { status, text } = await ask(door, { model: 'acme/other', ...via({}) })
    expect(status).toBe(404)
    expect(text).toContain('only xAI searches X')
    expect(upstream.hits).toEqual([])
  })

  test.each<[string, (x: unknown, more?: Json) => object, Json]>([
    ['an engine', viaTool, { engine: 'exa' }],
    ['what only engines know', viaTool, { max_results: 3 }],
    ['an engine in the plugin', viaPlugin, { engine: 'exa' }],
    ['what only engines know in the plugin', viaPlugin, { max_results: 3 }],
  ])('is not searched by %s: a 400 that says who does', async (_, via, more) => {
    const { status, text } = await ask(door, { model: 'acme/xai', ...via({}, more) })
    expect([status, text]).toEqual([400, expect.stringContaining('only xAI searches X')])
  })
})

test.each<[unknown, string]>([
  [7, 'x_search'],
  [{ hologram: 1 }, 'x_search.hologram'],
  [{ allowed_x_handles: ['a b'] }, 'x_search.allowed_x_handles.0'],
  [{ allowed_x_handles: Array.from({ length: 21 }, () => 'a') }, 'x_search.allowed_x_handles'],
  [{ allowed_x_handles: ['a'], excluded_x_handles: ['b'] }, 'x_search.excluded_x_handles'],
  [{ from_date: 'yesterday' }, 'x_search.from_date'],
  [{ from_date: '2026-02-31' }, 'x_search.from_date'],
  [{ from_date: '2026-03-02', to_date: '2026-03-01' }, 'x_search.to_date'],
  [{ enable_image_understanding: 'yes' }, 'x_search.enable_image_understanding'],
])('%j is a 400 that names the field', async (x_search, field) => {
  for (const [at, via] of [
    ['tools.0.parameters', viaTool],
    ['plugins.0', viaPlugin],
  ] as const) {
    const { status, raw } = await ask('chat', { model: 'acme/xai', ...via(x_search) })
    expect(status).toBe(400)
    expect(JSON.parse(raw).error.metadata.field).toBe(`${at}.${field}`)
  }
})
