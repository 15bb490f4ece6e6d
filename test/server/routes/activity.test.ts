import { expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { updateKey } from '../../../src/resources/keys.ts'
import { getApp } from '../../support/app.ts'
import {
  createOtherWorkspace,
  createTestKeys,
  TestClock,
  testGateway,
} from '../../support/gateway.ts'
import { TestTimers } from '../../support/timers.ts'

const OTHER = '00000000-0000-7000-8000-0000000000aa'

/** Asks for the feed with a management key. */
async function ask(gateway: Gateway, query = '', method = 'GET'): Promise<Response> {
  const { management } = await createTestKeys(gateway)
  return getApp(gateway).handle(
    new Request(`http://localhost/api/v1/activity/stream${query}`, {
      method,
      headers: { authorization: `Bearer ${management}` },
    }),
  )
}

test('a feed is kept alive as often as the config says, between what it tells each second', async () => {
  const timers = new TestTimers()
  try {
    const config = { service_name: 'acme', timeouts: { keep_alive_seconds: 0.3 } }
    const gateway = await testGateway({ clock: timers, config })
    const { body } = await ask(gateway, '')
    const reader = body?.pipeThrough(new TextDecoderStream()).getReader()
    const texts: string[] = []
    const reading = (async () => {
      for (;;) {
        const { value, done } = (await reader?.read()) ?? { done: true }
        if (done) return
        texts.push(value ?? '')
      }
    })()
    await timers.passSeconds(1)
    texts.length = 0
    await timers.passSeconds(4, 0.05)
    const kept = texts.filter(text => text.startsWith(':'))
    expect(kept).toEqual(Array(12).fill(': ACME PROCESSING\n\n'))
    await reader?.cancel()
    await reading
    await gateway.close()
  } finally {
    timers.stop()
  }
})

test('a feed with a limit ends after so many entries, and nobody listens any more', async () => {
  const gateway = await testGateway()
  const answer = await ask(gateway, '?limit=3')
  const told = answer.text()
  const error = new GatewayError('server', 'No')
  for (let entry = 0; entry < 5; entry++) {
    gateway.events.publish('config.rejected', { error } as never)
    // Each is read by itself.
    await new Promise(resolve => setImmediate(resolve))
  }
  expect((await told).match(/^data: /gm)).toHaveLength(3)
  expect(gateway.activity.size).toBe(0)
  await gateway.close()
})

test('a feed in which nothing happens ends with its key, too', async () => {
  const timeouts = { keep_alive_seconds: 0.01 }
  const gateway = await testGateway({ clock: new TestClock(), config: { timeouts } })
  const { data, key } = await createOtherWorkspace(gateway, OTHER)
  const answer = await getApp(gateway).handle(
    new Request('http://localhost/api/v1/activity/stream', {
      headers: { authorization: `Bearer ${key}` },
    }),
  )
  await updateKey(gateway, getOperator(gateway), data.hash, { disabled: true })
  ;(gateway.clock as TestClock).pass(1_000)
  expect((await answer.text()).match(/^data: /gm)).toHaveLength(1)
  expect(gateway.activity.size).toBe(0)
  await gateway.close()
})

test('HEAD and a wrong query listen to nothing', async () => {
  const gateway = await testGateway()
  const head = await ask(gateway, '', 'HEAD')
  expect([head.status, head.headers.get('content-type')]).toEqual([
    200,
    'text/event-stream; charset=utf-8',
  ])
  expect(await head.text()).toBe('')
  for (const query of ['?limit=0', '?past=-1', '?until=noon']) {
    const refused = await ask(gateway, query)
    expect(refused.status).toBe(400)
    const { error } = (await refused.json()) as { error: { message: string } }
    expect(error.message).toStartWith(query.slice(1, query.indexOf('=')))
  }
  expect(gateway.activity.size).toBe(0)
  await gateway.close()
})
