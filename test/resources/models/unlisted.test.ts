import { describe, expect, test } from 'bun:test'
import { parseConfig } from '../../../src/config.ts'
import { openCatalog } from '../../../src/resources/models.ts'
import { protocolNames } from '../../../src/translation/protocols/registry.ts'

const LOCAL = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const PROVIDERS = {
  openai: { api_key: 'sk' },
  xai: { api_key: 'sk' },
  openrouter: { api_key: 'sk' },
  ollama: { base_url: 'http://127.0.0.1:9/v1' },
  local: LOCAL,
}
const open = (config: object) =>
  openCatalog(
    parseConfig(JSON.stringify({ providers: PROVIDERS, ...config }), {}),
    protocolNames,
    new Date('2026-12-01'),
  ).models

const models = open({})
const at = (slug: string, of = models) =>
  of.get(slug)?.endpoints.map(one => `${one.provider.slug} ${one.upstreamModel}`)

describe('a name that the catalogue does not have', () => {
  test.each([
    ['openai/gpt-99', 'openai gpt-99'],
    ['x-ai/grok-99', 'xai grok-99'],
    ['xai/grok-99', 'xai grok-99'],
    ['openrouter/acme/gpt-99', 'openrouter acme/gpt-99'],
    ['ollama/llama99:8b', 'ollama llama99:8b'],
  ])('%s goes to the provider that it names', (slug, endpoint) => {
    expect(at(slug)).toEqual([endpoint])
    expect(models.get(slug)).toMatchObject({
      id: slug,
      unlisted: 'passed',
      endpoints: [
        { prices: null, region: null, data_policy: { training: true, retention_days: null } },
      ],
    })
    expect(models.get(slug)).toBe(models.get(slug) as never)
    expect([...models.values()].map(({ id }) => id)).not.toContain(slug)
  })

  test.each([
    ['of a provider that is not configured', 'anthropic/claude-99'],
    ['of a provider that is not known by name', 'local/gpt-99'],
    ['of the sandbox', 'sandbox/gpt-99'],
    ['of an author whom nobody serves alone', 'acme/gpt-99'],
    ['that is a router', 'openrouter/auto'],
    ['that is a router with a variant', 'openrouter/auto:nitro'],
    ['that is a listed model with a variant', 'openai/gpt-4o:nitro'],
    ['that is a listed model with no such variant', 'openai/gpt-4o:turbo'],
    ['with a variant', 'openai/gpt-99:free'],
    ['without an author', 'gpt-99'],
    ['without a name', 'openai/'],
    ['that climbs in an address', 'openai/../files'],
    ['that climbs in an address, further on', 'openrouter/a/../../files'],
    ['with a query', 'openai/gpt-99?x=1'],
    ['with an escape', 'openai/gpt%2f99'],
    ['with a space', 'openai/gpt 99'],
    ['that is too long', `openai/${'x'.repeat(1_000)}`],
  ])('%s is none', (_, slug) => {
    expect(models.has(slug)).toBe(false)
  })

  test('is refused or passed on everywhere where the config says so', () => {
    expect(open({ unknown_models: 'refuse' }).has('openai/gpt-99')).toBe(false)
    expect(at('local/gpt-99', open({ unknown_models: 'pass' }))).toEqual(['local gpt-99'])
  })

  test.each([
    ['openrouter/openai/gpt-4o', 'openai/gpt-4o', 'openrouter openai/gpt-4o'],
    ['openrouter/OpenAI/GPT-4o', 'openai/gpt-4o', 'openrouter openai/gpt-4o'],
    ['openai/GPT-4o', 'openai/gpt-4o', 'openai gpt-4o'],
    ['xai/grok-4.7', 'x-ai/grok-4.7', 'xai grok-4.7'],
  ])('%s is the model that is listed under another name, with its price', (slug, id, endpoint) => {
    expect(models.get(slug)?.id).toBe(id)
    expect(at(slug)).toEqual([endpoint])
    expect(models.get(slug)?.endpoints[0]?.prices).not.toBeNull()
    expect(models.get(slug)?.unlisted).toBeUndefined()
  })

  test('is asked for in the protocol that its provider has for such names, if it speaks that', () => {
    const ask = (of = models, slug = 'openai/gpt-99-codex') =>
      of.get(slug)?.endpoints.map(one => one.protocol)
    expect(ask()).toEqual(['openai-responses'])
    expect(ask(models, 'openai/gpt-image-99-pro')).toEqual(['openai-chat'])
    const relay = open({ providers: { openai: { api_key: 'sk', protocol: 'openai-chat' } } })
    expect(ask(relay)).toEqual(['openai-chat'])
  })

  test('is no default model, as it may be misspelt', () => {
    expect(() => open({ default_model: 'openai/gpt-4o-mni' })).toThrow(/default_model: expected/)
    const patterns = [{ id: 'local/*', endpoints: [{ provider: 'local', model: '*' }] }]
    expect(() => open({ default_model: 'local/gpt-99', models: patterns })).not.toThrow()
  })

  test('is kept only while few others are asked for', () => {
    for (let i = 0; i < 2_000; i++) expect(models.has(`openai/made-up-${i}`)).toBe(true)
    expect(at('openai/gpt-99')).toEqual(['openai gpt-99'])
  })
})

describe('a pattern of the config', () => {
  const prices = { prompt: 7, completion: 8 }
  const own = open({
    unknown_models: 'refuse',
    models: [
      {
        id: 'local/*',
        endpoints: [{ provider: 'local', model: '*', usd_per_million_tokens: prices }],
      },
      { id: 'acme/*', endpoints: [{ provider: 'local', model: 'ft:*:acme' }] },
      { id: 'local/own', endpoints: [{ provider: 'local', model: 'mine' }] },
      {
        id: 'openai/*',
        endpoints: [{ provider: 'openai', model: '*', usd_per_million_tokens: prices }],
      },
    ],
  })

  test('stands for every name of its author, at its price', () => {
    expect(at('local/gpt-99', own)).toEqual(['local gpt-99'])
    expect(at('local/a/b:c', own)).toEqual(['local a/b:c'])
    expect(at('acme/x', own)).toEqual(['local ft:x:acme'])
    expect(own.get('local/gpt-99')?.endpoints[0]?.prices?.prompt).toBe(7_000_000_000_000n)
  })

  test('stands for no name that is listed, and is none itself', () => {
    expect(at('local/own', own)).toEqual(['local mine'])
    expect(own.get('openai/gpt-4o')?.endpoints[0]?.prices?.prompt).toBe(2_500_000_000_000n)
    expect(own.get('openai/GPT-4o')?.id).toBe('openai/gpt-4o')
    expect([...own.values()].map(({ id }) => id).filter(id => id.includes('*'))).toEqual([])
    expect(own.has('local/*')).toBe(false)
  })

  test.each([
    [{ id: 'lo*/x', endpoints: [{ provider: 'local', model: 'x' }] }, /models\.0\.id: expected/],
    [
      { id: 'local/gpt-*', endpoints: [{ provider: 'local', model: '*' }] },
      /models\.0\.id: expected/,
    ],
    [
      { id: 'local/*', endpoints: [{ provider: 'local', model: 'x' }] },
      /models\.0\.endpoints\.0\.model: expected one \* for what local\/\* stands for, found "x"/,
    ],
    [
      { id: 'local/x', endpoints: [{ provider: 'local', model: 'gpt-*' }] },
      /models\.0\.endpoints\.0\.model: expected no \*, found "gpt-\*"/,
    ],
  ])('that would match nothing is refused: %#', (model, message) => {
    expect(() => open({ models: [model] })).toThrow(message)
  })
})
