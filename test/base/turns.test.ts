import { expect, test } from 'bun:test'
import { yieldToEventLoop } from '../../src/base/clock.ts'
import { runInTurns } from '../../src/base/turns.ts'

test('of many who wait for a turn of the event loop one goes on in each, those of works between', async () => {
  const goneOn: string[] = []
  const wait = async (name: string) => {
    await yieldToEventLoop()
    goneOn.push(name)
  }
  function* spendTurns() {
    for (const name of ['work 1', 'work 2']) {
      const end = performance.now() + 6
      while (performance.now() < end);
      goneOn.push(name)
      yield
    }
  }
  const waiting = [wait('a'), runInTurns(spendTurns()), wait('b'), wait('c')]
  const counts: number[] = []
  while (goneOn.length < 5) {
    const before = goneOn.length
    await new Promise(resolve => setImmediate(resolve))
    counts.push(goneOn.length - before)
  }
  await Promise.all(waiting)
  expect(Math.max(...counts)).toBe(1)
  expect(goneOn.filter(name => name.length === 1)).toEqual(['a', 'b', 'c'])
})
