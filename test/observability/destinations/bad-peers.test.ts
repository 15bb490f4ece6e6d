import { afterEach, describe, expect, test } from 'bun:test'
import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { replayFailures } from '../../../src/observability/destinations/failures.ts'
import {
  createDestination,
  deleteDestination,
  pauseDestination,
  updateDestination,
} from '../../../src/observability/destinations.ts'
import {
  type BroadcastHouse,
  openBroadcastHouse,
  waitForEvent,
  watchDeliveries,
} from '../../support/broadcast.ts'
import { CERTIFICATE } from '../../support/certificate.ts'
import { buildRecordEntry } from '../../support/generation.ts'

let house: BroadcastHouse
let server: Server | undefined
afterEach(async () => {
  await house.close()
  server?.closeAllConnections()
  server?.close()
  server = undefined
})

/** Opens a gateway that may call the server on loopback. */
async function openBeside(made: Server, parts: object = {}): Promise<string> {
  server = made
  await new Promise<void>(resolve => made.listen(0, '127.0.0.1', () => resolve()))
  const host = `127.0.0.1:${(made.address() as AddressInfo).port}`
  house = await openBroadcastHouse({
    config: { security: { allow_private_urls: [host] } },
    ...parts,
  })
  return host
}

describe('a destination', () => {
  test('D-02 that drips its answer has failed when its time is over', async () => {
    const drips: ReturnType<typeof setInterval>[] = []
    const host = await openBeside(
      createServer((_, response) => {
        response.writeHead(200, { 'content-length': '1000000' })
        drips.push(setInterval(() => response.write('x'), 5))
      }),
      { deliveryPace: { linger: 0, firstPause: 60_000, longestPause: 60_000, timeout: 60 } },
    )
    await house.addWebhook({ config: { url: `http://${host}/` } })
    await house.call(1)
    const end = waitForEvent(house.gateway, 'delivery.ended')
    await house.gateway.deliveries.start()
    expect(await end).toMatchObject({ verdict: 'retry', reason: 'It did not answer in time' })
    for (const drip of drips) clearInterval(drip)
  })

  test('with a certificate of its own making gets nothing', async () => {
    let asked = 0
    const host = await openBeside(
      createTlsServer(CERTIFICATE, (_, response) => {
        asked += 1
        response.end()
      }) as unknown as Server,
      { deliveryPace: { linger: 0, firstPause: 60_000, longestPause: 60_000 } },
    )
    await house.addWebhook({ config: { url: `https://${host}/` } })
    await house.call(1)
    const end = waitForEvent(house.gateway, 'delivery.ended')
    await house.gateway.deliveries.start()
    expect(await end).toMatchObject({
      ...{ verdict: 'retry', status: null },
      reason: expect.stringMatching(/^It cannot be reached \(\w*(CERT|SIGNED)\w*\)$/),
    })
    expect(asked).toBe(0)
  })

  test('whose key has changed gets what it refused once it has the new one', async () => {
    house = await openBroadcastHouse()
    const { gateway, operator, receiver, call, readAllIds } = house
    receiver.answer = ({ headers }) => ({ status: headers['x-key'] === 'new' ? 200 : 401 })
    const url = `${receiver.url}/`
    const { id } = await house.addWebhook({ config: { url, headers: { 'X-Key': 'old' } } })
    const ids = await call(3)
    const { waitFor, waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitFor(1)
    await updateDestination(gateway, operator, id, { config: { headers: { 'X-Key': 'new' } } })
    await replayFailures(gateway, operator, id)
    gateway.events.publish('store.reloaded', {})
    await waitForCalls(3)
    expect(readAllIds().slice(3)).toEqual(ids)
    expect(await house.countAll()).toMatchObject({ delivered: 3, failed: 0, waiting: 0 })
  })

  test('that answers 200 with a page is asked again; only a webhook may answer so', async () => {
    house = await openBroadcastHouse()
    const { gateway, operator, receiver, call } = house
    const page = { status: 200, body: '<!DOCTYPE html><html><body>Sign in</body></html>' }
    receiver.answer = (_, index) => (index === 0 ? page : { status: 200 })
    await createDestination(gateway, operator, {
      type: 'otel-collector',
      name: 'collector',
      config: { endpoint: `${receiver.url}/v1/traces` },
    })
    await call(1)
    const { ends, waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(1)
    expect(ends.map(({ verdict }) => verdict)).toEqual(['retry', 'delivered'])
  })
})

describe('a long queue', () => {
  /** Records messages that wait for a destination. */
  const fill = (id: string, count: number) =>
    house.gateway.store.generations.record(
      Array.from({ length: count }, (_, i) => ({
        ...buildRecordEntry(`call-${i}`),
        outbox: [{ topic: 'trace', payload: '{}', receivers: [id] }],
      })),
    )

  test('is dropped in parts when its destination is deleted or switched off', async () => {
    house = await openBroadcastHouse()
    const { gateway, operator } = house
    const { id } = await house.addWebhook()
    const other = await house.addWebhook({ name: 'off' })
    await fill(id, 450)
    await gateway.store.generations.record([
      {
        ...buildRecordEntry('call-of-both'),
        outbox: [{ topic: 'trace', payload: '{}', receivers: [id, other.id] }],
      },
    ])
    const parts: number[] = []
    const { drop } = gateway.store.deliveries
    gateway.store.deliveries.drop = async (...asked) => {
      const taken = await drop(...asked)
      parts.push(taken.count)
      return taken
    }
    await deleteDestination(gateway, operator, id)
    expect(parts).toEqual([200, 200, 51])
    const left = await gateway.store.outbox.listPending(10)
    expect(left.map(({ generation_id }) => generation_id)).toEqual(['call-of-both'])
    await updateDestination(gateway, operator, other.id, { enabled: false })
    await gateway.deliveries.start()
    await gateway.deliveries.rest()
    expect(await gateway.store.outbox.listPending(10)).toEqual([])
  })

  test('D-06 that is full makes room for a few more than have come', async () => {
    house = await openBroadcastHouse({ config: { telemetry: { queue_rows: 2_000 } } })
    const { gateway, operator } = house
    const { id } = await house.addWebhook()
    await pauseDestination(gateway, operator, id)
    await fill(id, 2_000)
    await gateway.deliveries.start()
    await house.call(1)
    await gateway.deliveries.rest()
    // A hundredth of the bound, and the one that was too many, with what was recorded beside them.
    expect(await house.countAll()).toMatchObject({ waiting: 1_969, dropped: 32 })
    await house.call(2)
    await gateway.deliveries.rest()
    expect(await house.countAll()).toMatchObject({ waiting: 1_971, dropped: 32 })
  })
})

describe('calls', () => {
  const COUNT = process.env.GATEWAY_TEST_LONG ? 10_000 : 200

  test(`D-01 go on, ${COUNT} of them, while everything is down, and none is lost`, async () => {
    house = await openBroadcastHouse({
      deliveryPace: { linger: 0, firstPause: 600_000, longestPause: 600_000 },
    })
    const { gateway, receiver, call, addWebhook } = house
    receiver.answer = () => 'reset'
    for (const path of ['a', 'b', 'c'])
      await addWebhook({ name: path, config: { url: `${receiver.url}/${path}` } })
    await gateway.deliveries.start()
    await call(COUNT)
    await gateway.deliveries.rest()
    for (const counts of await gateway.store.deliveries.count())
      expect(counts).toMatchObject({ waiting: COUNT, delivered: 0, dropped: 0, failed: 0 })
    // One request each, and then a pause: a dead destination is not asked again for each call.
    expect(receiver.requests.length).toBeLessThanOrEqual(12)
    await gateway.deliveries.stop()
    receiver.answer = () => ({ status: 200 })
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(3 * COUNT)
    await gateway.deliveries.rest()
    for (const counts of await gateway.store.deliveries.count())
      expect(counts).toMatchObject({ waiting: 0, delivered: COUNT, dropped: 0, failed: 0 })
    expect(await gateway.store.outbox.listPending(1)).toEqual([])
  }, 600_000)

  test('go on while the queue cannot be written, and are delivered once it can be', async () => {
    house = await openBroadcastHouse({
      deliveryPace: { linger: 0, firstPause: 1, longestPause: 1 },
    })
    const { gateway, call, addWebhook, readAllIds } = house
    await addWebhook()
    const { deliveries } = gateway.store
    const { finish } = deliveries
    const refused = Promise.withResolvers<void>()
    let isFull = true
    deliveries.finish = async (...taken) => {
      if (!isFull) return finish(...taken)
      refused.resolve()
      throw Object.assign(new Error('database or disk is full'), { code: 'SQLITE_FULL' })
    }
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    const ids = await call(5)
    await refused.promise
    expect(await house.countAll()).toMatchObject({ waiting: 5, delivered: 0 })
    isFull = false
    await waitForCalls(5)
    await gateway.deliveries.rest()
    expect(new Set(readAllIds())).toEqual(new Set(ids))
    expect(await house.countAll()).toMatchObject({ delivered: 5, failed: 0, dropped: 0 })
  })
})
