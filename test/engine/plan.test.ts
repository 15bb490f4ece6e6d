import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { planRoute } from '../../src/engine/plan.ts'
import type { TextCall } from '../../src/language/call.ts'
import type { RoutingPreferences } from '../../src/language/routing.ts'
import { buildEmbeddingCall, buildTextCall } from '../support/call.ts'
import { testGateway } from '../support/gateway.ts'

const prices = { prompt: 1, completion: 2 }
const endpoint = (provider: string, more: object = {}) => ({
  provider,
  model: 'up',
  usd_per_million_tokens: prices,
  ...more,
})
const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }

/** Four endpoints of one model, each with a property of its own, and a fallback model. */
const CONFIG = {
  providers: {
    plain: provider,
    private: provider,
    cheap: provider,
    limited: provider,
    other: provider,
  },
  models: [
    {
      id: 'acme/small',
      context_length: 1_000,
      endpoints: [
        endpoint('plain'),
        endpoint('private', {
          data_policy: { training: false, retention_days: 0 },
          quantization: 'fp8',
        }),
        endpoint('cheap', {
          usd_per_million_tokens: { prompt: 0.1, completion: 0.2 },
          data_policy: { training: false, retention_days: 30 },
        }),
        endpoint('limited', {
          supported_parameters: ['temperature'],
          context_length: 500,
          usd_per_million_tokens: undefined,
        }),
      ],
    },
    { id: 'acme/other', endpoints: [endpoint('other')] },
    {
      id: 'acme/embed',
      output_modalities: ['embeddings'],
      endpoints: [
        endpoint('plain'),
        endpoint('cheap', { usd_per_million_tokens: { prompt: 0.1, completion: 0 } }),
      ],
    },
    {
      id: 'acme/long',
      context_length: 1_000_000,
      endpoints: [
        endpoint('plain', {
          usd_per_million_tokens: {
            prompt: 1,
            completion: 2,
            tiers: [{ above: 20_000, prompt: 3 }],
          },
        }),
        endpoint('cheap', { usd_per_million_tokens: { prompt: 2, completion: 2 } }),
      ],
    },
    {
      id: 'acme/tiers',
      endpoints: [
        endpoint('plain', { region: 'us' }),
        endpoint('plain', { region: 'us', service_tier: 'priority' }),
        endpoint('plain', { region: 'eu', service_tier: 'priority' }),
      ],
    },
    { id: 'acme/talk', endpoints: [endpoint('plain', { protocol: 'voyage-rerank' })] },
  ],
}

let gateway: Gateway

beforeAll(async () => {
  gateway = await testGateway({ config: CONFIG })
})

const planned = (call: Partial<TextCall>) =>
  planRoute(gateway, 'text', buildTextCall(call)).endpoints.map(one => one.provider.slug)
/** The endpoints that may serve, in any order; none if the call is refused. */
function serving(routing: RoutingPreferences, call: Partial<TextCall> = {}): string[] {
  try {
    const left = planned({ ...call, routing })
    return ['plain', 'private', 'cheap', 'limited'].filter(slug => left.includes(slug))
  } catch {
    return []
  }
}

const refusal = (call: Partial<TextCall>) =>
  refusalOf(() => planRoute(gateway, 'text', buildTextCall(call)))

function refusalOf(plan: () => unknown): GatewayError {
  try {
    plan()
  } catch (thrown) {
    return GatewayError.from(thrown)
  }
  throw new Error('expected a refusal')
}

describe('the plan of another kind of work', () => {
  const embedding = (models: string[], routing: RoutingPreferences = {}) =>
    planRoute(gateway, 'embedding', buildEmbeddingCall({ models, routing }))
  const providers = (routing: RoutingPreferences) =>
    embedding(['acme/embed'], routing).endpoints.map(one => one.provider.slug)

  test('applies the constraints that are not of text alone', () => {
    expect(providers({})).toEqual(['plain', 'cheap'])
    expect(providers({ order: ['cheap'] })).toEqual(['cheap', 'plain'])
    expect(providers({ max_price: { prompt: 0.5 } })).toEqual(['cheap'])
    expect(providers({ require_parameters: true })).toEqual(['plain', 'cheap'])
    expect(() => providers({ only: ['nobody'] })).toThrow(/provider.only/)
  })

  test('is a 400 for a model that does not do it, and says what the model does', () => {
    expect(refusal({ models: ['acme/embed'] })).toMatchObject({
      status: 400,
      message: 'acme/embed gives embeddings, not text',
      metadata: {
        field: 'model',
        availability: {
          code: 'wrong_endpoint',
          retryable: false,
          requested_models: ['acme/embed'],
        },
      },
    })
    expect(() => embedding(['acme/small'])).toThrow('acme/small gives text, not embeddings')
    expect(() => embedding(['acme/none'])).toThrow('"acme/none" is not a valid model ID')
  })

  test('drops a provider that does not support it; a model with no other is a 400', () => {
    expect(refusal({ models: ['acme/talk'] })).toMatchObject({
      status: 400,
      message: 'acme/talk is at no provider that can be asked for text',
      metadata: { availability: { code: 'wrong_endpoint' } },
    })
    expect(planned({ models: ['acme/talk', 'acme/other'] })).toEqual(['other'])
  })
})

describe('plan', () => {
  test('a built-in model goes only to configured providers, under its own slug', async () => {
    const config = { providers: { openrouter: { api_key: 'sk' }, anthropic: provider } }
    const { endpoints } = planRoute(
      await testGateway({ config }),
      'text',
      buildTextCall({ models: ['anthropic/claude-haiku-4-5'] }),
    )
    expect(endpoints.map(one => `${one.provider.slug} ${one.model} ${one.upstreamModel}`)).toEqual([
      'anthropic anthropic/claude-haiku-4.5 claude-haiku-4-5',
      'openrouter anthropic/claude-haiku-4.5 anthropic/claude-haiku-4.5',
    ])
  })

  test('a call without constraints may go to every endpoint', () => {
    expect(serving({})).toEqual(['plain', 'private', 'cheap', 'limited'])
  })

  test('order moves the named ones to the front; the others follow', () => {
    expect(planned({ routing: { order: ['limited', 'cheap'] } }).slice(0, 2)).toEqual([
      'limited',
      'cheap',
    ])
    expect(planned({ routing: { order: ['limited', 'cheap'] } })).toHaveLength(4)
    expect(planned({ routing: { order: ['nobody'] } })).toHaveLength(4)
  })

  test('without fallbacks only the named ones, or a single one, are tried', () => {
    expect(planned({ routing: { order: ['cheap', 'plain'], allow_fallbacks: false } })).toEqual([
      'cheap',
      'plain',
    ])
    expect(planned({ routing: { allow_fallbacks: false } })).toHaveLength(1)
    expect(refusal({ routing: { order: [], allow_fallbacks: false } })).toMatchObject({
      message: expect.stringContaining('provider.order'),
      metadata: { excluded_by: ['allowed_providers'] },
    })
  })

  test('only and ignore select providers', () => {
    expect(planned({ routing: { only: ['cheap', 'plain'] } }).sort()).toEqual(['cheap', 'plain'])
    expect(planned({ routing: { ignore: ['plain', 'limited'] } }).sort()).toEqual([
      'cheap',
      'private',
    ])
    expect(planned({ routing: { only: ['cheap', 'plain'], ignore: ['cheap'] } })).toEqual(['plain'])
  })

  test('zdr keeps those that retain nothing, data_collection those that do not train', () => {
    expect(serving({ zdr: true })).toEqual(['private'])
    expect(serving({ data_collection: 'deny' })).toEqual(['private', 'cheap'])
    expect(serving({ data_collection: 'allow' })).toHaveLength(4)
  })

  test('max_price keeps those whose known price is not above it', () => {
    expect(serving({ max_price: { prompt: 0.1 } })).toEqual(['cheap'])
    expect(serving({ max_price: { prompt: 1, completion: 2 } })).toEqual([
      'plain',
      'private',
      'cheap',
    ])
    expect(serving({ max_price: { completion: 1.999999 } })).toEqual(['cheap'])
  })

  test('max_price holds at the price of the tier that a prompt is in', () => {
    const ask = (characters: number, prompt: number) =>
      planned({
        models: ['acme/long'],
        messages: [
          { role: 'user', blocks: [{ type: 'text', text: 'word '.repeat(characters / 5) }] },
        ],
        routing: { max_price: { prompt }, sort: 'price' },
      })
    expect(ask(70_000, 2)).toEqual(['plain', 'cheap'])
    expect(ask(200_000, 2)).toEqual(['cheap'])
    expect(ask(200_000, 3)).toEqual(['plain', 'cheap'])
    expect(() => ask(200_000, 1)).toThrow('provider.max_price is below every price')
  })

  test('ignore of a region leaves out the service tiers there', () => {
    const list = (routing: RoutingPreferences) =>
      planRoute(
        gateway,
        'text',
        buildTextCall({ models: ['acme/tiers'], routing, params: { service_tier: 'priority' } }),
      ).endpoints.map(({ region, service_tier }) => `${region} ${service_tier}`)
    expect(list({})).toHaveLength(3)
    expect(list({ ignore: ['plain/us'] })).toEqual(['eu priority'])
    expect(list({ ignore: ['plain/us/priority'] }).sort()).toEqual(['eu priority', 'us null'])
    expect(list({ only: ['plain/us'] })).toEqual(['us null'])
  })

  test('quantizations keeps those that are served so', () => {
    expect(serving({ quantizations: ['fp8'] })).toEqual(['private'])
    expect(serving({ quantizations: ['fp8', 'unknown'] })).toHaveLength(4)
  })

  test('require_parameters keeps those that support all of them', () => {
    expect(serving({ require_parameters: true }, { params: { temperature: 1 } })).toHaveLength(4)
    expect(serving({ require_parameters: true }, { params: { temperature: 1, seed: 1 } })).toEqual([
      'plain',
      'private',
      'cheap',
    ])
    expect(
      serving({ require_parameters: true }, { tools: [{ type: 'function', name: 'f' }] }),
    ).toEqual(['plain', 'private', 'cheap'])
    expect(serving({}, { params: { seed: 1 } })).toHaveLength(4)
  })

  test('an output bound keeps those whose context can hold it', () => {
    expect(serving({}, { params: { max_tokens: 600 } })).toEqual(['plain', 'private', 'cheap'])
  })

  test('the endpoints of the first model come before those of its fallback', () => {
    expect(
      planned({ models: ['acme/small', 'acme/other'], routing: { only: ['cheap', 'other'] } }),
    ).toEqual(['cheap', 'other'])
    expect(
      planned({ models: ['acme/other', 'acme/small'], routing: { only: ['cheap', 'other'] } }),
    ).toEqual(['other', 'cheap'])
    expect(planned({ models: ['acme/small', 'acme/other'], routing: { only: ['other'] } })).toEqual(
      ['other'],
    )
  })

  test('a model that is not in the catalogue is a 400 that names the field', () => {
    expect(refusal({ models: ['acme/none'] })).toMatchObject({
      status: 400,
      message: '"acme/none" is not a valid model ID',
      metadata: {
        field: 'model',
        availability: {
          code: 'model_not_found',
          retryable: false,
          requested_models: ['acme/none'],
        },
      },
    })
    expect(refusal({ models: [`acme/${'x'.repeat(1_000)}`] }).message).toHaveLength(
      '"" is not a valid model ID'.length + 200,
    )
  })

  test.each([
    [':extended', ''],
    [':free', ''],
    [':zzz', ''],
    [':NITRO', ''],
    [':', ''],
    [':constructor', ''],
    [':thinking', ', since it is not known to reason'],
  ])('acme/small%s, an unknown variant, is a 400 that says so', (variant, why) => {
    expect(refusal({ models: [`acme/small${variant}`] })).toMatchObject({
      status: 400,
      message:
        `acme/small has no variant ${variant} here${why}: ` +
        'expected acme/small, :nitro, :floor, :exacto or :online',
      metadata: {
        field: 'model',
        availability: { code: 'model_not_found', requested_models: [`acme/small${variant}`] },
      },
    })
  })

  test('two variants at once, and a text variant of an embedding model, are a 400', () => {
    expect(refusal({ models: ['acme/small:nitro:floor'] }).message).toBe(
      'acme/small takes one variant, found :nitro:floor',
    )
    expect(refusal({ models: ['acme/none:nitro'] }).message).toBe(
      '"acme/none:nitro" is not a valid model ID',
    )
    const embed = (slug: string) => () =>
      planRoute(gateway, 'embedding', buildEmbeddingCall({ models: [slug] })).endpoints
    expect(embed('acme/embed:online')).toThrow(
      'acme/embed has no variant :online here: expected acme/embed, :nitro, :floor or :exacto',
    )
    expect(embed('acme/embed:floor')()[0]?.provider.slug).toBe('cheap')
  })

  test('a static variant, an alias and a family’s latest are planned as their model', async () => {
    const known = await testGateway({ config: { providers: { openrouter: { api_key: 'sk' } } } })
    const modelOf = (slug: string) =>
      planRoute(known, 'text', buildTextCall({ models: [slug] })).endpoints[0]?.model
    expect(modelOf('google/gemma-4-31b-it:free')).toBe('google/gemma-4-31b-it:free')
    expect(modelOf('anthropic/claude-haiku-4-5')).toBe('anthropic/claude-haiku-4.5')
    expect(modelOf('~anthropic/claude-opus-latest')).toBe(
      known.catalog.models.get('~anthropic/claude-opus-latest')?.id ?? '',
    )
  })
})

describe('the refusal when no endpoint is left', () => {
  test('is a 404 that lists the providers of the model if none is configured', () => {
    const { status, type, message, metadata } = refusalOf(() =>
      planRoute(
        gateway,
        'embedding',
        buildEmbeddingCall({ models: ['google/gemini-embedding-001'] }),
      ),
    )
    expect([status, type]).toEqual([404, 'not_found'])
    expect(message).toBe(
      'No endpoints found for google/gemini-embedding-001: it is served by google, vertex, ' +
        'and none of them is configured.',
    )
    expect(metadata.excluded_by).toEqual(['not_configured'])
    expect(metadata.availability).toMatchObject({ code: 'no_endpoints', retryable: false })
  })

  test('names the only provider that would serve it', () => {
    expect(refusal({ models: ['alpindale/wizardlm-2-8x22b'] }).message).toEndWith(
      'it is served by novita, which is not configured.',
    )
  })

  test('names the constraint if a configured provider would serve it', async () => {
    const config = { providers: { cohere: provider } }
    const call = buildTextCall({ models: ['cohere/command-a'], routing: { zdr: true } })
    const cohere = await testGateway({ config })
    expect(() => planRoute(cohere, 'text', call)).toThrow('provider.zdr')
    expect(
      planRoute(cohere, 'text', { ...call, routing: {} }).endpoints.map(one => one.upstreamModel),
    ).toEqual(['command-a-03-2025'])
  })

  test.each([
    ['provider.only', 'allowed_providers', { only: ['nobody'] }],
    ['provider.ignore', 'allowed_providers', { ignore: ['other'] }],
    ['provider.zdr', 'data_policy:zdr', { zdr: true }],
    ['provider.data_collection', 'data_policy:training', { data_collection: 'deny' }],
    ['provider.max_price', 'max_price', { max_price: { prompt: 0.01 } }],
    ['provider.quantizations', 'quantization', { quantizations: ['int4'] }],
  ] as [string, string, RoutingPreferences][])(
    'is a 404 whose sentence names %s',
    (wish, word, routing) => {
      const { status, type, message, metadata } = refusal({ models: ['acme/other'], routing })
      expect([status, type]).toEqual([404, 'not_found'])
      expect(message).toStartWith('No endpoints found for acme/other')
      expect(message).toContain(wish)
      expect(metadata.excluded_by).toContain(word)
      const code = word.startsWith('data_policy') ? 'privacy_restricted' : 'constraint_filtered'
      expect(metadata.availability).toMatchObject({
        code,
        retryable: false,
        requested_models: ['acme/other'],
        excluded_by: metadata.excluded_by,
      })
    },
  )

  test('lists the providers that serve it if the caller named another', () => {
    expect(
      refusal({ models: ['acme/small', 'acme/other'], routing: { only: ['nobody'] } }).message,
    ).toBe(
      'No endpoints found for acme/small: provider.only, provider.ignore and provider.order ' +
        'leave no provider that serves it; here it is served by plain, private, cheap, limited.',
    )
  })

  test('names the constraint that dropped the endpoint which met all others', () => {
    const { message, metadata } = refusal({ routing: { only: ['plain'], zdr: true } })
    expect(metadata.excluded_by).toContainEqual('data_policy:zdr')
    expect(message).toContain('provider.zdr')
  })

  test('names require_parameters', () => {
    const { status, message } = refusal({
      params: { seed: 1 },
      routing: { only: ['limited'], require_parameters: true },
    })
    expect([status, message]).toEqual([404, expect.stringContaining('provider.require_parameters')])
  })

  test('is a 400 if only the output bound is too large', () => {
    expect(refusal({ params: { max_tokens: 1_000 } })).toMatchObject({
      status: 400,
      type: 'max_tokens_exceeded',
      metadata: { field: 'max_tokens' },
    })
    const { message, metadata } = refusal({ params: { max_tokens: 1_000 }, dialect: 'responses' })
    expect([message, metadata.field]).toEqual([
      expect.stringContaining('the prompt and max_output_tokens are longer'),
      'max_output_tokens',
    ])
  })
})
