import { expect, test } from 'bun:test'
import { reconfigure } from '../../src/app/reconfigure.ts'
import { parseConfig } from '../../src/config.ts'
import { expectBooksHold } from '../support/invariants.ts'
import { buildLocalConfig, startLocalServer } from '../support/server.ts'
import { completion, startUpstream } from '../support/upstream.ts'

const ASKED = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] }

test.each([false, true])(
  'X-22 a provider that is this gateway itself is called three times, not without end: streamed %p',
  async stream => {
    await using server = await startLocalServer({})
    const circle = buildLocalConfig(server.base)
    circle.providers.local.api_key = server.inference_key
    for (const { endpoints } of circle.models)
      for (const endpoint of endpoints) endpoint.model = 'acme/small'
    await reconfigure(server.gateway, parseConfig(JSON.stringify(circle), {}))
    let opened = 0
    server.gateway.events.on('call.opened', () => {
      opened += 1
    })
    const answer = await server.fetch('/chat/completions', { json: { ...ASKED, stream } })
    expect([answer.status, await answer.text()]).toEqual([
      400,
      expect.stringContaining('base_url leads back'),
    ])
    expect(opened).toBe(3)
    await expectBooksHold(server)
  },
)

test('a call says how many gateways it has come through, to providers at addresses of the operator', async () => {
  await using upstream = await startUpstream()
  upstream.plan(completion('Hello'))
  await using server = await startLocalServer(buildLocalConfig(upstream.url))
  const heard = async (headers: Record<string, string>) => {
    upstream.hits.length = 0
    await server.fetch('/chat/completions', { json: ASKED, headers })
    return upstream.hits[0]?.headers['cdn-loop']
  }
  expect(await heard({})).toBe('gateway;hops=1')
  expect(await heard({ 'cdn-loop': 'gateway;hops=2' })).toBe('gateway;hops=3')
  // What stands between two gateways adds itself to the list.
  for (const list of [
    'gateway;hops=2, cdn',
    'cdn; a=9,gateway;hops=2',
    'gateway;hops=1, gateway;hops=2',
  ])
    expect(await heard({ 'cdn-loop': list })).toBe('gateway;hops=3')
  for (const list of ['cdn, gateway;hops=3', 'gateway;hops=99999999999999999999'])
    expect(await heard({ 'cdn-loop': list })).toBeUndefined()
  for (const other of ['gateway;hops=-5', 'gateway;hops=1e9', 'cdn; a=9', 'x'.repeat(4_000)])
    expect(await heard({ 'cdn-loop': other })).toBe('gateway;hops=1')
})
