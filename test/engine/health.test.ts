import { beforeEach, describe, expect, test } from 'bun:test'
import { type ErrorType, GatewayError } from '../../src/base/errors.ts'
import { createDefaultConfig } from '../../src/config.ts'
import { Health } from '../../src/engine/health.ts'
import { buildEndpoint } from '../support/call.ts'
import { TestClock } from '../support/gateway.ts'

const SECOND = 1_000
const MINUTE = 60_000

let clock: TestClock
let health: Health
const endpoint = buildEndpoint()

beforeEach(() => {
  clock = new TestClock()
  health = new Health(createDefaultConfig().routing, clock)
  clock.pass(MINUTE)
})

const fail = (times = 1, type: ErrorType = 'provider_unavailable', retryAfter?: number) => {
  for (let i = 0; i < times; i++)
    health.recordFailure(
      endpoint,
      new GatewayError(type, 'no', retryAfter === undefined ? {} : { retryAfter }),
    )
}
const succeed = (times = 1, sent = clock.ticks()) => {
  for (let i = 0; i < times; i++) {
    health.recordAnswer(endpoint, sent, false)
    health.recordEnd(endpoint, sent, 1)
  }
}
/** For how many milliseconds the cooldown still lasts. */
const rest = () => {
  const until = health.getCooldownEnd(endpoint)
  return until === 0 ? 0 : until - clock.ticks()
}

/** Fails until each cooldown begins and waits until it ends. Returns their lengths in seconds. */
function pauses(times: number): number[] {
  return Array.from({ length: times }, () => {
    health.tryAdmit(endpoint)
    fail()
    const pause = rest()
    clock.pass(pause)
    return pause / SECOND
  })
}

describe('an endpoint', () => {
  test('is in a cooldown after five failures in a row of its own', () => {
    for (const type of [
      'provider_unavailable',
      'provider_overloaded',
      'timeout',
      'timeout',
    ] as const)
      fail(1, type)
    expect(rest()).toBe(0)
    fail()
    expect(rest()).toBe(5 * SECOND)
  })

  test('that answers in between is not', () => {
    succeed(20)
    for (let i = 0; i < 4; i++) {
      fail(4)
      succeed(5)
    }
    expect(rest()).toBe(0)
  })

  test('that fails every other time is after five of ten failed within thirty seconds', () => {
    for (let i = 0; i < 4; i++) {
      fail()
      succeed()
    }
    clock.pass(31 * SECOND)
    for (let i = 0; i < 4; i++) {
      succeed()
      fail()
    }
    expect(rest()).toBe(0)
    succeed()
    fail()
    expect(rest()).toBe(5 * SECOND)
  })

  test('is not to blame for errors of the caller, our own bugs or what the gateway does', () => {
    for (const type of [
      'invalid_request',
      'context_length_exceeded',
      'server',
      'unmapped',
      'cancelled',
      'unavailable',
      'content_policy_violation',
    ] as const)
      fail(20, type)
    expect(rest()).toBe(0)
    expect(health.getStats(endpoint).uptime_last_5m).toBeNull()
  })

  test('that asks to wait is left alone that long, or for a second', () => {
    fail(1, 'rate_limit_exceeded', 7)
    expect(rest()).toBe(7 * SECOND)
    succeed()
    expect(rest()).toBe(7 * SECOND)
    clock.pass(7 * SECOND)
    fail(1, 'rate_limit_exceeded')
    expect(rest()).toBe(SECOND)
    expect(health.getStats(endpoint).uptime_last_5m).toBe(100)
  })

  test('that asks to wait while unavailable is left alone, and has failed anyway', () => {
    fail(1, 'provider_overloaded', 7)
    expect(rest()).toBe(7 * SECOND)
    clock.pass(7 * SECOND)
    fail(1, 'provider_unavailable', 0)
    expect([rest(), health.getStats(endpoint).uptime_last_5m]).toEqual([0, 0])
    fail(3, 'timeout')
    expect(rest()).toBe(5 * SECOND)
  })

  test('has a record of its own for each credential', () => {
    fail(5)
    expect(health.getCooldownEnd({ ...endpoint, id: `${endpoint.id} key`, is_byok: true })).toBe(0)
  })

  test('has no cooldown if the config turns it off', () => {
    health = new Health({ choice: 'listed', failures: 0, hedge: false, pause_seconds: 5 }, clock)
    fail(100)
    fail(1, 'rate_limit_exceeded', 7)
    expect([rest(), health.getStats(endpoint).uptime_last_5m]).toEqual([0, 0])
  })
})

test('other settings apply to known endpoints too', () => {
  fail(5)
  health.reconfigure({ choice: 'listed', failures: 0, hedge: false, pause_seconds: 5 })
  expect(rest()).toBe(0)
  health.reconfigure({ choice: 'listed', failures: 2, hedge: false, pause_seconds: 5 })
  expect(rest()).toBe(5 * SECOND)
  clock.pass(5 * SECOND)
  succeed()
  clock.pass(10 * MINUTE)
  health.reconfigure({ choice: 'listed', failures: 2, hedge: false, pause_seconds: 7 })
  fail(2)
  expect(rest()).toBe(7 * SECOND)
})

describe('after the pause', () => {
  beforeEach(() => {
    fail(5)
    clock.pass(5 * SECOND)
  })

  test('one call probes it, and the others stay away until the outcome is known', () => {
    expect(rest()).toBe(0)
    health.tryAdmit(endpoint)
    expect(rest()).toBe(5 * SECOND)
    succeed()
    expect(rest()).toBe(0)
  })

  test('a probe that was given up gives way to the next after the same pause', () => {
    health.tryAdmit(endpoint)
    clock.pass(5 * SECOND)
    expect(rest()).toBe(0)
  })

  test('each further failure doubles the cooldown, up to five minutes', () => {
    expect(pauses(8)).toEqual([10, 20, 40, 80, 160, 300, 300, 300])
  })

  test('an early failure goes on where the pauses were; after five minutes they reset', () => {
    expect(pauses(2)).toEqual([10, 20])
    succeed()
    fail(5)
    expect(rest()).toBe(40 * SECOND)
    clock.pass(40 * SECOND)
    succeed()
    clock.pass(5 * MINUTE)
    fail(5)
    expect(rest()).toBe(5 * SECOND)
  })
})

test('failures during a cooldown put off the next probe but make no pause longer', () => {
  fail(5)
  clock.pass(2 * SECOND)
  fail(3)
  expect(rest()).toBe(5 * SECOND)
})

test('nor do they in a later cooldown, after a successful probe', () => {
  fail(5)
  clock.pass(5 * SECOND)
  expect(health.tryAdmit(endpoint)).toBe(true)
  succeed()
  clock.pass(6 * MINUTE)
  fail(5)
  fail(3)
  expect(rest()).toBe(5 * SECOND)
})

test('only an answer to a request from after its start ends the cooldown', () => {
  const before = clock.ticks()
  clock.pass(1)
  fail(5)
  succeed(1, before)
  expect(rest()).toBeGreaterThan(0)
  succeed()
  expect(rest()).toBe(0)
})

describe('the public statistics of an endpoint', () => {
  test('are null without calls', () => {
    expect(health.getStats(endpoint)).toEqual({
      status: 0,
      uptime_last_5m: null,
      uptime_last_30m: null,
      uptime_last_1d: null,
      latency_last_30m: null,
      throughput_last_30m: null,
    })
  })

  test('are the share of successful calls in five minutes, thirty and a day', () => {
    fail(1)
    succeed(3)
    expect(health.getStats(endpoint)).toMatchObject({
      uptime_last_5m: 75,
      uptime_last_30m: 75,
      uptime_last_1d: 75,
    })
    clock.pass(6 * MINUTE)
    succeed(1)
    expect(health.getStats(endpoint)).toMatchObject({
      uptime_last_5m: 100,
      uptime_last_30m: 80,
      uptime_last_1d: 80,
    })
    clock.pass(31 * MINUTE)
    expect(health.getStats(endpoint)).toMatchObject({
      uptime_last_5m: null,
      uptime_last_30m: null,
      uptime_last_1d: 80,
    })
    clock.pass(25 * 60 * MINUTE)
    expect(health.getStats(endpoint)).toMatchObject({ uptime_last_1d: null })
  })

  test('show operators how long whole answers take where nothing is streamed', () => {
    const answer = (streamed: boolean, milliseconds: number) => {
      const sent = clock.ticks()
      clock.pass(milliseconds)
      health.recordAnswer(endpoint, sent, streamed)
    }
    answer(false, 700)
    expect(health.listStates(null)).toMatchObject([{ latency_p50: 700, latency_p95: null }])
    for (let i = 0; i < 19; i++) answer(false, 700)
    expect(health.listStates(null)).toMatchObject([{ latency_p50: 700, latency_p95: 700 }])
    answer(true, 200)
    expect(health.listStates(null)).toMatchObject([{ latency_p50: 200, latency_p95: null }])
    expect(health.getPercentiles(endpoint, 'latency')?.p99).toBe(200)
  })

  test('show a cooldown', () => {
    fail(5)
    expect(health.getStats(endpoint).status).toBe(-1)
  })

  test('have the latency of streamed answers and the throughput of all, for thirty minutes', () => {
    for (const [streamed, latency] of [
      [true, 200],
      [true, 400],
      [false, 1_000],
    ] as const) {
      const sent = clock.ticks()
      clock.pass(latency)
      health.recordAnswer(endpoint, sent, streamed)
      health.recordEnd(endpoint, sent, 100)
    }
    expect(health.getStats(endpoint)).toMatchObject({
      latency_last_30m: { p50: 200, p75: 400, p90: 400, p99: 400 },
      throughput_last_30m: { p50: 250, p75: 100, p90: 100, p99: 100 },
    })
    clock.pass(6 * MINUTE)
    expect([
      health.getPercentiles(endpoint, 'latency'),
      health.getStats(endpoint).latency_last_30m?.p50,
    ]).toEqual([null, 200])
    clock.pass(25 * MINUTE)
    expect(health.getStats(endpoint)).toMatchObject({
      latency_last_30m: null,
      throughput_last_30m: null,
    })
  })

  test('have no throughput of an answer that its client left or that was empty', () => {
    const sent = clock.ticks()
    clock.pass(1_000)
    health.recordEnd(endpoint, sent, null)
    health.recordEnd(endpoint, sent, 0)
    expect(health.getStats(endpoint)).toMatchObject({
      uptime_last_5m: 100,
      throughput_last_30m: null,
    })
  })

  test('use the last 128 measurements, however many there were', () => {
    for (let i = 1; i <= 1_000; i++) {
      const sent = clock.ticks()
      clock.pass(1)
      health.recordAnswer(endpoint, sent - i, true)
    }
    expect(health.getPercentiles(endpoint, 'latency')).toEqual({
      p50: 937,
      p75: 969,
      p90: 989,
      p99: 1_000,
    })
  })
})

describe('how long a call waits for an answer before a hedge starts', () => {
  const latencies = (...all: number[]) => {
    for (const latency of all) health.recordAnswer(endpoint, clock.ticks() - latency, true)
  }

  test('is what 19 of 20 took at most, and unknown before there are 20', () => {
    latencies(...Array.from({ length: 19 }, (_, i) => (i + 1) * 10))
    expect(health.getTailLatency(endpoint)).toBeNull()
    latencies(200)
    expect(health.getTailLatency(endpoint)).toBeNull()
    clock.pass(SECOND)
    expect(health.getTailLatency(endpoint)).toBe(190)
    clock.pass(5 * MINUTE)
    expect(health.getTailLatency(endpoint)).toBeNull()
  })

  test('grows with answers that were given up, if they took longer than most', () => {
    latencies(...Array.from({ length: 20 }, () => 100))
    const sent = clock.ticks()
    clock.pass(80)
    health.recordOutrun(endpoint, sent)
    clock.pass(420)
    health.recordOutrun(endpoint, sent)
    health.recordOutrun(endpoint, sent)
    clock.pass(SECOND)
    expect([
      health.getTailLatency(endpoint),
      health.getPercentiles(endpoint, 'latency')?.p50,
    ]).toEqual([500, 100])
    expect(health.getStats(endpoint)).toMatchObject({ status: 0, uptime_last_5m: null })
  })

  test('is at least as long as answers were given if all were given up', () => {
    const sent = clock.ticks()
    clock.pass(300)
    health.recordOutrun(endpoint, sent)
    expect(health.getPercentiles(endpoint, 'latency')?.p50).toBe(300)
  })
})

test('at most ten thousand endpoints are remembered, the last used ones', () => {
  const many = new Health(createDefaultConfig().routing, clock)
  const one = (i: number) => buildEndpoint({ id: `one ${i}` })
  for (let i = 0; i < 10_000; i++) {
    clock.pass(1)
    for (let failure = 0; failure < 5; failure++)
      many.recordFailure(one(i), new GatewayError('timeout', 'no'))
  }
  many.recordFailure(one(0), new GatewayError('timeout', 'no'))
  many.recordFailure(one(10_000), new GatewayError('timeout', 'no'))
  expect(many.size).toBe(9_001)
  const known = (i: number) => many.getStats(one(i)).uptime_last_1d !== null
  expect([0, 1, 1_000, 1_001, 9_999, 10_000].map(known)).toEqual([
    true,
    false,
    false,
    true,
    true,
    true,
  ])
})
