import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { planRoute } from '../../../src/engine/plan.ts'
import type { TextCall } from '../../../src/language/call.ts'
import type { RoutingPreferences } from '../../../src/language/routing.ts'
import { createTextUsage } from '../../../src/language/usage.ts'
import type { Endpoint } from '../../../src/resources/models/catalog.ts'
import { buildTextCall } from '../../support/call.ts'
import { TestClock, testGateway } from '../../support/gateway.ts'
import { createSeededRandom } from '../../support/random.ts'

const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const priced = (provider: string, prompt?: number, more: object = {}) => ({
  provider,
  model: 'up',
  ...(prompt === undefined ? {} : { usd_per_million_tokens: { prompt, completion: 2 * prompt } }),
  ...more,
})

const CONFIG = {
  providers: Object.fromEntries(
    ['one', 'two', 'four', 'free', 'gratis', 'unknown', 'vertex', 'openai'].map(slug => [
      slug,
      provider,
    ]),
  ),
  models: [
    { id: 'acme/small', endpoints: [priced('four', 4), priced('one', 1), priced('two', 2)] },
    { id: 'acme/cheap', endpoints: [priced('one', 0.5), priced('two', 3)] },
    { id: 'acme/free', endpoints: [priced('one', 0.001), priced('free', 0), priced('gratis', 0)] },
    { id: 'acme/unknown', endpoints: [priced('unknown'), priced('one', 1), priced('four', 4)] },
    { id: 'acme/unpriced', endpoints: [priced('unknown'), priced('two')] },
    {
      id: 'acme/regions',
      endpoints: [
        priced('one', 1),
        priced('vertex', 1, { region: 'us' }),
        priced('two', 1, { quantization: 'fp8' }),
      ],
    },
    {
      id: 'acme/tools',
      endpoints: [priced('one', 1, { supported_parameters: ['temperature'] }), priced('two', 2)],
    },
    { id: 'acme/taught', distillable: true, endpoints: [priced('two', 1)] },
  ],
}

let gateway: Gateway
let clock: TestClock

const opened = async (more: object = {}, random = createSeededRandom(1)) => {
  clock = new TestClock()
  gateway = await testGateway({ config: { ...CONFIG, ...more }, random, clock })
}

beforeEach(() => opened())

const planned = (model: string, routing: RoutingPreferences = {}, more: Partial<TextCall> = {}) =>
  planRoute(gateway, 'text', buildTextCall({ models: [model], ...more, routing })).endpoints
const tried = (model: string, routing?: RoutingPreferences, more?: Partial<TextCall>) =>
  planned(model, routing, more).map(one => one.provider.slug)

/** How often each provider comes first in this many plans. */
function firsts(model: string, times: number): Record<string, number> {
  const counts: Record<string, number> = {}
  for (let i = 0; i < times; i++) {
    const [first = ''] = tried(model)
    counts[first] = (counts[first] ?? 0) + 1
  }
  return counts
}

const endpointAt = (provider: string, model = 'acme/small'): Endpoint => {
  const found = gateway.catalog.models
    .get(model)
    ?.endpoints.find(one => one.provider.slug === provider)
  if (!found) throw new Error(`${model} is not at ${provider}`)
  return found
}

/** A call that took this long for this many tokens. */
function answered(
  endpoint: Endpoint,
  { latency = 0, seconds = 1, tokens = 1 }: { latency?: number; seconds?: number; tokens?: number },
) {
  const sent = clock.ticks()
  clock.pass(latency)
  gateway.traffic.health.recordAnswer(endpoint, sent, true)
  clock.pass(seconds * 1000 - latency)
  gateway.traffic.health.recordEnd(endpoint, sent, tokens)
}

const fail = (endpoint: Endpoint, times: number) => {
  for (let i = 0; i < times; i++)
    gateway.traffic.health.recordFailure(endpoint, new GatewayError('provider_unavailable', 'no'))
}

describe('the default order', () => {
  test('over prices of 1:2:4, 10,000 plans land within 2 % of 16:4:1', () => {
    const { one = 0, two = 0, four = 0 } = firsts('acme/small', 10_000)
    expect(Math.abs(one / 10_000 - 16 / 21)).toBeLessThan(0.02)
    expect(Math.abs(two / 10_000 - 4 / 21)).toBeLessThan(0.02)
    expect(Math.abs(four / 10_000 - 1 / 21)).toBeLessThan(0.02)
  })

  test('shuffles the others behind the first in the same way', () => {
    const second: Record<string, number> = {}
    for (let i = 0; i < 10_000; i++) {
      const [first, next = ''] = tried('acme/small')
      if (first === 'one') second[next] = (second[next] ?? 0) + 1
    }
    expect((second.two ?? 0) / (second.four ?? 1)).toBeWithin(3.3, 4.8)
    expect(tried('acme/small').sort()).toEqual(['four', 'one', 'two'])
  })

  test('puts free endpoints first, each equally often', () => {
    const { free = 0, gratis = 0, one } = firsts('acme/free', 2_000)
    expect(one).toBeUndefined()
    expect(free / (free + gratis)).toBeWithin(0.46, 0.54)
  })

  test('takes an unknown price for the highest known one, or all as equal', () => {
    const { unknown = 0, four = 0, one = 0 } = firsts('acme/unknown', 10_000)
    expect(unknown / four).toBeWithin(0.8, 1.25)
    expect(one).toBeGreaterThan(8_500)
    expect((firsts('acme/unpriced', 2_000).unknown ?? 0) / 2_000).toBeWithin(0.46, 0.54)
  })

  test('is the listed order if the config says so', async () => {
    await opened({ routing: { choice: 'listed' } })
    expect(firsts('acme/small', 100)).toEqual({ four: 100 })
    expect(tried('acme/small')).toEqual(['four', 'one', 'two'])
  })

  test('prefers endpoints that support tools and response formats, at any price', () => {
    for (let i = 0; i < 50; i++) {
      expect(tried('acme/tools', {}, { tools })).toEqual(['two', 'one'])
      expect(
        tried('acme/tools', {}, { params: { response_format: { type: 'json_object' } } }),
      ).toEqual(['two', 'one'])
    }
    expect(firsts('acme/tools', 100).one ?? 0).toBeGreaterThan(50)
  })

  test('puts those in a cooldown last, the first to end first, and drops none', () => {
    fail(endpointAt('one'), 5)
    clock.pass(1_000)
    fail(endpointAt('two'), 5)
    expect(tried('acme/small')).toEqual(['four', 'one', 'two'])
    clock.pass(500)
    fail(endpointAt('four'), 5)
    clock.pass(500)
    fail(endpointAt('one'), 1)
    expect(tried('acme/small')).toEqual(['two', 'four', 'one'])
    expect(tried('acme/small', { allow_fallbacks: false })).toEqual(['two'])
  })
})

/** This many answers to calls with tools, and how many of them called the tools well. */
function judge(endpoint: Endpoint, ok: number, failed: number) {
  for (let i = 0; i < ok + failed; i++) gateway.traffic.health.recordToolCalls(endpoint, i < ok)
}

const tools = [{ type: 'function' as const, name: 'f' }]

describe('a call with tools', () => {
  test('puts endpoints that call them worse than the best behind, beyond chance', async () => {
    await opened({ routing: { choice: 'listed' } })
    judge(endpointAt('four'), 10, 10)
    expect(tried('acme/small', {}, { tools })).toEqual(['four', 'one', 'two'])
    judge(endpointAt('two'), 19, 1)
    expect(tried('acme/small', {}, { tools })).toEqual(['one', 'two', 'four'])
    expect(tried('acme/small')).toEqual(['four', 'one', 'two'])
    expect(tried('acme/small', {}, { tools, params: { tool_choice: 'none' } })).toEqual([
      'four',
      'one',
      'two',
    ])
  })

  test('changes nothing for few answers or differences by chance', async () => {
    await opened({ routing: { choice: 'listed' } })
    judge(endpointAt('two'), 100, 0)
    judge(endpointAt('four'), 0, 19)
    expect(tried('acme/small', {}, { tools })).toEqual(['four', 'one', 'two'])
    judge(endpointAt('one'), 98, 2)
    expect(tried('acme/small', {}, { tools })).toEqual(['four', 'one', 'two'])
  })

  test('keeps the weights of the others', () => {
    judge(endpointAt('one'), 0, 100)
    judge(endpointAt('four'), 100, 0)
    let two = 0
    for (let i = 0; i < 4_000; i++) {
      const [first, , last] = tried('acme/small', {}, { tools })
      expect(last).toBe('one')
      if (first === 'two') two += 1
    }
    expect(two / 4_000).toBeWithin(0.77, 0.83)
  })

  test('keeps the caller’s order, however well endpoints call tools', () => {
    judge(endpointAt('one'), 0, 100)
    judge(endpointAt('four'), 100, 0)
    expect(tried('acme/small', { sort: 'price' }, { tools })).toEqual(['one', 'two', 'four'])
    expect(tried('acme/small', { order: ['one'] }, { tools })[0]).toBe('one')
    expect(tried('acme/small', { defaultSort: 'price' }, { tools })).toEqual(['one', 'two', 'four'])
  })

  test('leaves the endpoint of its session if that calls them worse', async () => {
    await opened({ routing: { choice: 'listed' } })
    const session = { key: 's', isNamed: true }
    const four = endpointAt('four')
    four.prices = { prompt: 4n, completion: 8n, cache_read: 1n }
    gateway.traffic.sessions.rememberEndpoint(session, four, createTextUsage(1, 1))
    const first = () =>
      planRoute(gateway, 'text', buildTextCall({ tools }), { session }).endpoints[0]?.provider.slug
    judge(endpointAt('four'), 100, 0)
    expect(first()).toBe('four')
    judge(endpointAt('four'), 0, 900)
    judge(endpointAt('two'), 100, 0)
    expect(first()).toBe('one')
  })
})

describe('provider.sort', () => {
  test('exacto sorts by quality, unjudged before mostly failing, then by price', () => {
    expect(tried('acme/small', { sort: 'exacto' })).toEqual(['one', 'two', 'four'])
    judge(endpointAt('four'), 20, 0)
    judge(endpointAt('one'), 5, 15)
    expect(tried('acme/small', { sort: 'exacto' })).toEqual(['four', 'two', 'one'])
    judge(endpointAt('two'), 99, 1)
    expect(tried('acme/small:exacto')).toEqual(['two', 'four', 'one'])
    expect(tried('acme/small', { defaultSort: 'exacto' })).toEqual(['two', 'four', 'one'])
    expect(tried('acme/small', { sort: 'exacto', allow_fallbacks: false })).toEqual(['two'])
  })

  test('price puts the cheapest first and unknown prices last', () => {
    expect(tried('acme/small', { sort: 'price' })).toEqual(['one', 'two', 'four'])
    expect(tried('acme/unknown', { sort: 'price' })).toEqual(['one', 'four', 'unknown'])
    expect(tried('acme/small:floor')).toEqual(['one', 'two', 'four'])
    expect(tried('acme/small:floor', { allow_fallbacks: false })).toEqual(['one'])
  })

  test('throughput and latency put the fastest of the last five minutes first', () => {
    answered(endpointAt('one'), { tokens: 10, latency: 300 })
    answered(endpointAt('two'), { tokens: 30, latency: 200 })
    answered(endpointAt('four'), { tokens: 20, latency: 100 })
    expect(tried('acme/small', { sort: 'throughput' })).toEqual(['two', 'four', 'one'])
    expect(tried('acme/small:nitro')).toEqual(['two', 'four', 'one'])
    expect(tried('acme/small', { sort: 'latency' })).toEqual(['four', 'two', 'one'])
    clock.pass(300_001)
    expect(tried('acme/small', { sort: 'latency' })).toEqual(['four', 'one', 'two'])
  })

  test('tries unmeasured endpoints first if the call will measure them, else last', () => {
    answered(endpointAt('four'), { tokens: 10, latency: 100 })
    expect(tried('acme/small', { sort: 'throughput' }).at(-1)).toBe('four')
    expect(tried('acme/small', { sort: 'latency' }, { stream: true }).at(-1)).toBe('four')
    expect(tried('acme/small', { sort: 'latency' })[0]).toBe('four')
  })

  test('takes precedence over the variant, and that over the workspace’s sort', () => {
    answered(endpointAt('four'), { tokens: 30 })
    answered(endpointAt('two'), { tokens: 20 })
    answered(endpointAt('one'), { tokens: 10 })
    expect(tried('acme/small:nitro', { sort: 'price' })[0]).toBe('one')
    expect(tried('acme/small:nitro', { defaultSort: 'price' })[0]).toBe('four')
    expect(tried('acme/small', { defaultSort: 'price' })[0]).toBe('one')
    expect(tried('acme/small', { defaultSort: 'price', order: ['two'] })[0]).toBe('two')
  })

  test('keeps the models apart, or sorts the endpoints of all as one list', () => {
    const models = ['acme/small', 'acme/cheap']
    const named = (routing: RoutingPreferences) =>
      planned('', routing, { models }).map(one => `${one.model} ${one.provider.slug}`)
    const apart = [
      'acme/small one',
      'acme/small two',
      'acme/small four',
      'acme/cheap one',
      'acme/cheap two',
    ]
    expect(named({ sort: 'price' })).toEqual(apart)
    expect(named({ sort: 'price', partition: 'model' })).toEqual(apart)
    expect(named({ sort: 'price', partition: 'none' })).toEqual([
      'acme/cheap one',
      'acme/small one',
      'acme/small two',
      'acme/cheap two',
      'acme/small four',
    ])
    expect(named({ sort: 'price', partition: 'none', allow_fallbacks: false })).toEqual([
      'acme/cheap one',
    ])
    expect(named({ sort: 'price', allow_fallbacks: false })).toEqual([
      'acme/small one',
      'acme/cheap one',
    ])
  })

  test('two names of one model are one model', () => {
    expect(planned('', {}, { models: ['acme/small', 'acme/small:nitro'] })).toHaveLength(3)
  })
})

describe('a preferred throughput or latency', () => {
  beforeEach(() => {
    for (const tokens of [10, 20, 30, 40]) answered(endpointAt('one'), { tokens, latency: tokens })
    for (const tokens of [15, 15, 15, 15]) answered(endpointAt('two'), { tokens, latency: 15 })
  })

  test('moves those that miss it behind; an unmeasured endpoint misses nothing', () => {
    expect(tried('acme/small', { sort: 'price', preferred_min_throughput: { p50: 16 } })).toEqual([
      'one',
      'four',
      'two',
    ])
    expect(tried('acme/small', { sort: 'price', preferred_max_latency: { p50: 0.019 } })).toEqual([
      'two',
      'four',
      'one',
    ])
    expect(
      tried('acme/small', { sort: 'price', preferred_min_throughput: { p50: 1_000 } }),
    ).toEqual(['four', 'one', 'two'])
  })

  test('compares each percentile, of throughput and of latency', () => {
    expect(
      tried('acme/small', { sort: 'price', preferred_min_throughput: { p50: 25, p90: 12 } }),
    ).toEqual(['four', 'one', 'two'])
    expect(tried('acme/small', { sort: 'price', preferred_min_throughput: { p90: 12 } })).toEqual([
      'two',
      'four',
      'one',
    ])
    expect(
      tried('acme/small', { sort: 'price', preferred_max_latency: { p50: 0.02, p99: 0.04 } }),
    ).toEqual(['one', 'two', 'four'])
    expect(tried('acme/small', { sort: 'price', preferred_max_latency: { p99: 0.039 } })).toEqual([
      'two',
      'four',
      'one',
    ])
  })

  test('tries another model before a slow endpoint of the first', () => {
    const models = ['acme/small', 'acme/cheap']
    const routing = { only: ['one'], preferred_max_latency: { p50: 0.01 } }
    expect(planned('', routing, { models }).map(one => one.model)).toEqual([
      'acme/cheap',
      'acme/small',
    ])
  })
})

describe('names of providers', () => {
  test('may have a region or a quantization as a suffix', () => {
    expect(tried('acme/regions', { order: ['vertex/us'] })[0]).toBe('vertex')
    expect(tried('acme/regions', { order: ['vertex/europe', 'two/fp8'] })[0]).toBe('two')
    expect(tried('acme/regions', { only: ['vertex/us', 'two/int4'] })).toEqual(['vertex'])
    expect(tried('acme/regions', { ignore: ['vertex/europe', 'two'], sort: 'price' })).toEqual([
      'one',
      'vertex',
    ])
  })
})

test('enforce_distillable_text keeps models that are known to allow it', () => {
  expect(tried('acme/taught', { enforce_distillable_text: true })).toEqual(['two'])
  expect(() => tried('acme/small', { enforce_distillable_text: true })).toThrow(
    'provider.enforce_distillable_text',
  )
})

test('max_price bounds requests, images and audio; an unknown price exceeds it', async () => {
  const rates = { prompt: 1, completion: 1 }
  const endpoints = [
    priced('one', undefined, { usd_per_million_tokens: { ...rates, request: 0.01 } }),
    priced('two', undefined, { usd_per_million_tokens: { ...rates, audio: 5 } }),
    priced('four', undefined),
  ]
  const seeing = [
    priced('one', undefined, { usd_per_million_tokens: rates }),
    priced('two', undefined, { usd_per_million_tokens: { ...rates, image: 2 } }),
    priced('free', 0),
    priced('four', undefined),
    priced('gratis', undefined, { usd_per_million_tokens: { ...rates, per_input_image: 0.02 } }),
  ]
  const models = [
    { id: 'acme/small', endpoints },
    { id: 'acme/seeing', input_modalities: ['text', 'image'], endpoints: seeing },
  ]
  await opened({ models, routing: { choice: 'listed' } })
  expect(tried('acme/seeing', { max_price: { image: 0 } })).toEqual(['free'])
  expect(tried('acme/seeing', { max_price: { image: 0.004783 } })).toEqual(['free'])
  expect(tried('acme/seeing', { max_price: { image: 0.004784 } })).toEqual(['one', 'free'])
  expect(tried('acme/seeing', { max_price: { image: 0.009568 } })).toEqual(['one', 'two', 'free'])
  const seen = { only: ['free', 'gratis'] }
  expect(tried('acme/seeing', { ...seen, max_price: { image: 0.019 } })).toEqual(['free'])
  expect(tried('acme/seeing', { ...seen, max_price: { image: 0.02 } })).toEqual(['free', 'gratis'])
  expect(() =>
    tried('acme/seeing', { only: ['two', 'four'], max_price: { image: 0.005 } }),
  ).toThrow('provider.max_price')
  expect(tried('acme/small', { max_price: { request: 0.009 } })).toEqual(['two'])
  expect(tried('acme/small', { max_price: { request: 0.01 } })).toEqual(['one', 'two'])
  expect(tried('acme/small', { max_price: { audio: 0.000004 } })).toEqual(['one'])
  expect(tried('acme/small', { max_price: { image: 0 } })).toEqual(['one', 'two'])
  expect(tried('acme/small', { max_price: {} })).toEqual(['one', 'two', 'four'])
  expect(() => tried('acme/small', { max_price: { prompt: 0.5, request: 1 } })).toThrow(
    'provider.max_price',
  )
})

describe('constraints that contradict each other are named', () => {
  test.each<[wish: string, RoutingPreferences]>([
    ['provider.only, provider.ignore', { only: ['one'], ignore: ['one'] }],
    ['provider.order', { order: ['one'], ignore: ['one'], allow_fallbacks: false }],
    ['provider.max_price', { only: ['four'], max_price: { prompt: 1 } }],
    ['provider.max_price', { sort: 'price', max_price: { prompt: 0 } }],
  ])('%s', (wish, routing) => {
    expect(() => tried('acme/small', routing)).toThrow(wish)
  })
})
