import { describe, expect, test } from 'bun:test'
import { readPlugins } from '../../../src/core/dialects/plugins.ts'
import { GatewayError } from '../../../src/core/errors.ts'
import { testGateway } from '../../support/gateway.ts'

const gateway = await testGateway()

const web = (more: object = {}) =>
  readPlugins(gateway, [
    { id: 'fusion', enabled: false },
    { id: 'web', ...more },
  ])

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
    expect(web({ enabled: true, engine: 'native' })).toEqual({ plugins: { web: {} } })
    expect(
      web({
        max_uses: 2,
        include_domains: ['a.example'],
        exclude_domains: ['b.example'],
        user_location: { type: 'approximate', city: 'Bern', region: null, country: 'CH' },
      }),
    ).toEqual({
      plugins: {
        web: {
          max_uses: 2,
          allowed_domains: ['a.example'],
          excluded_domains: ['b.example'],
          user_location: { type: 'approximate', city: 'Bern', country: 'CH' },
        },
      },
    })
    expect(web({ user_location: null })).toEqual({ plugins: { web: {} } })
  })

  test('does nothing if it is disabled, whatever its options, or absent', () => {
    expect(web({ enabled: false, engine: 'exa' })).toEqual({ plugins: { web: null } })
    for (const none of [undefined, null, [], [{ id: 'web-fetch', enabled: false }]])
      expect(readPlugins(gateway, none)).toEqual({})
  })

  test.each([
    [{ engine: 'exa' }, 'engine', 'expected native: this gateway has no search of its own'],
    [
      { engine: { toString: 1 } },
      'engine',
      'expected native: this gateway has no search of its own',
    ],
    [{ max_results: 5 }, 'max_results', 'expected none'],
    [{ mode: 'fast' }, 'mode', 'expected none'],
    [{ search_prompt: 'Look' }, 'search_prompt', 'expected none'],
    [{ x_search: {} }, 'x_search', 'expected none'],
    [{ max_uses: 0 }, 'max_uses', 'expected a whole number from 1'],
    [{ max_uses: 1.5 }, 'max_uses', 'expected a whole number from 1'],
    [{ include_domains: [] }, 'include_domains', 'expected at least one domain'],
    [{ exclude_domains: ['a.example', 7] }, 'exclude_domains', 'expected at least one domain'],
    [{ user_location: 'Bern' }, 'user_location', 'expected an object'],
    [{ user_location: { city: 7 } }, 'user_location.city', 'expected a text'],
  ])('%j is refused by its name', (more, field, message) => {
    expect(refused(more)).toEqual([400, `plugins.1.${field}`, expect.stringContaining(message)])
  })
})
