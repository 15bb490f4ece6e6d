import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { parseConfig } from '../../src/config.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

const APP = 'https://app.example'
const MESSAGES = [{ role: 'user', content: 'Hello' }]

interface Asking {
  origin?: string
  base?: string
  path?: string
}

const preflight = (
  server: LocalServer,
  { origin = APP, base = '/api/v1', path = '/chat/completions' }: Asking = {},
  asked = 'authorization, content-type, x-stainless-os',
) =>
  fetch(server.url + base + path, {
    method: 'OPTIONS',
    headers: {
      origin,
      'access-control-request-method': 'POST',
      'access-control-request-headers': asked,
    },
  })

const call = (server: LocalServer, origin: string, body: object = {}) =>
  server.fetch('/chat/completions', {
    headers: { origin },
    json: { model: 'sandbox/echo', messages: MESSAGES, ...body },
  })

const allowedOrigin = ({ headers }: Response) => headers.get('access-control-allow-origin')

describe('X-40 without origins in the config', () => {
  let server: LocalServer
  beforeAll(async () => {
    server = await startLocalServer()
  })
  afterAll(() => server[Symbol.asyncDispose]())

  test('no page may call: no preflight is answered, and no answer is readable', async () => {
    const response = await preflight(server)
    expect([response.status, allowedOrigin(response)]).toEqual([405, null])
    const answer = await call(server, APP)
    expect([answer.status, allowedOrigin(answer), answer.headers.get('vary')]).toEqual([
      200,
      null,
      null,
    ])
  })
})

describe('with origins', () => {
  let server: LocalServer
  beforeAll(async () => {
    server = await startLocalServer({ server: { cors: [APP, 'http://localhost:3000'] } })
  })
  afterAll(() => server[Symbol.asyncDispose]())

  test.each(['/api/v1', '/v1', '/api/v1/'])('a preflight at %s is answered', async base => {
    const { status, headers } = await preflight(server, { base })
    expect(status).toBe(204)
    expect(Object.fromEntries(headers)).toMatchObject({
      'access-control-allow-origin': APP,
      'access-control-allow-methods': expect.stringContaining('POST'),
      'access-control-allow-headers': 'authorization, content-type, x-stainless-os',
      'access-control-max-age': '7200',
      vary: 'Origin',
    })
    expect(headers.has('access-control-allow-credentials')).toBe(false)
  })

  test('answers, streams and refusals can be read, with their ids', async () => {
    const refused = await server.fetch('/chat/completions', {
      key: 'nobody',
      headers: { origin: 'http://localhost:3000' },
      json: {},
    })
    expect([refused.status, allowedOrigin(refused)]).toEqual([401, 'http://localhost:3000'])
    for (const stream of [true, false]) {
      const answer = await call(server, APP, { stream })
      expect([answer.status, allowedOrigin(answer)]).toEqual([200, APP])
      expect(answer.headers.get('access-control-expose-headers')).toContain('x-generation-id')
      await answer.text()
    }
    const missing = await server.fetch('/nothing', { headers: { origin: APP } })
    expect([missing.status, allowedOrigin(missing)]).toEqual([404, APP])
  })

  test.each(['https://evil.example', 'https://app.example.evil', 'null', 'http://app.example'])(
    'a page of %s may not',
    async origin => {
      const response = await preflight(server, { origin })
      expect([response.status, allowedOrigin(response)]).toEqual([405, null])
      const answer = await call(server, origin)
      expect([allowedOrigin(answer), answer.headers.get('vary')]).toEqual([null, 'Origin'])
    },
  )

  test('health and metrics are for no page', async () => {
    for (const path of ['/health', '/metrics']) {
      expect((await preflight(server, { base: '', path })).status).toBe(405)
      expect(allowedOrigin(await fetch(server.url + path, { headers: { origin: APP } }))).toBeNull()
    }
  })

  test('an OPTIONS that is no preflight, or of no path, is answered as before', async () => {
    expect((await server.fetch('/key', { method: 'OPTIONS' })).status).toBe(405)
    expect((await preflight(server, { path: '/nothing' })).status).toBe(404)
  })

  test.each([['a b'], ['x'.repeat(101)], ['a,'.repeat(100)], ['é']])(
    'names of headers that are none are not repeated: %#',
    async asked => {
      const { headers } = await preflight(server, {}, Buffer.from(asked).toString('latin1'))
      expect(headers.has('access-control-allow-headers')).toBe(false)
    },
  )
})

describe('with all origins', () => {
  let server: LocalServer
  beforeAll(async () => {
    server = await startLocalServer({ server: { cors: ['*'] } })
  })
  afterAll(() => server[Symbol.asyncDispose]())

  test('any page may call, without credentials of the browser', async () => {
    for (const origin of ['https://a.example', 'null']) {
      const { status, headers } = await preflight(server, { origin })
      expect([status, headers.get('access-control-allow-origin')]).toEqual([204, '*'])
      expect(headers.has('access-control-allow-credentials')).toBe(false)
      expect(allowedOrigin(await call(server, origin))).toBe('*')
    }
  })
})

test.each([
  ...['app.example', 'https://app.example/', 'https://app.example/x', 'https://APP.example'],
  ...['https://app.example:443', 'ftp://app.example', '', 'https://*.example', 'null'],
])('%p is no origin', origin => {
  const config = JSON.stringify({ server: { cors: [origin] } })
  expect(() => parseConfig(config, {})).toThrow(/server\.cors\.0/)
})
