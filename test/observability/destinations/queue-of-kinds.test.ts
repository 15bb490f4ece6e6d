import { afterEach, describe, expect, test } from 'bun:test'
import { type Send, toIncomingResponse } from '../../../src/network/egress.ts'
import { listFailures, replayFailures } from '../../../src/observability/destinations/failures.ts'
import { DESTINATION_TYPES } from '../../../src/observability/destinations/kind.ts'
import { createDestination, getDestination } from '../../../src/observability/destinations.ts'
import {
  type BroadcastHouse,
  openBroadcastHouse,
  watchDeliveries,
} from '../../support/broadcast.ts'
import { SAMPLES } from '../../support/destination-samples.ts'
import { decodeOutgoing } from '../../support/outgoing.ts'

let house: BroadcastHouse
afterEach(() => house.close())

const PROVIDER = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const MODEL = {
  id: 'acme/small',
  context_length: 1_000,
  endpoints: [
    { provider: 'local', model: 'm', usd_per_million_tokens: { prompt: 1, completion: 2 } },
  ],
}
const COMPLETION = {
  ...{ id: 'x', object: 'chat.completion', created: 1, model: 'm' },
  choices: [{ index: 0, message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 },
}

/** A vendor that answers with this status from now on. */
function playVendor() {
  const vendor = { statuses: [] as number[], usual: 200, accepted: [] as string[] }
  const egress: Send = async ({ url, body, onSent }) => {
    onSent?.()
    if (url.startsWith(PROVIDER.base_url)) return toIncomingResponse(Response.json(COMPLETION))
    const status = vendor.statuses.shift() ?? vendor.usual
    if (status === 200) vendor.accepted.push(decodeOutgoing(body))
    return toIncomingResponse(Response.json({}, { status }))
  }
  return { vendor, egress }
}

/** A destination of a type, with what it needs, whose vendor is played. */
async function open(type: (typeof DESTINATION_TYPES)[number]) {
  const { vendor, egress } = playVendor()
  house = await openBroadcastHouse({
    egress,
    resolve: async () => ['93.184.215.14'],
    config: {
      providers: { local: PROVIDER },
      models: [MODEL],
      security: { allow_url_ports: [8123, 8443, 4318] },
    },
  })
  const { gateway, operator } = house
  const { data } = await createDestination(gateway, operator, {
    ...{ type, name: type, config: SAMPLES[type].least },
  })
  return { ...house, vendor, id: data.id }
}

describe.each([...DESTINATION_TYPES])('the queue of a %s', type => {
  test('tries again after 503, and delivers each call', async () => {
    const { gateway, call, countAll, vendor } = await open(type)
    vendor.statuses.push(503)
    await call(2, { model: MODEL.id })
    const { ends, waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(2)
    expect(ends.map(({ verdict }) => verdict)).toContain('retry')
    expect(vendor.statuses).toEqual([])
    const told = vendor.accepted.join('\n')
    for (const content of ['Call 0', 'Call 1']) expect(told).toContain(content)
    expect(await countAll()).toMatchObject({ waiting: 0, bytes: 0, delivered: 2, failed: 0 })
  })

  test('keeps apart what is refused with 401, until it is replayed', async () => {
    const { gateway, operator, call, countAll, vendor, id } = await open(type)
    vendor.usual = 401
    const ids = await call(2, { model: MODEL.id })
    const { waitFor, waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitFor(1)
    await gateway.deliveries.rest()
    const failures = await listFailures(gateway, operator, id, { limit: 9 })
    expect(failures.data.map(({ generation_id }) => generation_id)).toEqual(ids)
    expect(failures.data[0]).toMatchObject({ status: 401, reason: 'It answered 401' })
    vendor.usual = 200
    expect(await replayFailures(gateway, operator, id)).toEqual({ data: { replayed: 2 } })
    gateway.events.publish('store.reloaded', {})
    await waitForCalls(2)
    expect(vendor.accepted.join('\n')).toContain('Call 1')
    expect(await countAll()).toMatchObject({ waiting: 0, delivered: 2, failed: 0 })
    expect(JSON.stringify(getDestination(gateway, operator, id))).not.toContain('SECRET')
  })
})
