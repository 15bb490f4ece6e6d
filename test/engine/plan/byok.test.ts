import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Gateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { planRoute } from '../../../src/engine/plan.ts'
import type { RoutingPreferences } from '../../../src/language/routing.ts'
import { createTextUsage } from '../../../src/language/usage.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import type { ByokChange, NewByokKey } from '../../../src/resources/byok/schema.ts'
import { createByokKey, listUsableByokKeys, updateByokKey } from '../../../src/resources/byok.ts'
import { createKey } from '../../../src/resources/keys.ts'
import type { Endpoint } from '../../../src/resources/models/catalog.ts'
import { toExactPrices } from '../../../src/resources/prices.ts'
import { buildEndpoint, buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'
import { beginStep } from '../../support/run.ts'

const endpoint = (provider: string, more: object = {}) => ({
  provider,
  model: 'up',
  usd_per_million_tokens: { prompt: 1, completion: 2 },
  ...more,
})

const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'own' }

const CONFIG = {
  providers: { one: provider, two: provider },
  models: [
    {
      id: 'acme/small',
      endpoints: [endpoint('one', { data_policy: { retention_days: 0 } }), endpoint('two')],
    },
    { id: 'acme/other', endpoints: [endpoint('one')] },
  ],
}

const CACHED = toExactPrices({ prompt: 1, completion: 1, cache_read: 0.1 })

let gateway: Gateway

beforeEach(async () => {
  gateway = await testGateway({ config: CONFIG })
})

const add = (provider: string, key: string, more: Partial<NewByokKey> = {}) =>
  createByokKey(gateway, getOperator(gateway), { provider, key, ...more })

const planFor = (routing: RoutingPreferences = {}, model = 'acme/small') =>
  planRoute(gateway, 'text', buildTextCall({ models: [model], routing }), {
    byokKeys: listUsableByokKeys(gateway, getOperator(gateway)),
  })

/** The providers that the plan tries and whose key each uses, in order: `two:own`. */
const tried = (routing?: RoutingPreferences, model?: string) =>
  planFor(routing, model).endpoints.map(({ provider: { slug, api_key }, is_byok }) => {
    const key = api_key?.reveal() ?? 'none'
    expect(is_byok).toBe(key !== 'own')
    return `${slug}:${key}`
  })

const refusal = (routing: RoutingPreferences, model?: string): GatewayError =>
  refusalOf(() => planFor(routing, model))

function refusalOf(plan: () => unknown): GatewayError {
  try {
    plan()
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown
  }
  throw new Error('It was planned')
}

describe('the money set aside', () => {
  /** In nano-dollars, for a call of a key that counts its provider keys or does not. */
  async function held(include_byok_in_limit: boolean): Promise<bigint> {
    const { data } = await createKey(gateway, getOperator(gateway), {
      name: 'k',
      include_byok_in_limit,
    })
    const actor = { ...getOperator(gateway), key_hash: data.hash }
    const call = buildTextCall({ params: { max_tokens: 100 } })
    const plan = planRoute(gateway, 'text', call, { byokKeys: listUsableByokKeys(gateway, actor) })
    beginStep(gateway, actor, 'text', call, plan, new AbortController().signal)
    return gateway.ledger.getHeld(`key ${data.hash}`, include_byok_in_limit)
  }

  test('is what the gateway’s own credential may cost, even as the second choice', async () => {
    const own = await held(false)
    expect(own).toBeGreaterThan(0n)
    await add('one', 'a')
    expect([await held(false), await held(true)]).toEqual([own, own])
  })

  test('is nothing if only caller keys can be charged, unless their spending counts', async () => {
    const own = await held(false)
    await add('one', 'a', { is_required: true })
    await add('two', 'a', { is_required: true })
    expect([await held(false), await held(true)]).toEqual([0n, own])
  })
})

describe('a plan with provider keys', () => {
  test('tries them first, then the gateway’s own, and fallback keys last', async () => {
    await add('two', 'late', { is_fallback: true })
    await add('two', 'b')
    await add('two', 'a')
    expect(tried()).toEqual(['two:b', 'two:a', 'one:own', 'two:own', 'two:late'])
  })

  test('keeps the caller’s order within each tier, and the first tier first', async () => {
    await add('one', 'a')
    await add('two', 'b')
    expect(tried({ order: ['two'] })).toEqual(['two:b', 'one:a', 'two:own', 'one:own'])
    expect(tried({ order: ['two'], allow_fallbacks: false })).toEqual(['two:b', 'two:own'])
    expect(tried({ allow_fallbacks: false })).toEqual(['one:a'])
    expect(tried({ ignore: ['one'] })).toEqual(['two:b', 'two:own'])
  })

  test('uses a key for its models only', async () => {
    await add('one', 'a', { allowed_models: ['acme/other'] })
    expect(tried()).toEqual(['one:own', 'two:own'])
    expect(tried({}, 'acme/other')).toEqual(['one:a', 'one:own'])
  })

  test('knows the models of a key by their other names too', async () => {
    await add('openai', 'sk-1', { allowed_models: ['openai/chat-latest'] })
    const call = buildTextCall({ models: ['openai/gpt-chat-latest'] })
    const { endpoints } = planRoute(gateway, 'text', call, {
      byokKeys: listUsableByokKeys(gateway, getOperator(gateway)),
    })
    expect(endpoints.map(one => [one.provider.slug, one.is_byok])).toEqual([['openai', true]])
  })

  test('excludes the gateway’s own key from the models of a required key', async () => {
    await add('one', 'a', { is_required: true, allowed_models: ['acme/small'] })
    expect(tried()).toEqual(['one:a', 'two:own'])
    expect(tried({}, 'acme/other')).toEqual(['one:own'])
  })

  test('excludes the gateway’s own key from a provider whose key is byok-only', async () => {
    await add('one', 'a', { is_byok_only: true, allowed_models: ['acme/small'] })
    expect(tried()).toEqual(['one:a', 'two:own'])
    const { type, message, metadata } = refusal({}, 'acme/other')
    expect([type, metadata.excluded_by, metadata.guardrails]).toEqual([
      'not_found',
      ['byok_only'],
      undefined,
    ])
    expect(message).toContain('No endpoints found for acme/other')
  })

  test('says so if such a key leaves a router nothing to pick from', async () => {
    await add('one', 'a', { is_byok_only: true, allowed_models: ['acme/small'] })
    const call = buildTextCall({
      models: ['gateway/auto'],
      plugins: { 'auto-router': { allowed: ['acme/other'] } },
    })
    const { metadata } = refusalOf(() =>
      planRoute(gateway, 'text', call, {
        byokKeys: listUsableByokKeys(gateway, getOperator(gateway)),
      }),
    )
    expect(metadata.excluded_by).toEqual(expect.arrayContaining(['byok_only', 'allowed_models']))
  })

  test('omits a key that cannot be decrypted', async () => {
    const { data } = await add('one', 'a', { is_required: true })
    const own = gateway.memory.byok.get(data.id)
    if (own) gateway.memory.byok.set({ ...own, isReadable: false, providers: new Map() })
    expect(tried()).toEqual(['two:own'])
  })

  test('trusts what a key declares of data retention, for that key alone', async () => {
    await add('two', 'a', { declared_zdr: true })
    await add('one', 'b', { declared_zdr: false })
    expect(tried({ zdr: true })).toEqual(['two:a', 'one:own'])
  })

  test('reaches a provider that the gateway has no credential for', async () => {
    const call = buildTextCall({ models: ['openai/gpt-4o-mini'], routing: { only: ['openai'] } })
    const plan = () =>
      planRoute(gateway, 'text', call, {
        byokKeys: listUsableByokKeys(gateway, getOperator(gateway)),
      })
    expect(plan).toThrow('none of them is configured')
    await add('openai', 'sk-1')
    expect(
      plan().endpoints.map(one => [one.provider.slug, one.is_byok, one.provider.base_url]),
    ).toEqual([['openai', true, 'https://api.openai.com/v1']])
    expect(
      plan()
        .dropped.filter(one => one.endpoint.provider.slug === 'openai')
        .map(one => one.excludedBy),
    ).toEqual(['not_configured'])
  })

  test('reuses the endpoint for the next call, unless the key was changed', async () => {
    const { data } = await add('one', 'a')
    const [first] = planFor().endpoints
    expect(planFor().endpoints[0]).toBe(first)
    await updateByokKey(gateway, getOperator(gateway), data.id, { key: 'b' })
    expect(planFor().endpoints[0]).not.toBe(first)
    expect(tried()[0]).toBe('one:b')
  })
})

describe('the health of endpoints', () => {
  let data: string
  let other: Gateway

  beforeEach(async () => {
    data = mkdtempSync(join(tmpdir(), 'gateway-byok-'))
    gateway = await testGateway({ config: CONFIG, data })
    other = await testGateway({ config: CONFIG, data })
  })

  afterEach(async () => {
    await Promise.all([gateway.close(), other.close()])
    rmSync(data, { recursive: true, force: true })
  })

  const resting = () =>
    planFor().endpoints.filter(endpoint => gateway.traffic.health.getCooldownEnd(endpoint) > 0)
  const fail = (endpoint: Endpoint | undefined) => {
    for (let i = 0; i < 5 && endpoint; i++)
      gateway.traffic.health.recordFailure(endpoint, new GatewayError('timeout', 'no'))
  }
  const change = async (id: string, change: ByokChange) => {
    await updateByokKey(other, getOperator(other), id, change)
    expect(await gateway.catchUp()).toBe(true)
  }

  test('survives a reload of the keys after a change by another process', async () => {
    const { data: key } = await add('one', 'a')
    await other.catchUp()
    const [first] = planFor().endpoints
    fail(first)
    gateway.traffic.sessions.rememberEndpoint(
      { key: 's', isNamed: true },
      { ...(first ?? buildEndpoint()), prices: CACHED },
      createTextUsage(1, 1),
    )
    await change(key.id, { name: 'renamed' })
    const again = resting()
    expect(again.map(({ id, is_byok }) => [id, is_byok])).toEqual([[first?.id ?? '', true]])
    expect(again[0]).not.toBe(first)
    expect(gateway.traffic.sessions.findStickyId({ key: 's', isNamed: true }, 'acme/small')).toBe(
      first?.id,
    )
  })

  test('begins anew for a key with another credential, and for no other', async () => {
    const { data: key } = await add('one', 'a')
    await add('two', 'b')
    await other.catchUp()
    const [first, second] = planFor().endpoints
    fail(first)
    fail(second)
    expect(resting()).toHaveLength(2)
    await change(key.id, { key: 'anew' })
    expect(resting().map(({ id }) => id)).toEqual([second?.id ?? ''])
  })
})
