import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { Cancellation } from '../../../src/base/cancellation.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import type { Json } from '../../../src/base/json.ts'
import { clientLeft } from '../../../src/engine/run.ts'
import {
  buildNativeOptions,
  chooseEngine,
} from '../../../src/extensions/tools/web-search/choose-engine.ts'
import { webSearch } from '../../../src/extensions/tools/web-search.ts'
import type { Endpoint } from '../../../src/resources/models/catalog.ts'
import { testGateway } from '../../support/gateway.ts'
import { answerAsPeer, PEER_KEY, SEARCH_PEERS } from '../../support/search-peers.ts'
import { buildUse, createToolRun } from '../../support/tools.ts'
import { startUpstream, type Upstream } from '../../support/upstream.ts'

let upstream: Upstream
let gateway: Gateway
beforeAll(async () => {
  upstream = await startUpstream()
  gateway = await testGateway({
    config: {
      web_search: {
        engines: {
          tavily: { enabled: false, api_key: PEER_KEY },
          perplexity: {},
          searxng: { base_url: upstream.url, usd_per_search: 0.002 },
          exa: { api_key: PEER_KEY, base_url: upstream.url, max_results: 10 },
        },
        max_uses: 3,
      },
    },
  })
  upstream.answer(hit => answerAsPeer(SEARCH_PEERS.searxng, hit, PAGES))
})
afterAll(() => Promise.all([upstream.close(), gateway.close()]))

const PAGES = Array.from({ length: 60 }, (_, i) => ({
  url: `https://example.com/${i}`,
  title: `Page ${i}`,
  text: 'Text',
}))

const read = (parameters: Json) => webSearch.readOptions(parameters, 'tools.0.parameters')

describe('parameters', () => {
  test('say nothing when absent', () => {
    expect(read({})).toEqual({
      engine: 'auto',
      ...{ max_results: null, max_characters: null, max_total_results: null, max_uses: null },
      ...{ search_context_size: null, mode: null, user_location: null, x_search: null },
      domains: { allowed: [], excluded: [] },
    })
  })

  test('are read to the last', () => {
    const location = { type: 'approximate', city: 'Bonn', region: null, country: 'de' }
    expect(
      read({
        ...{ engine: 'exa', max_results: 25, max_characters: 100_000, max_total_results: 50 },
        ...{ max_uses: 1, search_context_size: 'high', mode: 'deep', user_location: location },
        x_search: { allowed_x_handles: ['acme'], from_date: '2026-01-01' },
        allowed_domains: ['Example.COM', '*.bücher.example', 'a.example/docs/'],
      }),
    ).toEqual({
      ...{ engine: 'exa', max_results: 25, max_characters: 100_000, max_total_results: 50 },
      ...{ max_uses: 1, search_context_size: 'high', mode: 'deep' },
      x_search: { allowed_x_handles: ['acme'], from_date: '2026-01-01' },
      user_location: { city: 'Bonn', region: null, country: 'DE', timezone: null },
      domains: {
        allowed: ['example.com', 'xn--bcher-kva.example', 'a.example/docs'],
        excluded: [],
      },
    })
  })

  const many = Array.from({ length: 101 }, (_, i) => `a${i}.example`)
  const noDomains = ['', ' ', 'https://example.com', 'a b', 'a.example:80', 'u@a.example', '[::1]']
  const wrong: Record<string, unknown[]> = {
    max_results: [0, 26, -1, 1.5, 1e21, '5', [], {}],
    max_characters: [0, 100_001, 2.5],
    max_total_results: [0, 51],
    max_uses: [0, -3],
    engine: ['google', 7],
    mode: ['sideways', 7],
    search_context_size: ['huge'],
    x_search: [7],
    hologram: [true],
    allowed_domains: [[], 'example.com', many],
    user_location: ['Bonn'],
  }
  const cases: [name: string, value: unknown, field: string][] = [
    ...Object.entries(wrong).flatMap(([name, values]) =>
      values.map(value => [name, value, name] as [string, unknown, string]),
    ),
    ...noDomains.map(
      one => ['excluded_domains', [one], 'excluded_domains.0'] as [string, unknown, string],
    ),
    ['allowed_domains', ['a.example', 7], 'allowed_domains.1'],
    ['user_location', { country: 'Germany' }, 'user_location.country'],
    ['user_location', { planet: 'Mars' }, 'user_location.planet'],
  ]
  test.each(cases)('%s: %j is a 400 that names the field', (name, value, field) => {
    const thrown = catchError(() => read({ [name]: value }))
    expect(thrown).toMatchObject({ type: 'invalid_request' })
    expect(String(thrown.metadata.field)).toBe(`tools.0.parameters.${field}`)
  })

  test('two lists of domains contradict each other', () => {
    const lists = { allowed_domains: ['a.example'], excluded_domains: ['b.example'] }
    expect(catchError(() => read(lists)).metadata.field).toBe('tools.0.parameters.excluded_domains')
  })
})

function catchError(work: () => unknown): GatewayError {
  try {
    work()
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown
  }
  return expect.unreachable('Nothing was thrown')
}

/** An endpoint that searches itself if its options are none. */
const endpointOf = (web_search: boolean) =>
  ({
    protocol: 'openai-chat',
    provider: { slug: 'acme', quirks: { web_search } },
    upstreamModel: 'up',
  }) as unknown as Endpoint

describe('chooseEngine', () => {
  const choose = (parameters: Json, isNative = true, config: Gateway = gateway) =>
    chooseEngine(config, read(parameters), endpointOf(isNative))

  test('auto is the provider’s own search, or else the first engine that can be asked', () => {
    expect(choose({})).toEqual({ engine: 'native' })
    expect(choose({}, false)).toEqual({ engine: 'searxng' })
    expect(choose({ search_context_size: 'low' })).toEqual({ engine: 'native' })
  })

  test('auto is an engine where the provider has no word for an option', () => {
    expect(choose({ max_results: 3 })).toEqual({ engine: 'searxng' })
    expect(choose({ excluded_domains: ['a.example'] })).toEqual({ engine: 'searxng' })
    expect(choose({ mode: 'deep' })).toEqual({ engine: 'exa' })
  })

  test('native is the provider, or nobody', () => {
    expect(choose({ engine: 'native' })).toEqual({ engine: 'native' })
    expect(choose({ engine: 'native' }, false)).toHaveProperty('obstacle')
    expect(choose({ engine: 'native', max_results: 3 })).toEqual({
      obstacle: 'a provider’s own search has no max_results',
    })
  })

  test('a named engine is that engine, or the reason why it cannot be asked', () => {
    expect(choose({ engine: 'exa' })).toEqual({ engine: 'exa' })
    expect(choose({ engine: 'tavily' })).toEqual({
      obstacle:
        'the search engine tavily cannot be used: it is switched off ' +
        '(web_search.engines.tavily.enabled)',
    })
    for (const [engine, reason] of [
      ['perplexity', 'it has no key'],
      ['brave', 'it is not configured'],
    ])
      expect(JSON.stringify(choose({ engine }))).toContain(reason ?? '-')
    expect(choose({ engine: 'searxng', mode: 'deep' })).toEqual({
      obstacle: 'the search engine searxng has no modes',
    })
  })

  test('without an engine, auto says what is missing', async () => {
    const bare = await testGateway()
    expect(choose({}, true, bare)).toEqual({ engine: 'native' })
    expect(choose({}, false, bare)).toHaveProperty('obstacle')
    await bare.close()
  })

  test('nothing is chosen while the tool is off', async () => {
    const off = await testGateway({ config: { web_search: { enabled: false } } })
    expect(choose({}, true, off)).toEqual({
      obstacle: 'web_search is switched off (web_search.enabled)',
    })
    expect(webSearch.findObstacle(off, read({}))).toContain('switched off')
    await off.close()
  })

  test('the provider’s own search gets the options under its names', () => {
    const options = read({
      max_uses: 2,
      excluded_domains: ['a.example'],
      user_location: { city: 'Bonn' },
    })
    expect(buildNativeOptions(options)).toEqual({
      max_uses: 2,
      excluded_domains: ['a.example'],
      user_location: { type: 'approximate', city: 'Bonn' },
    })
  })
})

describe('limits of a call', () => {
  const run = createToolRun()

  test('all searches together bring at most max_total_results, also side by side', async () => {
    const use = () =>
      buildUse(webSearch, { max_results: 20, max_total_results: 30 }, { query: 'x' }, { run })
    const results = await Promise.all([1, 2, 3].map(() => webSearch.run(gateway, use())))
    const counts = results.map(({ sources = [] }) => sources.length)
    expect(counts).toEqual([20, 10, 0])
    expect(results[2]).toMatchObject({ isError: true })
  })

  test('a search that brings less gives the rest back', async () => {
    const own = createToolRun()
    const use = (query: string) =>
      buildUse(webSearch, { max_results: 20, max_total_results: 25 }, { query }, { run: own })
    upstream.answer(hit => answerAsPeer(SEARCH_PEERS.searxng, hit, PAGES.slice(0, 2)))
    await webSearch.run(gateway, use('first'))
    upstream.answer(hit => answerAsPeer(SEARCH_PEERS.searxng, hit, PAGES))
    expect((await webSearch.run(gateway, use('second'))).sources).toHaveLength(20)
    expect((await webSearch.run(gateway, use('third'))).sources).toHaveLength(3)
  })

  test('more uses than allowed are an answer to the model, by the call and by the config', async () => {
    for (const [parameters, uses] of [
      [{ max_uses: 1 }, 1],
      [{}, 3],
      [{ max_uses: 100 }, 3],
    ] as const) {
      const over = buildUse(webSearch, parameters, { query: 'x' }, { uses })
      const hits = upstream.hits.length
      expect(await webSearch.run(gateway, over)).toMatchObject({ isError: true })
      expect(upstream.hits.length).toBe(hits)
      const last = buildUse(webSearch, parameters, { query: 'x' }, { uses: uses - 1 })
      expect(await webSearch.run(gateway, last)).toMatchObject({ isError: false })
    }
  })

  test('a query that is none is an answer to the model', async () => {
    for (const input of [
      {},
      { query: '' },
      { query: ' \u200b' },
      { query: 7 },
      { query: 'x'.repeat(2_001) },
    ])
      expect(await webSearch.run(gateway, buildUse(webSearch, {}, input))).toMatchObject({
        isError: true,
      })
  })

  test('it costs what the config says, and that is known before', async () => {
    expect(webSearch.priceUse?.(gateway, read({}))).toBe(2_000_000n)
    expect(webSearch.priceUse?.(gateway, read({ engine: 'exa' }))).toBe(0n)
    const result = await webSearch.run(gateway, buildUse(webSearch, {}, { query: 'x' }))
    expect(result.cost).toBe(2_000_000n)
  })

  test('a client that leaves ends it at once, and its connection', async () => {
    upstream.answer(() => ({ wait: 'never' }))
    const cancellation = new Cancellation()
    const before = upstream.hits.length
    const running = webSearch.run(
      gateway,
      buildUse(webSearch, {}, { query: 'x' }, { cancellation }),
    )
    const hit = await upstream.hit(before + 1)
    const left = clientLeft()
    cancellation.cancel(left)
    expect(await running.catch(thrown => thrown)).toBe(left)
    await hit.clientLeft
    upstream.answer(one => answerAsPeer(SEARCH_PEERS.searxng, one, PAGES))
  })
})
