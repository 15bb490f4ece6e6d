import { afterEach, describe, expect, test } from 'bun:test'
import { reconfigure } from '../../../src/app/reconfigure.ts'
import { parseConfig } from '../../../src/config.ts'
import {
  dropFailures,
  listFailures,
  readHealth,
  replayFailures,
} from '../../../src/observability/destinations/failures.ts'
import { MetricsExport } from '../../../src/observability/destinations/metrics-export.ts'
import { OPERATOR_ID } from '../../../src/observability/destinations/operator.ts'
import { getDestination, listDestinations } from '../../../src/observability/destinations.ts'
import { updateWorkspace } from '../../../src/resources/workspaces.ts'
import {
  type BroadcastHouse,
  listSpans,
  openBroadcastHouse,
  readAttributes,
  waitForEvent,
  watchDeliveries,
} from '../../support/broadcast.ts'
import { startUpstream } from '../../support/upstream.ts'

let house: BroadcastHouse
let metricsExport: MetricsExport | undefined
afterEach(async () => {
  await metricsExport?.stop()
  metricsExport = undefined
  await house.close()
})

/** Opens a gateway whose config names the receiver as the operator's collector. */
async function open(otlp: object = {}, telemetry: object = {}): Promise<BroadcastHouse> {
  house = await openBroadcastHouse()
  await configure(otlp, telemetry)
  return house
}

// A collector of the operator's may be in a private network, which callers' URLs may not.
const configure = (otlp: object | null = {}, telemetry: object = {}) =>
  reconfigure(
    house.gateway,
    parseConfig(
      JSON.stringify({
        security: { allow_private_urls: [house.receiver.host] },
        telemetry: {
          ...telemetry,
          ...(otlp ? { otlp: { endpoint: house.receiver.url, ...otlp } } : {}),
        },
      }),
      {},
    ),
  )

const listAttributes = () =>
  listSpans(house.receiver.requests[0]?.body ?? '').map(span => readAttributes(span))

describe('the operator’s collector', () => {
  test('is told of calls of every workspace, whether it broadcasts them or not', async () => {
    const { gateway, operator, workspace_id, call, readAllIds } = await open({
      headers: { 'X-Api-Key': 'k' },
    })
    await updateWorkspace(gateway, operator, workspace_id, {
      is_observability_broadcast_enabled: false,
    })
    const ids = await call(3)
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(3)
    expect(readAllIds().toSorted()).toEqual(ids)
    const [request] = house.receiver.requests
    expect([request?.path, request?.headers['x-api-key']]).toEqual(['/v1/traces', 'k'])
  })

  test('is told what was asked and answered only where the config says so', async () => {
    await open()
    await house.call(1, { messages: [{ role: 'user', content: 'canary-words' }] })
    const { waitForCalls } = watchDeliveries(house.gateway)
    await house.gateway.deliveries.start()
    await waitForCalls(1)
    expect(house.receiver.requests[0]?.body).not.toContain('canary-words')
    await configure({ content: true })
    await house.call(1, { messages: [{ role: 'user', content: 'canary-words' }] })
    await waitForCalls(2)
    expect(house.receiver.requests.at(-1)?.body).toContain('canary-words')
  })

  test('is beside the destinations of a workspace, and no API shows it', async () => {
    const { gateway, operator, call, addWebhook } = await open()
    await addWebhook()
    await call(1)
    const { waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitForCalls(2)
    expect(house.receiver.requests.map(({ path }) => path).sort()).toEqual([
      '/traces',
      '/v1/traces',
    ])
    expect(listDestinations(gateway, operator, {}).data.map(({ type }) => type)).toEqual([
      'webhook',
    ])
    expect(() => getDestination(gateway, operator, OPERATOR_ID)).toThrow('Destination')
    expect([...(await readHealth(gateway)).keys()]).not.toContain(OPERATOR_ID)
  })

  test('that says that it is gone is refused its calls, and goes on', async () => {
    const { gateway, call } = await open()
    house.receiver.answer = (_, index) => ({ status: index === 0 ? 410 : 200 })
    await call(1)
    const { waitFor } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitFor(1)
    await call(1)
    await waitFor(2)
    expect(gateway.deliveries.list()).toMatchObject([
      { destination_id: OPERATOR_ID, failed: 1, delivered: 1, waiting: 0 },
    ])
  })

  test('has its refusals listed, replayed and dropped by the operator, and by no key', async () => {
    const { gateway, operator, call, readAllIds } = await open()
    house.receiver.answer = (_, index) => ({ status: index === 0 ? 401 : 200 })
    const ids = await call(2)
    const { waitFor, waitForCalls } = watchDeliveries(gateway)
    await gateway.deliveries.start()
    await waitFor(1)
    const { data, total_count } = await listFailures(gateway, operator, OPERATOR_ID, {})
    expect([total_count, data.map(({ generation_id }) => generation_id)]).toEqual([2, ids])
    const key = { ...operator, kind: 'management' as const, key_hash: house.keys.hash }
    for (const act of [replayFailures, dropFailures])
      expect(act(gateway, key as never, OPERATOR_ID)).rejects.toThrow('Destination')
    await configure(null)
    expect(replayFailures(gateway, operator, OPERATOR_ID)).rejects.toThrow('names no collector')
    await configure()
    expect(await replayFailures(gateway, operator, OPERATOR_ID)).toEqual({ data: { replayed: 2 } })
    gateway.events.publish('store.reloaded', {})
    await waitForCalls(2)
    expect(readAllIds().slice(2)).toEqual(ids)
    expect(await dropFailures(gateway, operator, OPERATOR_ID)).toEqual({ data: { dropped: 0 } })
  })

  test('that leaves the config loses what waits, which is counted', async () => {
    const { gateway, call } = await open()
    house.receiver.answer = () => ({ status: 503 })
    await call(2)
    const failing = waitForEvent(gateway, 'destination.failing')
    await gateway.deliveries.start()
    await failing
    await configure(null)
    await gateway.deliveries.rest()
    expect(gateway.deliveries.list()).toMatchObject([{ waiting: 0, bytes: 0, dropped: 2 }])
    expect(await gateway.store.outbox.listPending(10)).toEqual([])
    await call(1)
    expect(gateway.deliveries.list()).toMatchObject([{ waiting: 0 }])
  })

  test('is told nothing where it takes metrics alone', async () => {
    const { gateway, call } = await open({ traces: false })
    await call(1)
    expect(await gateway.store.outbox.listPending(10)).toEqual([])
  })

  test('is told of a share of sessions', async () => {
    const { gateway, call } = await open({ sampling_rate: 0.0001 })
    await call(20)
    expect((await gateway.store.outbox.listPending(30)).length).toBeLessThan(3)
  })
})

describe('its metrics', () => {
  const start = () => {
    metricsExport = new MetricsExport(house.gateway)
    return metricsExport
  }

  test('are sums since the start, under the names of the conventions', async () => {
    await open({ traces: false, headers: { 'X-Api-Key': 'k' } })
    const exporting = start()
    await house.call(2)
    await exporting.export()
    const [request] = house.receiver.requests
    expect([request?.path, request?.headers['x-api-key']]).toEqual(['/v1/metrics', 'k'])
    const { resourceMetrics } = JSON.parse(request?.body ?? '')
    const { metrics } = resourceMetrics[0].scopeMetrics[0]
    const find = (name: string) => metrics.find((one: { name: string }) => one.name === name)
    const duration = find('gen_ai.client.operation.duration')
    expect(duration.unit).toBe('s')
    const [point] = duration.histogram.dataPoints
    expect(point.count).toBe('2')
    expect(point.bucketCounts).toHaveLength(point.explicitBounds.length + 1)
    expect(readAttributes(point)).toEqual({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'Sandbox',
      'gen_ai.request.model': 'sandbox/echo',
    })
    const usage = find('gen_ai.client.token.usage').histogram.dataPoints
    expect(usage.map((one: never) => readAttributes(one)['gen_ai.token.type'])).toEqual([
      'input',
      'output',
    ])
    expect(find('gateway_calls_total').sum.isMonotonic).toBe(true)
    expect(find('gateway_running_calls').gauge.dataPoints).toHaveLength(1)
  })

  test('that fail to arrive are told once more, and nobody waits', async () => {
    await open({ traces: false })
    house.receiver.answer = (_, index) => ({ status: index === 0 ? 500 : 200 })
    const exporting = start()
    const reasons: (string | null)[] = []
    house.gateway.events.on('metrics.exported', ({ reason }) => reasons.push(reason))
    await house.call(1)
    await exporting.export()
    await exporting.export()
    expect(reasons).toEqual(['It answered 500', null])
    for (const { body } of house.receiver.requests) expect(body).toContain('gateway_calls_total')
  })

  test('go at intervals, from when on the config says so until it does not', async () => {
    house = await openBroadcastHouse()
    start()
    await configure({ metrics_seconds: 0.1, traces: false })
    await house.receiver.waitFor(2)
    await configure(null)
    await metricsExport?.stop()
    const { length } = house.receiver.requests
    expect(length).toBeGreaterThanOrEqual(2)
    expect(house.gateway.config.telemetry.otlp).toBeUndefined()
  })

  test('are not told where they are switched off', async () => {
    await open({ metrics: false })
    await start().export()
    expect(house.receiver.requests).toEqual([])
  })
})

describe('the trace of a request', () => {
  const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
  const SPAN = '00f067aa0ba902b7'

  const callWithin = async (traceparent: string, body: object = {}) => {
    await house.api('POST', '/chat/completions', {
      body: { model: 'sandbox/echo', messages: [{ role: 'user', content: 'Hi' }], ...body },
      key: house.keys.inference,
      headers: { traceparent },
    })
    const { waitForCalls } = watchDeliveries(house.gateway)
    await house.gateway.deliveries.start()
    await waitForCalls(1)
    const [root] = listSpans(house.receiver.requests[0]?.body ?? '')
    return [root?.traceId, root?.parentSpanId]
  }

  test('goes on', async () => {
    await open()
    expect(await callWithin(`00-${TRACE}-${SPAN}-01`)).toEqual([TRACE, SPAN])
    expect(listAttributes()[0]).toMatchObject({ 'gen_ai.request.model': 'sandbox/echo' })
  })

  test('of a later version goes on', async () => {
    await open()
    expect(await callWithin(`cc-${TRACE}-${SPAN}-01-what-comes`)).toEqual([TRACE, SPAN])
  })

  test('in the body takes precedence', async () => {
    await open()
    const trace = { trace_id: 'a'.repeat(32) }
    expect(await callWithin(`00-${TRACE}-${SPAN}-01`, { trace })).toEqual([
      'a'.repeat(32),
      undefined,
    ])
  })

  test.each([
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-01${'-x'.repeat(300)}`,
    'nonsense',
  ])('%s is none', async traceparent => {
    await open()
    const [traceId, parent] = await callWithin(traceparent)
    expect(traceId).not.toBe(TRACE)
    expect(parent).toBeUndefined()
  })
})

describe('providers', () => {
  const read = async (telemetry: object) => {
    const upstream = await startUpstream()
    house = await openBroadcastHouse({
      config: {
        telemetry,
        providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'x' } },
        models: [{ id: 'acme/small', endpoints: [{ provider: 'local', model: 'up' }] }],
      },
    })
    await house.call(1, { model: 'acme/small', trace: { trace_id: 'b'.repeat(32) } })
    await upstream.close()
    return upstream.hits[0]?.headers.traceparent
  }

  test('are sent the trace where the config says so', async () => {
    expect(await read({ propagate_traces: true })).toMatch(/^00-b{32}-[0-9a-f]{16}-01$/)
  })

  test('are not sent it otherwise', async () => {
    expect(await read({})).toBeUndefined()
  })
})
