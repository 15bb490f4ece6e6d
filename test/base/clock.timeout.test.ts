import { describe, expect, test } from 'bun:test'
import { Timeout } from '../../src/base/clock.ts'

/** Keeps everyone else waiting, as a process that is stopped does. */
function standStill(milliseconds: number): void {
  for (const end = performance.now() + milliseconds; performance.now() < end; );
}

/** Waits for the end of a timeout, for as long as that takes. */
async function countEnds(start: (onTimeout: () => void) => Timeout): Promise<number> {
  let ends = 0
  const ended = Promise.withResolvers<void>()
  const timeout = start(() => {
    ends += 1
    ended.resolve()
  })
  await ended.promise
  await Bun.sleep(5)
  timeout.stop()
  return ends
}

describe('a timeout', () => {
  test('ends once', async () => {
    expect(await countEnds(onTimeout => new Timeout(1, onTimeout))).toBe(1)
  })

  test('ends later when it is restarted, with the same time or another', async () => {
    const begun = performance.now()
    const restarted = (milliseconds?: number) => (onTimeout: () => void) => {
      const timeout = new Timeout(20, onTimeout)
      setTimeout(() => timeout.restart(milliseconds), 10)
      return timeout
    }
    expect(await countEnds(restarted())).toBe(1)
    expect(await countEnds(restarted(30))).toBe(1)
    expect(performance.now() - begun).toBeGreaterThanOrEqual(10 + 20 + 10 + 30 - 4)
  })

  test('does not end once it is stopped, and ends again when it is restarted', async () => {
    let ends = 0
    const timeout = new Timeout(1, () => ends++)
    timeout.stop()
    await Bun.sleep(5)
    expect(ends).toBe(0)
    expect(
      await countEnds(onTimeout => {
        const again = new Timeout(60_000, onTimeout)
        again.stop()
        again.restart(1)
        return again
      }),
    ).toBe(1)
  })

  test.each(['restart', 'stop'] as const)(
    'does not end if what had come before ends in %s, however late it is read',
    async change => {
      let ends = 0
      const timeout = new Timeout(5, () => ends++)
      const read = Promise.withResolvers<void>()
      // Stands for a socket: its bytes are read in the turn after the timers.
      setTimeout(() =>
        setImmediate(() => {
          if (change === 'restart') timeout.restart(60_000)
          else timeout.stop()
          read.resolve()
        }),
      )
      standStill(20)
      await read.promise
      await Bun.sleep(10)
      expect(ends).toBe(0)
      timeout.stop()
    },
  )
})
