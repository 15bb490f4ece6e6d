import { expect, test } from 'bun:test'
import { buildLine, openBatchHouse } from '../../support/batches.ts'
import { TestTimers } from '../../support/timers.ts'

test('a batch whose store fails is tried again after five seconds each', async () => {
  const timers = new TestTimers()
  try {
    const { gateway, create, runner } = await openBatchHouse({ clock: timers })
    await create([buildLine('a')])
    const tried: number[] = []
    gateway.store.batches.find = async () => {
      // Without pauses it would try for ever.
      if (tried.push(timers.ticks() / 1000) > 100) await runner.stop()
      throw new Error('The disk is full')
    }
    await runner.start()
    await timers.passSeconds(16)
    expect(tried).toEqual([0, 5, 10, 15])
    await runner.stop()
    await gateway.close()
  } finally {
    timers.stop()
  }
})
