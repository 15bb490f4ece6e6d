import { expect, test } from 'bun:test'
import { RetryBudget } from '../../../../src/core/inference/traffic/retry-budget.ts'

/** How many retries may run at once beside this many calls. */
function room(size: number): number {
  const retries = new RetryBudget({ size })
  let taken = 0
  while (retries.tryAcquire()) taken += 1
  return taken
}

test.each([
  [0, 10],
  [1, 10],
  [50, 10],
  [60, 12],
  [1_000, 200],
])('of %d running calls %d may be retried at once', (size, places) => {
  expect(room(size)).toBe(places)
})

test('a released permit may be taken again', () => {
  const retries = new RetryBudget({ size: 0 })
  for (let i = 0; i < 10; i++) retries.tryAcquire()
  expect(retries.tryAcquire()).toBe(false)
  retries.release()
  expect([retries.tryAcquire(), retries.tryAcquire()]).toEqual([true, false])
})
