import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import type { EventMap } from '../../../src/base/events.ts'
import { attemptStep } from '../../../src/engine/attempt.ts'
import { planRoute } from '../../../src/engine/plan.ts'
import type { TextCall } from '../../../src/language/call.ts'
import { type Send, toIncomingResponse } from '../../../src/network/egress.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { CredentialPool } from '../../../src/resources/providers/pool.ts'
import { buildTextCall } from '../../support/call.ts'
import { TestClock, testGateway } from '../../support/gateway.ts'
import { createSeededRandom, SEED } from '../../support/random.ts'
import { beginStep } from '../../support/run.ts'
import { completion } from '../../support/upstream.ts'

const ANSWER = JSON.parse(completion().split('\r\n\r\n')[1] ?? '')
const PER_MINUTE = 100

/** A provider that counts the requests of each key in minutes of the clock. */
let answers: Record<string, () => Response>
let asked: string[]
let clock: TestClock
let gateway: Gateway
let troubles: EventMap['operator.needed'][]

const egress: Send = async ({ url, headers }) => {
  const key = headers.authorization?.replace('Bearer ', '') ?? ''
  asked.push(key)
  const { hostname } = new URL(url)
  return toIncomingResponse((answers[hostname] ?? answers[key])?.() ?? Response.json(ANSWER))
}

const refuse = (status: number, headers: Record<string, string> = {}) =>
  Response.json({ error: { message: 'no' } }, { status, headers })

const count = () => ['a', 'b', 'c'].map(key => asked.filter(one => one === key).length)

function limitEach(says: (left: number) => Record<string, string>): () => Response {
  const counts = new Map<number, number>()
  return () => {
    const minute = Math.floor(clock.ticks() / 60_000)
    const taken = (counts.get(minute) ?? 0) + 1
    counts.set(minute, taken)
    const wait = Math.ceil((60_000 - (clock.ticks() % 60_000)) / 1000)
    return taken > PER_MINUTE
      ? refuse(429, { 'retry-after': String(wait) })
      : Response.json(ANSWER, { headers: says(PER_MINUTE - taken) })
  }
}

const open = async (credentials: object[], more: object = {}) => {
  gateway = await testGateway({
    config: {
      providers: {
        acme: {
          name: 'Acme',
          protocol: 'openai-chat',
          base_url: 'http://acme.example',
          credentials,
        },
      },
      models: [{ id: 'acme/small', endpoints: [{ provider: 'acme', model: 'm' }] }],
      ...more,
    },
    clock,
    egress,
    random: createSeededRandom(SEED),
  })
  gateway.events.on('operator.needed', told => void troubles.push(told))
}

const THREE = [
  { name: 'first', api_key: 'a' },
  { name: 'second', api_key: 'b' },
  { name: 'third', api_key: 'c' },
]

const call = (more: Partial<TextCall> = {}) => {
  const built = { ...buildTextCall({}), ...more }
  const plan = planRoute(gateway, 'text', built)
  const { signal } = new AbortController()
  return attemptStep(gateway, beginStep(gateway, getOperator(gateway), 'text', built, plan, signal))
}

const callMany = (times: number) => Promise.all(Array.from({ length: times }, () => call()))

const fail = () =>
  call().then(
    () => expect.unreachable('It was answered'),
    thrown => GatewayError.from(thrown),
  )

beforeEach(() => {
  answers = {}
  asked = []
  troubles = []
  clock = new TestClock()
})

describe('several credentials of a provider', () => {
  const HEADERS: [string, (left: number) => Record<string, string>][] = [
    ['says nothing of its limits', () => ({})],
    [
      'says what is left',
      left => ({
        'x-ratelimit-limit-requests': String(PER_MINUTE),
        'x-ratelimit-remaining-requests': String(left),
        'x-ratelimit-reset-requests': '1m0s',
      }),
    ],
    ['lies about it', () => ({ 'x-ratelimit-remaining-requests': '0' })],
    ['says what is no number', () => ({ 'x-ratelimit-remaining-requests': '-5' })],
    ['says a word', () => ({ 'x-ratelimit-remaining-tokens': 'abc' })],
  ]

  test.each(HEADERS)(
    'carry the sum of their limits, 64 calls at once, where it %s',
    async (_, says) => {
      answers = { a: limitEach(says), b: limitEach(says), c: limitEach(says) }
      await open(THREE)
      for (let minute = 0; minute < 2; minute++) {
        for (const times of [64, 64, 64, 64, 44]) await callMany(times)
        const error = await fail()
        expect(error).toMatchObject({ status: 429, type: 'rate_limit_exceeded' })
        expect(error.retryAfter).toBeGreaterThan(0)
        clock.pass(60_000)
      }
    },
  )

  test.each([401, 402, 403])('go on without one that is refused with %d', async status => {
    answers = { a: () => refuse(status) }
    await open(THREE)
    for (let i = 0; i < 5; i++) await callMany(20)
    const [refused = 0, second = 0, third = 0] = count()
    expect(refused).toBeLessThanOrEqual(20)
    expect([second + third, second > 0, third > 0]).toEqual([100, true, true])
    expect(new Set(troubles.map(({ credential }) => credential))).toEqual(new Set(['first']))
    expect(gateway.traffic.health.listCooldowns()).toEqual([])
    // One call a minute finds out whether it works again.
    asked = []
    clock.pass(60_001)
    await callMany(64)
    expect(count()[0]).toBeLessThanOrEqual(1)
    answers = {}
    clock.pass(60_001)
    for (let i = 0; i < 8; i++) await callMany(20)
    expect(count()[0]).toBeGreaterThan(20)
  })

  test('are drawn by weight, and one of weight 0 only where the others rest', async () => {
    await open([
      { api_key: 'a', weight: 3 },
      { api_key: 'b', weight: 1 },
      { api_key: 'c', weight: 0 },
    ])
    await callMany(1000)
    const [first = 0, , last] = count()
    expect(first).toBeGreaterThan(650)
    expect(first).toBeLessThan(850)
    expect(last).toBe(0)
    answers = { a: () => refuse(429), b: () => refuse(401) }
    await callMany(1)
    expect(count()[2]).toBe(1)
  })

  test('are asked less the less is left of their limits', async () => {
    const say = (left: number) => () =>
      Response.json(ANSWER, {
        headers: {
          'anthropic-ratelimit-requests-limit': '1000',
          'anthropic-ratelimit-requests-remaining': String(left),
          'anthropic-ratelimit-requests-reset': new Date(Date.now() + 3_600_000).toISOString(),
        },
      })
    answers = { a: say(100), b: say(1000), c: say(0) }
    await open(THREE)
    for (let i = 0; i < 20; i++) await call()
    asked = []
    await callMany(400)
    const [first = 0, second = 0, third] = count()
    expect(second).toBeGreaterThan(first * 4)
    expect(third).toBe(0)
  })

  test('rest for the model alone that is limited', async () => {
    await open(THREE.slice(0, 1).concat(THREE.slice(1, 2)), {
      models: ['small', 'large'].map(name => ({
        id: `acme/${name}`,
        endpoints: [{ provider: 'acme', model: name }],
      })),
    })
    const pool = gateway.catalog.providers.get('acme')?.pool
    answers = { a: () => refuse(429, { 'retry-after': '30' }) }
    for (let i = 0; i < 20; i++) await call({ models: ['acme/small'] })
    expect(pool?.listRests(clock.ticks())).toEqual([
      { name: 'first', model: 'small', reason: 'rate_limit_exceeded', left: 30_000 },
    ])
  })

  test('are remembered for a bounded number of models, and for all of them always', () => {
    const one = { name: 'first', weight: 1 }
    const pool = new CredentialPool([one])
    const rest = { rest: 60_000, reason: 'rate_limit_exceeded' as const }
    pool.recordFailure(one, '', { ...rest, isWhole: true }, 0)
    for (let i = 0; i < 20_000; i++)
      pool.recordFailure(one, `unknown-${i}`, { ...rest, isWhole: false }, 0)
    const models = pool.listRests(0).map(({ model }) => model)
    expect(models.length).toBeLessThanOrEqual(10_000)
    expect([models.includes(null), models.includes('unknown-19999')]).toEqual([true, true])
  })

  test('have limits that end at a moment of the gateway’s clock', () => {
    const [used, other] = [
      { name: 'first', weight: 1_000 },
      { name: 'second', weight: 1 },
    ]
    const pool = new CredentialPool([used, other])
    const reset = new Date(clock.now().getTime() + 60_000).toISOString()
    const headers: Record<string, string> = {
      'anthropic-ratelimit-requests-remaining': '0',
      'anthropic-ratelimit-requests-reset': reset,
    }
    pool.readLimits(used, 'm', { header: name => headers[name] ?? null }, clock)
    const pick = () =>
      pool.pick({ model: 'm', session: null, tried: null, now: clock.ticks(), random: () => 0.5 })
    clock.pass(59_999)
    expect(pick()).toBe(other)
    clock.pass(1)
    expect(pick()).toBe(used)
  })

  test('keep a conversation at one of them', async () => {
    await open(THREE)
    for (const session_id of ['one', 'two', 'three', 'four']) {
      asked = []
      for (let i = 0; i < 10; i++) await call({ session_id })
      expect(count().toSorted((a, b) => a - b)).toEqual([0, 0, 10])
    }
  })

  test('may have addresses of their own, which fail alone', async () => {
    answers = { 'down.example': () => refuse(503) }
    await open([
      { name: 'here', api_key: 'a' },
      { name: 'there', api_key: 'b', base_url: 'http://down.example' },
    ])
    for (let i = 0; i < 5; i++) await callMany(20)
    expect(count()[0]).toBe(100)
    expect(count()[1]).toBeLessThanOrEqual(20)
    expect(gateway.traffic.health.listCooldowns()).toEqual([])
  })

  test('that are all refused fail with the name of the provider', async () => {
    answers = Object.fromEntries(['a', 'b', 'c'].map(key => [key, () => refuse(401)]))
    await open(THREE)
    const error = await fail()
    expect([error.status, error.message]).toEqual([
      502,
      'None of the 3 credentials of Acme works now',
    ])
    expect(count()).toEqual([1, 1, 1])
    // While all rest, each call asks one.
    expect((await fail()).message).toBe('None of the 3 credentials of Acme works now')
    expect(count().reduce((sum, one) => sum + one)).toBe(4)
    expect(JSON.stringify(error.metadata)).not.toContain('first')
  })
})
