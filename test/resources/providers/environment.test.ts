import { describe, expect, test } from 'bun:test'
import {
  findEnvironmentProviders,
  listProviderVariables,
} from '../../../src/resources/providers/environment.ts'
import type { ProviderRow } from '../../../src/resources/providers/provider.ts'
import { PROVIDERS } from '../../../src/resources/providers.data.ts'
import { protocolNames } from '../../../src/translation/protocols/registry.ts'
import { isProviderVariable } from '../../support/environment.ts'

const find = (env: Record<string, string>) => findEnvironmentProviders(env, protocolNames)
const rows: [string, ProviderRow][] = Object.entries(PROVIDERS)

describe('the environment', () => {
  test.each([
    ['openai', 'OPENAI_API_KEY'],
    ['anthropic', 'ANTHROPIC_API_KEY'],
    ['google', 'GEMINI_API_KEY'],
    ['google', 'GOOGLE_API_KEY'],
    ['groq', 'GROQ_API_KEY'],
    ['mistral', 'MISTRAL_API_KEY'],
    ['deepseek', 'DEEPSEEK_API_KEY'],
    ['xai', 'XAI_API_KEY'],
    ['cohere', 'CO_API_KEY'],
    ['cohere', 'COHERE_API_KEY'],
    ['together', 'TOGETHER_API_KEY'],
    ['openrouter', 'OPENROUTER_API_KEY'],
  ])('configures %s by %s', (slug, variable) => {
    expect(find({ [variable]: 'secret' })).toEqual({
      providers: [{ slug, settings: { api_key: 'secret' }, variables: [variable] }],
      ignored: [],
    })
  })

  test('configures Bedrock by the variables of AWS', () => {
    const env = {
      AWS_ACCESS_KEY_ID: 'id',
      AWS_SECRET_ACCESS_KEY: 'secret',
      AWS_REGION: 'us-east-1',
    }
    const aws = { access_key_id: 'id', secret_access_key: 'secret' }
    expect(find(env).providers).toMatchObject([
      { slug: 'bedrock', settings: { aws, region: 'us-east-1' } },
    ])
    expect(find({ ...env, AWS_SESSION_TOKEN: 'token' }).providers[0]?.settings.aws).toEqual({
      ...aws,
      session_token: 'token',
    })
  })

  test('names the variable that is missing, and configures nothing without it', () => {
    const id = { AWS_ACCESS_KEY_ID: 'id', AWS_REGION: 'us-east-1' }
    const [slug, variable] = ['bedrock', 'AWS_ACCESS_KEY_ID']
    const wrong = (name: string) => [{ slug, variable, reason: `${name} is missing` }]
    const { AWS_REGION: _, ...unplaced } = { ...id, AWS_SECRET_ACCESS_KEY: 'secret' }
    expect(find(unplaced)).toEqual({
      providers: [],
      ignored: wrong('AWS_REGION or AWS_DEFAULT_REGION'),
    })
    expect(find(id).providers).toEqual([])
    expect(find(id).ignored).toHaveLength(1)
    expect(find({ AZURE_API_KEY: 'k' }).ignored[0]?.reason).toBe(
      'AZURE_BASE_URL or AZURE_OPENAI_ENDPOINT is missing',
    )
  })

  test.each(['http://user:secret@host', 'http://user@host', 'http://host/?key=secret'])(
    'refuses a credential in the address %s, and does not drop it',
    base_url => {
      const { providers, ignored } = find({ OPENAI_API_KEY: 'k', OPENAI_BASE_URL: base_url })
      expect([providers, ignored]).toMatchObject([[], [{ variable: 'OPENAI_BASE_URL' }]])
      expect(JSON.stringify(ignored)).not.toContain('secret')
    },
  )

  test('overrides the address; a bare host gets the path of the provider', () => {
    const address = (prefix: string, base_url: string) =>
      find({ [`${prefix}_API_KEY`]: 'k', [`${prefix}_BASE_URL`]: base_url }).providers[0]?.settings
        .base_url
    expect(address('OPENAI', 'http://127.0.0.1:4010/v1')).toBe('http://127.0.0.1:4010/v1')
    expect(address('OPENAI', 'http://127.0.0.1:4010/any/')).toBe('http://127.0.0.1:4010/any/')
    expect(address('OPENAI', 'http://127.0.0.1:4010')).toBe('http://127.0.0.1:4010/v1')
    expect(address('ANTHROPIC', 'http://127.0.0.1:4010/')).toBe('http://127.0.0.1:4010/v1')
    expect(address('GROQ', 'https://groq.example')).toBe('https://groq.example/openai/v1')
    const azure = { AZURE_OPENAI_API_KEY: 'k', AZURE_OPENAI_ENDPOINT: 'https://a.example/' }
    expect(find(azure).providers[0]?.settings.base_url).toBe('https://a.example/openai/v1')
  })

  test('configures a provider without credentials by its address', () => {
    expect(find({ OLLAMA_BASE_URL: 'http://10.0.0.5:11434' }).providers).toMatchObject([
      { slug: 'ollama', settings: { base_url: 'http://10.0.0.5:11434/v1' } },
    ])
  })

  test('is ignored where it is empty, wrong, or holds a key of a gateway', () => {
    expect(find({ OPENAI_API_KEY: '' })).toEqual({ providers: [], ignored: [] })
    expect(find({ OPENAI_BASE_URL: 'http://127.0.0.1:4010' })).toEqual({
      providers: [],
      ignored: [],
    })
    for (const [env, variable] of [
      [{ OPENAI_API_KEY: 'two\nlines' }, 'OPENAI_API_KEY'],
      [{ OPENAI_API_KEY: 'k', OPENAI_BASE_URL: 'somewhere' }, 'OPENAI_BASE_URL'],
      [{ OPENROUTER_API_KEY: `gw-v1-${'0'.repeat(72)}` }, 'OPENROUTER_API_KEY'],
    ] as const) {
      const { providers, ignored } = find(env)
      expect([providers, ignored.map(one => one.variable)]).toEqual([[], [variable]])
      for (const value of Object.values(env))
        expect(JSON.stringify(ignored)).not.toContain(JSON.stringify(value))
    }
  })

  test('has variables for every provider that has a key and no account', () => {
    const without = rows.filter(([, { variables, instead }]) => !variables && !instead)
    expect(without.map(([slug]) => slug)).toEqual(['sandbox'])
  })

  test('has each variable for one provider, and none that a test could see', () => {
    const names = listProviderVariables()
    expect(new Set(names).size).toBe(names.length)
    expect(names.filter(name => !isProviderVariable(name))).toEqual([])
    expect(names.filter(name => process.env[name] !== undefined)).toEqual([])
  })
})
