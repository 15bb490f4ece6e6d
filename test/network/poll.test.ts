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

const BASE = 'https://127.0.0.1:9/v1'
const AT_BASE = `${BASE}/result`

test.each([
  [
    'of the same origin is asked there',
    'https://127.0.0.1:9/queue/7',
    'https://127.0.0.1:9/queue/7',
  ],
  ['of another host is asked at the base', 'https://203.0.113.7/queue/7', AT_BASE],
  ['of another port is asked at the base', 'https://127.0.0.1:10/queue/7', AT_BASE],
  ['without TLS is asked at the base', 'http://127.0.0.1:9/queue/7', AT_BASE],
  ['with a name in it is asked at the base', 'https://a@127.0.0.1:9/queue/7', AT_BASE],
  ['that is none is asked at the base', '//127.0.0.1:9/queue/7', AT_BASE],
])('a result whose address is %s, with the credential', async (_, url, expected) => {
  timers = new TestTimers()
  const world = await testGateway({
    clock: timers,
    config: {
      providers: { acme: { protocol: 'openai-chat', base_url: BASE, api_key: 'secret-of-acme' } },
      models: [],
      security: { allow_private_urls: ['127.0.0.1:9'] },
    },
  })
  const provider = world.catalog.providers.get('acme')
  if (!provider) throw new Error('There is no provider')
  const asked: unknown[] = []
  const poll = (next: PendingWork['next']) =>
    pollResult(world, {
      ...{ provider, next, cancellation: new Cancellation(), readNext: () => null },
      ask: async ({ url, headers }) => void asked.push([url, headers.authorization]),
    })
  const result = poll({ url, path: '/result' })
  await timers.passSeconds(1)
  await result
  expect(asked).toEqual([[expected, 'Bearer secret-of-acme']])
  // Without a path there is no other place.
  const only = poll({ url }).catch(String)
  await timers.passSeconds(1)
  await only
  expect(asked).toHaveLength(expected === AT_BASE ? 1 : 2)
})
