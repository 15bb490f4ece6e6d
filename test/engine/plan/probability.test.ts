import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import type { Candidates } from '../../../src/engine/plan/candidates.ts'
import { computeProbabilities } from '../../../src/engine/plan/probability.ts'
import { findCandidates, orderCandidates } from '../../../src/engine/plan.ts'
import { findSession, type Session } from '../../../src/engine/traffic.ts'
import type { TextCall } from '../../../src/language/call.ts'
import { createTextUsage } from '../../../src/language/usage.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createByokKey, listUsableByokKeys } from '../../../src/resources/byok.ts'
import type { Endpoint } from '../../../src/resources/models/catalog.ts'
import { buildTextCall } from '../../support/call.ts'
import { TestClock, testGateway } from '../../support/gateway.ts'
import { createSeededRandom } from '../../support/random.ts'

const provider = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const priced = (provider: string, prompt?: number, more: object = {}) => ({
  provider,
  model: 'up',
  ...(prompt === undefined
    ? {}
    : { usd_per_million_tokens: { prompt, completion: prompt, cache_read: prompt / 2 } }),
  ...more,
})

const CONFIG = {
  providers: Object.fromEntries(
    ['one', 'two', 'four', 'free', 'gratis', 'unknown'].map(slug => [slug, provider]),
  ),
  models: [
    { id: 'acme/small', endpoints: [priced('four', 4), priced('one', 1), priced('two', 2)] },
    { id: 'acme/other', endpoints: [priced('one', 3), priced('two', 1)] },
    { id: 'acme/free', endpoints: [priced('one', 0.001), priced('free', 0), priced('gratis', 0)] },
    { id: 'acme/unknown', endpoints: [priced('unknown'), priced('one', 1), priced('four', 4)] },
    {
      id: 'acme/tools',
      endpoints: [
        priced('one', 1, { supported_parameters: [] }),
        priced('two', 2),
        priced('four', 4),
      ],
    },
    {
      id: 'acme/unpriced',
      endpoints: [
        priced('unknown'),
        priced('one', 1, { supported_parameters: [] }),
        priced('two', 2),
      ],
    },
  ],
}

let gateway: Gateway
let clock: TestClock

const opened = async (more: object = {}) => {
  clock = new TestClock()
  gateway = await testGateway({
    config: { ...CONFIG, ...more },
    random: createSeededRandom(7),
    clock,
  })
}

beforeEach(() => opened())

const endpointAt = (provider: string, model = 'acme/small'): Endpoint => {
  const found = gateway.catalog.models
    .get(model)
    ?.endpoints.find(one => one.provider.slug === provider)
  if (!found) throw new Error(`${model} is not at ${provider}`)
  return found
}

const rest = (provider: string, model?: string) => {
  for (let i = 0; i < 5; i++)
    gateway.traffic.health.recordFailure(
      endpointAt(provider, model),
      new GatewayError('provider_unavailable', 'no'),
    )
}

const TIMES = 3_000

const nameOf = ({ model, provider, is_byok }: Endpoint) =>
  `${model} ${provider.slug}${is_byok ? ' own' : ''}`

function candidatesOf(call: TextCall): Candidates {
  const actor = getOperator(gateway)
  const session: Session | null = findSession(actor, 'text', call)
  return findCandidates(gateway, 'text', call, {
    byokKeys: listUsableByokKeys(gateway, actor),
    rules: [],
    session,
  })
}

const chances = (call: TextCall) =>
  Object.fromEntries(
    [...computeProbabilities(gateway, 'text', call, candidatesOf(call).groups)].map(
      ([one, chance]) => [nameOf(one), chance],
    ),
  )

/** How often each comes first among this many plans. */
function firsts(call: TextCall): Record<string, number> {
  const counts: Record<string, number> = {}
  for (let i = 0; i < TIMES; i++) {
    const [first] = orderCandidates(gateway, 'text', call, candidatesOf(call)).endpoints
    const name = first ? nameOf(first) : ''
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

const TOOLS: Partial<TextCall> = { tools: [{ type: 'function', name: 'f' }] }
const of = (model: string, more: Partial<TextCall> = {}) =>
  buildTextCall({ models: [model], ...more })

describe('the probability to be tried first matches the plans,', () => {
  test.each<[name: string, call: TextCall, before?: () => unknown]>([
    ['by price', of('acme/small')],
    ['if some are free', of('acme/free')],
    ['if a price is unknown', of('acme/unknown')],
    ['if some would ignore the tools', of('acme/tools', TOOLS)],
    ['if the most expensive one would ignore them', of('acme/unpriced', TOOLS)],
    ['if one is in a cooldown', of('acme/small'), () => rest('one')],
    [
      'if all are in a cooldown, some until the same moment',
      of('acme/small'),
      () => {
        rest('four')
        clock.pass(10)
        rest('one')
        rest('two')
      },
    ],
    [
      'if the first model is in a cooldown and has a fallback',
      buildTextCall({ models: ['acme/free', 'acme/small'] }),
      restingFree,
    ],
    [
      'if the endpoints of two models are one list',
      buildTextCall({ models: ['acme/small', 'acme/other'], routing: { partition: 'none' } }),
    ],
    ['without fallbacks', of('acme/small', { routing: { allow_fallbacks: false } })],
    [
      'if one is too slow',
      of('acme/small', { routing: { preferred_max_latency: { p50: 0.001 } } }),
      measuredSlow,
    ],
    ['in a session that one serves', of('acme/small', { session_id: 's' }), remembered],
    ['with tools that one calls worse', of('acme/small', TOOLS), () => judgedWorse('one')],
    [
      'with tools in a session served by one that calls them worse',
      of('acme/small', { ...TOOLS, session_id: 's' }),
      () => [remembered(), judgedWorse('four')],
    ],
    [
      'in a session whose endpoint is in a cooldown',
      of('acme/small', { session_id: 's' }),
      () => [remembered(), rest('four')],
    ],
    ['with keys of the caller’s own', of('acme/small'), () => ownKeys(false)],
    ['with keys of the caller’s own that are fallbacks', of('acme/small'), () => ownKeys(true)],
    ['if one calls tools worse than another', of('acme/small', TOOLS), () => misjudged()],
    ['if the call has no tools', of('acme/small'), () => misjudged()],
    [
      'if one that calls tools worse precedes one that would ignore them',
      of('acme/tools', TOOLS),
      () => misjudged('acme/tools'),
    ],
    [
      'in a session whose endpoint calls tools worse',
      of('acme/small', { session_id: 's', ...TOOLS }),
      () => [remembered(), misjudged()],
    ],
    [
      'if a model sorts its endpoints, which are in a cooldown',
      buildTextCall({ models: ['acme/free:floor', 'acme/small'] }),
      restingFree,
    ],
  ])('%s', async (_, call, before) => {
    await before?.()
    const expected = chances(call)
    const counted = firsts(call)
    for (const name of Object.keys(counted))
      expect([name, expected[name]]).toEqual([name, expect.any(Number)])
    for (const [name, chance] of Object.entries(expected)) {
      if (chance === null) continue
      const sigma = Math.sqrt(TIMES * chance * (1 - chance))
      expect([name, Math.abs((counted[name] ?? 0) - TIMES * chance) <= 4 * sigma]).toEqual([
        name,
        true,
      ])
    }
    const sum = Object.values(expected).reduce<number>((all, chance) => all + (chance ?? 0), 0)
    expect(sum).toBeCloseTo(1)
  })
})

function restingFree() {
  for (const provider of ['one', 'free', 'gratis']) rest(provider, 'acme/free')
}

/** The most expensive calls tools badly, and another one well. */
function misjudged(model = 'acme/small') {
  for (let i = 0; i < 40; i++) {
    gateway.traffic.health.recordToolCalls(endpointAt('four', model), false)
    gateway.traffic.health.recordToolCalls(endpointAt('two', model), true)
  }
}

function measuredSlow() {
  const sent = clock.ticks()
  clock.pass(500)
  gateway.traffic.health.recordAnswer(endpointAt('one'), sent, true)
}

function remembered() {
  const session = findSession(getOperator(gateway), 'text', of('acme/small', { session_id: 's' }))
  if (session)
    gateway.traffic.sessions.rememberEndpoint(session, endpointAt('four'), createTextUsage(1, 1))
}

function judgedWorse(provider: string) {
  for (let i = 0; i < 100; i++) gateway.traffic.health.recordToolCalls(endpointAt(provider), false)
  for (let i = 0; i < 100; i++) gateway.traffic.health.recordToolCalls(endpointAt('two'), true)
}

async function ownKeys(is_fallback: boolean) {
  for (const provider of ['two', 'four'])
    await createByokKey(gateway, getOperator(gateway), {
      provider,
      key: `own-${provider}`,
      is_fallback,
    })
}

describe('there is none', () => {
  test.each<[name: string, call: TextCall]>([
    ['if the call gives an order', of('acme/small', { routing: { order: ['two'] } })],
    ['if the call gives a sort', of('acme/small', { routing: { sort: 'price' } })],
    ['if the workspace sorts', of('acme/small', { routing: { defaultSort: 'latency' } })],
    ['if the variant sorts', of('acme/small:nitro')],
    ['if it sorts by how well tools are called', of('acme/small:exacto', TOOLS)],
  ])('%s', (_, call) => {
    expect(chances(call)).toEqual({
      'acme/small four': null,
      'acme/small one': null,
      'acme/small two': null,
    })
  })

  test('if the config keeps the listed order', async () => {
    await opened({ routing: { choice: 'listed' } })
    expect(chances(of('acme/small'))).toEqual({
      'acme/small four': null,
      'acme/small one': null,
      'acme/small two': null,
    })
  })
})
