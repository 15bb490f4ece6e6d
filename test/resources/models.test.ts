import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { parseConfig } from '../../src/config.ts'
import { planRoute } from '../../src/engine/plan.ts'
import type { Catalog } from '../../src/resources/models/catalog.ts'
import { LazyModels } from '../../src/resources/models/lazy.ts'
import type { ModelQuery } from '../../src/resources/models/query.ts'
import {
  countModels,
  getModel,
  listCallableModels,
  listEmbeddingsModels,
  listEndpoints,
  listModels,
  listZdrEndpoints,
  openCatalog,
  showModel,
} from '../../src/resources/models.ts'
import { createParameterLookup } from '../../src/resources/parameters.ts'
import { openProviders } from '../../src/resources/providers.ts'
import { protocolNames } from '../../src/translation/protocols/registry.ts'
import { buildTextCall } from '../support/call.ts'
import { type TestClock, testGateway } from '../support/gateway.ts'

const NOW = new Date('2026-12-01T00:00:00Z')
const open = (config: object): Catalog =>
  openCatalog(parseConfig(JSON.stringify(config), {}), protocolNames, NOW)

const PROVIDER = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const prices = { prompt: 7, completion: 8 }

describe('a model of the config whose id is built in', () => {
  const endpoints = [
    { provider: 'mine', model: 'my-gpt', usd_per_million_tokens: prices },
    { provider: 'openai', model: 'their-gpt' },
  ]
  const { models } = open({
    providers: { mine: PROVIDER, openai: { api_key: 'sk' } },
    models: [{ id: 'openai/gpt-4o', name: 'Ours', context_length: 5_000, endpoints }],
  })
  const model = models.get('openai/gpt-4o')

  test('overrides the built-in fields that it sets, and leaves the others', () => {
    expect(model).toMatchObject({
      name: 'Ours',
      context_length: 5_000,
      input_modalities: ['text', 'image', 'file'],
    })
  })

  test('puts its endpoints first, replacing the built-in ones of the same providers', () => {
    const slugs = model?.endpoints.map(one => one.provider.slug) ?? []
    expect(slugs.slice(0, 2)).toEqual(['mine', 'openai'])
    expect(slugs.filter(slug => slug === 'openai')).toHaveLength(1)
    expect(slugs).toContain('azure')
    expect(model?.endpoints[1]).toMatchObject({ upstreamModel: 'their-gpt', prices: null })
  })

  test.each(['mine', 'openai', 'azure', 'nobody'])('is found by its providers: %s', provider => {
    const isServed = ({ endpoints }: { endpoints: { provider: { slug: string } }[] }) =>
      endpoints.some(one => one.provider.slug === provider)
    const all = [...models.values()].filter(isServed).map(({ id }) => id)
    expect([...models.listServedBy(provider)].filter(isServed).map(({ id }) => id)).toEqual(all)
    expect(all.includes('openai/gpt-4o')).toBe(provider !== 'nobody')
  })

  test('counts once', () => {
    expect(models.size).toBe(open({}).models.size)
  })
})

describe('a credential', () => {
  test('makes the built-in models of its provider callable, and nothing else', () => {
    const { models } = open({ providers: { openai: { api_key: 'sk' } } })
    const states = models
      .get('openai/gpt-4o')
      ?.endpoints.map(({ provider }) => [provider.slug, provider.configured])
    expect(states).toContainEqual(['openai', true])
    expect(states).toContainEqual(['azure', false])
  })

  test('does not make a model callable whose protocol this version does not support', () => {
    const speaking = (protocols: string[]) => {
      const { models } = openCatalog(parseConfig('', {}), protocols, NOW)
      return models
        .get('openai/o1-pro')
        ?.endpoints.map(one => `${one.provider.slug} ${one.protocol}`)
    }
    expect(speaking(['sandbox', 'openai-chat'])).not.toContain('openai openai-responses')
    expect(speaking(['sandbox', 'openai-chat', 'openai-responses'])).toContain(
      'openai openai-responses',
    )
  })

  test('does not change its provider’s public policy; the config may', () => {
    const providers = {
      anthropic: { protocol: 'openai-chat', api_key: 'sk' },
      deepseek: { api_key: 'sk' },
    }
    const agreed = {
      provider: 'deepseek',
      model: 'x',
      data_policy: { training: false, retention_days: 0 },
    }
    const { models } = open({
      providers,
      models: [{ id: 'acme/own', endpoints: [{ provider: 'anthropic', model: 'x' }, agreed] }],
    })
    expect(models.get('anthropic/claude-haiku-4.5')?.endpoints[0]?.data_policy).toEqual({
      training: false,
      retention_days: 30,
    })
    expect(models.get('acme/own')?.endpoints.map(one => one.data_policy)).toEqual([
      { training: false, retention_days: 30 },
      { training: false, retention_days: 0 },
    ])
    expect(models.get('deepseek/deepseek-v4-pro')?.endpoints[0]?.data_policy).toEqual({
      training: true,
      retention_days: null,
    })
  })
})

describe('the data', () => {
  const { providers } = openProviders({}, protocolNames)
  const row = {
    id: 'a/b',
    name: 'B',
    created: '2026-01-02',
    endpoints: [{ provider: 'openai', model: 'b' }],
  }
  const counted = () => {
    let reads = 0
    const read = () => {
      reads++
      return {
        rows: new Map([['a/b', row]]),
        aliases: new Map([['a/old', 'a/b']]),
        ...{ generated: '2026-11-28', isInstalled: false, problem: null },
      }
    }
    const models = new LazyModels(new Map(), read, {
      providers,
      protocols: protocolNames,
      created: 5,
      listParameters: createParameterLookup(),
      patterns: [],
      passing: [],
      isRouter: () => false,
    })
    return { models, reads: () => reads }
  }

  test('is read once, when a model is first needed', () => {
    const { models, reads } = counted()
    expect(reads()).toBe(0)
    expect(models.get('a/b')?.created).toBe(Date.parse('2026-01-02') / 1000)
    expect([...models.values()]).toHaveLength(1)
    expect([models.has('a/none'), models.size, reads()]).toEqual([false, 1, 1])
  })

  test('of a model is opened once, under all of its names', () => {
    const { models } = counted()
    expect(models.get('a/old')).toBe(models.get('a/b') as never)
    expect([...models.values()]).toEqual([models.get('a/b') as never])
  })
})

describe('looking up a model', () => {
  let gateway: Gateway
  beforeAll(async () => {
    gateway = await testGateway()
  })

  test('by an alias shows the model and the alias target', () => {
    const { data } = showModel(gateway, 'anthropic/claude-haiku-4-5')
    expect(data).toMatchObject({
      id: 'anthropic/claude-haiku-4-5',
      canonical_slug: 'anthropic/claude-haiku-4.5',
      alias_target: { slug: 'anthropic/claude-haiku-4.5', name: 'Anthropic: Claude Haiku 4.5' },
    })
    expect(showModel(gateway, 'anthropic/claude-haiku-4.5').data).not.toHaveProperty('alias_target')
  })

  test('with a routing variant shows the model', () => {
    for (const variant of ['nitro', 'floor', 'online', 'exacto', 'thinking'])
      expect(getModel(gateway, `openai/gpt-4o:${variant}`).id).toBe('openai/gpt-4o')
    expect(showModel(gateway, 'openai/gpt-4o:nitro').data).not.toHaveProperty('alias_target')
  })

  test('with :free finds the free variant, and nothing where there is none', () => {
    expect(showModel(gateway, 'google/gemma-4-31b-it:free').data.pricing).toEqual({
      prompt: '0',
      completion: '0',
    })
    expect(() => getModel(gateway, 'openai/gpt-4o:free')).toThrow(GatewayError)
    expect(() => getModel(gateway, 'openai/gpt-4o:fast')).toThrow('is not a model of this gateway')
    expect(() => getModel(gateway, 'x'.repeat(10_000))).toThrow(/^"x{200}" is not/)
  })

  test('shows whether an endpoint supports tool_choice', () => {
    const choices = (id: string) =>
      listEndpoints(gateway, id, null).data.endpoints[0]?.supports_tool_choice.auto
    expect([
      choices('openai/gpt-4o'),
      choices('openai/text-embedding-3-small'),
      choices('perplexity/sonar'),
    ]).toEqual([true, false, false])
  })

  test('shows an unknown price as unknown, never as free', () => {
    const { data } = listEndpoints(gateway, 'nvidia/cosmos-reason2-8b', null)
    expect(data.endpoints.map(one => one.pricing)).toEqual([{ prompt: '-1', completion: '-1' }])
  })
})

describe('listing models', () => {
  let gateway: Gateway
  const list = (query: ModelQuery) => listModels(gateway, { all: 'true', ...query }).data
  const ids = (query: ModelQuery) => list(query).map(model => model.id)
  const all = (query: ModelQuery) => ids({ ...query, output_modalities: 'all' })

  beforeAll(async () => {
    gateway = await testGateway({
      config: { providers: { mine: PROVIDER, groq: { api_key: 'sk' } }, models: MINE },
    })
  })

  const free = { prompt: 0, completion: 0 }
  const MINE = [
    {
      id: 'acme/cheap',
      context_length: 10,
      endpoints: [{ provider: 'mine', model: 'a', usd_per_million_tokens: prices, region: 'eu' }],
    },
    {
      id: 'acme/free',
      endpoints: [
        {
          provider: 'mine',
          model: 'b',
          usd_per_million_tokens: free,
          supported_parameters: ['seed'],
        },
      ],
    },
    {
      id: 'acme/unpriced',
      name: 'Some Thing',
      endpoints: [{ provider: 'mine', model: 'c', data_policy: { retention_days: 0 } }],
    },
    {
      id: 'acme/picture',
      output_modalities: ['image'],
      endpoints: [{ provider: 'mine', model: 'd' }],
    },
  ]
  const acme = (query: ModelQuery) => ids({ ...query, model_authors: 'acme' })

  test('without a query returns all text models, those of the config first', () => {
    expect(ids({}).slice(0, 4)).toEqual([
      'sandbox/echo',
      'acme/cheap',
      'acme/free',
      'acme/unpriced',
    ])
    expect(ids({})).not.toContain('acme/picture')
    expect(listModels(gateway, { all: 'true' }).links.next).toBeNull()
    expect(listModels(gateway, { all: 'true' }).total_count).toBe(ids({}).length)
  })

  test('in pages returns each once and ends', () => {
    const seen: string[] = []
    let next: string | null = '/api/v1/models?limit=150&output_modalities=all&all=true'
    while (next) {
      const query = Object.fromEntries(new URL(next, 'http://x').searchParams)
      const page = listModels(gateway, {
        all: query.all === 'true' ? 'true' : 'false',
        output_modalities: query.output_modalities ?? '',
        limit: Number(query.limit),
        offset: Number(query.offset ?? 0),
      })
      expect(page.total_count).toBe(
        countModels(gateway, { output_modalities: 'all', all: 'true' }).data.count,
      )
      seen.push(...page.data.map(model => model.id))
      next = page.links.next
    }
    expect(seen).toEqual(all({}))
    expect(new Set(seen).size).toBe(seen.length)
  })

  test('by input and output modalities', () => {
    expect(acme({ output_modalities: 'image' })).toEqual(['acme/picture'])
    expect(acme({ output_modalities: 'image,text' })).toHaveLength(4)
    expect(acme({ output_modalities: 'all' })).toHaveLength(4)
    expect(
      list({ input_modalities: 'audio,video' }).every(model =>
        model.architecture.input_modalities.includes('video'),
      ),
    ).toBe(true)
    expect(ids({ input_modalities: 'audio,video' })).toContain('google/gemini-2.5-pro')
  })

  test('by words in the name or slug, in any case and order', () => {
    expect(ids({ q: 'THING some' })).toEqual(['acme/unpriced'])
    expect(ids({ q: 'haiku 4.5' })).toEqual(['anthropic/claude-haiku-4.5'])
  })

  test('by price excludes unknown prices', () => {
    expect(acme({ min_price: 0 })).toEqual(['acme/cheap', 'acme/free'])
    expect(acme({ max_price: 6.999999 })).toEqual(['acme/free'])
    expect(acme({ min_price: 7, max_price: 7 })).toEqual(['acme/cheap'])
    expect(acme({ max_output_price: 8 })).toEqual(['acme/cheap', 'acme/free'])
    expect(acme({ min_output_price: 8.000001 })).toEqual([])
  })

  test('by context, family, author, provider, parameter, region and data policy', () => {
    expect(acme({ context: 10 })).toEqual(['acme/cheap'])
    expect(acme({ context: 11 })).toEqual([])
    expect(new Set(list({ arch: 'llama' }).map(model => model.architecture.tokenizer))).toEqual(
      new Set(['Llama3', 'Llama4']),
    )
    expect(ids({ model_authors: 'perplexity,sandbox' }).map(id => id.split('/')[0])).toEqual(
      expect.arrayContaining(['perplexity', 'sandbox']),
    )
    expect(ids({ providers: 'Amazon Bedrock' })).toEqual(ids({ providers: 'bedrock' }))
    expect(ids({ providers: 'mine, sandbox' })).toEqual([
      'sandbox/echo',
      'acme/cheap',
      'acme/free',
      'acme/unpriced',
    ])
    expect(acme({ supported_parameters: 'seed' })).toEqual([
      'acme/cheap',
      'acme/free',
      'acme/unpriced',
    ])
    expect(acme({ supported_parameters: 'seed,tools' })).toEqual(['acme/cheap', 'acme/unpriced'])
    expect(acme({ supported_parameters: 'levitation' })).toEqual([])
    expect(acme({ region: 'eu' })).toEqual(['acme/cheap'])
    expect(acme({ zdr: 'true' })).toEqual(['acme/unpriced'])
  })

  test('by age in days', () => {
    const dated = 'anthropic/claude-haiku-4.5'
    const released = Date.parse('2025-10-15') / 1000
    expect(list({ q: 'haiku-4.5' })[0]?.created).toBe(released)
    const age = Math.floor((gateway.clock.now().getTime() / 1000 - released) / 86_400)
    expect(ids({ min_age_days: age, max_age_days: age })).toContain(dated)
    expect(ids({ min_age_days: age + 1 })).not.toContain(dated)
    expect(ids({ max_age_days: age - 1 })).not.toContain(dated)
  })

  test.each([
    ['category', { category: 'programming' }],
    ['min_coding_index', { min_coding_index: 0 }],
    ['max_tool_success_rate', { max_tool_success_rate: 1 }],
    ['sort', { sort: 'most-popular' }],
    ['sort', { sort: 'intelligence-high-to-low' }],
    ['use_rss_chat_links', { use_rss_chat_links: 'true' }],
  ])('by what is not measured is refused, naming %s', (field, query) => {
    expect(() => all(query as ModelQuery)).toThrow(new RegExp(`^${field}: `))
    expect(() => listCallableModels(gateway, query as ModelQuery)).toThrow(field)
  })

  test('by what may be distilled', () => {
    expect(all({ distillable: 'true' })).toEqual([])
    expect(all({ distillable: 'false' })).toEqual(all({}))
  })

  test('sorted by price puts the unpriced last, both ways', () => {
    expect(acme({ sort: 'pricing-low-to-high' })).toEqual([
      'acme/free',
      'acme/cheap',
      'acme/unpriced',
    ])
    expect(acme({ sort: 'pricing-high-to-low' })).toEqual([
      'acme/cheap',
      'acme/free',
      'acme/unpriced',
    ])
    expect(acme({ sort: 'context-high-to-low' })[0]).toBe('acme/cheap')
  })

  test('sorted by speed: the measured come first, the best of their endpoints counts', () => {
    const { health } = gateway.traffic
    const clock = gateway.clock as TestClock
    const measure = (id: string, milliseconds: number, tokens: number) => {
      const [endpoint] = gateway.catalog.models.get(id)?.endpoints ?? []
      if (!endpoint) throw new Error(`${id} has no endpoint`)
      const sent = clock.ticks()
      clock.pass(milliseconds)
      health.recordAnswer(endpoint, sent, true)
      clock.pass(1_000)
      health.recordEnd(endpoint, sent, tokens)
    }
    measure('acme/free', 300, 50)
    measure('acme/unpriced', 100, 200)
    const expected = ['acme/unpriced', 'acme/free', 'acme/cheap']
    expect(acme({ sort: 'latency-low-to-high' })).toEqual(expected)
    expect(acme({ sort: 'throughput-high-to-low' })).toEqual(expected)
  })

  test('by region knows the names of providers for it', async () => {
    const build = (region: string) => ({
      id: `acme/${region}`,
      endpoints: [{ provider: 'mine', model: 'm', region }],
    })
    const regions = ['eu', 'eu-central-1', 'europe-west4', 'eurasia', 'us', 'us-east-1', 'usable']
    const models = regions.map(build)
    const world = await testGateway({ config: { providers: { mine: PROVIDER }, models } })
    const find = (region: 'eu' | 'us') => listModels(world, { region }).data.map(({ id }) => id)
    expect(find('eu')).toEqual(['acme/eu', 'acme/eu-central-1', 'acme/europe-west4'])
    expect(find('us')).toEqual(['acme/us', 'acme/us-east-1'])
  })

  test('a tag carries the region or else the quantization, and provider.only takes it', async () => {
    const endpoint = { provider: 'mine', model: 'm' }
    const endpoints = [
      { ...endpoint, region: 'eu' },
      { ...endpoint, quantization: 'fp8' },
      endpoint,
    ]
    const world = await testGateway({
      config: { providers: { mine: PROVIDER }, models: [{ id: 'acme/small', endpoints }] },
    })
    const { data } = listEndpoints(world, 'acme/small', null)
    expect(data.endpoints.map(({ tag }) => tag)).toEqual(['mine/eu', 'mine/fp8', 'mine'])
    const [only = ''] = data.endpoints.map(({ tag }) => tag)
    const plan = planRoute(world, 'text', buildTextCall({ routing: { only: [only] } }))
    expect(plan.endpoints.map(({ region }) => region)).toEqual(['eu'])
  })

  test('lists what can be called here, unless the query or the config says the whole', async () => {
    const called = listModels(gateway).data.map(({ id }) => id)
    expect(called.slice(0, 4)).toEqual(['sandbox/echo', 'acme/cheap', 'acme/free', 'acme/unpriced'])
    expect(called).toContain('openai/gpt-oss-120b')
    expect(called).not.toContain('anthropic/claude-haiku-4.5')
    expect(called.length).toBe(countModels(gateway).data.count)
    const whole = await testGateway({ config: { server: { list_all_models: true } } })
    expect(listModels(whole).data.map(({ id }) => id)).toContain('anthropic/claude-haiku-4.5')
    expect(listModels(whole, { all: 'false' }).data.map(({ id }) => id)).not.toContain(
      'anthropic/claude-haiku-4.5',
    )
    expect(listEmbeddingsModels(whole, { all: 'false' }).data.map(({ id }) => id)).toEqual([
      'sandbox/embed',
    ])
  })

  test('sorted by age starts with the newest', () => {
    const created = list({ sort: 'newest' }).map(model => model.created)
    expect(created).toEqual(created.toSorted((a, b) => b - a))
    expect(ids({ sort: 'newest', q: 'gpt-4o' }).slice(-1)).toEqual(['openai/gpt-4o-2024-05-13'])
  })

  test('with an unknown release shows created 0, sorts last, and has no age', () => {
    const undated = 'perplexity/sonar-reasoning-pro'
    expect(list({ q: undated })[0]?.created).toBe(0)
    expect(ids({ sort: 'newest', model_authors: 'perplexity,openai' }).at(-1)).toBe(undated)
    expect(ids({})).toContain(undated)
    expect(ids({ min_age_days: 0 })).not.toContain(undated)
    expect(ids({ max_age_days: 1_000_000 })).not.toContain(undated)
    expect(listEndpoints(gateway, undated, null).data.created).toBe(0)
  })

  test('that can be called returns those of configured providers, at their prices', () => {
    const { data } = listCallableModels(gateway, { output_modalities: 'all' })
    const names = data.map(model => model.id)
    expect(names.slice(0, 10)).toEqual([
      'sandbox/echo',
      'sandbox/embed',
      'sandbox/image',
      'sandbox/speech',
      'sandbox/video',
      'sandbox/transcribe',
      'acme/cheap',
      'acme/free',
      'acme/unpriced',
      'acme/picture',
    ])
    expect(names).toContain('openai/gpt-oss-120b')
    expect(names).not.toContain('anthropic/claude-haiku-4.5')
    expect(data.find(model => model.id === 'openai/gpt-oss-120b')?.pricing.prompt).toBe(
      '0.00000015',
    )
  })

  test('returns only embedding models, and ZDR endpoints of known providers', () => {
    const { data } = listEmbeddingsModels(gateway, { limit: 1000, all: 'true' })
    expect(data.map(model => model.id)).toEqual(
      expect.arrayContaining([
        'cohere/embed-v4.0',
        'google/gemini-embedding-001',
        'voyage/voyage-3-large',
      ]),
    )
    const tags = new Set(listZdrEndpoints(gateway).data.map(one => one.tag.split('/')[0]))
    expect(tags).toEqual(new Set(['mine', 'bedrock', 'fireworks']))
  })
})

describe('the id of an endpoint', () => {
  const endpoint = { provider: 'mine', model: 'm' }
  const config = {
    providers: { mine: PROVIDER, other: PROVIDER },
    models: [
      {
        id: 'acme/small',
        endpoints: [
          endpoint,
          { ...endpoint, region: 'eu' },
          { ...endpoint, quantization: 'fp8' },
          endpoint,
          endpoint,
          { ...endpoint, provider: 'other' },
        ],
      },
      { id: 'acme/other', endpoints: [endpoint] },
    ],
  }
  const ids = () =>
    [...open(config).models.values()].flatMap(model => model.endpoints.map(({ id }) => id))

  test('is built from what it is, and distinguishes duplicates', () => {
    expect(ids().filter(id => id.startsWith('acme/small'))).toEqual([
      'acme/small mine/m',
      'acme/small mine/m/eu',
      'acme/small mine/m/fp8',
      'acme/small mine/m 2',
      'acme/small mine/m 3',
      'acme/small other/m',
    ])
  })

  test('is unique in the whole catalogue, and stable when it is opened again', () => {
    expect(new Set(ids()).size).toBe(ids().length)
    expect(ids().length).toBeGreaterThan(1_000)
    expect(ids()).toEqual(ids())
  })
})
