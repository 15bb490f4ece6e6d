import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { attemptStep } from '../../src/engine/attempt.ts'
import { planRoute } from '../../src/engine/plan.ts'
import type { RoutingPreferences } from '../../src/language/routing.ts'
import { type Send, toIncomingResponse } from '../../src/network/egress.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { buildTextCall } from '../support/call.ts'
import { TestClock, testGateway } from '../support/gateway.ts'
import { beginStep } from '../support/run.ts'
import { completion } from '../support/upstream.ts'

const NAMES = ['first', 'second', 'third']
const CONFIG = {
  routing: { choice: 'listed' },
  providers: Object.fromEntries(
    NAMES.map(name => [
      name,
      { protocol: 'openai-chat', base_url: `http://${name}.example/v1`, api_key: 'mock' },
    ]),
  ),
  models: [{ id: 'acme/small', endpoints: NAMES.map(provider => ({ provider, model: 'm' })) }],
}
const ANSWER = JSON.parse(completion().split('\r\n\r\n')[1] ?? '')

let gateway: Gateway
let clock: TestClock
let asked: string[]

const egress: Send = async ({ url }) => {
  asked.push(new URL(url).hostname.replace('.example', ''))
  return toIncomingResponse(Response.json(ANSWER))
}

beforeEach(async () => {
  asked = []
  clock = new TestClock()
  gateway = await testGateway({ config: CONFIG, clock, egress })
})

const planned = (routing: RoutingPreferences = {}) => {
  const call = buildTextCall({ routing })
  return beginStep(
    gateway,
    getOperator(gateway),
    'text',
    call,
    planRoute(gateway, 'text', call),
    new AbortController().signal,
  )
}

/** Makes the provider's endpoint fail until its cooldown begins. */
function fail(name: string): void {
  const endpoint = gateway.catalog.models
    .get('acme/small')
    ?.endpoints.find(({ provider }) => provider.slug === name)
  for (let i = 0; i < 5 && endpoint; i++)
    gateway.traffic.health.recordFailure(endpoint, new GatewayError('timeout', 'no'))
}

const count = () => NAMES.map(name => asked.filter(one => one === name).length)

describe('calls that were planned before', () => {
  test('one of them began to probe an endpoint go elsewhere', async () => {
    fail('first')
    clock.pass(5_000)
    const all = Array.from({ length: 100 }, () => planned())
    expect(all[99]?.plan.endpoints[0]?.provider.slug).toBe('first')
    await Promise.all(all.map(running => attemptStep(gateway, running)))
    expect(count()).toEqual([1, 99, 0])
  })

  test('an endpoint began its cooldown go elsewhere', async () => {
    const all = Array.from({ length: 3 }, () => planned())
    fail('first')
    fail('second')
    await Promise.all(all.map(running => attemptStep(gateway, running)))
    expect(count()).toEqual([0, 0, 3])
  })

  test('all began a cooldown are sent anyway, each to its first endpoint', async () => {
    const all = [planned(), planned({ only: ['second'] })]
    for (const name of NAMES) fail(name)
    await Promise.all(all.map(running => attemptStep(gateway, running)))
    expect(count()).toEqual([1, 1, 0])
  })
})
