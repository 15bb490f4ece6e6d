import { afterEach, expect, test } from 'bun:test'
import { toIncomingResponse } from '../../../../src/network/egress.ts'
import { renderBatch } from '../../../../src/observability/destinations/deliveries/renderer/render-batch.ts'
import { DELIVERY_PACE } from '../../../../src/observability/destinations/deliveries/retry.ts'
import { type BroadcastHouse, openBroadcastHouse } from '../../../support/broadcast.ts'
import { TestTimers } from '../../../support/timers.ts'

let timers: TestTimers
let house: BroadcastHouse
afterEach(async () => {
  timers.stop()
  await house.close()
})

const COMPLETION = {
  choices: [{ index: 0, message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' }],
}

/** Opens a gateway with the pauses of production, whose destination is told at these seconds. */
async function open(answer: () => Response) {
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
      return toIncomingResponse(answer())
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
  for (let i = 0; i < 4; i++) {
    await house.call(1)
    await timers.passSeconds(0.05, 0.05)
  }
  await timers.passSeconds(5)
  expect(told).toHaveLength(1)
})
