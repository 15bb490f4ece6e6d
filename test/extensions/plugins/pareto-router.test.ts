import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Gateway } from '../../../src/app/gateway.ts'
import { type ParetoOptions, paretoRouter } from '../../../src/extensions/plugins/pareto-router.ts'
import { switchyardRouter } from '../../../src/extensions/plugins/switchyard-router.ts'
import { listRouterModels } from '../../../src/resources/routers.ts'
import { buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'

interface Priced {
  prompt: number
  completion: number
  tiers?: object[]
  score?: number
}

const open = (models: Record<string, Priced>, more: object = {}): Promise<Gateway> =>
  testGateway({
    config: {
      providers: {
        local: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' },
      },
      models: Object.entries(models).map(([name, { prompt, completion, tiers = [] }]) => ({
        id: `acme/${name}`,
        context_length: 100_000,
        endpoints: [
          { provider: 'local', model: name, usd_per_million_tokens: { prompt, completion, tiers } },
        ],
      })),
      plugins: {
        coding_scores: Object.fromEntries(
          Object.entries(models).flatMap(([name, { score }]) =>
            score === undefined ? [] : [[`acme/${name}`, score]],
          ),
        ),
      },
      ...more,
    },
  })

function decide(gateway: Gateway, options?: Partial<ParetoOptions>, text = 'Hi') {
  const plugins = options
    ? { 'pareto-router': { least: 0.66, source: 'weighted_avg', ...options } }
    : {}
  const messages = [{ role: 'user' as const, blocks: [{ type: 'text' as const, text }] }]
  const call = buildTextCall({ models: ['gateway/pareto-code'], plugins, messages })
  const inputs = { call, byokKeys: [], rules: [], session: null }
  const decision = paretoRouter.decide?.(gateway, inputs)
  if (!decision) throw new Error('It did not decide')
  return { ...decision, names: decision.models.map(({ id }) => id.slice('acme/'.length)) }
}

const MODELS = {
  dear: { prompt: 20, completion: 60, score: 0.9 },
  fair: { prompt: 5, completion: 15, score: 0.7 },
  worse: { prompt: 6, completion: 18, score: 0.68 },
  medium: { prompt: 1, completion: 3, score: 0.5 },
  cheap: { prompt: 0.1, completion: 0.2, score: 0.1 },
  unknown: { prompt: 0.01, completion: 0.01 },
}

describe('pareto-code', () => {
  test.each<[Partial<ParetoOptions> | undefined, string[]]>([
    [undefined, ['fair', 'dear']],
    [{ least: 0.9 }, ['fair', 'dear']],
    [{ least: 0.4 }, ['medium', 'fair', 'dear']],
    [{ least: 0.2 }, ['cheap', 'medium', 'fair', 'dear']],
    [{ maxPrice: 7.5 }, ['fair']],
    [{ maxPrice: 7.4 }, []],
    [{ maxPrice: 5, source: 'prompt' }, ['fair']],
    [{ maxPrice: 4.9, source: 'prompt' }, []],
    [{ least: 0, maxPrice: 0.1 }, []],
    [{ least: 0, maxPrice: 0.1, source: 'prompt' }, ['cheap']],
  ])('with %j picks %j', async (options, names) => {
    const decision = decide(await open(MODELS), options)
    expect(decision.names).toEqual(names)
    expect(decision.refusal?.status).toBe(names.length > 0 ? undefined : 404)
  })

  test('compares what a prompt of that length costs', async () => {
    const tiers = [{ above: 5_000, prompt: 30, completion: 90 }]
    const gateway = await open({ ...MODELS, fair: { ...MODELS.fair, tiers } })
    const long = 'word '.repeat(10_000)
    expect(decide(gateway, { maxPrice: 10 }).names[0]).toBe('fair')
    expect(decide(gateway, { maxPrice: 10 }, long).names).toEqual(['worse'])
    expect(decide(gateway, {}, long).names).toEqual(['worse', 'dear'])
  })

  test('says why nothing is left', async () => {
    const gateway = await open(MODELS)
    expect(decide(gateway, { maxPrice: 0 }).refusal).toMatchObject({
      message: 'No models match your request and model restrictions',
      metadata: { excluded_by: expect.arrayContaining(['max_price', 'coding_score']) },
    })
    const empty = await open({ unknown: MODELS.unknown })
    expect(decide(empty).refusal?.message).toContain('no coding score of a model is known')
    const names = (config: Gateway['config']) => listRouterModels(config).map(({ id }) => id)
    expect(names(gateway.config)).toContain('gateway/pareto-code')
    expect(names(empty.config)).not.toContain('gateway/pareto-code')
  })

  test('picks none than which another is both cheaper and better', async () => {
    const prices = fc.sample(fc.integer({ min: 1, max: 50 }), { numRuns: 8, seed: 7 })
    const models = prices.map((prompt, i) => ({ name: `m${i}`, prompt, completion: prompt }))
    const gateway = await open(Object.fromEntries(models.map(({ name, ...one }) => [name, one])))
    const scores = fc.array(fc.integer({ min: 66, max: 100 }), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(scores, list => {
        const scored = models
          .slice(0, list.length)
          .map((one, i) => ({ ...one, score: list[i] ?? 0 }))
        const coding_scores = Object.fromEntries(
          scored.map(({ name, score }) => [`acme/${name}`, score / 100]),
        )
        const plugins = { ...gateway.config.plugins, coding_scores }
        const { names } = decide({ ...gateway, config: { ...gateway.config, plugins } })
        const picked = scored.filter(({ name }) => names.includes(name))
        const isBeaten = (one: (typeof scored)[number]) =>
          scored.some(({ prompt, score }) => prompt < one.prompt && score >= one.score)
        expect(picked.filter(isBeaten)).toEqual([])
        const least = Math.min(...scored.map(({ prompt }) => prompt))
        expect(scored.find(({ name }) => name === names[0])?.prompt).toBe(least)
      }),
      { numRuns: 200 },
    )
  })
})

describe('switchyard', () => {
  const route = (
    gateway: Gateway,
    algorithm: string,
    messages: object[] = [],
    more: object = {},
  ) => {
    const call = buildTextCall({
      models: ['gateway/switchyard'],
      plugins: { 'switchyard-router': { algorithm } },
      messages: [{ role: 'user', blocks: [{ type: 'text', text: 'Hi' }] }, ...messages] as never,
      ...more,
    })
    const inputs = { call, byokKeys: [], rules: [], session: null }
    const decision = switchyardRouter.decide?.(gateway, inputs)
    expect(decision?.stage).toMatchObject({ name: 'switchyard-router', data: { algorithm } })
    return decision?.models[0]?.id
  }
  const answer = { role: 'assistant', blocks: [{ type: 'text', text: 'Hello' }] }

  test('picks as its algorithm says', async () => {
    const gateway = await open(MODELS, { default_model: 'acme/fair' })
    expect(route(gateway, 'capability')).toBe('acme/dear')
    expect(route(gateway, 'passthrough')).toBe('acme/fair')
    expect(route(gateway, 'auto')).toBe('acme/unknown')
    expect(route(gateway, 'stage')).not.toBe(route(gateway, 'stage', [answer]))
    const ids = Object.keys(MODELS).map(name => `acme/${name}`)
    expect(ids).toContain(route(gateway, 'random') ?? '')
    expect(ids).toContain(route(gateway, 'composite') ?? '')
  })

  test('passes on to the auto router what the default model cannot serve', async () => {
    const gateway = await open(MODELS, { default_model: 'acme/fair' })
    const routing = { max_price: { prompt: 2 } }
    expect(route(gateway, 'passthrough', [], { routing })).toBe('acme/unknown')
  })

  test('leaves free variants alone if their calls are limited', async () => {
    const free = { 'gift:free': { prompt: 0, completion: 0, score: 0.9 } }
    const limits = { free_models: { requests_per_day: 1 } }
    const default_model = 'acme/gift:free'
    const limited = await open({ ...free, dear: MODELS.dear }, { default_model, limits })
    for (let i = 0; i < 20; i++) expect(route(limited, 'random')).toBe('acme/dear')
    expect(route(limited, 'passthrough')).toBe('acme/dear')
    expect(decide(limited).names).toEqual(['dear'])
    const unlimited = await open({ ...free, dear: MODELS.dear }, { default_model })
    expect(route(unlimited, 'passthrough')).toBe('acme/gift:free')
    expect(decide(unlimited).names).toEqual(['gift:free'])
  })
})
