import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { type Body, Cast, PLAYERS, REASONER, REQUEST_FORMS } from '../support/preferences.ts'

const { embeddings: _, ...OF_TEXT } = REQUEST_FORMS

/*
 * A call's preferences, combined with those of its preset, guardrail, workspace and session.
 */

describe.each(Object.entries(PLAYERS))('at providers played by %s', (_, playedBy) => {
  let cast: Cast
  let guarded: { key: string; guardrail: string }

  beforeAll(async () => {
    cast = await Cast.open(playedBy)
    guarded = await guardedKey(cast)
    await preset(cast, 'cheapest', { model: 'acme/small', provider: { sort: 'price' } })
    await preset(cast, 'online', { model: 'acme/small', plugins: [{ id: 'web', max_uses: 1 }] })
    await preset(cast, 'searching', { model: 'acme/small:online' })
    await preset(cast, 'private', { model: 'acme/small', provider: { zdr: true } })
  })
  afterAll(() => cast.close())
  beforeEach(() => cast.play())

  describe.each(Object.entries(OF_TEXT))('%s: a call', (_, way) => {
    const said = async (body: Body, key?: string) => (await cast.ask(way, body, key)).said

    test('follows its preset’s preferences, unless it has its own', async () => {
      expect(await said({ model: '@preset/cheapest' })).toBe('cheap')
      expect(await said({ model: '@preset/private' })).toBe('private')
      expect(await said({ model: '@preset/cheapest', provider: { order: ['able'] } })).toBe('able')
      expect(await said({ model: 'acme/taught@preset/cheapest' })).toBe('able')
    })

    test('has its variant as well as its preset', async () => {
      expect(await said({ model: 'acme/small:floor@preset/none-of-it' })).toBeNull()
      expect(await said({ model: 'acme/small:floor@preset/private' })).toBe('private')
      expect(await said({ model: 'acme/small:online@preset/private' })).toBeNull()
      expect(await said({ model: `${REASONER}:thinking@preset/cheapest` })).toBe('able')
    })

    test('searches the web if its preset does, unless the call disables it', async () => {
      expect(await said({ model: '@preset/searching' })).toBe('able')
      expect(cast.lastAt('able').web_search_options).toEqual({})
      const off = { plugins: [{ id: 'web', enabled: false }], provider: { sort: 'price' } }
      expect(await said({ model: '@preset/searching', ...off })).toBe('cheap')
      const { status, error } = await cast.ask(way, { model: '@preset/online' })
      expect([status, error]).toEqual([404, expect.stringContaining(':online, the web plugin')])
      expect(await said({ model: '@preset/online', ...off })).toBe('cheap')
    })

    test('gets the reason if its guardrail forbids what it prefers', async () => {
      await rule(cast, guarded.guardrail, { allowed_providers: null, ignored_providers: ['able'] })
      expect(await said({ provider: { order: ['able', 'private'] } }, guarded.key)).toBe('private')
      expect(await said({ provider: { sort: 'price', ignore: ['cheap'] } }, guarded.key)).toBe(
        'private',
      )
      const only = await cast.ask(way, { provider: { only: ['able'] } }, guarded.key)
      expect([only.status, only.error, only.asked]).toEqual([
        404,
        expect.stringContaining('ignored_providers of a guardrail'),
        [],
      ])
      const online = await cast.ask(way, { model: 'acme/small:online' }, guarded.key)
      expect([online.status, online.asked]).toEqual([404, []])
    })

    test('is held to its guardrail’s list and its own at once', async () => {
      await rule(cast, guarded.guardrail, {
        allowed_providers: ['cheap', 'private'],
        ignored_providers: null,
      })
      expect(await said({ provider: { only: ['private', 'able'] } }, guarded.key)).toBe('private')
      expect(await said({ provider: { sort: 'price', zdr: true } }, guarded.key)).toBe('private')
      expect((await cast.ask(way, { provider: { only: ['able'] } }, guarded.key)).status).toBe(404)
    })

    test('follows its own preferences over its session', async () => {
      for (const name of ['cheap', 'able', 'private']) {
        expect(await said({ session_id: 'one', provider: { order: [name] } })).toBe(name)
        expect(await said({ session_id: 'one', provider: { only: [name] } })).toBe(name)
      }
    })

    test('that falls back to another model uses that model’s name', async () => {
      cast.play(['able'])
      expect(
        await said({
          model: `${REASONER}:thinking`,
          models: ['acme/small'],
          provider: { sort: 'price' },
        }),
      ).toBe('cheap')
      expect(cast.lastAt('able').reasoning_effort).toBeDefined()
      expect(cast.lastAt('cheap').reasoning_effort).toBeUndefined()
    })

    test('that searches may say how, and only with supported options', async () => {
      const place = { type: 'approximate', city: 'Bern' }
      expect(await said({ plugins: [{ id: 'web', user_location: place }] })).toBe('able')
      expect(cast.lastAt('able').web_search_options).toEqual({ user_location: place })
      const { status, asked } = await cast.ask(way, {
        plugins: [{ id: 'web', include_domains: ['example.com'] }],
      })
      expect([status, asked]).toEqual([404, []])
    })
  })

  test.each(Object.entries(REQUEST_FORMS))(
    '%s: a workspace’s sort applies to calls without one',
    async (_, way) => {
      const { server } = cast
      await server.fetch('/workspaces/default', {
        method: 'PATCH',
        key: server.management_key,
        json: { default_provider_sort: 'price' },
      })
      const first = async (body: Body) => (await cast.ask(way, body)).asked
      expect(await first({})).toEqual(['cheap'])
      expect(await first({ provider: { order: ['able'] } })).toEqual(['able'])
      expect(await first({ provider: { zdr: true } })).toEqual(['private'])
      await server.fetch('/workspaces/default', {
        method: 'PATCH',
        key: server.management_key,
        json: { default_provider_sort: 'exacto' },
      })
      expect(await first({})).toEqual(['cheap'])
    },
  )
})

async function preset({ server }: Cast, slug: string, json: object): Promise<void> {
  const response = await server.fetch(`/presets/${slug}/chat/completions`, {
    json: { messages: [{ role: 'user', content: 'Hi' }], ...json },
  })
  expect([response.status, slug]).toEqual([200, slug])
}

/** Creates a key with a guardrail. */
async function guardedKey({ server }: Cast): Promise<{ key: string; guardrail: string }> {
  const management = { key: server.management_key }
  const made = (await (
    await server.fetch('/keys', { ...management, json: { name: 'guarded' } })
  ).json()) as Created & { key: string }
  const guardrail = (await (
    await server.fetch('/guardrails', { ...management, json: { name: 'rules' } })
  ).json()) as Created
  await server.fetch(`/guardrails/${guardrail.data.id}/assignments/keys`, {
    ...management,
    json: { key_hashes: [made.data.hash] },
  })
  return { key: made.key, guardrail: guardrail.data.id }
}

interface Created {
  data: { id: string; hash: string }
}

async function rule({ server }: Cast, id: string, json: object): Promise<void> {
  const response = await server.fetch(`/guardrails/${id}`, {
    method: 'PATCH',
    key: server.management_key,
    json,
  })
  expect(response.status).toBe(200)
}
