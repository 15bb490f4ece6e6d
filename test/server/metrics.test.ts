import { describe, expect, test } from 'bun:test'
import { createApp } from '../../src/server/app.ts'
import { listenForMetrics } from '../../src/server/listen/metrics.ts'
import { listen } from '../../src/server/listen.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { request } from '../support/raw-client.ts'

const open = (server: object) => testGateway({ config: { server } })

const statusAt = async (url: string, key?: string) =>
  (await fetch(url, key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } }))
    .status

describe('metrics', () => {
  test('require a management key if the config says so', async () => {
    const gateway = await open({ metrics_key: true })
    const keys = await createTestKeys(gateway)
    const app = createApp(gateway)
    const ask = async (path: string, key = '') =>
      (
        await app.handle(
          new Request(`http://localhost${path}`, { headers: { authorization: `Bearer ${key}` } }),
        )
      ).status
    expect(await ask('/metrics')).toBe(401)
    expect(await ask('/metrics', keys.inference)).toBe(403)
    expect(await ask('/metrics', keys.management)).toBe(200)
    expect(await ask('/health')).toBe(200)
  })

  test('answer at their own address only, and nothing else answers there', async () => {
    const gateway = await open({ metrics_address: '127.0.0.1:0' })
    const app = createApp(gateway)
    expect((await app.handle(new Request('http://localhost/metrics'))).status).toBe(404)
    expect((await app.handle(new Request('http://localhost/health'))).status).toBe(200)
    const server = listenForMetrics(gateway)
    if (!server) throw new Error('expected a server')
    try {
      expect(await statusAt(server.url)).toBe(200)
      for (const path of ['/health', '/api/v1/models', '/', '/metrics/', '/x/metrics', '/docs'])
        expect([path, await statusAt(new URL(path, server.url).href)]).toEqual([path, 404])
      const raw = 'GET /a/../metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
      expect((await request(server.url, { raw }).outcome()).status).toBe(404)
    } finally {
      await server.stop()
    }
  })

  test('require the key at their own address too', async () => {
    const gateway = await open({ metrics_address: '127.0.0.1:0', metrics_key: true })
    const { management } = await createTestKeys(gateway)
    const server = listenForMetrics(gateway)
    if (!server) throw new Error('expected a server')
    try {
      expect(await statusAt(server.url)).toBe(401)
      expect(await statusAt(server.url, management)).toBe(200)
    } finally {
      await server.stop()
    }
  })

  test.each([
    ['127.0.0.1', {}, 200],
    ['0.0.0.0', {}, 401],
    ['0.0.0.0', { metrics_key: false }, 200],
    ['127.0.0.1', { metrics_key: true }, 401],
  ])('of an API that listens on %s with %j answer %d', async (host, config, status) => {
    const gateway = await open(config)
    const server = listen(gateway, host, 0)
    try {
      expect(await statusAt(`http://127.0.0.1:${server.port}/metrics`)).toBe(status)
      const { management } = await createTestKeys(gateway)
      expect(await statusAt(`http://127.0.0.1:${server.port}/metrics`, management)).toBe(200)
    } finally {
      await server.stop(0)
    }
  })

  test('answer with the API by default', async () => {
    const gateway = await open({})
    expect(listenForMetrics(gateway)).toBeNull()
    expect((await createApp(gateway).handle(new Request('http://localhost/metrics'))).status).toBe(
      200,
    )
  })

  test.each(['9464', '127.0.0.1', '127.0.0.1:', ':9464', '127.0.0.1:65536', '::1:9464', 'a b:1'])(
    'the address %p is refused',
    async metrics_address => {
      await expect(open({ metrics_address })).rejects.toThrow('server.metrics_address')
    },
  )
})
