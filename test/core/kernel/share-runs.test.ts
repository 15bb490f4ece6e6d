import { expect, test } from 'bun:test'
import { shareRuns } from '../../../src/core/kernel/share-runs.ts'

/** A function whose runs end when they are told to, and how many go on at once. */
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

test('runs once for who comes alone, and gives what the run gave', async () => {
  const { runs, shared } = bench()
  for (const found of [true, false]) {
    const asked = shared()
    await settle()
    runs.at(-1)?.resolve(found)
    expect(await asked).toBe(found)
  }
  expect(runs).toHaveLength(2)
})

test('all who call in one step share one run, and are done together', async () => {
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

test('what a run found that has ended is not said again', async () => {
  const { runs, shared } = bench()
  for (const found of [true, false, false]) {
    const asked = shared()
    await settle()
    runs.at(-1)?.resolve(found)
    expect(await asked).toBe(found)
  }
})

test('all who come while one runs share one more, which begins after it', async () => {
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

test('who waited hears of what the run before found, which may be what they came for', async () => {
  const { runs, shared } = bench()
  const first = shared()
  await settle()
  const second = shared()
  runs[0]?.resolve(true)
  await settle()
  runs[1]?.resolve(false)
  expect([await first, await second]).toEqual([true, true])
})

test('who asks again as soon as a run ends does not begin one beside the next', async () => {
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
  expect(await Promise.race([again, Bun.sleep(50)])).toBeBoolean()
})

test('a run that fails does so for those who share it, and the next one comes', async () => {
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
