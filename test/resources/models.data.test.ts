import { describe, expect, test } from 'bun:test'
import { findSchemaIssue } from '../../src/base/schema.ts'
import { UsdPerMillionTokens } from '../../src/config/prices.ts'
import { readBuiltIn } from '../../src/resources/models/built-in.ts'
import type { EndpointRow } from '../../src/resources/models/rows.ts'
import { PROVIDERS } from '../../src/resources/providers.data.ts'

const { rows, aliases } = readBuiltIn()
const models = [...rows.values()]
const endpoints = models.flatMap(model =>
  model.endpoints.map(endpoint => ({ id: model.id, ...endpoint })),
)

const KINDS = ['text', 'image', 'audio', 'embeddings', 'rerank', 'speech', 'transcription', 'video']
const INPUTS = ['text', 'image', 'file', 'audio', 'video']
const QUANTIZATIONS = [
  'int4',
  'int8',
  'fp4',
  'mxfp4',
  'nvfp4',
  'fp6',
  'fp8',
  'mxfp8',
  'fp16',
  'bf16',
  'fp32',
]

/** The prices of an endpoint that are out of bounds. */
function wrongPrice({ id, provider, prices }: EndpointRow & { id: string }): string[] {
  if (!prices) return []
  const wrong = findSchemaIssue(UsdPerMillionTokens, prices)
  const { tiers: _, variants: __, ...rates } = prices
  const tooDear = Object.entries(rates).filter(([, rate]) => rate > 1_000)
  return wrong || tooDear.length > 0 ? [`${id} at ${provider}: ${wrong?.path ?? tooDear}`] : []
}

const at = (id: string, provider: string) =>
  rows.get(id)?.endpoints.find(endpoint => endpoint.provider === provider)

describe('the built-in catalogue', () => {
  test('has hundreds of models at dozens of providers', () => {
    expect(models.length).toBeGreaterThan(300)
    expect(new Set(endpoints.map(endpoint => endpoint.provider)).size).toBeGreaterThanOrEqual(25)
    expect(endpoints.filter(endpoint => endpoint.prices).length).toBeGreaterThan(
      endpoints.length * 0.9,
    )
  })

  test('has well-formed slugs, each once', () => {
    expect(
      models
        .map(model => model.id)
        .filter(id => !/^[a-z0-9][a-z0-9-]*\/[a-z0-9][a-z0-9._-]*(:free)?$/.test(id)),
    ).toEqual([])
    expect(rows.size).toBe(models.length)
    expect(models.filter(model => model.name.trim() === '' || model.name.length > 120)).toEqual([])
  })

  test('has an endpoint for every model, and each provider once', () => {
    const wrong = models.filter(
      model =>
        model.endpoints.length === 0 ||
        new Set(model.endpoints.map(one => one.provider)).size !== model.endpoints.length,
    )
    expect(wrong).toEqual([])
  })

  // Those whose names are the public service's own, or that their author serves no more.
  const ELSEWHERE = [
    'google/gemini-2.5-pro-preview',
    'openai/gpt-5.6-luna-pro',
    'openai/gpt-5.6-sol-pro',
    'openai/gpt-5.6-terra-pro',
    'openai/gpt-6-astra-pro',
    'openai/gpt-6-luna-pro',
    'openai/gpt-6-sol-pro',
    'openai/gpt-6.1-sol-pro',
    'openai/gpt-6.1-terra-pro',
    'x-ai/grok-imagine-image-2.0',
  ]

  test('has the endpoint of the author for every model that nobody else may serve', () => {
    const CLOSED: [names: RegExp, provider: string][] = [
      [/^openai\/(?!gpt-oss|whisper-large)/, 'openai'],
      [/^anthropic\//, 'anthropic'],
      [/^google\/(gemini|veo)/, 'google'],
      [/^x-ai\//, 'xai'],
    ]
    const isAway = ({ id }: { id: string }) =>
      CLOSED.some(([names, provider]) => names.test(id) && !at(id, provider))
    expect(models.filter(isAway).map(({ id }) => id)).toEqual(ELSEWHERE)
    expect(at('openai/gpt-5.2-codex', 'openai')).toMatchObject({
      model: 'gpt-5.2-codex',
      protocol: 'openai-responses',
      prices: { prompt: 1.75, completion: 14 },
    })
  })

  test('has only known providers', () => {
    expect(
      endpoints.map(endpoint => endpoint.provider).filter(slug => !Object.hasOwn(PROVIDERS, slug)),
    ).toEqual([])
  })

  test('has prices within bounds, all zero only for models marked as free', () => {
    expect(endpoints.flatMap(wrongPrice)).toEqual([])
    const free = endpoints.filter(
      ({ prices }) => prices && Object.values(prices).every(price => price === 0),
    )
    expect(free.filter(({ id }) => !id.endsWith(':free'))).toEqual([])
  })

  test('has tiers in order, each for longer inputs than the one before', () => {
    const bounds = endpoints.flatMap(({ prices }) =>
      prices?.tiers ? [prices.tiers.map(tier => tier.above)] : [],
    )
    expect(bounds.length).toBeGreaterThan(50)
    expect(
      bounds.filter(one => one.some((above, i) => i > 0 && above <= (one[i - 1] ?? 0))),
    ).toEqual([])
  })

  test('has contexts, modalities, efforts and quantizations in the public words', () => {
    const sizes = [
      ...models.map(one => one.context_length),
      ...endpoints.flatMap(one => [one.context_length, one.max_completion_tokens]),
    ]
    expect(
      sizes.filter(
        size => size !== undefined && !(Number.isInteger(size) && size > 0 && size <= 100_000_000),
      ),
    ).toEqual([])
    expect(models.flatMap(model => model.output ?? []).filter(one => !KINDS.includes(one))).toEqual(
      [],
    )
    expect(models.flatMap(model => model.input ?? []).filter(one => !INPUTS.includes(one))).toEqual(
      [],
    )
    expect(
      endpoints.flatMap(one => one.quantization ?? []).filter(one => !QUANTIZATIONS.includes(one)),
    ).toEqual([])
    const efforts = models.flatMap(model => model.reasoning?.supported_efforts ?? [])
    expect(
      efforts.filter(
        one => !['max', 'xhigh', 'high', 'medium', 'low', 'minimal', 'none'].includes(one),
      ),
    ).toEqual([])
  })

  test('has release days in the past, for nearly every text model', () => {
    const today = new Date().toISOString().slice(0, 10)
    const dated = models.flatMap(({ id, created }) =>
      created === undefined ? [] : [{ id, created }],
    )
    expect(
      dated.filter(
        ({ created }) => !/^20\d\d-\d\d-\d\d$/.test(created) || created > today || created < '2022',
      ),
    ).toEqual([])
    const texts = models.filter(({ output = ['text'] }) => output.includes('text'))
    expect(texts.filter(({ created }) => created === undefined).length).toBeLessThan(
      texts.length * 0.02,
    )
    expect(dated.length).toBeGreaterThan(models.length * 0.9)
  })

  test.each([
    ['openai/gpt-4', '2023-03-14'],
    ['openai/gpt-4o-2024-08-06', '2024-08-06'],
    ['openai/gpt-4o', '2024-05-13'],
    ['openai/gpt-5', '2025-08-07'],
    ['openai/gpt-oss-120b', '2025-08-05'],
    ['anthropic/claude-sonnet-4.5', '2025-09-29'],
    ['anthropic/claude-haiku-4.5', '2025-10-15'],
    ['anthropic/claude-opus-4.5', '2025-11-24'],
    ['google/gemini-2.5-pro', '2025-06-17'],
    ['google/gemma-3-27b-it', '2025-03-12'],
    ['meta-llama/llama-3-70b-instruct', '2024-04-18'],
    ['meta-llama/llama-3.3-70b-instruct', '2024-12-06'],
    ['deepseek/deepseek-r1', '2025-01-20'],
    ['deepseek/deepseek-r1-0528', '2025-05-28'],
    ['qwen/qwen3-235b-a22b-thinking-2507', '2025-07-25'],
    ['mistralai/mixtral-8x7b-instruct-v0.1', '2023-12-11'],
    ['moonshotai/kimi-k2', '2025-07-11'],
  ])('has the release day of %s', (id, day) => {
    expect(rows.get(id)?.created).toBe(day)
  })

  test('has free variants as old as the model itself', () => {
    const free = models.filter(
      ({ id }) => id.endsWith(':free') && rows.has(id.slice(0, -':free'.length)),
    )
    expect(free.length).toBeGreaterThan(3)
    expect(
      free.filter(({ id, created }) => created !== rows.get(id.slice(0, -':free'.length))?.created),
    ).toEqual([])
  })

  test('has aliases that lead to a model and hide none', () => {
    expect([...aliases].filter(([alias, slug]) => rows.has(alias) || !rows.has(slug))).toEqual([])
    expect(aliases.get('anthropic/claude-haiku-4-5')).toBe('anthropic/claude-haiku-4.5')
  })

  test('has the prices of the providers’ own price pages', () => {
    expect(at('anthropic/claude-haiku-4.5', 'anthropic')).toMatchObject({
      model: 'claude-haiku-4-5',
      prices: {
        prompt: 1,
        completion: 5,
        cache_read: 0.1,
        cache_write: 1.25,
        cache_write_1h: 2,
        web_search: 0.01,
      },
    })
    expect(at('openai/gpt-4o', 'openai')?.prices).toMatchObject({
      prompt: 2.5,
      completion: 10,
      cache_read: 1.25,
    })
    expect(at('google/gemini-2.5-pro', 'google')?.prices).toEqual({
      prompt: 1.25,
      completion: 10,
      cache_read: 0.125,
      tiers: [{ above: 200_000, prompt: 2.5, cache_read: 0.25, completion: 15 }],
    })
    expect(at('openai/text-embedding-3-small', 'openai')?.prices).toEqual({
      prompt: 0.02,
      completion: 0,
    })
    expect(at('perplexity/sonar', 'perplexity')?.prices).toEqual({
      prompt: 1,
      completion: 1,
      request: 0.005,
    })
    expect(at('perplexity/sonar-pro', 'perplexity')?.prices).toEqual({
      prompt: 3,
      completion: 15,
      request: 0.006,
    })
  })

  test('marks models that always reason', () => {
    const always = [
      'deepseek/deepseek-r1',
      'minimax/minimax-m2',
      'qwen/qwen3-next-80b-a3b-thinking',
      'openai/o3',
    ]
    expect(always.filter(id => rows.get(id)?.reasoning?.mandatory !== true)).toEqual([])
    expect(rows.get('deepseek/deepseek-v3.2')?.reasoning?.mandatory).toBe(false)
  })

  test('names every author in the author’s spelling', () => {
    const bare = models
      .filter(({ id, name }) => name.startsWith(`${id.slice(0, id.indexOf('/'))}: `))
      .map(({ name }) => name)
    expect(bare.filter(name => /^[a-z]/.test(name))).toEqual([])
  })

  test('joins one model at many providers under one slug', () => {
    expect(
      rows
        .get('meta-llama/llama-3.3-70b-instruct')
        ?.endpoints.map(one => `${one.provider} ${one.model}`),
    ).toEqual(
      expect.arrayContaining([
        'groq llama-3.3-70b-versatile',
        'bedrock meta.llama3-3-70b-instruct-v1:0',
        'sambanova Meta-Llama-3.3-70B-Instruct',
        'cloudflare @cf/meta/llama-3.3-70b-instruct-fp8-fast',
      ]),
    )
  })

  test('names the makers of models before other providers, and resellers last', () => {
    const slugs = rows.get('anthropic/claude-haiku-4.5')?.endpoints.map(one => one.provider) ?? []
    expect(slugs[0]).toBe('anthropic')
    expect(slugs.slice(-2)).toEqual(['openrouter', 'vercel'])
  })
})
