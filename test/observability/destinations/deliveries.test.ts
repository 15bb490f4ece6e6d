import { afterEach, describe, expect, test } from 'bun:test'
import { yieldToEventLoop } from '../../../src/base/clock.ts'
import {
  computePause,
  DELIVERY_PACE,
} from '../../../src/observability/destinations/deliveries/retry.ts'
import {
  listFailures,
  readHealth,
  replayFailures,
} from '../../../src/observability/destinations/failures.ts'
import { testDestination } from '../../../src/observability/destinations/test-delivery.ts'
import {
  deleteDestination,
  pauseDestination,
  resumeDestination,
  updateDestination,
} from '../../../src/observability/destinations.ts'
import { openMetrics } from '../../../src/observability/metrics.ts'
import { deleteWorkspace, updateWorkspace } from '../../../src/resources/workspaces.ts'
import {
  type BroadcastHouse,
  openBroadcastHouse,
  waitForEvent,
  watchDeliveries,
} from '../../support/broadcast.ts'
import { TestClock } from '../../support/gateway.ts'
import { expectAtRest } from '../../support/invariants.ts'
import type { ReceiverAnswer } from '../../support/receiver.ts'
import { openSlowStore } from '../../support/slow-store.ts'

let house: BroadcastHouse
afterEach(() => house.close())

const open = async (...args: Parameters<typeof openBroadcastHouse>) => {
  house = await openBroadcastHouse(...args)
  return house
}

/** Answers with these, one after the other, and the last one from then on. */
const answerWith = (...answers: ReceiverAnswer[]) => {
  house.receiver.answer = (_, index) => answers[Math.min(index, answers.length - 1)] ?? 'hang'
}

const OK = { status: 200 }

describe.each([
  ['SQLite', async () => ({})],
  ['a slow store', openSlowStore],
])('the queue in %s', (_, openParts) => {
  test('sends what was recorded, in batches and in order, each call once', async () => {
    const { gateway, call, addWebhook, readAllIds, countAll } = await open(await openParts())
    await addWebhook()
    const ids = await call(120)
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(120)
    await gateway.deliveries.rest()
    expect(readAllIds().toSorted()).toEqual(ids)
    expect(house.receiver.requests.length).toBeLessThan(10)
    expect(await countAll()).toMatchObject({ waiting: 0, bytes: 0, delivered: 120, failed: 0 })
    expect(await gateway.store.outbox.listPending(10)).toEqual([])
    const later = await call(2)
    await waitForCalls(122)
    expect(readAllIds().toSorted()).toEqual([...ids, ...later])
  })

  test.each<[string, ReceiverAnswer]>([
    ['500', { status: 500 }],
    ['429', { status: 429 }],
    ['408', { status: 408 }],
    ['a reset connection', 'reset'],
  ])('D-03 tries again after %s, with the same calls', async (_, failure) => {
    const { gateway, call, addWebhook, readIds, countAll } = await open(await openParts())
    await addWebhook()
    answerWith(failure, OK)
    const ids = await call(3)
    const { ends, waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(3)
    expect(ends.map(({ verdict }) => verdict)).toEqual(['retry', 'delivered'])
    expect([readIds(0), readIds(1)]).toEqual([ids, ids])
    expect(await countAll()).toMatchObject({ delivered: 3, waiting: 0, failed: 0 })
  })

  test.each([401, 404, 301])(
    'D-03 D-11 keeps apart what is refused with %d, until it is replayed',
    async status => {
      const { gateway, operator, call, addWebhook, readAllIds, countAll } = await open(
        await openParts(),
      )
      const { id } = await addWebhook()
      answerWith({ status, headers: { location: 'http://169.254.169.254/' } }, OK)
      const ids = await call(3)
      const { waitFor, waitForCalls } = watchDeliveries(gateway)
      await gateway.deliveries.start()
      await waitFor(1)
      const failures = await listFailures(gateway, operator, id, { limit: 2 })
      expect(failures.total_count).toBe(3)
      expect(failures.data.map(({ generation_id }) => generation_id)).toEqual(ids.slice(0, 2))
      expect(failures.data[0]).toMatchObject({ status, reason: `It answered ${status}` })
      expect(await countAll()).toMatchObject({ failed: 3, waiting: 0, bytes: 0 })
      expect(await replayFailures(gateway, operator, id)).toEqual({ data: { replayed: 3 } })
      gateway.events.publish('store.reloaded', {})
      await waitForCalls(3)
      expect(readAllIds().slice(3)).toEqual(ids)
      expect(await countAll()).toMatchObject({ failed: 0, delivered: 3 })
    },
  )

  test.each([413, 400])(
    'D-03 cuts a batch that is answered %d, and finds the one that is at fault',
    async status => {
      const { gateway, operator, call, addWebhook, countAll } = await open(await openParts())
      const { id } = await addWebhook()
      const ids = await call(7)
      house.receiver.answer = ({ body }) => (body.includes(ids[4] ?? '') ? { status } : OK)
      const { waitForCalls } = watchDeliveries(gateway)
      await gateway.deliveries.start()
      await waitForCalls(6)
      await gateway.deliveries.rest()
      const { data } = await listFailures(gateway, operator, id, {})
      expect(data.map(({ generation_id }) => generation_id)).toEqual([ids[4] ?? ''])
      expect(await countAll()).toMatchObject({ delivered: 6, failed: 1, waiting: 0 })
    },
  )

  test('D-04 isolates a call that its receiver always stumbles over, and the rest flows', async () => {
    const { gateway, call, addWebhook, countAll } = await open(await openParts())
    await addWebhook()
    const ids = await call(5)
    house.receiver.answer = ({ body }) => (body.includes(ids[2] ?? '') ? { status: 500 } : OK)
    const failed = Promise.withResolvers<void>()
    const { fail } = gateway.store.deliveries
    gateway.store.deliveries.fail = async (...taken) => {
      const removed = await fail(...taken)
      failed.resolve()
      return removed
    }
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await Promise.all([waitForCalls(4), failed.promise])
    await gateway.deliveries.rest()
    expect(await countAll()).toMatchObject({ delivered: 4, failed: 1, waiting: 0 })
    await expectAtRest(gateway)
  })

  test('D-06 O-06 drops the oldest beyond its bound, and counts each', async () => {
    const { gateway, call, addWebhook, countAll } = await open({
      ...(await openParts()),
      config: { telemetry: { queue_rows: 10 } },
    })
    const { id } = await addWebhook()
    answerWith('hang')
    const dropped: number[] = []
    gateway.events.on('deliveries.dropped', event => {
      expect(event.destination_id).toBe(id)
      dropped.push(event.count)
    })
    await pauseDestination(gateway, house.operator, id)
    const { deliveries } = gateway.store
    const { dropOldest } = deliveries
    const running: number[] = []
    deliveries.dropOldest = async count => {
      running.push((running.at(-1) ?? 0) + 1)
      await yieldToEventLoop()
      const taken = await dropOldest(count)
      running.push((running.at(-1) ?? 0) - 1)
      return taken
    }
    await gateway.deliveries.start()
    const ids = await call(25)
    await gateway.deliveries.rest()
    expect(Math.max(...running)).toBe(1)
    expect(dropped.reduce((sum, count) => sum + count, 0)).toBe(15)
    expect(await countAll()).toMatchObject({ waiting: 10, dropped: 15, delivered: 0 })
    const kept = await gateway.store.outbox.listPending(100)
    expect(kept.map(({ generation_id }) => generation_id)).toEqual(ids.slice(15))
  })

  test('D-09 holds what waits while it is paused, and drops it where it is switched off', async () => {
    const { gateway, operator, call, addWebhook, readAllIds, countAll } = await open(
      await openParts(),
    )
    const { id } = await addWebhook()
    await pauseDestination(gateway, operator, id)
    await gateway.deliveries.start()
    const ids = await call(3)
    await gateway.deliveries.rest()
    expect((await countAll()).waiting).toBe(3)
    const { waitForCalls } = watchDeliveries(gateway)
    await resumeDestination(gateway, operator, id)
    await waitForCalls(3)
    await gateway.deliveries.rest()
    expect(readAllIds()).toEqual(ids)
    await pauseDestination(gateway, operator, id)
    await call(2)
    await updateDestination(gateway, operator, id, { enabled: false })
    await gateway.deliveries.rest()
    expect(await countAll()).toMatchObject({ waiting: 0, dropped: 2, delivered: 3 })
    await call(2)
    expect(await countAll()).toMatchObject({ waiting: 0, dropped: 2 })
    expect((await readHealth(gateway)).get(id)).toMatchObject({ state: 'off', dropped: 2 })
    await deleteDestination(gateway, operator, id)
    expect(await gateway.store.deliveries.count()).toEqual([])
    expect(gateway.deliveries.list()).toEqual([])
  })

  test('D-09 forgets what waits for a workspace that is deleted or no longer tells', async () => {
    const { gateway, operator, workspace_id, call, addWebhook, countAll } = await open(
      await openParts(),
    )
    await addWebhook()
    await call(2)
    await updateWorkspace(gateway, operator, workspace_id, {
      is_observability_broadcast_enabled: false,
    })
    await call(1)
    await gateway.deliveries.start()
    await gateway.deliveries.rest()
    expect(await countAll()).toMatchObject({ waiting: 0, dropped: 2 })
    expect(house.receiver.requests).toEqual([])
    await deleteWorkspace(gateway, operator, workspace_id, {
      confirm_default_workspace_deletion: 'true',
    })
    expect(await gateway.store.destinations.all()).toEqual([])
    expect(await gateway.store.deliveries.count()).toEqual([])
  })

  test('continues after a restart with what was not settled', async () => {
    const { gateway, call, addWebhook } = await open(await openParts())
    await addWebhook()
    answerWith('hang')
    const ids = await call(4)
    await gateway.deliveries.start()
    await house.receiver.waitFor(1)
    await gateway.deliveries.stop()
    expect((await house.countAll()).waiting).toBe(4)
    answerWith(OK)
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(4)
    expect(house.readIds(1)).toEqual(ids)
  })
})

describe('one destination', () => {
  test('D-03 that is gone (410) is paused; what it refused is kept apart', async () => {
    const { gateway, operator, call, addWebhook, countAll } = await open()
    const { id } = await addWebhook()
    answerWith({ status: 410 })
    await call(2)
    const gone = waitForEvent(gateway, 'destination.gone')
    await gateway.deliveries.start()
    expect(await gone).toMatchObject({ id, type: 'webhook' })
    await gateway.deliveries.rest()
    expect(await countAll()).toMatchObject({ failed: 2, waiting: 0 })
    await expectAtRest(gateway)
    expect((await readHealth(gateway)).get(id)?.state).toBe('paused')
    await resumeDestination(gateway, operator, id)
    expect((await readHealth(gateway)).get(id)?.state).toBe('failing')
  })

  test('that fails for a day is given up, with the reason; younger calls wait on', async () => {
    const clock = new TestClock()
    const { gateway, operator, call, addWebhook, countAll } = await open({ clock })
    const { id } = await addWebhook()
    const [old] = await call(1)
    clock.pass(86_400_001)
    await call(1)
    answerWith({ status: 503 }, 'hang')
    await gateway.deliveries.start()
    await house.receiver.waitFor(2)
    expect(await countAll()).toMatchObject({ failed: 1, waiting: 1 })
    const { data } = await listFailures(gateway, operator, id, {})
    expect(data).toEqual([
      {
        generation_id: old ?? '',
        reason: 'Given up after 24 hours: It answered 503',
        status: 503,
        failed_at: clock.now().toISOString(),
        bytes: expect.any(Number),
      },
    ])
  })

  test('D-03 is asked again after as long as it says', async () => {
    const { gateway, call, addWebhook } = await open()
    await addWebhook()
    answerWith({ status: 429, headers: { 'retry-after': '7' } })
    await call(1)
    const end = waitForEvent(gateway, 'delivery.ended')
    await gateway.deliveries.start()
    expect(await end).toMatchObject({ verdict: 'retry', status: 429, pause: 7_000 })
    await gateway.deliveries.rest()
    expect(house.receiver.requests.length).toBe(1)
  })

  test('D-02 that never answers holds up nothing else', async () => {
    const { gateway, receiver, call, addWebhook } = await open({
      deliveryPace: { linger: 0, firstPause: 0, longestPause: 0, timeout: 600_000 },
    })
    await addWebhook({ config: { url: `${receiver.url}/slow` } })
    await addWebhook({ name: 'fast' })
    receiver.answer = ({ path }) => (path === '/slow' ? 'hang' : OK)
    await gateway.deliveries.start()
    const { waitForCalls } = watchDeliveries(gateway)
    await call(10)
    await waitForCalls(10)
    const slow = receiver.requests.filter(({ path }) => path === '/slow')
    expect(slow.length).toBeLessThanOrEqual(4)
  })

  test('D-02 that takes too long has failed, and so has one that answers without end', async () => {
    const { gateway, call, addWebhook } = await open({
      deliveryPace: { linger: 0, firstPause: 0, longestPause: 0, timeout: 50 },
    })
    await addWebhook()
    answerWith('hang', 'endless')
    await call(1)
    const { ends, waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(1)
    expect(ends[0]).toMatchObject({ verdict: 'retry', reason: 'It did not answer in time' })
    expect(ends.at(-1)).toMatchObject({ verdict: 'delivered', status: 200 })
  })

  test('D-11 whose host has become private is not called', async () => {
    const { gateway, call, addWebhook } = await open({ resolve: async () => ['169.254.169.254'] })
    await addWebhook({ config: { url: 'https://hooks.example.com/traces' } })
    await call(1)
    const end = waitForEvent(gateway, 'delivery.ended')
    await gateway.deliveries.start()
    expect(await end).toMatchObject({
      verdict: 'retry',
      status: null,
      reason: 'The URL: expected the URL of a public host',
    })
    await gateway.deliveries.stop()
  })

  test('gets its batches on one connection, and on another where it has closed that', async () => {
    const { gateway, call, addWebhook, receiver, countAll } = await open()
    const { waitForCalls } = watchDeliveries(gateway)
    await addWebhook()
    await gateway.deliveries.start()
    await call(1)
    await waitForCalls(1)
    await call(1)
    await waitForCalls(2)
    expect([receiver.requests.length, receiver.connections]).toEqual([2, 1])
    await receiver.hangUp()
    await call(1)
    await waitForCalls(3)
    expect([receiver.requests.length, receiver.connections]).toEqual([3, 2])
    expect(await countAll()).toMatchObject({ delivered: 3, failed: 0, last_error: null })
  })

  test('tells operators when it fails and when it is back, once each', async () => {
    const { gateway, call, addWebhook } = await open()
    const { id } = await addWebhook()
    const heard: string[] = []
    gateway.events.on('destination.failing', ({ reason }) => heard.push(reason))
    gateway.events.on('destination.recovered', event => heard.push(event.type))
    answerWith({ status: 502 }, { status: 502 }, OK)
    await call(1)
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(1)
    expect(heard).toEqual(['It answered 502', 'webhook'])
    const metrics = openMetrics(gateway).renderText()
    expect(metrics).toContain(`gateway_destination_delivered_total{destination="${id}"} 1\n`)
    expect(metrics).toContain(`gateway_destination_waiting{destination="${id}"} 0\n`)
    expect(await house.countAll()).toMatchObject({
      last_error: 'It answered 502',
      last_error_at: '2026-03-04T05:06:07.000Z',
    })
  })

  test('sends what its settings allow when it is sent, not when it was called', async () => {
    const { gateway, operator, call, addWebhook } = await open()
    const { id } = await addWebhook()
    await call(1, { messages: [{ role: 'user', content: 'canary-words' }] })
    await updateDestination(gateway, operator, id, { privacy_mode: true })
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(1)
    expect(house.receiver.requests[0]?.body).not.toContain('canary')
  })
})

describe('a test', () => {
  test('sends nothing real, and says what came of it in no words of the receiver', async () => {
    const { gateway, operator, receiver, addWebhook } = await open()
    const { id } = await addWebhook()
    const run = async () => (await testDestination(gateway, operator, id)).data
    expect(await run()).toEqual({ passed: true, status: 200, reason: null })
    expect(receiver.requests[0]).toMatchObject({
      body: '{"resourceSpans":[]}',
      headers: { 'x-test-connection': 'true' },
    })
    answerWith({ status: 400, body: 'canary' })
    expect(await run()).toMatchObject({ passed: true, status: 400 })
    answerWith({ status: 403, body: 'canary' })
    expect(await run()).toEqual({ passed: false, status: 403, reason: 'It answered 403' })
    answerWith('reset')
    expect(await run()).toMatchObject({ passed: false, status: null })
    expect(await house.countAll()).toEqual({} as never)
  })
})

describe('the pause after failures', () => {
  test('doubles with jitter, up to a bound, and follows Retry-After up to an hour', () => {
    const pause = (failures: number, retryAfter: string | null = null, random = 1) =>
      computePause(DELIVERY_PACE, failures, retryAfter, { now: 0, random })
    expect([1, 2, 3, 11, 1_000].map(failures => pause(failures))).toEqual([
      1_000, 2_000, 4_000, 600_000, 600_000,
    ])
    expect(pause(1, null, 0)).toBe(500)
    expect([pause(1, '30'), pause(1, '999999'), pause(1, 'soon'), pause(1, '-5')]).toEqual([
      30_000, 3_600_000, 1_000, 1_000,
    ])
    expect(pause(1, new Date(20_000).toUTCString())).toBe(20_000)
  })
})
