import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { GatewayError } from '../../../../src/base/errors.ts'
import { planRoute } from '../../../../src/engine/plan.ts'
import { estimateCost, getEffectiveCall } from '../../../../src/engine/reserve.ts'
import type { TextCall, WebSearch } from '../../../../src/language/call.ts'
import { protocols } from '../../../../src/translation/protocols/registry.ts'
import { buildTextCall } from '../../../support/call.ts'
import { testGateway } from '../../../support/gateway.ts'

const provider = (protocol: string, more: object = {}) => ({
  protocol,
  base_url: 'http://127.0.0.1:9/v1',
  api_key: 'mock',
  ...more,
})
const PRICES = { prompt: 1, completion: 1, web_search: 0.01 }
const at = (slug: string, model = 'm', more: object = {}) => ({
  provider: slug,
  model,
  usd_per_million_tokens: PRICES,
  ...more,
})

/** One of each family, for a model that is known to reason, and one for a model that is not. */
const CONFIG = {
  routing: { choice: 'listed' },
  providers: {
    chat: provider('openai-chat'),
    seeking: provider('openai-chat', { quirks: { web_search: true } }),
    openai: provider('openai-chat'),
    responses: provider('openai-responses'),
    anthropic: provider('anthropic-messages'),
    relay: provider('anthropic-messages'),
    google: provider('gemini'),
    cohere: provider('cohere-chat'),
  },
  models: [
    {
      id: 'anthropic/claude-haiku-4.5',
      endpoints: [
        at('chat'),
        at('seeking'),
        at('openai', 'gpt-4o-search-preview'),
        at('responses'),
        at('anthropic', 'claude-haiku-4-5'),
        at('relay', 'claude-haiku-4-5'),
        at('google', 'gemini-3-pro'),
        at('cohere', 'command-a', { supported_parameters: ['temperature'] }),
      ],
    },
    { id: 'acme/small', endpoints: [at('chat')] },
    {
      id: 'acme/old',
      endpoints: [
        at('google', 'gemini-1.5-pro'),
        at('seeking', 'm', { supported_parameters: ['temperature'] }),
      ],
    },
  ],
}
const MODEL = 'anthropic/claude-haiku-4.5'

let gateway: Gateway
beforeAll(async () => {
  gateway = await testGateway({ config: CONFIG })
})

const planned = (models: string[], more: Partial<TextCall> = {}) => {
  const call = buildTextCall({ models, ...more })
  return { call, plan: planRoute(gateway, 'text', call) }
}
const slugs = (models: string[], more?: Partial<TextCall>) =>
  planned(models, more).plan.endpoints.map(one => one.provider.slug)

/** The parameters that each endpoint gets. */
function paramsAt(models: string[], more?: Partial<TextCall>): Record<string, TextCall['params']> {
  const { call, plan } = planned(models, more)
  return Object.fromEntries(
    plan.endpoints.map(one => [
      one.model,
      (getEffectiveCall(plan.models, call, one) as TextCall).params,
    ]),
  )
}

/** What one provider gets for it. */
function bodyAt(slug: string, models: string[], more: Partial<TextCall> = {}) {
  const { call, plan } = planned(models, { ...more, routing: { only: [slug] } })
  const [endpoint] = plan.endpoints
  if (!endpoint) throw new Error(`Nothing goes to ${slug}`)
  return (
    protocols.text[endpoint.protocol]?.buildRequest(
      getEffectiveCall(plan.models, call, endpoint) as TextCall,
      endpoint,
    ).body ?? {}
  )
}

function refusal(models: string[], more?: Partial<TextCall>): GatewayError {
  try {
    planned(models, more)
  } catch (thrown) {
    return GatewayError.from(thrown)
  }
  throw new Error('expected a refusal')
}

describe(':thinking', () => {
  test('asks the model to reason, and keeps endpoints that can be told to', () => {
    expect(paramsAt([`${MODEL}:thinking`])).toEqual({ [MODEL]: { reasoning: { enabled: true } } })
    expect(slugs([`${MODEL}:thinking`])).not.toContain('cohere')
    expect(slugs([MODEL])).toContain('cohere')
  })

  test('keeps how and whether the call asks for reasoning', () => {
    const asked = (reasoning: NonNullable<TextCall['params']['reasoning']>) =>
      paramsAt([`${MODEL}:thinking`], { params: { reasoning } })[MODEL]?.reasoning
    expect(asked({ effort: 'low' })).toEqual({ effort: 'low', enabled: true })
    expect(asked({ enabled: false })).toEqual({ enabled: false })
    expect(asked({ effort: 'none' })).toEqual({ effort: 'none' })
  })

  test('applies to the model that it follows, and to no other', () => {
    expect(paramsAt([`${MODEL}:thinking`, 'acme/small'])).toEqual({
      [MODEL]: { reasoning: { enabled: true } },
      'acme/small': {},
    })
    const { call, plan } = planned([MODEL])
    expect(plan.models.map(({ effectiveCall }) => effectiveCall === call)).toEqual([true])
  })

  test('names what is in the way if no endpoint can be told to reason', () => {
    const { status, message, metadata } = refusal([`${MODEL}:thinking`], {
      routing: { only: ['cohere'] },
    })
    expect([status, message]).toEqual([
      404,
      expect.stringContaining(':thinking asks for a provider that can be told to reason'),
    ])
    expect(metadata.excluded_by).toContain('reasoning')
  })

  test('applies to a model’s other names', () => {
    expect(paramsAt(['anthropic/claude-haiku-4-5:thinking'])).toEqual({
      [MODEL]: { reasoning: { enabled: true } },
    })
    expect(planned(['anthropic/claude-haiku-4-5:nitro']).plan.strategy).toBe('alias')
    expect(planned([`${MODEL}:nitro`]).plan.strategy).toBe('direct')
  })

  test('applies to the newest of a family; the error lists the variants of a model', async () => {
    const known = await testGateway({ config: { providers: { openrouter: { api_key: 'sk' } } } })
    const plan = planRoute(
      known,
      'text',
      buildTextCall({ models: ['~anthropic/claude-opus-latest:thinking'] }),
    )
    expect([plan.strategy, plan.endpoints[0]?.model]).toEqual([
      'latest',
      known.catalog.models.get('~anthropic/claude-opus-latest')?.id,
    ])
    expect(plan.models[0]?.effectiveCall).toMatchObject({
      params: { reasoning: { enabled: true } },
    })
    expect(() =>
      planRoute(known, 'text', buildTextCall({ models: ['google/gemma-4-31b-it:zzz'] })),
    ).toThrow(
      'expected google/gemma-4-31b-it, :free, :nitro, :floor, :exacto, :thinking or :online',
    )
  })
})

describe('what a variant asks for', () => {
  const PLACE = { type: 'approximate', city: 'Bern', country: 'CH' }

  test.each<[slug: string, search: WebSearch, said: object]>([
    [
      'anthropic',
      { max_uses: 2, allowed_domains: ['a.example'], user_location: PLACE },
      {
        tools: [
          {
            type: 'web_search_20250305',
            name: 'web_search',
            max_uses: 2,
            allowed_domains: ['a.example'],
            user_location: PLACE,
          },
        ],
      },
    ],
    [
      'anthropic',
      { excluded_domains: ['b.example'] },
      {
        tools: [
          { type: 'web_search_20250305', name: 'web_search', blocked_domains: ['b.example'] },
        ],
      },
    ],
    [
      'responses',
      { allowed_domains: ['a.example'], user_location: PLACE },
      {
        tools: [
          { type: 'web_search', user_location: PLACE, filters: { allowed_domains: ['a.example'] } },
        ],
      },
    ],
    ['google', {}, { tools: [{ googleSearch: {} }] }],
    ['seeking', { user_location: PLACE }, { web_search_options: { user_location: PLACE } }],
    ['openai', {}, { web_search_options: {} }],
  ])('is said in the words of %s: %j', (slug, webSearch, said) => {
    expect(bodyAt(slug, [MODEL], { plugins: { web: webSearch } })).toMatchObject(said)
  })

  test('is one search if the client brings the provider’s own tool too', () => {
    const own: TextCall['tools'] = [
      {
        type: 'other',
        dialect: 'messages',
        value: { type: 'web_search_20250305', name: 'web_search', max_uses: 1 },
      },
    ]
    expect(
      bodyAt('anthropic', [`${MODEL}:online`], { dialect: 'messages', tools: own }).tools,
    ).toEqual(own.map(tool => tool.type === 'other' && tool.value))
  })

  test('is to reason, in the words of each', () => {
    const asked = (slug: string) =>
      bodyAt(slug, [`${MODEL}:thinking`], { params: { max_tokens: 4_000 } })
    expect(asked('chat')).toHaveProperty('reasoning_effort')
    expect(asked('responses')).toHaveProperty('reasoning')
    expect(asked('anthropic')).toMatchObject({ thinking: { type: 'enabled' } })
    expect(asked('google')).toHaveProperty('generationConfig.thinkingConfig')
  })
})

describe(':online', () => {
  const NATIVE = ['seeking', 'openai', 'responses', 'anthropic', 'google']

  test('keeps endpoints that search the web themselves, as the plugin does', () => {
    expect(slugs([`${MODEL}:online`])).toEqual(NATIVE)
    expect(slugs([MODEL], { plugins: { web: {} } })).toEqual(NATIVE)
    expect(paramsAt([`${MODEL}:online`])).toEqual({ [MODEL]: { web_search_options: {} } })
  })

  test('keeps none for both allowed and excluded domains: a provider takes only one', () => {
    const webSearch = { allowed_domains: ['a.example'], excluded_domains: ['b.example'] }
    expect(() => planned([MODEL], { plugins: { web: webSearch } })).toThrow(
      ':online, the web plugin',
    )
  })

  test('is off if the plugin is', () => {
    expect(slugs([`${MODEL}:online`], { plugins: { web: null } })).toHaveLength(8)
    expect(paramsAt([`${MODEL}:online`], { plugins: { web: null } })).toEqual({ [MODEL]: {} })
  })

  test.each<[word: string, search: WebSearch, left: string[]]>([
    ['a bound', { max_uses: 3 }, ['anthropic']],
    ['domains', { allowed_domains: ['example.com'] }, ['responses', 'anthropic']],
    ['excluded domains', { excluded_domains: ['example.com'] }, ['anthropic']],
    [
      'a place',
      { user_location: { type: 'approximate', city: 'Bern' } },
      ['seeking', 'responses', 'anthropic'],
    ],
  ])('keeps endpoints that support %s', (_, webSearch, left) => {
    expect(slugs([MODEL], { plugins: { web: webSearch } })).toEqual(left)
    expect(slugs([`${MODEL}:online`], { plugins: { web: webSearch } })).toEqual(left)
  })

  test('gives precedence to the search options of the call', () => {
    const more = {
      plugins: { web: { max_uses: 3 } },
      params: { web_search_options: { max_uses: 1, search_context_size: 'low' } },
    }
    expect(() => planned([MODEL], more)).toThrow('no provider of it searches the web itself')
    expect(
      paramsAt([MODEL], { ...more, params: { web_search_options: { max_uses: 1 } } })[MODEL],
    ).toEqual({
      web_search_options: { max_uses: 1 },
    })
    expect(
      slugs([`${MODEL}:online`], {
        params: { web_search_options: { search_context_size: 'low' } },
      }),
    ).toEqual(['seeking', 'openai', 'responses'])
  })

  test('drops an endpoint that does not search beside functions', () => {
    expect(slugs([`${MODEL}:online`], { tools: [{ type: 'function', name: 'f' }] })).not.toContain(
      'google',
    )
  })

  test('names what is in the way if no endpoint searches', () => {
    for (const model of ['acme/small', 'acme/old']) {
      const { status, message, metadata } = refusal([`${model}:online`])
      expect([status, message]).toEqual([
        404,
        expect.stringContaining(
          'no provider of it searches the web itself as it is told to, which :online, the web',
        ),
      ])
      expect(metadata.excluded_by).toEqual(['web_search'])
    }
  })

  test('falls back to a model that is asked without it', () => {
    expect(slugs(['acme/small:online', 'acme/old'])).toEqual(['google', 'seeking'])
  })

  test('sets aside the searches that it may make: as many as the call allows, or ten', () => {
    const held = (models: string[], more?: Partial<TextCall>) => {
      const { call, plan } = planned(models, {
        routing: { only: ['anthropic'] },
        params: { max_tokens: 16 },
        ...more,
      })
      return estimateCost(gateway, 'text', call, plan.endpoints, plan.models).maximum.own ?? 0n
    }
    const cents = (nanos: bigint) => Number((nanos - held([MODEL])) / 10_000_000n)
    expect(cents(held([`${MODEL}:online`]))).toBe(10)
    expect(cents(held([MODEL], { plugins: { web: { max_uses: 2 } } }))).toBe(2)
    expect(cents(held([MODEL], { plugins: { web: { max_uses: 30 } } }))).toBe(30)
    expect(
      cents(held([MODEL], { params: { max_tokens: 16, web_search_options: { max_uses: 30 } } })),
    ).toBe(30)
    expect(
      cents(held([MODEL], { params: { max_tokens: 16, web_search_options: { max_uses: 2 } } })),
    ).toBe(10)
  })
})
