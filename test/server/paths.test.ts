import { expect, test } from 'bun:test'
import { createApp } from '../../src/server/app.ts'
import { createProbeAnswer } from '../../src/server/listen.ts'
import { listPaths, openOwnMetrics } from '../../src/server/paths.ts'
import { testGateway } from '../support/gateway.ts'

test.each([{}, { metrics_address: '127.0.0.1:9' }])(
  'the server knows the paths of all routes before they are created: %j',
  async server => {
    const gateway = await testGateway({ config: { server } })
    const declared = createApp(gateway).routes.map(({ path }) => path.replace(/(?<=.)\/$/, ''))
    expect(listPaths(openOwnMetrics(gateway)).toSorted()).toEqual([...new Set(declared)].toSorted())
  },
)

test.each(['/health', '/healthz', '/ready'])(
  '%s answers without the app as with it',
  async path => {
    const gateway = await testGateway()
    const send = async (answer: (request: Request) => Response | undefined | Promise<Response>) => {
      const response = await answer(new Request(`http://localhost${path}?a=b`))
      return response && [response.status, [...response.headers], await response.text()]
    }
    const probed = await send(createProbeAnswer(gateway))
    expect(probed).toEqual(await send(createApp(gateway).fetch))
    expect(probed?.[0]).toBe(200)
    gateway.instance.configStatus.rejected = true
    expect(await send(createProbeAnswer(gateway))).toEqual(await send(createApp(gateway).fetch))
  },
)

test.each([
  ['POST', '/health'],
  ['HEAD', '/health'],
  ['GET', '/'],
  ['GET', '/health/x'],
])('%s %s is for the app', async (method, path) => {
  const request = new Request(`http://localhost${path}`, { method })
  expect(createProbeAnswer(await testGateway())(request)).toBeUndefined()
})
