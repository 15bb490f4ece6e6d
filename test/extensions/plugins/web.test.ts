import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/base/errors.ts'
import { parseConfig } from '../../../src/config.ts'
import { readPlugins } from '../../../src/translation/dialects/routing.ts'
import { testGateway } from '../../support/gateway.ts'

const gateway = await testGateway()

const web = (more: object = {}) => readPlugins(gateway, [{ id: 'web', ...more }])

function refused(more: object): [status: number, field: unknown, message: string] {
  try {
    web(more)
  } catch (thrown) {
    const { status, metadata, message } = GatewayError.from(thrown)
    return [status, metadata.field, message]
  }
  throw new Error('expected a refusal')
}

describe('the web plugin', () => {
  test('adds a search in the form of the parameter', () => {
    expect(web()).toEqual({ plugins: { web: {} } })
    expect(web({ enabled: true, engine: 'native' })).toEqual({
      plugins: { web: { engine: 'native' } },
    })
    expect(
      web({
        max_uses: 2,
        include_domains: ['a.example'],
        user_location: { type: 'approximate', city: 'Bern', region: null, country: 'CH' },
      }),
    ).toEqual({
      plugins: {
        web: {
          max_uses: 2,
          allowed_domains: ['a.example'],
          user_location: { type: 'approximate', city: 'Bern', country: 'CH' },
        },
      },
    })
    expect(web({ exclude_domains: ['*.B.example/'] })).toEqual({
      plugins: { web: { excluded_domains: ['b.example'] } },
    })
    expect(web({ user_location: null })).toEqual({ plugins: { web: {} } })
  })

  test('does nothing if it is disabled, whatever its options, or absent', () => {
    expect(web({ enabled: false, engine: 'exa' })).toEqual({ plugins: { web: null } })
    for (const none of [undefined, null, []]) expect(readPlugins(gateway, none)).toEqual({})
  })

  test('reads the options of an engine, if one can be asked', async () => {
    const config = parseConfig(
      JSON.stringify({ web_search: { engines: { exa: { api_key: 'k' }, brave: {} } } }),
      {},
    )
    const read = (entry: object) => readPlugins({ ...gateway, config }, [{ id: 'web', ...entry }])
    const options = { engine: 'exa', max_results: 25, mode: 'fast', search_prompt: 'Look' }
    expect(read(options)).toEqual({ plugins: { web: options } })
    expect(read({ max_results: 1 })).toEqual({ plugins: { web: { max_results: 1 } } })
    const refusals = [
      [{ engine: 'brave' }, 'it has no key (web_search.engines.brave.api_key)'],
      [{ engine: 'tavily' }, 'it is not configured (web_search.engines.tavily)'],
      [{ engine: 'exa', mode: 'turbo' }, 'mode: expected another: the search engine exa has'],
      [{ mode: 'turbo' }, 'mode: expected another'],
      [{ engine: 'native', max_results: 3 }, 'max_results: expected none: providers that search'],
    ] as const
    for (const [entry, message] of refusals) expect(() => read(entry)).toThrow(message)
    const off = { ...config, web_search: { ...config.web_search, enabled: false } }
    expect(() => readPlugins({ ...gateway, config: off }, [{ id: 'web', engine: 'exa' }])).toThrow(
      'plugins.0.engine: expected native: web_search.enabled is false',
    )
  })

  test.each([
    [{ engine: 'exa' }, 'engine', 'exa cannot be used: it is not configured'],
    [{ engine: 'exa', max_results: 3 }, 'engine', 'exa cannot be used: it is not configured'],
    [{ engine: 'bing' }, 'engine', 'expected one of native, '],
    [{ engine: { toString: 1 } }, 'engine', 'expected one of native, '],
    [{ max_results: 5 }, 'max_results', 'this gateway has no search engine'],
    [{ max_results: 26 }, 'max_results', 'expected a whole number from 1 to 25'],
    [{ max_results: -1 }, 'max_results', 'expected a whole number from 1 to 25'],
    [{ max_results: 1e21 }, 'max_results', 'expected a whole number from 1 to 25'],
    [{ mode: 'fast' }, 'mode', 'this gateway has no search engine'],
    [{ mode: 'slow' }, 'mode', 'expected one of '],
    [{ search_prompt: 'Look' }, 'search_prompt', 'this gateway has no search engine'],
    [{ search_prompt: ' ' }, 'search_prompt', 'expected a text of 1 to 10000 characters'],
    [{ search_prompt: 'x'.repeat(10_001) }, 'search_prompt', 'expected a text of 1 to 10000'],
    [{ x_search: 7 }, 'x_search', 'expected'],
    [{ max_uses: 0 }, 'max_uses', 'expected a whole number from 1'],
    [{ max_uses: 1.5 }, 'max_uses', 'expected a whole number from 1'],
    [{ max_uses: 1e308 }, 'max_uses', 'expected a whole number from 1'],
    [{ include_domains: [] }, 'include_domains', 'expected 1 to 100 domains'],
    [{ exclude_domains: ['a.example', 7] }, 'exclude_domains.1', 'expected a domain'],
    [
      { include_domains: ['a.example'], exclude_domains: ['b.example'] },
      'exclude_domains',
      'expected none beside include_domains',
    ],
    [{ user_location: 'Bern' }, 'user_location', 'expected an object'],
    [{ user_location: { city: 7 } }, 'user_location.city', 'expected a text'],
    [{ user_location: { country: 'Schweiz' } }, 'user_location.country', 'expected two letters'],
  ])('%j is refused by its name', (more, field, message) => {
    expect(refused(more)).toEqual([400, `plugins.0.${field}`, expect.stringContaining(message)])
  })
})
