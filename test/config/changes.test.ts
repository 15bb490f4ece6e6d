import { describe, expect, test } from 'bun:test'
import { listChangedSettings, toApplicableConfig } from '../../src/app/reconfigure.ts'
import { type Config, createDefaultConfig } from '../../src/config.ts'

const config = (change: Partial<Config> = {}): Config => ({ ...createDefaultConfig(), ...change })
const local = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'sk-one' }
const model = { id: 'a/b', endpoints: [{ provider: 'local', model: 'x' }] }

describe('the settings in which two configs differ', () => {
  test('are none where they are equal, in any order', () => {
    const other = { api_key: 'sk-one', base_url: 'http://127.0.0.1:9/v1', protocol: 'openai-chat' }
    expect(
      listChangedSettings(
        config({ providers: { local, zed: {} } }),
        config({ providers: { zed: {}, local: other } }),
      ),
    ).toEqual([])
  })

  test('are named by section and member, and a list as a whole', () => {
    const after = config({
      providers: { local },
      models: [model],
      default_model: 'a/b',
      limits: { ...config().limits, max_tokens: 99 },
    })
    expect(listChangedSettings(config(), after)).toEqual([
      'default_model',
      'providers.local',
      'models',
      'limits.max_tokens',
    ])
  })

  test('include removed ones', () => {
    const before = config({
      providers: { local },
      limits: { ...config().limits, requests_per_minute: 5 },
    })
    expect(listChangedSettings(before, config())).toEqual([
      'providers.local',
      'limits.requests_per_minute',
    ])
  })

  test('are named without their values', () => {
    const after = config({ providers: { local: { ...local, api_key: 'sk-two' } } })
    expect(listChangedSettings(config({ providers: { local } }), after)).toEqual([
      'providers.local',
    ])
  })

  test('may be those of a provider named like a member of every object', () => {
    const providers = JSON.parse('{"__proto__": {"name": "P"}, "constructor": {"name": "C"}}')
    expect(listChangedSettings(config(), config({ providers })).sort()).toEqual([
      'providers.__proto__',
      'providers.constructor',
    ])
  })
})

describe('the config that a running process can apply', () => {
  test('is all except settings that are read at the start, which are named', () => {
    const trusted_proxies = ['10.0.0.1']
    const live = {
      trusted_proxies,
      metrics_key: true,
      cors: ['*' as const],
      console: false,
      list_all_models: true,
    }
    const server = {
      host: '0.0.0.0',
      port: 9,
      site_url: 'https://example.com',
      metrics_address: '127.0.0.1:9464',
      idle_seconds: 9,
      ...live,
    }
    const { config: taken, needsRestart } = toApplicableConfig(
      config(),
      config({
        server,
        storage: { ...config().storage, durability: 'full' },
        service_name: 'acme',
      }),
    )
    expect(needsRestart).toEqual([
      'server.host',
      'server.port',
      'server.idle_seconds',
      'server.site_url',
      'server.metrics_address',
      'storage.durability',
    ])
    const { server: before } = config()
    const applied = config({ service_name: 'acme', server: { ...before, ...live } })
    expect(taken).toEqual(applied)
  })
})
