import { describe, expect, test } from 'bun:test'
import { type Permit, RetryBudget } from '../../../src/engine/traffic.ts'
import { TestClock } from '../../support/gateway.ts'

function openBudget(size: number) {
  const health = { answers: 0 }
  const clock = new TestClock()
  return { health, clock, budget: new RetryBudget({ size }, health, clock) }
}

/** Takes all permits for attempts that fail, and tells how many there were. */
function fail(budget: RetryBudget, permit: Permit): number {
  let taken = 0
  while (budget.tryAcquire(permit)) taken += 1
  for (let i = 0; i < taken; i++) budget.release(permit, true)
  return taken
}

const SHARES = [
  [0, 10],
  [1, 10],
  [50, 10],
  [60, 12],
  [1_000, 200],
] as const

test.each(SHARES)('of %d running calls %d may be hedged at once', (size, places) => {
  const { budget } = openBudget(size)
  expect([fail(budget, 'hedge'), fail(budget, 'hedge')]).toEqual([places, places])
})

describe('of retries', () => {
  test.each(SHARES)('beside %d running calls %d may be in vain', (size, places) => {
    const { budget } = openBudget(size)
    expect([fail(budget, 'retry'), fail(budget, 'retry')]).toEqual([places, 0])
  })

  test('those that are answered take nothing', () => {
    const { budget } = openBudget(0)
    for (let i = 0; i < 100; i++) {
      expect(budget.tryAcquire('retry')).toBe(true)
      budget.release('retry', false)
    }
    expect(fail(budget, 'retry')).toBe(10)
  })

  test('each answer pays for one, and for a few in advance', () => {
    const { budget, health } = openBudget(0)
    fail(budget, 'retry')
    health.answers += 3
    expect(fail(budget, 'retry')).toBe(3)
    health.answers += 1_000
    expect(fail(budget, 'retry')).toBe(40)
  })

  test('half of those in vain are forgotten in ten seconds', () => {
    const { budget, clock } = openBudget(0)
    fail(budget, 'retry')
    clock.pass(10_000)
    expect(fail(budget, 'retry')).toBe(5)
    clock.pass(3_600_000)
    expect(fail(budget, 'retry')).toBe(10)
  })
})
