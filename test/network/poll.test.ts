import { afterEach, expect, test } from 'bun:test'
import { Cancellation } from '../../src/base/cancellation.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { type PendingWork, pollResult } from '../../src/network/poll.ts'
import { testGateway } from '../support/gateway.ts'
import { TestTimers } from '../support/timers.ts'

let timers: TestTimers
afterEach(() => timers.stop())

/** Without pauses it would ask for ever. */
const MOST = 100

/** Polls for work that is never done, and returns when it asks, in milliseconds. */
async function poll() {
  timers = new TestTimers()
  const world = await testGateway({ clock: timers })
  const provider = world.catalog.providers.get('sandbox')
  if (!provider) throw new Error('There is no sandbox')
  const asked: number[] = []
  const cancellation = new Cancellation()
  const work: PendingWork = {
    provider,
    next: { path: '/result' },
    cancellation,
    readNext: (_, next) => next,
    ask: async () => {
      if (asked.push(timers.ticks()) > MOST) throw new Error('It asks without a pause')
    },
  }
  return { asked, cancellation, result: pollResult(world, work) }
}

test('work of a provider is asked about after pauses that grow to two seconds', async () => {
  const { asked, cancellation, result } = await poll()
  await timers.passSeconds(1, 0.025)
  expect(asked).toEqual([100, 250, 475, 825])
  await timers.passSeconds(9, 0.025)
  expect(asked).toHaveLength(10)
  await timers.passSeconds(50)
  expect(asked).toHaveLength(35)
  cancellation.cancel(new GatewayError('unmapped', 'The test is over'))
  expect(await result.catch(String)).toContain('The test is over')
  await timers.passSeconds(10)
  expect(asked).toHaveLength(35)
})
