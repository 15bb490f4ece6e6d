import { expect, test } from 'bun:test'
import { createApp } from '../../src/server/app.ts'
import { testGateway } from '../support/gateway.ts'

test('a request that a bug ends is answered with 500, and told to those who listen', async () => {
  const gateway = await testGateway()
  const told: object[] = []
  gateway.events.on('request.failed', event => told.push(event))
  const bug = new TypeError('null is not an object')
  Object.defineProperty(gateway.memory, 'keys', {
    get() {
      throw bug
    },
  })
  const headers = { authorization: `Bearer gw-v1-${'0'.repeat(72)}` }
  const response = await createApp(gateway).handle(
    new Request('http://localhost/api/v1/keys/none', { headers }),
  )
  const { error } = (await response.json()) as { error: { metadata: { request_id: string } } }
  expect(response.status).toBe(500)
  expect(JSON.stringify(error)).not.toContain('null is not')
  expect(told).toEqual([{ id: error.metadata.request_id, path: '/api/v1/keys/none', error: bug }])
  const missing = await createApp(gateway).handle(new Request('http://localhost/nowhere'))
  expect([missing.status, told.length]).toEqual([404, 1])
})
