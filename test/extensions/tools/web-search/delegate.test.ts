import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { reconfigure } from '../../../../src/app/reconfigure.ts'
import type { Json } from '../../../../src/base/json.ts'
import { parseConfig } from '../../../../src/config.ts'
import { createApp } from '../../../../src/server/app.ts'
import { createTestKeys, testGateway } from '../../../support/gateway.ts'
import { completion, startUpstream, type Upstream } from '../../../support/upstream.ts'

let upstream: Upstream
let gateway: Gateway
let key: string
beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(() => completion('Found it'))
  gateway = await testGateway()
  key = (await createTestKeys(gateway)).inference
})
afterEach(() => {
  upstream.hits.length = 0
})
afterAll(() => Promise.all([upstream.close(), gateway.close()]))

const SEARXNG = { engines: { searxng: { base_url: 'https://searxng.example' } } }

/** Calls a model whose providers search themselves or not, and returns what went out. */
async function ask(searching: boolean[], parameters: Json, web_search: Json = {}, more: Json = {}) {
  const providers = searching.map((web_search, i) => [
    `p${i}`,
    {
      ...{ protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' },
      quirks: { web_search },
    },
  ])
  const config = {
    providers: Object.fromEntries(providers),
    models: [
      {
        id: 'acme/small',
        context_length: 100_000,
        endpoints: searching.map((_, i) => ({ provider: `p${i}`, model: 'm' })),
      },
    ],
    routing: { choice: 'listed' },
    web_search,
  }
  await reconfigure(gateway, parseConfig(JSON.stringify(config), {}))
  const response = await createApp(gateway, () => '127.0.0.1').handle(
    new Request('http://localhost/api/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({
        model: 'acme/small',
        messages: [{ role: 'user', content: 'Hi' }],
        tools: [{ type: 'gateway:web_search', parameters }],
        ...more,
      }),
    }),
  )
  const { error } = (await response.json()) as { error?: { message: string } }
  const sent = upstream.hits[0]?.json as
    | { tools?: unknown[]; web_search_options?: Json }
    | undefined
  return {
    status: response.status,
    message: error?.message ?? '',
    functions: sent?.tools?.length ?? 0,
    options: sent?.web_search_options ?? null,
  }
}

const NATIVE = { status: 200, functions: 0, options: {} }
const OWN = { status: 200, functions: 1, options: null }

test.each<[searching: boolean[], parameters: Json, config: Json, expected: object]>([
  [[true], {}, {}, NATIVE],
  [[true], {}, SEARXNG, NATIVE],
  [
    [true],
    { search_context_size: 'low' },
    SEARXNG,
    { ...NATIVE, options: { search_context_size: 'low' } },
  ],
  [[true], { max_results: 3 }, SEARXNG, OWN],
  [[false], {}, SEARXNG, OWN],
  [[false, true], {}, SEARXNG, OWN],
  [[true], { engine: 'searxng' }, SEARXNG, OWN],
  [[false, true], { engine: 'native' }, SEARXNG, NATIVE],
  [[false, true], {}, {}, NATIVE],
])('providers that search %j, %j with %j', async (searching, parameters, config, expected) => {
  expect(await ask(searching, parameters, config)).toMatchObject(expected)
})

test.each<[searching: boolean[], parameters: Json, config: Json, reason: string]>([
  [[false], { engine: 'native' }, SEARXNG, 'no provider of it searches the web itself'],
  [[false], {}, {}, 'no provider of it searches the web itself'],
  [
    [true],
    { engine: 'native', max_results: 3 },
    SEARXNG,
    'a provider’s own search has no max_results',
  ],
  [[true], { max_results: 3 }, {}, 'no engine is configured'],
  [[true], { engine: 'exa' }, SEARXNG, 'the search engine exa cannot be used'],
])('nobody searches: %j, %j with %j', async (searching, parameters, config, reason) => {
  const { status, message } = await ask(searching, parameters, config)
  expect(status).toBeGreaterThanOrEqual(400)
  expect(message).toContain(reason)
  expect(upstream.hits).toHaveLength(0)
})

test.each(['required', { type: 'gateway:web_search' }])(
  'a search that is required (%j) is the gateway’s, as no provider can be told to search',
  async tool_choice => {
    expect(await ask([true], {}, SEARXNG, { tool_choice })).toMatchObject(OWN)
    const refused = await ask([true], {}, {}, { tool_choice })
    expect([refused.status, refused.message]).toEqual([400, expect.stringContaining('tool_choice')])
  },
)
