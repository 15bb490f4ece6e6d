import { expect, test } from 'bun:test'
import { shareRuns } from '../../src/base/share-runs.ts'

/** Creates a function whose runs end on demand, with the number of concurrent runs. */
function bench() {
  const runs: PromiseWithResolvers<boolean>[] = []
  const state = { now: 0, most: 0 }
  const shared = shareRuns(async () => {
    const run = Promise.withResolvers<boolean>()
    runs.push(run)
    state.now += 1
    state.most = Math.max(state.most, state.now)
    return run.promise.finally(() => {
      state.now -= 1
    })
  })
  return { runs, state, shared }
}

const settle = () => Bun.sleep(0)

test('runs once for a single caller, and returns the result', async () => {
  const { runs, shared } = bench()
  for (const found of [true, false]) {
    const asked = shared()
    await settle()
    runs.at(-1)?.resolve(found)
    expect(await asked).toBe(found)
  }
  expect(runs).toHaveLength(2)
})

test('all callers in one step share one run and finish together', async () => {
  const { runs, shared } = bench()
  const done: number[] = []
  const asked = [0, 1, 2].map(async i => {
    await shared()
    done.push(i)
  })
  await settle()
  expect(runs).toHaveLength(1)
  runs[0]?.resolve(true)
  await Promise.all(asked)
  expect(done).toEqual([0, 1, 2])
})

test('does not repeat the result of an earlier run', async () => {
  const { runs, shared } = bench()
  for (const found of [true, false, false]) {
    const asked = shared()
    await settle()
    runs.at(-1)?.resolve(found)
    expect(await asked).toBe(found)
  }
})

test('all callers during a run share the next one, which begins after it', async () => {
  const { runs, state, shared } = bench()
  const first = shared()
  await settle()
  const others = [shared(), shared(), shared()]
  await settle()
  expect(runs).toHaveLength(1)
  runs[0]?.resolve(false)
  await settle()
  expect(runs).toHaveLength(2)
  runs[1]?.resolve(true)
  expect([await first, ...(await Promise.all(others))]).toEqual([false, true, true, true])
  expect([runs.length, state.most]).toEqual([2, 1])
})

test('a caller that waited also gets the result of the run before', async () => {
  const { runs, shared } = bench()
  const first = shared()
  await settle()
  const second = shared()
  runs[0]?.resolve(true)
  await settle()
  runs[1]?.resolve(false)
  expect([await first, await second]).toEqual([true, true])
})

test('a caller right after a run does not start one next to the following run', async () => {
  const { runs, state, shared } = bench()
  const again = shared().then(() => shared())
  await settle()
  const second = shared()
  runs[0]?.resolve(false)
  await settle()
  expect(runs).toHaveLength(2)
  runs[1]?.resolve(false)
  await settle()
  runs[2]?.resolve(true)
  expect(await second).toBe(false)
  expect(state.most).toBe(1)
  expect(await again).toBeBoolean()
})

test('a failed run fails for the callers that share it, and the next one runs', async () => {
  const { runs, shared } = bench()
  const first = shared().catch(thrown => thrown)
  await settle()
  const second = shared()
  runs[0]?.reject(new Error('locked'))
  await settle()
  runs[1]?.resolve(true)
  expect(await first).toEqual(new Error('locked'))
  expect(await second).toBe(true)
  const third = shared().catch(thrown => thrown)
  await settle()
  runs[2]?.reject(new Error('locked'))
  expect(await third).toEqual(new Error('locked'))
})
