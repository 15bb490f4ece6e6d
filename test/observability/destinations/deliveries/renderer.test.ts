import { afterEach, describe, expect, test } from 'bun:test'
import { yieldToEventLoop } from '../../../../src/base/clock.ts'
import { JobError } from '../../../../src/base/job-worker.ts'
import { renderBatch } from '../../../../src/observability/destinations/deliveries/renderer/render-batch.ts'
import {
  openRenderer,
  type RenderedBatch,
  type Renderer,
  type RenderJob,
  startWorker,
} from '../../../../src/observability/destinations/deliveries/renderer.ts'
import { listFailures } from '../../../../src/observability/destinations/failures.ts'
import { updateDestination } from '../../../../src/observability/destinations.ts'
import {
  type BroadcastHouse,
  openBroadcastHouse,
  waitForEvent,
  watchDeliveries,
} from '../../../support/broadcast.ts'

let house: BroadcastHouse
afterEach(() => house.close())

const startScript = (script: string) => () =>
  new Worker(URL.createObjectURL(new Blob([script])), { ref: false })

/** Never answers, and never lets go of its thread. */
const startStuck = startScript('self.onmessage = () => { for (;;); }')
/** Ends with the first batch. */
const startMortal = startScript('self.onmessage = () => process.exit(1)')

/** Opens a house whose Workers these functions start: one after the other, then the last one. */
async function openWith(...starts: (() => Worker)[]) {
  const workers: Worker[] = []
  const startNext = () => {
    const start = starts[Math.min(workers.length, starts.length - 1)] ?? startWorker
    const worker = start()
    workers.push(worker)
    return worker
  }
  house = await openBroadcastHouse({ openRenderer: () => openRenderer({ startWorker: startNext }) })
  return { ...house, workers }
}

/** Opens a house whose requests are rendered by this function. */
async function openRenderedBy(
  render: Renderer['render'],
  parts: Parameters<typeof openBroadcastHouse>[0] = {},
) {
  const openRenderer = () => ({ render, close: () => undefined })
  house = await openBroadcastHouse({ ...parts, openRenderer })
  return house
}

const countMessages = ({ messages }: RenderJob) => messages.sequences.length

describe('the Worker that renders deliveries', () => {
  test('is not started until something is to be sent, and then once', async () => {
    const { gateway, call, addWebhook, workers } = await openWith(startWorker)
    await gateway.deliveries.start()
    await call(2)
    await gateway.deliveries.rest()
    expect(workers).toHaveLength(0)
    await addWebhook()
    await addWebhook({ name: 'other' })
    const { waitForCalls } = watchDeliveries(gateway)
    await call(1)
    await waitForCalls(2)
    await call(2)
    await waitForCalls(6)
    expect(workers).toHaveLength(1)
  })

  test('that never lets go of its thread holds up no call; its end loses nothing', async () => {
    const { gateway, receiver, call, addWebhook, workers, countAll, readAllIds } = await openWith(
      startStuck,
      startWorker,
    )
    await addWebhook()
    const before = await call(3)
    const stuck = Promise.withResolvers<void>()
    const { listWaiting } = gateway.store.deliveries
    gateway.store.deliveries.listWaiting = async (...range) => {
      setImmediate(stuck.resolve)
      return listWaiting(...range)
    }
    await gateway.deliveries.start()
    await stuck.promise
    // Its event loop goes on, and so do its calls.
    for (let turns = 0; turns < 1_000; turns++) await yieldToEventLoop()
    const after = await call(3)
    expect(workers).toHaveLength(1)
    expect(receiver.requests).toEqual([])
    const ended = new Promise(resolve => workers[0]?.addEventListener('close', resolve))
    await gateway.deliveries.stop()
    await ended
    expect(await countAll()).toMatchObject({ waiting: 6, delivered: 0, failed: 0, dropped: 0 })
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(6)
    expect(readAllIds()).toEqual([...before, ...after])
  })

  test('that dies is started anew, and the same batch is sent', async () => {
    const { gateway, call, addWebhook, workers, countAll, readIds } = await openWith(
      startMortal,
      startMortal,
      startWorker,
    )
    await addWebhook()
    const ids = await call(5)
    const { ends, waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(5)
    expect(ends.map(({ verdict, reason }) => [verdict, reason])).toEqual([
      ['retry', 'It cannot be rendered'],
      ['retry', 'It cannot be rendered'],
      ['delivered', null],
    ])
    expect(readIds(0)).toEqual(ids)
    expect(workers).toHaveLength(3)
    expect(await countAll()).toMatchObject({ delivered: 5, waiting: 0, failed: 0 })
  })

  test('that a message always ends finds it, keeps it apart, and sends the others', async () => {
    const start = () =>
      new Worker(new URL('../../../support/dying-renderer.ts', import.meta.url).href, {
        ref: false,
      })
    const { gateway, operator, call, addWebhook, countAll, readAllIds } = await openWith(start)
    const { id } = await addWebhook({ privacy_mode: true })
    const first = await call(2)
    const [poison] = await call(1, { user: 'POISON' })
    const last = await call(2)
    const failed = Promise.withResolvers<void>()
    const { fail } = gateway.store.deliveries
    gateway.store.deliveries.fail = async (...refused) => {
      const taken = await fail(...refused)
      failed.resolve()
      return taken
    }
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await Promise.all([waitForCalls(4), failed.promise])
    await gateway.deliveries.rest()
    expect(readAllIds().toSorted()).toEqual([...first, ...last].toSorted())
    const { data } = await listFailures(gateway, operator, id, {})
    expect(data.map(({ generation_id, reason }) => [generation_id, reason])).toEqual([
      [poison ?? '', 'It cannot be rendered'],
    ])
    expect(await countAll()).toMatchObject({ delivered: 4, failed: 1, waiting: 0 })
  })

  test('ends with the gateway', async () => {
    const { gateway, call, addWebhook, workers } = await openWith(startWorker)
    await addWebhook()
    await gateway.deliveries.start()
    const { waitForCalls } = watchDeliveries(gateway)
    await call(1)
    await waitForCalls(1)
    const ended = new Promise(resolve => workers[0]?.addEventListener('close', resolve))
    await gateway.close()
    await ended
  })
})

describe('a batch', () => {
  test('that takes too long is cut until each part is rendered', async () => {
    const sizes: number[] = []
    const { gateway, call, addWebhook, readAllIds, countAll } = await openRenderedBy(async job => {
      sizes.push(countMessages(job))
      if (countMessages(job) > 2) throw new JobError('late')
      return renderBatch(job)
    })
    await addWebhook()
    const ids = await call(7)
    const { ends, waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(7)
    await gateway.deliveries.rest()
    expect(sizes).toEqual([7, 4, 2, 2, 3, 2, 1])
    expect(ends.filter(({ verdict }) => verdict === 'retry')).toEqual([])
    expect(readAllIds().toSorted()).toEqual(ids.toSorted())
    expect(await countAll()).toMatchObject({ delivered: 7, failed: 0, waiting: 0 })
  })

  test('that is tried again is rendered again, at its time and by the settings of then', async () => {
    const jobs: RenderJob[] = []
    const { gateway, operator, call, addWebhook, receiver } = await openRenderedBy(async job => {
      jobs.push(structuredClone(job))
      return renderBatch(job)
    })
    receiver.answer = (_, index) => ({ status: index < 2 ? 500 : 200 })
    const { id } = await addWebhook()
    await call(2)
    const first = waitForEvent(gateway, 'delivery.ended')
    await gateway.deliveries.start()
    await first
    await updateDestination(gateway, operator, id, { privacy_mode: true })
    const { waitForCalls } = watchDeliveries(gateway)
    await waitForCalls(2)
    const [before, after] = [jobs[0], jobs.at(-1)]
    expect([before?.destination.privacy_mode, after?.destination.privacy_mode]).toEqual([
      false,
      true,
    ])
    expect(after?.messages.sequences).toEqual(before?.messages.sequences)
    expect(after?.world.now).toBeGreaterThanOrEqual(before?.world.now ?? Number.NaN)
  })

  test('is handed to its Worker without what it needs not', async () => {
    const jobs: RenderJob[] = []
    const { gateway, call, addWebhook } = await openRenderedBy(async job => {
      jobs.push(structuredClone(job))
      return renderBatch(job)
    })
    await addWebhook({ privacy_mode: true })
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await call(1)
    await waitForCalls(1)
    // A message without content is not sealed, so there is no key.
    expect(jobs[0]?.key).toBeNull()
    expect(Object.keys(jobs[0]?.destination ?? {})).not.toContain('sealed')
    await addWebhook({ name: 'with content' })
    await call(1)
    await waitForCalls(3)
    expect(jobs.at(-1)?.key).toHaveLength(32)
  })

  test('that is full is followed at once; what comes after a small one waits for company', async () => {
    const sizes: number[] = []
    const deliveryPace = { linger: 600_000 }
    const { gateway, call, addWebhook } = await openRenderedBy(
      async job => {
        sizes.push(countMessages(job))
        if (sizes.length === 2) await call(3)
        return renderBatch(job)
      },
      { deliveryPace },
    )
    await addWebhook()
    await call(60)
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(60)
    await gateway.deliveries.rest()
    expect(sizes).toEqual([50, 10])
    gateway.events.publish('destinations.changed', {})
    await waitForCalls(63)
    expect(sizes).toEqual([50, 10, 3])
  })

  test('whose request cannot be rendered is cut; a message alone is kept apart', async () => {
    const unrendered = (job: RenderJob): RenderedBatch => ({
      told: job.messages.sequences,
      ...{ skipped: [], unreadable: [], unjudged: [], request: null },
    })
    const { gateway, operator, call, addWebhook, countAll } = await openRenderedBy(async job =>
      unrendered(job),
    )
    const { id } = await addWebhook()
    await call(3)
    await gateway.deliveries.start()
    const { waitFor } = watchDeliveries(gateway)
    await waitFor(5)
    await gateway.deliveries.rest()
    const { data } = await listFailures(gateway, operator, id, {})
    expect(data.map(({ reason }) => reason)).toEqual(Array(3).fill('It cannot be rendered'))
    expect(await countAll()).toMatchObject({ delivered: 0, failed: 3, waiting: 0 })
  })

  test('keeps what rules cannot judge apart, and sends none of it', async () => {
    const { gateway, operator, call, addWebhook, countAll, receiver } = await openRenderedBy(
      async job =>
        renderBatch({
          ...job,
          destination: {
            ...job.destination,
            filter_rules: {
              groups: [{ rules: [{ field: 'model', operator: 'regex', value: '(' }] }],
            },
          },
        }),
    )
    const { id } = await addWebhook()
    await call(2)
    await gateway.deliveries.start()
    await gateway.deliveries.rest()
    const { data } = await listFailures(gateway, operator, id, {})
    expect(data.map(({ reason }) => reason)).toEqual(
      Array(2).fill('The filter rules cannot be applied to it'),
    )
    expect(receiver.requests).toEqual([])
    expect(await countAll()).toMatchObject({ delivered: 0, failed: 2, waiting: 0 })
  })
})
