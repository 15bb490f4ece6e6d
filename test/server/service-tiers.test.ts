import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  completion,
  type Hit,
  json,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

/** USD per million tokens, the same for both. An answer has 1,000 tokens of each. */
const PRICES = { default: 10, priority: 25, flex: 5 }

let upstream: Upstream
let server: LocalServer

/** Answers like a provider that serves at the tier it was asked for, or at `served`. */
const answerAt =
  (served?: string) =>
  ({ json: body }: Hit) => {
    const { service_tier = 'default', model } = body as { service_tier?: string; model: string }
    return json({
      id: 'chatcmpl-1',
      model,
      service_tier: served ?? service_tier,
      choices: [
        { index: 0, message: { role: 'assistant', content: model }, finish_reason: 'stop' },
      ],
      usage: { prompt_tokens: 1_000, completion_tokens: 1_000, total_tokens: 2_000 },
    })
  }

const serve = (tier: keyof typeof PRICES, more: object = {}) => ({
  provider: 'local',
  model: 'up',
  usd_per_million_tokens: { prompt: PRICES[tier], completion: PRICES[tier] },
  ...(tier === 'default' ? {} : { service_tier: tier }),
  ...more,
})

beforeAll(async () => {
  upstream = await startUpstream()
  const local = { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' }
  server = await startLocalServer({
    providers: { local, plain: local },
    models: [
      { id: 'acme/tiers', endpoints: [serve('default'), serve('priority'), serve('flex')] },
      { id: 'acme/usual', endpoints: [serve('default')] },
      { id: 'acme/fast', endpoints: [serve('priority', { region: 'eu' })] },
      {
        id: 'acme/two',
        endpoints: [serve('default', { provider: 'plain' }), serve('priority')],
      },
    ],
    routing: { pause_seconds: 0.001 },
  })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})
beforeEach(() => {
  upstream.hits.length = 0
  upstream.answer(answerAt())
})

const post = (path: string, body: object) => server.fetch(path, { json: body })

interface Answer {
  service_tier: string
  usage: { cost: number }
  error: { message: string; code: number }
}

const ask = async (body: object): Promise<Answer> => {
  const messages = [{ role: 'user', content: 'Hi' }]
  const answer = await post('/chat/completions', { model: 'acme/tiers', messages, ...body })
  return (await answer.json()) as Answer
}

interface Explained {
  endpoints: { service_tier: string | null; probability: number | null }[]
  dropped: { excluded_by: string }[]
}

const explain = async (body: object): Promise<Explained> => {
  const messages = [{ role: 'user', content: 'Hi' }]
  const answer = await server.fetch('/chat/completions', {
    key: server.management_key,
    json: { model: 'acme/tiers', messages, ...body, debug: { dry_run: true } },
  })
  return (await answer.json()) as Explained
}

const listAsked = () =>
  upstream.hits.map(({ json: body }) => (body as { service_tier?: string }).service_tier ?? null)

/** What 1,000 tokens of each cost at this tier. */
const costOf = (tier: keyof typeof PRICES) => (2_000 * PRICES[tier]) / 1e6

describe('K.5 an endpoint of a service tier', () => {
  test('serves no call that does not ask for it', async () => {
    for (let i = 0; i < 20; i++) expect((await ask({})).usage.cost).toBe(costOf('default'))
    expect(listAsked()).toEqual(Array.from({ length: 20 }, () => null))
  })

  test.each([
    [{ service_tier: 'priority' }, 'priority'],
    [{ service_tier: 'fast' }, 'priority'],
    [{ service_tier: 'flex' }, 'flex'],
    [{ provider: { only: ['local/flex'] } }, 'flex'],
    [{ provider: { order: ['local/priority', 'local'] } }, 'priority'],
    [{ model: 'acme/tiers:floor' }, 'flex'],
    [{ service_tier: 'priority', provider: { sort: 'price' } }, 'priority'],
  ] as const)('serves %j, at its own price', async (body, tier) => {
    const { service_tier, usage } = await ask(body)
    expect([service_tier, usage.cost, listAsked()]).toEqual([tier, costOf(tier), [tier]])
  })

  test('serves :nitro beside the usual one, and never flex', async () => {
    const { endpoints } = await explain({ model: 'acme/tiers:nitro' })
    expect(endpoints.map(({ service_tier }) => service_tier).sort()).toEqual(
      [null, 'priority'].sort(),
    )
  })

  test('has one name only', async () => {
    for (const only of [['local'], ['local/unknown']]) {
      upstream.hits.length = 0
      await ask({ service_tier: 'priority', provider: { only } })
      expect(listAsked().filter(tier => tier !== null)).toEqual([])
    }
  })

  test('is ignored with its provider', async () => {
    const { error } = await ask({ service_tier: 'priority', provider: { ignore: ['local'] } })
    expect([error.code, upstream.hits.length]).toEqual([404, 0])
  })

  test('is charged at the price of the tier that served', async () => {
    upstream.answer(answerAt('default'))
    expect((await ask({ service_tier: 'priority' })).usage.cost).toBe(costOf('default'))
    upstream.answer(answerAt('priority'))
    expect((await ask({})).usage.cost).toBe(costOf('priority'))
    upstream.answer(answerAt('toString'))
    expect((await ask({})).usage.cost).toBe(costOf('default'))
  })

  test('of priority falls back to the usual one, which is not asked for priority', async () => {
    upstream.answer(hit =>
      (hit.json as { service_tier?: string }).service_tier ? status(503) : answerAt()(hit),
    )
    expect((await ask({ service_tier: 'priority' })).usage.cost).toBe(costOf('default'))
    expect(listAsked()).toEqual(['priority', null])
  })

  test('of flex does not fall back to the usual one', async () => {
    upstream.answer(() => status(503))
    expect((await ask({ service_tier: 'flex' })).error.code).toBe(502)
    expect(new Set(listAsked())).toEqual(new Set(['flex']))
  })

  test('has a tag with the region and the tier', async () => {
    const list = async (model: string) => {
      const answer = await server.fetch(`/models/${model}/endpoints`)
      const { data } = (await answer.json()) as { data: { endpoints: { tag: string }[] } }
      return data.endpoints.map(({ tag }) => tag)
    }
    expect(await list('acme/tiers')).toEqual(['local', 'local/priority', 'local/flex'])
    expect(await list('acme/fast')).toEqual(['local/eu/priority'])
    expect(
      (await ask({ model: 'acme/fast', provider: { only: ['local/eu/priority'] } })).usage.cost,
    ).toBe(costOf('priority'))
  })

  test('that is the only one says how it is asked', async () => {
    const { error } = await ask({ model: 'acme/fast' })
    expect([error.code, upstream.hits.length]).toEqual([404, 0])
    expect(error.message).toContain('service_tier')
  })

  test('is explained where it is left out', async () => {
    const { endpoints, dropped } = await explain({})
    expect(endpoints.map(({ service_tier }) => service_tier)).toEqual([null])
    expect(dropped.map(({ excluded_by }) => excluded_by)).toEqual(['service_tier', 'service_tier'])
  })

  test('is the first of its call for certain', async () => {
    const { endpoints } = await explain({ service_tier: 'priority' })
    expect(endpoints.map(({ service_tier, probability }) => [service_tier, probability])).toEqual([
      ['priority', null],
      [null, 0],
    ])
  })
})

describe('a model without the tier', () => {
  test('is not asked for priority, whose price is not known', async () => {
    const { usage, service_tier } = await ask({ model: 'acme/usual', service_tier: 'priority' })
    expect([usage.cost, service_tier, listAsked()]).toEqual([costOf('default'), 'default', [null]])
  })

  test.each(['flex', 'auto', 'default', 'scale'])('is asked for %s', async service_tier => {
    await ask({ model: 'acme/usual', service_tier })
    expect(listAsked()).toEqual([service_tier])
  })

  test('at one of its providers serves without it there', async () => {
    await ask({ model: 'acme/two', service_tier: 'priority' })
    expect(listAsked()).toEqual(['priority'])
    await ask({ model: 'acme/two', service_tier: 'priority', provider: { only: ['plain'] } })
    expect(listAsked()).toEqual(['priority', null])
  })
})

describe('speed: fast of /messages', () => {
  test('asks for priority', async () => {
    const body = { max_tokens: 10, messages: [{ role: 'user', content: 'Hi' }], speed: 'fast' }
    await post('/messages', { model: 'acme/tiers', ...body })
    expect(listAsked()).toEqual(['priority'])
  })
})

test('a completion without a tier is charged as before', async () => {
  upstream.answer(() => completion('Hello'))
  expect((await ask({ service_tier: 'flex' })).usage.cost).toBeGreaterThan(0)
})
