import { afterEach, expect, test } from 'bun:test'
import { toIncomingResponse } from '../../../../src/network/egress.ts'
import { renderBatch } from '../../../../src/observability/destinations/deliveries/renderer/render-batch.ts'
import { DELIVERY_PACE } from '../../../../src/observability/destinations/deliveries/retry.ts'
import { type BroadcastHouse, openBroadcastHouse } from '../../../support/broadcast.ts'
import { TestTimers } from '../../../support/timers.ts'

let timers: TestTimers
let house: BroadcastHouse
afterEach(async () => {
  await house.gateway.deliveries.stop()
  await house.close()
  // Timers that fire once are left, of the recorder and of Elysia's cache: nothing asks again.
  await timers.passSeconds(300, 300)
  const { waiting } = timers
  timers.stop()
  expect(waiting).toBe(0)
})

/** The most calls that a webhook is told at once. */
const MOST_IN_BATCH = 50

const COMPLETION = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' }],
}

/** Opens a gateway with the pauses of production, whose destination is told at these seconds. */
async function open(answer: () => Response | Promise<Response>) {
  timers = new TestTimers()
  const told: number[] = []
  house = await openBroadcastHouse({
    clock: timers,
    deliveryPace: DELIVERY_PACE,
    openRenderer: () => ({ render: renderBatch, close: () => undefined }),
    egress: async ({ url }) => {
      if (!url.startsWith(house.receiver.url)) return toIncomingResponse(Response.json(COMPLETION))
      // Without pauses it would be told for ever.
      if (told.push(timers.ticks() / 1000) > 100) await new Promise(() => {})
      return toIncomingResponse(await answer())
    },
  })
  await house.addWebhook()
  await house.gateway.deliveries.start()
  return told
}

test('a destination that fails is told less and less, as late as it says, and then as before', async () => {
  let answer = new Response('', { status: 503 })
  const told = await open(() => answer.clone())
  await house.call(3)
  await timers.passSeconds(20)
  // After the time that calls wait for others. Half of each pause is by lot, which is nothing here.
  expect(told).toEqual([0.25, 0.75, 1.75, 3.75, 7.75, 15.75])
  answer = new Response('', { status: 429, headers: { 'retry-after': '60' } })
  await timers.passSeconds(80)
  expect(told.slice(6)).toEqual([31.75, 91.75])
  answer = new Response('')
  await timers.passSeconds(100)
  // What has failed so often is told call by call.
  expect(told.slice(8)).toEqual([155.75, 155.75, 155.75])
  answer = new Response('', { status: 503 })
  await house.call(1)
  await timers.passSeconds(1)
  expect(told.slice(11)).toEqual([200.25, 200.75])
})

test('calls that follow each other within moments are told together', async () => {
  const told = await open(() => new Response(''))
  await house.call(1)
  const { waiting } = timers
  for (let i = 0; i < 3; i++) {
    await timers.passSeconds(0.05, 0.05)
    await house.call(1)
  }
  expect(timers.waiting).toBe(waiting)
  await timers.passSeconds(5)
  expect(told).toHaveLength(1)
})

test('a destination that takes one request is told what another one has failed with, at once', async () => {
  const late = Promise.withResolvers<Response>()
  const busy = new Response('', { status: 503, headers: { 'retry-after': '60' } })
  const answers: (Response | Promise<Response>)[] = [busy, late.promise]
  const told = await open(() => answers.shift() ?? new Response(''))
  await house.call(MOST_IN_BATCH + 1)
  await timers.passSeconds(5)
  expect(told).toEqual([0.25, 0.25])
  late.resolve(new Response(''))
  await timers.passSeconds(1)
  expect(told).toEqual([0.25, 0.25, 5])
})
