import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { planRoute } from '../../../src/engine/plan.ts'
import type { TextCall } from '../../../src/language/call.ts'
import type { Rule } from '../../../src/limits/policy-world.ts'
import { getModel } from '../../../src/resources/models.ts'
import { buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'
import { createSeededRandom } from '../../support/random.ts'

const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const at = (provider: string, usd: number, more: object = {}) => ({
  provider,
  model: 'up',
  usd_per_million_tokens: { prompt: usd, completion: usd, ...more },
})

const CONFIG = {
  providers: { one: provider, two: provider },
  models: [
    { id: 'acme/gift', endpoints: [at('one', 0)] },
    { id: 'acme/mixed', endpoints: [at('one', 1), at('two', 0)] },
    { id: 'acme/blind:free', endpoints: [at('one', 0)] },
    { id: 'acme/eyes:free', input_modalities: ['text', 'image'], endpoints: [at('one', 0)] },
    { id: 'acme/paid', endpoints: [at('one', 1)] },
    { id: 'acme/asking', endpoints: [at('one', 0, { request: 0.01 })] },
    { id: 'acme/later', endpoints: [at('one', 0, { tiers: [{ above: 10, prompt: 1 }] })] },
    { id: 'acme/unknown', endpoints: [{ provider: 'one', model: 'up' }] },
  ],
}

let gateway: Gateway
beforeAll(async () => {
  gateway = await testGateway({ config: CONFIG, random: createSeededRandom(7) })
})
afterAll(() => gateway.close())

const planned = (call: Partial<TextCall> = {}, rules: Rule[] = []) =>
  planRoute(gateway, 'text', buildTextCall({ models: ['gateway/free'], ...call }), { rules })
const chosen = (call?: Partial<TextCall>, rules?: Rule[]) =>
  planned(call, rules).models.map(({ model }) => model.id)

function refusal(plan: () => unknown): GatewayError {
  try {
    plan()
  } catch (thrown) {
    return GatewayError.from(thrown)
  }
  throw new Error('It was not refused')
}

const FREE = ['acme/gift', 'acme/mixed:free', 'acme/blind:free', 'acme/eyes:free']

describe('the free router', () => {
  test('picks among all free models with equal probability', () => {
    const firsts = Array.from({ length: 400 }, () => chosen()[0] ?? '')
    for (const slug of FREE) expect(firsts.filter(one => one === slug).length).toBeWithin(60, 140)
    expect(new Set(firsts)).toEqual(new Set(FREE))
    expect(planned()).toMatchObject({
      strategy: 'free',
      stages: [{ type: 'plugin', name: 'free-router', data: { candidates: 4 } }],
    })
    expect(
      planned().endpoints.every(({ prices }) => prices?.prompt === 0n && prices.completion === 0n),
    ).toBe(true)
  })

  test('picks models that accept the content of the call and satisfy the rules', () => {
    const messages: TextCall['messages'] = [
      { role: 'user', blocks: [{ type: 'image', url: 'data:image/png;base64,AA==' }] },
    ]
    expect(chosen({ messages })).toEqual(['acme/eyes:free'])
    const rule: Rule = {
      guardrail_id: 'g',
      field: 'ignored_models',
      excludedBy: 'allowed_models',
      excludes: ({ model }) => model !== 'acme/gift',
    }
    expect(chosen({}, [rule])).toEqual(['acme/gift'])
    expect(refusal(() => chosen({ messages }, [rule]))).toMatchObject({
      status: 404,
      metadata: {
        excluded_by: ['input_modalities', 'allowed_models'],
        guardrails: [{ guardrail_id: 'g', field: 'ignored_models' }],
      },
    })
  })

  test('keeps the model of a session, and falls back to the sandbox', async () => {
    const session = { key: 'ws session s', isNamed: true }
    const [endpoint] = gateway.catalog.models.get('acme/mixed:free')?.endpoints ?? []
    if (!endpoint) throw new Error('There is no such endpoint')
    const usage = {
      input: { text: 1, cache_read: 0, cache_write: 0, cache_write_1h: 0, audio: 0, video: 0 },
    } as never
    gateway.traffic.sessions.rememberModel(session, 'free usual', endpoint, usage)
    for (let i = 0; i < 20; i++) {
      const plan = planRoute(gateway, 'text', buildTextCall({ models: ['openrouter/free'] }), {
        session,
      })
      expect(plan.models[0]?.model.id).toBe('acme/mixed:free')
    }
    const fresh = await testGateway()
    expect(
      planRoute(fresh, 'text', buildTextCall({ models: ['gateway/free'] })).models.map(
        ({ model }) => model.id,
      ),
    ).toEqual(['sandbox/echo'])
    await fresh.close()
    const paid = await testGateway({ config: { providers: { openai: { api_key: 'x' } } } })
    expect(() => planRoute(paid, 'text', buildTextCall({ models: ['gateway/free'] }))).toThrow(
      'No models match your request',
    )
    await paid.close()
  })
})

describe(':free after a model’s name', () => {
  test('is a model of the endpoints that cost nothing', () => {
    const { endpoints } = planned({ models: ['acme/mixed:free'] })
    expect(endpoints.map(({ model, provider }) => [model, provider.slug])).toEqual([
      ['acme/mixed:free', 'two'],
    ])
    expect(getModel(gateway, 'acme/mixed:free').endpoints).toBe(
      getModel(gateway, 'acme/mixed:free').endpoints,
    )
    expect(
      new Set(
        ['acme/mixed', 'acme/mixed:free'].flatMap(slug =>
          getModel(gateway, slug).endpoints.map(({ id }) => id),
        ),
      ).size,
    ).toBe(3)
  })

  test.each([
    'acme/paid:free',
    'acme/asking:free',
    'acme/later:free',
    'acme/unknown:free',
    'acme/nobody:free',
    'acme/gift:free:free',
    ':free',
  ])('%s is none', slug => {
    expect(refusal(() => planned({ models: [slug] })).status).toBe(400)
  })
})
