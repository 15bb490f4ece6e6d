import { beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { VERSION } from '../../src/base/version.ts'
import { listCreditBounds } from '../../src/limits/credits.ts'
import { createApp } from '../../src/server/app.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'

let gateway: Gateway
let get: (path: string) => Promise<Response>

beforeAll(async () => {
  gateway = await testGateway({ config: { server: { site_url: 'https://gw.example/' } } })
  const app = createApp(gateway)
  get = async path => app.handle(new Request(`http://localhost${path}`))
})

describe('GET /', () => {
  test('says what this is, its version and state, and how to call it', async () => {
    const response = await get('/')
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/html; charset=utf-8',
    ])
    const page = await response.text()
    for (const part of [
      'A model gateway',
      `Version ${VERSION}, ready.`,
      'href="/docs"',
      'curl https://gw.example/api/v1/chat/completions',
      '<code>https://gw.example</code>',
    ])
      expect(page).toContain(part)
  })

  test('shows its state, and nothing that only some may know', async () => {
    const { management } = await createTestKeys(gateway)
    gateway.instance.configStatus.rejected = true
    const page = await (await get('/')).text()
    gateway.instance.configStatus.rejected = false
    expect(page).toContain('its changed config file is wrong')
    expect(page).not.toContain(management.slice(0, 12))
    expect(page).not.toContain(gateway.memory.owner.workspace_id)
  })

  test('runs nothing, and no text of the config becomes markup', async () => {
    const model = `acme/<img>"'`
    const config = {
      default_model: model,
      models: [{ id: model, endpoints: [{ provider: 'sandbox', model: 'echo' }] }],
    }
    const response = await createApp(await testGateway({ config })).handle(
      new Request('http://localhost/'),
    )
    expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
    expect(await response.text()).not.toContain('<img>')
  })
})

test('GET /credits, which a call without credits is told of, says how some are added', async () => {
  const [bound] = listCreditBounds({
    ...gateway,
    config: { ...gateway.config, limits: { ...gateway.config.limits, credits: true } },
  })
  const address = /https:\S+/.exec(bound?.message ?? '')?.[0] ?? ''
  expect(address).toStartWith('https://gw.example/')
  const response = await get(new URL(address).pathname)
  expect(response.status).toBe(200)
  const page = await response.text()
  for (const part of ['gateway credits add --amount 10', 'GET https://gw.example/api/v1/credits'])
    expect(page).toContain(part)
})

test('GET /favicon.ico is a picture', async () => {
  const response = await get('/favicon.ico')
  expect([response.status, response.headers.get('content-type')]).toEqual([200, 'image/svg+xml'])
  expect(await response.text()).toStartWith('<svg')
})

test('GET /healthz answers like /health', async () => {
  for (const rejected of [false, true]) {
    gateway.instance.configStatus.rejected = rejected
    const [health, healthz] = await Promise.all(
      ['/health', '/healthz'].map(async path => (await get(path)).json()),
    )
    expect(healthz).toEqual(health)
  }
  gateway.instance.configStatus.rejected = false
})
