import { describe, expect, test } from 'bun:test'
import { parseConfig } from '../../../src/config.ts'
import { openCatalog } from '../../../src/resources/models.ts'
import { protocolNames } from '../../../src/translation/protocols/registry.ts'

const PROVIDER = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const open = (config: object) =>
  openCatalog(parseConfig(JSON.stringify(config), {}), protocolNames, new Date('2026-12-01')).models

const models = open({
  providers: {
    openai: { api_key: 'sk' },
    anthropic: { api_key: 'sk' },
    google: { api_key: 'sk' },
  },
})

/** Dated names, each with the slug of its family where that is not the name without its date. */
const DATED: [author: string, name: string, family?: string][] = [
  ['openai', 'gpt-4o-2024-05-13'],
  ['openai', 'gpt-4o-2024-08-06'],
  ['openai', 'gpt-4o-2024-11-20'],
  ['openai', 'gpt-4o-mini-2024-07-18'],
  ['openai', 'gpt-4o-search-preview-2025-03-11', 'gpt-4o-search-preview'],
  ['openai', 'gpt-4o-mini-tts-2025-12-15'],
  ['openai', 'gpt-4-turbo-2024-04-09'],
  ['openai', 'gpt-4.1-2025-04-14'],
  ['openai', 'gpt-4.1-mini-2025-04-14'],
  ['openai', 'gpt-4.1-nano-2025-04-14'],
  ['openai', 'o1-2024-12-17'],
  ['openai', 'o1-pro-2025-03-19'],
  ['openai', 'o3-2025-04-16'],
  ['openai', 'o3-mini-2025-01-31'],
  ['openai', 'o3-pro-2025-06-10'],
  ['openai', 'o3-deep-research-2025-06-26'],
  ['openai', 'o4-mini-2025-04-16'],
  ['openai', 'o4-mini-deep-research-2025-06-26'],
  ['openai', 'gpt-5-2025-08-07'],
  ['openai', 'gpt-5-mini-2025-08-07'],
  ['openai', 'gpt-5-nano-2025-08-07'],
  ['openai', 'gpt-5-pro-2025-10-06'],
  ['openai', 'gpt-5.1-2025-11-13'],
  ['openai', 'gpt-5.2-2025-12-11'],
  ['openai', 'gpt-5.4-pro-2026-03-05'],
  ['openai', 'gpt-audio-2025-08-28'],
  ['anthropic', 'claude-sonnet-4-20250514'],
  ['anthropic', 'claude-sonnet-4-5-20250929', 'claude-sonnet-4.5'],
  ['anthropic', 'claude-haiku-4-5-20251001', 'claude-haiku-4.5'],
  ['anthropic', 'claude-opus-4-1-20250805', 'claude-opus-4.1'],
  ['anthropic', 'claude-opus-4-5-20251101', 'claude-opus-4.5'],
  ['google', 'gemini-2.5-pro-preview-03-25', 'gemini-2.5-pro'],
  ['google', 'gemini-2.5-pro-preview-05-06', 'gemini-2.5-pro'],
  ['google', 'gemini-2.5-pro-preview-06-05', 'gemini-2.5-pro'],
  ['google', 'gemini-2.5-flash-preview-04-17', 'gemini-2.5-flash'],
  ['google', 'gemini-2.5-flash-preview-05-20', 'gemini-2.5-flash'],
  ['google', 'gemini-2.5-flash-preview-09-2025', 'gemini-2.5-flash'],
  ['google', 'gemini-2.5-flash-lite-preview-06-17', 'gemini-2.5-flash-lite'],
  ['google', 'gemini-2.5-flash-lite-preview-09-2025', 'gemini-2.5-flash-lite'],
  ['google', 'gemini-2.5-flash-image-preview-10-02', 'gemini-2.5-flash-image'],
]

const LISTED = DATED.slice(0, 4).map(([, name]) => name)

const findHome = (slug: string, author: string) =>
  models.get(slug)?.endpoints.find(({ provider }) => provider.slug === author)

describe('a dated snapshot', () => {
  test.each(DATED)('%s/%s is asked for by its date, at the price of its family', (...row) => {
    const [author, name, family = name.replace(/-20\d\d(-?\d\d){2}$/, '')] = row
    // A snapshot that is listed itself has a price of its own.
    const priced = `${author}/${LISTED.includes(name) ? name : family}`
    for (const slug of [name, `${author}/${name}`]) {
      const endpoint = findHome(slug, author)
      expect(models.get(slug)?.id).toBe(priced)
      expect(endpoint).toMatchObject({ upstreamModel: name, provider: { configured: true } })
      expect(endpoint?.prices).toEqual(findHome(priced, author)?.prices ?? null)
      expect(endpoint?.prices).not.toBeNull()
    }
  })

  test('is at no endpoint that would answer with another day', () => {
    const at = (slug: string) =>
      models.get(slug)?.endpoints.map(one => [one.provider.slug, one.upstreamModel])
    expect(at('anthropic/claude-sonnet-4.5-20250929')).toEqual([
      ['anthropic', 'claude-sonnet-4-5-20250929'],
      ['bedrock', 'global.anthropic.claude-sonnet-4-5-20250929-v1:0'],
      ['openrouter', 'anthropic/claude-sonnet-4.5-20250929'],
      ['vercel', 'anthropic/claude-sonnet-4.5-20250929'],
    ])
    // The catalogue itself has this name for the model.
    expect(at('claude-haiku-4-5-20251001')).toContainEqual(['bedrock', expect.anything()])
    expect(at('openai/gpt-5-2025-08-07')?.map(([slug]) => slug)).not.toContain('azure')
  })

  test('is judged apart from its family, and is the same object each time', () => {
    const snapshot = models.get('openai/gpt-5-2025-08-07')
    expect(snapshot?.endpoints[0]?.id).not.toBe(models.get('openai/gpt-5')?.endpoints[0]?.id)
    expect(models.get('openai/gpt-5-2025-08-07')).toBe(snapshot as never)
  })

  const own = open({
    unknown_models: 'refuse',
    providers: { mine: PROVIDER, openai: PROVIDER },
    models: [
      { id: 'mine/own', endpoints: [{ provider: 'mine', model: 'own' }] },
      { id: 'openai/gpt-5', endpoints: [{ provider: 'openai', model: 'deployed' }] },
    ],
  })

  test.each([
    'openai/gpt-99-2025-08-07',
    'openai/gpt-5-2025-13-07',
    'openai/gpt-5-05-06',
    'openai/gpt-5-0806',
    'sandbox/echo-2025-08-07',
    'mine/own-2025-08-07',
    `${'x'.repeat(100_000)}-2025-08-07`,
  ])('%#: there is none', slug => {
    expect(own.has(slug)).toBe(false)
  })

  test('is not made of an operator’s own name', () => {
    const names = own.get('openai/gpt-5-2025-08-07')?.endpoints.map(one => one.upstreamModel)
    expect(names).toEqual(['openai/gpt-5-2025-08-07', 'openai/gpt-5-2025-08-07'])
  })
})
