import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Gateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { attemptStep } from '../../../src/engine/attempt.ts'
import { planRoute } from '../../../src/engine/plan.ts'
import type { TextCall } from '../../../src/language/call.ts'
import { type Send, toIncomingResponse } from '../../../src/network/egress.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { buildTextCall } from '../../support/call.ts'
import { TestClock, testGateway } from '../../support/gateway.ts'
import { createSeededRandom, LONG, takeTurns } from '../../support/random.ts'
import { beginStep } from '../../support/run.ts'
import { completion } from '../../support/upstream.ts'

const MODEL = 'acme/small'
const ANSWER = JSON.parse(completion().split('\r\n\r\n')[1] ?? '')

/** Endpoints that each answer a share of their requests with a status. */
interface Situation {
  endpoints: number
  share: number
  status: number
  /** Calls that begin at once. */
  burst: number
  /** Milliseconds between two bursts. */
  pause: number
  bursts: number
  seed: number
}

/** What became of the calls: the endpoints that each asked, in order, and whether one answered. */
interface Fate {
  asked: string[]
  isAnswered: boolean
}

async function play(situation: Situation): Promise<Fate[]> {
  const random = createSeededRandom(situation.seed)
  const fates: Fate[] = []
  const asked = new Map<string, string[]>()
  const egress: Send = async ({ url, body }) => {
    const { user } = JSON.parse(String(body)) as { user: string }
    asked.get(user)?.push(new URL(url).hostname)
    return toIncomingResponse(
      random() < situation.share
        ? Response.json({ error: { message: 'No' } }, { status: situation.status })
        : Response.json(ANSWER),
    )
  }
  const clock = new TestClock()
  const gateway = await testGateway({ config: buildConfig(situation.endpoints), clock, egress })
  for (let burst = 0; burst < situation.bursts; burst++) {
    const calls = Array.from({ length: situation.burst }, async (_, i) => {
      const user = `${burst}-${i}`
      asked.set(user, [])
      const isAnswered = await call(gateway, user)
      fates.push({ asked: asked.get(user) ?? [], isAnswered })
    })
    await Promise.all(calls)
    clock.pass(situation.pause)
  }
  return fates
}

const buildConfig = (endpoints: number) => {
  const names = Array.from({ length: endpoints }, (_, i) => `p${i}`)
  return {
    providers: Object.fromEntries(
      names.map(name => [
        name,
        { protocol: 'openai-chat', base_url: `http://${name}/v1`, api_key: 'mock' },
      ]),
    ),
    models: [{ id: MODEL, endpoints: names.map(provider => ({ provider, model: 'm' })) }],
  }
}

async function call(gateway: Gateway, user: string, fields: Partial<TextCall> = {}) {
  return openCall(gateway, { models: [MODEL], user, ...fields }).then(
    () => true,
    () => false,
  )
}

async function openCall(gateway: Gateway, fields: Partial<TextCall>): Promise<void> {
  const asked = buildTextCall(fields)
  const { signal } = new AbortController()
  const plan = planRoute(gateway, 'text', asked)
  const step = beginStep(gateway, getOperator(gateway), 'text', asked, plan, signal)
  try {
    await attemptStep(gateway, step)
  } finally {
    step.run.unlist?.()
  }
}

const countAttempts = (fates: Fate[]) => fates.reduce((sum, { asked }) => sum + asked.length, 0)
const findFailed = (fates: Fate[]) => fates.filter(({ isAnswered }) => !isAnswered)

/** How many calls a situation has. */
const CALLS = 4_000

const STATUSES = [429, 500, 502, 503, 529]
/** Of those the ones that many calls are played with: failures of a provider are all alike. */
const PLAYED = LONG ? STATUSES : [429, 503]

test('a call that failed has asked each endpoint once, wherever most calls are answered', () =>
  fc.assert(
    fc.asyncProperty(
      fc.record({
        endpoints: fc.integer({ min: 1, max: 5 }),
        share: fc.constantFrom(0.05, 0.1, 0.2, 0.3, 0.5),
        status: fc.constantFrom(...STATUSES),
        burst: fc.constantFrom(1, 2, 10, 40),
        pause: fc.constantFrom(1, 50, 500, 5_000),
        bursts: fc.constantFrom(10, 50),
        seed: fc.integer({ min: 1, max: 1_000_000 }),
      }),
      async situation => {
        const fates = await play(situation)
        for (const { asked } of fates) expect(new Set(asked).size).toBe(asked.length)
        for (const { asked } of findFailed(fates)) expect(asked).toHaveLength(situation.endpoints)
      },
    ),
    { numRuns: LONG ? 20 : 8 },
  ))

describe('calls fail no more often than all endpoints do at once', () => {
  test.each(
    takeTurns(
      PLAYED.flatMap(status => [
        { endpoints: 2, share: 0.1, status, most: 0.015 },
        { endpoints: 3, share: 0.2, status, most: 0.012 },
      ]),
      2,
      2,
    ),
  )('$endpoints of which each answers $share with $status', async ({ most, ...situation }) => {
    for (const [burst, pause] of [
      [1, 20],
      [20, 200],
    ] as const) {
      const bursts = CALLS / burst
      const fates = await play({ ...situation, burst, pause, bursts, seed: 7 })
      expect(findFailed(fates).length / fates.length).toBeLessThanOrEqual(most)
    }
  })
})

describe('an outage of all endpoints multiplies no traffic', () => {
  test.each(
    takeTurns(
      PLAYED.flatMap(status => [
        { status, endpoints: 2, burst: 1, pause: 20 },
        { status, endpoints: 3, burst: 1, pause: 5 },
        { status, endpoints: 3, burst: 20, pause: 200 },
      ]),
      3,
      2,
    ),
  )('$endpoints that answer $status, $burst at once', async situation => {
    const bursts = CALLS / situation.burst
    const fates = await play({ ...situation, share: 1, bursts, seed: 7 })
    expect(countAttempts(fates) / fates.length).toBeLessThanOrEqual(1.05)
  })
})

describe('which comes last', () => {
  const NO = (status: number) => Response.json({ error: { message: 'No' } }, { status })

  /** Asks a model of two endpoints, and one of another, after a call that two of them failed. */
  async function askAfter(status: number): Promise<string[]> {
    const asked: string[] = []
    const failing = new Map<string, number>()
    const egress: Send = async ({ url }) => {
      const host = new URL(url).hostname
      asked.push(host)
      const failure = failing.get(host)
      return toIncomingResponse(failure ? NO(failure) : Response.json(ANSWER))
    }
    const config = buildConfig(3)
    const [first, second, third] = config.models[0]?.endpoints ?? []
    const models = [
      { id: MODEL, endpoints: [first, second] },
      { id: 'acme/other', endpoints: [third] },
    ]
    const clock = new TestClock()
    const routing = { choice: 'listed', failures: 1 }
    const gateway = await testGateway({ config: { ...config, models, routing }, clock, egress })
    failing.set('p1', status)
    await call(gateway, 'before', { models: [MODEL], routing: { order: ['p1'] } })
    failing.set('p0', 503)
    failing.delete('p1')
    asked.length = 0
    await call(gateway, 'after', { models: [MODEL, 'acme/other'] })
    return asked
  }

  test('an endpoint that only asked to wait is asked before the next model', async () => {
    expect(await askAfter(429)).toEqual(['p0', 'p1'])
  })

  test('one that fails is asked after it', async () => {
    expect(await askAfter(500)).toEqual(['p0', 'p2'])
  })
})

test('when all are limited, the answer tells the smallest wait, also of one not asked', async () => {
  let wait = 70
  const egress: Send = async () =>
    toIncomingResponse(new Response('{}', { status: 429, headers: { 'retry-after': `${wait}` } }))
  const gateway = await testGateway({ config: buildConfig(2), clock: new TestClock(), egress })
  const endpoints = gateway.catalog.models.get(MODEL)?.endpoints ?? []
  const limited = new GatewayError('rate_limit_exceeded', 'No', { retryAfter: 20 })
  for (const endpoint of endpoints) gateway.traffic.health.recordFailure(endpoint, limited)
  while (gateway.traffic.retryBudget.tryAcquire('retry'))
    gateway.traffic.retryBudget.release('retry', true)
  wait = 90
  await expect(openCall(gateway, { models: [MODEL] })).rejects.toMatchObject({
    type: 'rate_limit_exceeded',
    retryAfter: 20,
    metadata: { availability: { code: 'capacity_exhausted', retry_after: 20 } },
  })
})
