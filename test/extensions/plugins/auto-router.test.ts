import { beforeAll, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Gateway } from '../../../src/app/gateway.ts'
import type { GatewayError } from '../../../src/base/errors.ts'
import { planRoute } from '../../../src/engine/plan.ts'
import type { TextCall } from '../../../src/language/call.ts'
import { COST_TIERS, type RouterOptions } from '../../../src/language/routing.ts'
import type { Rule } from '../../../src/limits/policy-world.ts'
import type { Endpoint } from '../../../src/resources/models/catalog.ts'
import { buildEmbeddingCall, buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'

const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const priced = (usd: number, more: object = {}) => ({
  provider: 'one',
  model: 'up',
  usd_per_million_tokens: { prompt: usd, completion: usd },
  ...more,
})

/** Ten models of rising price, one in each tenth, and models that are only a last resort. */
const CONFIG = {
  providers: { one: provider, two: provider },
  models: [
    ...Array.from({ length: 10 }, (_, i) => ({
      id: `acme/m${i}`,
      context_length: 200_000,
      endpoints: [priced(i + 1)],
    })),
    { id: 'acme/unpriced', context_length: 200_000, endpoints: [{ provider: 'one', model: 'up' }] },
    { id: 'acme/safeguard', context_length: 200_000, endpoints: [priced(0.01)] },
    { id: 'acme/gift:free', context_length: 200_000, endpoints: [priced(0)] },
    { id: 'acme/drawer', output_modalities: ['text', 'image'], endpoints: [priced(0.01)] },
    { id: 'acme/vectors', output_modalities: ['embeddings'], endpoints: [priced(0.01)] },
  ],
}

let gateway: Gateway
beforeAll(async () => {
  gateway = await testGateway({ config: CONFIG })
})

const asking = (wishes: RouterOptions = {}, more: Partial<TextCall> = {}) =>
  buildTextCall({ models: ['gateway/auto'], ...more, plugins: { 'auto-router': wishes } })
const planned = (wishes?: RouterOptions, more?: Partial<TextCall>, rules: Rule[] = []) =>
  planRoute(gateway, 'text', asking(wishes, more), { rules })
const chosen = (wishes?: RouterOptions, more?: Partial<TextCall>, rules?: Rule[]) =>
  planned(wishes, more, rules).models.map(({ model }) => model.id)
const says = (text: string): Partial<TextCall> => ({
  messages: [{ role: 'user', blocks: [{ type: 'text', text }] }],
})

function refusal(plan: () => unknown): GatewayError {
  try {
    plan()
  } catch (thrown) {
    return thrown as GatewayError
  }
  throw new Error('It was not refused')
}

describe('what a call may cost', () => {
  test.each<[RouterOptions, string[]]>([
    [{ tier: 'low' }, ['acme/m0', 'acme/m1']],
    [{ tier: 'medium' }, ['acme/m2', 'acme/m3', 'acme/m1', 'acme/m0']],
    [{ tier: 'high' }, ['acme/m4', 'acme/m5', 'acme/m3', 'acme/m2']],
    [{ tier: 'xhigh' }, ['acme/m6', 'acme/m7', 'acme/m5', 'acme/m4']],
    [{ tier: 'max' }, ['acme/m8', 'acme/m9', 'acme/m7', 'acme/m6']],
    [{}, ['acme/m0', 'acme/m1']],
    [{ tradeoff: 10 }, ['acme/m0', 'acme/m1']],
    [{ tradeoff: 9 }, ['acme/m0', 'acme/m1']],
    [{ tradeoff: 8 }, ['acme/m0', 'acme/m1', 'acme/m2']],
    [{ tradeoff: 0 }, ['acme/m0', 'acme/m1', 'acme/m2', 'acme/m3']],
    [{ tier: 'max', tradeoff: 10 }, ['acme/m8', 'acme/m9', 'acme/m7', 'acme/m6']],
  ])('%p: its band by fitness, and then what is cheaper', (wishes, models) => {
    expect(chosen(wishes)).toEqual(models)
  })

  test('is the nearest tier that has any model, and the stage names it', () => {
    const two = { allowed: ['acme/m1', 'acme/m7'] }
    expect(chosen({ ...two, tier: 'max' })).toEqual(['acme/m7', 'acme/m1'])
    expect(planned({ ...two, tier: 'max' }).stages[0]).toMatchObject({
      summary: expect.stringContaining('in the cost tier high, the nearest to max that has any'),
      data: { cost_tier: 'high', candidates: 2 },
    })
    expect(planned({ ...two, tier: 'medium' }).stages[0]?.data).toMatchObject({
      cost_tier: 'low',
      chosen: 'acme/m1',
    })
  })

  test('includes the expected answer of the task, at the price tier of the prompt', async () => {
    const endpoint = (prompt: number, completion: number) =>
      priced(0, { usd_per_million_tokens: { prompt, completion } })
    const other = await testGateway({
      config: {
        ...CONFIG,
        models: [
          { id: 'acme/reader', endpoints: [endpoint(1, 10)] },
          { id: 'acme/writer', endpoints: [endpoint(10, 1)] },
        ],
      },
    })
    const first = (text: string) =>
      planRoute(other, 'text', asking({ allowed: ['acme/*'] }, says(text))).models[0]?.model.id
    expect(first('Write a short poem')).toBe('acme/writer')
    expect(first(`Summarize: ${'word '.repeat(10_000)}`)).toBe('acme/reader')
    await other.close()
  })
})

describe('the candidates', () => {
  test('are models with a known price, and others only if none is left', () => {
    const of = (...allowed: string[]) => chosen({ allowed, tier: 'max' })
    const resorts = ['acme/gift:free', 'acme/unpriced', 'acme/safeguard', 'acme/m9']
    for (let i = 0; i < resorts.length; i++)
      expect(of(...resorts.slice(0, i + 1))).toEqual([resorts[i] ?? ''])
  })

  test('do not include models without text output unless the call requests it', () => {
    expect(
      refusal(() => chosen({ allowed: ['acme/vectors', 'acme/drawer'] })).metadata.excluded_by,
    ).toContain('output_modalities')
    expect(chosen({}, { params: { modalities: ['text', 'image'] } })).toEqual(['acme/drawer'])
  })

  test('are those that a pattern allows and none excludes, by any of their names', () => {
    expect(chosen({ allowed: ['acme/m1', 'acme/m2'], tradeoff: 0 })).toEqual(['acme/m1', 'acme/m2'])
    expect(chosen({ allowed: ['acme/*'], excluded: ['*m0', 'acme/m1'], tradeoff: 8 })).toEqual([
      'acme/m2',
      'acme/m3',
      'acme/m4',
    ])
    expect(
      refusal(() => chosen({ allowed: ['acme/gift:free'], excluded: ['acme/gift'] })).status,
    ).toBe(404)
    expect(refusal(() => chosen({ allowed: ['acme/m1'], excluded: ['acme/m1'] })).status).toBe(404)
  })

  test('exclude free variants if their calls are limited', async () => {
    const counted = await testGateway({
      config: { ...CONFIG, limits: { free_models: { requests_per_day: 1 } } },
    })
    const call = asking({ allowed: ['*:free'] })
    expect(refusal(() => planRoute(counted, 'text', call)).metadata.excluded_by).toContain(
      'free_models',
    )
    await counted.close()
  })

  test('are matched by their aliases too', async () => {
    const built = await testGateway({ config: { providers: { anthropic: { api_key: 'x' } } } })
    const of = (wishes: RouterOptions) =>
      planRoute(built, 'text', asking(wishes)).models.map(({ model }) => model.id)
    expect(of({ allowed: ['anthropic/claude-haiku-4-5'] })).toEqual(['anthropic/claude-haiku-4.5'])
    expect(
      of({
        allowed: ['anthropic/claude-haiku*'],
        excluded: ['anthropic/claude-haiku-4-5'],
        tier: 'max',
      }),
    ).not.toContain('anthropic/claude-haiku-4.5')
    await built.close()
  })

  test('are the sandbox alone in a gateway without configuration', async () => {
    const fresh = await testGateway()
    expect(planRoute(fresh, 'text', asking()).models.map(({ model }) => model.id)).toEqual([
      'sandbox/echo',
    ])
    await fresh.close()
    expect(refusal(() => chosen({ allowed: ['sandbox/echo'] })).status).toBe(404)
  })
})

describe('the content of a call', () => {
  const config = {
    ...CONFIG,
    models: [
      {
        id: 'acme/plain',
        context_length: 8_000,
        endpoints: [priced(1, { supported_parameters: ['temperature', 'max_tokens'] })],
      },
      {
        id: 'acme/tools',
        context_length: 8_000,
        endpoints: [priced(2, { supported_parameters: ['tools'] })],
      },
      {
        id: 'acme/json',
        context_length: 8_000,
        endpoints: [priced(3, { supported_parameters: ['response_format'] })],
      },
      {
        id: 'acme/eyes',
        context_length: 8_000,
        input_modalities: ['text', 'image'],
        endpoints: [priced(4)],
      },
      {
        id: 'acme/long',
        context_length: 1_000_000,
        endpoints: [priced(5, { supported_parameters: ['temperature', 'max_tokens'] })],
      },
    ],
  }
  const picture = { type: 'image', url: 'data:image/png;base64,AA==' } as const

  test.each<[string, Partial<TextCall>, string, string]>([
    ['nothing', {}, 'acme/plain', 'chat'],
    ['tools', { tools: [{ type: 'function', name: 'f' }] }, 'acme/tools', 'agentic'],
    ['a form', { params: { response_format: { type: 'json_object' } } }, 'acme/json', 'extraction'],
    ['a picture', { messages: [{ role: 'user', blocks: [picture] }] }, 'acme/eyes', 'vision'],
    ['a long prompt', says('word '.repeat(50_000)), 'acme/long', 'long-context'],
    ['a long answer', { params: { max_tokens: 7_999 } }, 'acme/long', 'chat'],
  ])('%s is for who takes it', async (_, call, model, task_type) => {
    const other = await testGateway({ config })
    const plan = planRoute(other, 'text', asking({}, call))
    expect([plan.models[0]?.model.id ?? '', plan.stages[0]?.data?.task_type]).toEqual([
      model,
      task_type,
    ])
    await other.close()
  })

  test('may exclude all models, and the error says why', async () => {
    const other = await testGateway({ config })
    const why = (call: Partial<TextCall>) =>
      refusal(() => planRoute(other, 'text', asking({ allowed: ['acme/*'] }, call)))
    expect(why(says('word '.repeat(2_000_000)))).toMatchObject({
      type: 'not_found',
      status: 404,
      message: 'No models match your request and model restrictions',
      metadata: {
        availability: {
          code: 'constraint_filtered',
          retryable: false,
          requested_models: ['gateway/auto'],
        },
      },
    })
    expect(why(says('word '.repeat(2_000_000))).metadata.excluded_by).toEqual(['context_length'])
    expect(
      why({
        messages: [{ role: 'user', blocks: [{ type: 'video', url: 'https://x.test/a.mp4' }] }],
      }).metadata.excluded_by,
    ).toEqual(['input_modalities'])
    expect(why({ routing: { only: ['two'] } }).metadata.excluded_by).toEqual(['allowed_providers'])
    await other.close()
  })
})

test('reasoning models are picked for tasks that need it, and not for a chat', async () => {
  const other = await testGateway({ config: { providers: { openai: { api_key: 'x' } } } })
  const pair = ['openai/gpt-4o-mini', 'openai/o4-mini']
  const [plain = '', thinking = ''] = pair
  const first = (call: Partial<TextCall>) =>
    planRoute(other, 'text', asking({ allowed: pair, tradeoff: 0 }, call)).models[0]?.model.id
  expect(first(says('Write a Python function'))).toBe(thinking)
  expect(first(says('Hallo!'))).toBe(plain)
  expect(
    first({ ...says('Write a Python function'), params: { reasoning: { effort: 'none' } } }),
  ).toBe(plain)
  await other.close()
})

describe('the name of a router', () => {
  test.each(['gateway/auto', 'openrouter/auto', 'gateway/auto:floor', 'gateway/auto:online'])(
    '%s',
    slug => {
      if (slug.endsWith('online'))
        expect(refusal(() => chosen({}, { models: [slug] })).metadata.excluded_by).toContain(
          'web_search',
        )
      else
        expect(planned({}, { models: [slug] })).toMatchObject({
          strategy: 'auto',
          stages: [{ type: 'plugin', name: 'auto-router' }],
        })
    },
  )

  test('may contain the service’s own name, and uses the plugin of the same name', async () => {
    const named = await testGateway({ config: { ...CONFIG, service_name: 'acme_ai' } })
    const call = buildTextCall({
      models: ['acme_ai/auto-beta'],
      plugins: { 'auto-router': { tier: 'max' }, 'auto-beta-router': { tier: 'high' } },
    })
    expect(planRoute(named, 'text', call)).toMatchObject({
      strategy: 'auto',
      stages: [{ name: 'auto-beta-router', data: { cost_tier: 'high', chosen: 'acme/m4' } }],
    })
    await named.close()
  })

  test.each([
    'gateway/auto:free',
    'gateway/auto:zzz',
    'acme/auto',
    'gateway/autos',
    'gateway/auto/x',
  ])('%s is none', slug => {
    expect(refusal(() => chosen({}, { models: [slug] })).status).toBe(400)
  })

  test('decides once, even if a call names it several times', () => {
    const names = ['auto', 'auto:floor', 'auto-beta', 'auto-beta:exacto'].flatMap(name => [
      `gateway/${name}`,
      `openrouter/${name}`,
    ])
    const plan = planned({ tier: 'low' }, { models: names })
    expect(plan.models.map(({ model, sort }) => [model.id, sort])).toEqual([
      ['acme/m0', undefined],
      ['acme/m1', undefined],
    ])
    expect(plan.stages.map(({ name }) => name)).toEqual(['auto-router', 'auto-beta-router'])
  })

  test('is only for text calls', () => {
    const { metadata } = refusal(() =>
      planRoute(gateway, 'embedding', buildEmbeddingCall({ models: ['gateway/auto'] })),
    )
    expect(metadata).toMatchObject({ availability: { code: 'wrong_endpoint' } })
  })

  test('is a model of the catalogue if there is one of that name', async () => {
    const models = [...CONFIG.models, { id: 'gateway/auto', endpoints: [priced(1)] }]
    const other = await testGateway({ config: { ...CONFIG, models } })
    expect(planRoute(other, 'text', asking())).toMatchObject({ strategy: 'direct', stages: [] })
    await other.close()
  })

  test('may be followed by other models, which also serve if it finds none', () => {
    expect(
      chosen({ allowed: ['acme/m3'] }, { models: ['gateway/auto', 'acme/m9', 'acme/m3'] }),
    ).toEqual(['acme/m3', 'acme/m9'])
    const nothing = planned({ allowed: ['nobody/*'] }, { models: ['gateway/auto', 'acme/m9'] })
    expect(nothing.models.map(({ model }) => model.id)).toEqual(['acme/m9'])
    expect(nothing.stages[0]).toMatchObject({ summary: 'No model was left to choose from.' })
  })
})

test('a named session keeps its model while it is a candidate at the same cost', async () => {
  const session = { key: 'ws session s', isNamed: true }
  const own = await testGateway({ config: CONFIG })
  const first = (wishes: RouterOptions, call: Partial<TextCall> = {}) =>
    planRoute(own, 'text', asking(wishes, call), { session }).stages[0]?.data
  const endpoint = own.catalog.models.get('acme/m1')?.endpoints[0] as Endpoint
  const usage = {
    input: { text: 1, cache_read: 0, cache_write: 0, cache_write_1h: 0, audio: 0, video: 0 },
  } as never
  own.traffic.sessions.rememberModel(session, 'auto usual', endpoint, usage)
  expect(first({})).toMatchObject({ chosen: 'acme/m1', kept: 'session' })
  expect(first({}, says('Write a Python function'))).toMatchObject({
    chosen: 'acme/m1',
    kept: 'session',
  })
  expect(first({ excluded: ['acme/m1'] })).toMatchObject({ chosen: 'acme/m0' })
  expect(first({ tier: 'max' })).toMatchObject({ chosen: 'acme/m8' })
  await own.close()
})

test('the pinned model is that of the last answer, if it is a candidate', () => {
  const turns = (model: string): TextCall['messages'] => [
    { role: 'user', blocks: [{ type: 'text', text: 'Hi' }] },
    { role: 'assistant', blocks: [{ type: 'text', text: 'Hello' }], model },
    { role: 'user', blocks: [{ type: 'text', text: 'And now?' }] },
  ]
  expect(chosen({ pinned: true }, { messages: turns('acme/m7') })).toEqual([
    'acme/m7',
    'acme/m0',
    'acme/m1',
  ])
  expect(planned({ pinned: true }, { messages: turns('acme/m7') }).stages[0]?.data).toMatchObject({
    kept: 'pin',
  })
  expect(chosen({ pinned: true, excluded: ['acme/m7'] }, { messages: turns('acme/m7') })).toEqual([
    'acme/m0',
    'acme/m1',
  ])
  expect(chosen({ pinned: true }, { messages: turns('nobody/x') })).toEqual(['acme/m0', 'acme/m1'])
  expect(chosen({}, { messages: turns('acme/m7') })).toEqual(['acme/m0', 'acme/m1'])
})

test('the same call gets the same models a hundred times', () => {
  const call = says('Write a Python function')
  const all = Array.from({ length: 100 }, () =>
    JSON.stringify([chosen({ tradeoff: 0 }, call), planned({ tradeoff: 0 }, call).stages]),
  )
  expect(new Set(all).size).toBe(1)
})

/** The oracle: the name without its author, or a regular expression made from the pattern. */
const means = (pattern: string, slug: string) =>
  slug.endsWith(`/${pattern}`) ||
  new RegExp(`^${pattern.replace(/[.+?^${}()|[\]\\/]/g, '\\$&').replaceAll('*', '.*')}$`).test(slug)

test('an excluded model is never picked, and the only one left always is', () => {
  const slugs = Array.from({ length: 10 }, (_, i) => `acme/m${i}`)
  const pattern = fc.oneof(
    fc.constantFrom(
      ...slugs,
      'acme/*',
      '*',
      '*m1',
      'acme/m*',
      '*/m[0-9]',
      'other/*',
      'acme/m',
      'M0',
    ),
    fc.string({ maxLength: 8 }),
  )
  const patterns = fc.array(pattern, { minLength: 1, maxLength: 4 })
  const wishes = fc.record(
    {
      allowed: patterns,
      excluded: patterns,
      tier: fc.constantFrom(...COST_TIERS),
      tradeoff: fc.nat(10),
    },
    { requiredKeys: [] },
  )
  const seen = { chosen: 0, refused: 0 }
  fc.assert(
    fc.property(wishes, fc.subarray(slugs), fc.nat(12), (wish, ruled, most) => {
      const said = {
        ...wish,
        ...(wish.allowed ? { allowed: wish.allowed.map(one => one.toLowerCase()) } : {}),
      }
      if (wish.excluded) said.excluded = wish.excluded.map(one => one.toLowerCase())
      const rule: Rule = {
        guardrail_id: 'g',
        field: 'ignored_models',
        excludedBy: 'allowed_models',
        excludes: ({ model }) => ruled.includes(model),
      }
      const may = slugs.filter(
        (slug, i) =>
          (said.allowed?.some(one => means(one, slug)) ?? true) &&
          !said.excluded?.some(one => means(one, slug)) &&
          !ruled.includes(slug) &&
          i + 1 <= most,
      )
      let left: string[] = []
      try {
        left = planned(said, { routing: { max_price: { prompt: most } } }, [rule]).models.map(
          ({ model }) => model.id,
        )
      } catch {
        seen.refused += 1
      }
      const named = left.filter(slug => slugs.includes(slug))
      expect(named.filter(slug => !may.includes(slug))).toEqual([])
      expect(named.length > 0).toBe(may.length > 0)
      expect(left.length).toBeLessThanOrEqual(4)
      seen.chosen += Number(named.length > 0)
    }),
    { numRuns: 2_000 },
  )
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(100)
})
