import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { planRoute } from '../../../src/engine/plan.ts'
import { findSession } from '../../../src/engine/traffic.ts'
import type { TextCall } from '../../../src/language/call.ts'
import type { Message } from '../../../src/language/message.ts'
import type { RoutingPreferences } from '../../../src/language/routing.ts'
import { createTextUsage, type Usage } from '../../../src/language/usage.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { buildEmbeddingCall, buildEndpoint, buildTextCall } from '../../support/call.ts'
import { TestClock, testGateway } from '../../support/gateway.ts'
import { createSeededRandom } from '../../support/random.ts'

const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const usd_per_million_tokens = { prompt: 1, completion: 1, cache_read: 0.1 }
const endpoint = (provider: string, more: object = {}) => ({
  provider,
  model: 'up',
  usd_per_million_tokens,
  ...more,
})
const PROVIDERS = ['one', 'two', 'three', 'uncached']
const CONFIG = {
  providers: Object.fromEntries(PROVIDERS.map(slug => [slug, provider])),
  models: [
    { id: 'acme/small', endpoints: [endpoint('one'), endpoint('two'), endpoint('three')] },
    { id: 'acme/other', endpoints: [endpoint('one'), endpoint('two')] },
    {
      id: 'acme/plain',
      endpoints: [
        endpoint('one'),
        endpoint('uncached', {
          usd_per_million_tokens: { prompt: 1, completion: 1, cache_read: 1 },
        }),
      ],
    },
  ],
}

let gateway: Gateway
let clock: TestClock

beforeEach(async () => {
  clock = new TestClock()
  gateway = await testGateway({ config: CONFIG, clock, random: createSeededRandom(7) })
})

const HIT: Usage = {
  ...createTextUsage(0, 1),
  input: { ...createTextUsage(0, 1).input, cache_read: 100 },
}
const MISS = createTextUsage(100, 1)
const named: Partial<TextCall> = { session_id: 's' }

const sessionFor = (more: Partial<TextCall>, workspace_id = 'w') =>
  findSession({ ...getOperator(gateway), workspace_id }, 'text', buildTextCall(more))
const providersFor = (more: Partial<TextCall>, workspace_id?: string) =>
  planRoute(gateway, 'text', buildTextCall(more), {
    session: sessionFor(more, workspace_id),
  }).endpoints.map(one => one.provider.slug)

/** The providers that twenty calls try first. */
const firsts = (more: Partial<TextCall>, workspace_id?: string) => [
  ...new Set(Array.from({ length: 20 }, () => providersFor(more, workspace_id)[0])),
]

/** The call was answered by this provider. */
function answered(
  more: Partial<TextCall>,
  provider: string,
  usage = MISS,
  model = 'acme/small',
): void {
  const endpoint = gateway.catalog.models
    .get(model)
    ?.endpoints.find(one => one.provider.slug === provider)
  const session = sessionFor(more)
  if (endpoint && session) gateway.traffic.sessions.rememberEndpoint(session, endpoint, usage)
}

const turn = (role: Message['role'], text: string): Message => ({
  role,
  blocks: [{ type: 'text', text }],
})

describe('K.3 a call of a session', () => {
  test('stays where the session was answered, at any price', () => {
    expect(firsts(named).length).toBeGreaterThan(1)
    answered(named, 'three')
    expect(firsts(named)).toEqual(['three'])
    expect(providersFor(named)).toHaveLength(3)
  })

  test('moves with it, and is forgotten after ten minutes of silence', () => {
    answered(named, 'three')
    clock.pass(9 * 60_000)
    answered(named, 'two')
    clock.pass(9 * 60_000)
    expect(firsts(named)).toEqual(['two'])
    clock.pass(60_001)
    expect(firsts(named).length).toBeGreaterThan(1)
  })

  test('belongs to one workspace and one model', () => {
    answered(named, 'three')
    expect(firsts(named, 'another').length).toBeGreaterThan(1)
    expect(firsts({ ...named, models: ['acme/other'] }).length).toBeGreaterThan(1)
  })

  test('does not stay if that saves nothing', () => {
    answered({ ...named, models: ['acme/plain'] }, 'uncached', HIT, 'acme/plain')
    expect(firsts({ ...named, models: ['acme/plain'] }).length).toBeGreaterThan(1)
  })

  test('goes elsewhere during a cooldown, and comes back after', () => {
    answered(named, 'three')
    const [, , three] = gateway.catalog.models.get('acme/small')?.endpoints ?? []
    for (let i = 0; i < 5; i++)
      gateway.traffic.health.recordFailure(
        three ?? buildEndpoint(),
        new GatewayError('timeout', 'no'),
      )
    expect(firsts(named)).not.toContain('three')
    expect(providersFor(named).at(-1)).toBe('three')
    clock.pass(5_000)
    expect(firsts(named)).toEqual(['three'])
  })

  test.each<[name: string, RoutingPreferences]>([
    ['ignore', { ignore: ['three'] }],
    ['only', { only: ['one', 'two'] }],
  ])('does not stay if provider.%s forbids it', (_, routing) => {
    answered(named, 'three')
    expect(providersFor({ ...named, routing }).sort()).toEqual(['one', 'two'])
  })

  test('follows its order or its sort instead', () => {
    answered(named, 'three')
    expect(firsts({ ...named, routing: { order: ['two'] } })).toEqual(['two'])
    expect(firsts({ ...named, routing: { sort: 'price' } })).toEqual(['one'])
    expect(firsts({ ...named, routing: { defaultSort: 'price' } })).toEqual(['one'])
    expect(firsts({ ...named, models: ['acme/small:floor'] })).toEqual(['one'])
  })
})

describe('K.3 a call without a session', () => {
  const opening = [turn('system', 'Be brief.'), turn('user', 'Hi')]

  test('is recognised by how its conversation begins, once a cache was read', () => {
    answered({ messages: opening }, 'three')
    expect(firsts({ messages: opening }).length).toBeGreaterThan(1)
    answered({ messages: opening }, 'three', HIT)
    expect(
      firsts({ messages: [...opening, turn('assistant', 'Hello'), turn('user', 'Bye')] }),
    ).toEqual(['three'])
    expect(
      firsts({ messages: [turn('system', 'Be long.'), turn('user', 'Hi')] }).length,
    ).toBeGreaterThan(1)
    expect(
      firsts({ messages: [turn('system', 'Be brief.'), turn('user', 'Ho')] }).length,
    ).toBeGreaterThan(1)
  })

  test('is recognised by its cache key before that', () => {
    answered({ messages: opening, params: { prompt_cache_key: 'k' } }, 'three', HIT)
    expect(
      firsts({ messages: [turn('user', 'Another')], params: { prompt_cache_key: 'k' } }),
    ).toEqual(['three'])
    expect(firsts({ messages: opening }).length).toBeGreaterThan(1)
  })

  test('for embeddings has none', () => {
    expect(findSession(getOperator(gateway), 'embedding', buildEmbeddingCall())).toBeNull()
    expect(
      findSession(getOperator(gateway), 'embedding', buildEmbeddingCall({ session_id: 's' })),
    ).not.toBeNull()
  })
})

test('at most ten thousand are remembered, the last active ones', () => {
  for (let i = 0; i < 10_100; i++) answered({ session_id: `s${i}` }, 'three')
  expect(gateway.traffic.sessions.size).toBe(10_000)
  expect(firsts({ session_id: 's10099' })).toEqual(['three'])
  expect(firsts({ session_id: 's99' }).length).toBeGreaterThan(1)
})
