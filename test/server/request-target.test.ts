import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createApp } from '../../src/server/app.ts'
import { testGateway } from '../support/gateway.ts'
import { createSeededRandom, LONG, SEED } from '../support/random.ts'
import { type Outcome, request } from '../support/raw-client.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/*
 * Issue: "the path is what stands in the request line, whatever the Host says; a proxy's path rules
 * mean what they say". Hosts and paths of every form are sent as they are, and what answers is
 * compared with what the rules of proxies would have let through.
 */

const CASES = LONG ? 10_000 : 1_500

let server: LocalServer

beforeAll(async () => {
  server = await startLocalServer()
})

afterAll(() => server[Symbol.asyncDispose]())

/** Sends a request line and a Host as they are, with a management key. */
function sendRaw(target: string, host: string, method = 'GET'): Promise<Outcome> {
  const raw =
    `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n` +
    `Authorization: Bearer ${server.management_key}\r\n\r\n`
  return request(server.url, { method, raw }).outcome()
}

test.each([
  ['/api/v1/v1/messages', '/api/v1/messages', '/api'],
  ['/messages', '/api/v1/messages', '/api'],
  ['/chat/completions', '/api/v1/chat/completions', '/api/v1'],
  ['/api/chat/completions', '/api/v1/chat/completions', '/api/v1'],
  ['/api/v1/chat/completions/chat/completions', '/api/v1/chat/completions', '/api/v1'],
])('a client that asks %s is told the base to use', async (path, at, base) => {
  const response = await fetch(server.url + path, { method: 'POST', body: '{}' })
  const { error } = await response.json()
  expect([response.status, error.message]).toEqual([404, expect.stringContaining(` is at ${at}. `)])
  expect(error.message).toEndWith(`should end in ${base}`)
})

test('a path that resembles none is not guessed at', async () => {
  const response = await fetch(`${server.url}/api/v1/nothing`)
  expect((await response.json()).error.message).toBe('Resource not found')
})

describe('X-08 the Host does not decide the path:', () => {
  const VALID = [
    ...['x', 'ab', 'abc', 'a.b', 'x:1', 'ab:80', '1', '10', '127.1', '0', '256', '999'],
    ...['1.2.3.999', '0x7f.1', '1.1.1.1.', 'a:99999', 'localhost:0', '-', '_', '.', '..', 'xn--a'],
    ...['[::1]', '[::1]:8', '[::ffff:1.2.3.4]', '[1:2]', 'EXAMPLE.com', 'example.com.:443'],
  ]

  test.each(VALID)('at %s, every path is found', async host => {
    for (const path of ['/health', '/metrics', '/api/v1/models?q=zz', '/api/v1/key'])
      expect([path, (await sendRaw(path, host)).status]).toEqual([path, 200])
    expect((await sendRaw('/api/v1/keys/none', host)).status).toBe(404)
  })

  test.each(VALID)('at %s, no longer path is taken for a shorter one', async host => {
    for (const path of ['/zz/metrics', '/z/metrics', '//metrics', '/z/api/v1/models'])
      expect([path, (await sendRaw(path, host)).status]).toEqual([path, 404])
  })

  test('a host that is none is refused, whatever the path', async () => {
    for (const host of ['', 'a b', 'a/b', 'a/metrics', 'a?b', 'a#b', 'u@a', '%61', 'a\\b', 'a,b'])
      expect([host, (await sendRaw('/metrics', host)).status]).toEqual([host, 400])
  })
})

test.each(['/api/v1', '/v1', '//v1/'])(
  'below %s nothing has a name that is no UTF-8',
  async base => {
    for (const name of ['%E4', '%FF', '%', '%C3%28', 'a%'])
      for (const method of ['GET', 'PATCH', 'DELETE', 'POST'])
        for (const path of [
          `/keys/${name}`,
          `/presets/${name}/messages`,
          `/models/${name}/x/endpoints`,
        ]) {
          const { status } = await sendRaw(base + path, 'localhost', method)
          expect([method, path, status]).toEqual([method, path, 404])
        }
  },
)

describe('the API answers at other ways to write its base:', () => {
  const BASES = ['//api/v1', '/api/v1/', '//api/v1/', '/v1', '//v1', '/v1/', '//v1/']

  test.each(BASES)('at %s', async base => {
    expect(await read(`${base}/models?q=echo`)).toContain('sandbox/echo')
    expect(await read(`${base}/model/sandbox/echo`)).toContain('"id":"sandbox/echo"')
    expect((await sendRaw(`${base}/key`, 'localhost')).status).toBe(200)
    expect((await sendRaw(`${base}/keys/none`, 'localhost')).status).toBe(404)
    expect((await sendRaw(`${base}/models`, 'localhost', 'DELETE')).headers.allow).toBe('GET')
  })

  test.each(BASES)('a call at %s is answered, and its stream too', async base => {
    for (const stream of [true, false]) {
      const response = await fetch(`${server.url}${base}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${server.inference_key}` },
        body: JSON.stringify({
          model: 'sandbox/echo',
          messages: [{ role: 'user', content: 'Once upon a time' }],
          stream,
        }),
      })
      expect(response.status).toBe(200)
      expect(await response.text()).toContain('Once')
    }
  })

  test.each([
    ...['/V1/models', '/v1', '/v1//', '/v1/metrics', '//metrics', '//health', '/v1/docs'],
    ...['///v1/models', '/v1///models', '/x//v1/models', '/api//v1/models', '/v2/models'],
    ...[
      '/a/../v1/models',
      '/v1/../v1/models',
      '/v1/models/..',
      '/v1/models/../keys',
      '/v1/api/v1/models',
    ],
  ])('nothing is at %s', async target => {
    expect((await sendRaw(target, 'localhost')).status).toBe(404)
  })

  const read = async (target: string) => (await sendRaw(target, 'localhost')).body
})

describe('X-08 the path is what stands in the request line:', () => {
  test.each([
    ...['/a/../metrics', '/./metrics', '/a/%2e%2e/metrics', '/a/.%2E/metrics', '/../metrics'],
    ...['\\metrics', '/a\\..\\metrics', '/\\metrics', '//metrics', '///metrics', '/metrics/'],
    ...['/%6detrics', '/metrics%2f', '/metrics%', '/metrics;x', '/metrics#', '/METRICS'],
    ...['/api/v1/models/../keys', '/api/v1/model/../../../metrics', '/api/v1/keys/..'],
    ...['/docs/../metrics', '/docs/%2e%2e', '/docs/..%2fmetrics', '/docs/page.js/..'],
    'http://other/docs/../metrics',
  ])('nothing is at %s', async target => {
    const { status } = await sendRaw(target, 'localhost')
    expect([400, 404]).toContain(status)
  })

  test.each([
    ...['http://other/metrics', 'http://other:99/metrics?x', 'HTTPS://user@other/metrics'],
    ...['/metrics?', '/metrics?/../x', '/metrics?a#b'],
  ])('%s is /metrics', async target => {
    const { status, body } = await sendRaw(target, 'localhost')
    expect([status, body.includes('gateway_running_calls')]).toEqual([200, true])
  })

  test('a HEAD and another method are answered as before', async () => {
    expect((await sendRaw('/health', 'x', 'HEAD')).status).toBe(200)
    expect((await sendRaw('/metrics', 'x', 'DELETE')).headers.allow).toBe('GET')
    expect((await sendRaw('/api/v1/scim/v2/Users', 'x')).headers['content-type']).toStartWith(
      'application/scim+json',
    )
  })
})

/* What rules see: a path as it is (HAProxy, Envoy), or decoded and tidied (nginx, Apache). */

const stripOrigin = (target: string) =>
  target.replace(/^https?:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '')

function decode(path: string): string {
  return path.replace(/%[0-9a-f]{2}/gi, hex =>
    String.fromCharCode(Number.parseInt(hex.slice(1), 16)),
  )
}

function tidy(path: string): string {
  const kept: string[] = []
  for (const part of path.split('/')) {
    if (part === '..') kept.pop()
    else if (part !== '.' && part !== '') kept.push(part)
  }
  return `/${kept.join('/')}`
}

const VIEWS: Record<string, (target: string) => string> = {
  'as it is': stripOrigin,
  decoded: target => decode(stripOrigin(target)),
  'decoded and tidied': target => tidy(decode(stripOrigin(target))),
  'tidied with backslashes': target => tidy(decode(stripOrigin(target)).replaceAll('\\', '/')),
}

/** The routes, each as the expression that its exact paths match, by what only it answers. */
const app = createApp(await testGateway())
const patterns = [...new Set(app.routes.map(({ path }) => path.replace(/(?<=.)\/$/, '')))]
/** The ways to write the base of the API: a proxy's rule about it has to name all of them. */
const ANY_BASE = '(//?(api/)?v1//?|/openai/(v1/|(?=(responses|models|files|batches)(/|$))))'
/** A model’s id may hold a slash. */
const MODEL = '[^/]+(/[^/]+)?'
const toExpression = (pattern: string) =>
  new RegExp(
    `^${pattern
      .replaceAll('.', '\\.')
      .replace(/:(deployment|model)\b/, MODEL)
      .replace(/:\w+/g, '[^/]+')
      .replace('/api/v1/', ANY_BASE)
      .replace('/v1beta/models/', '/v1beta/(models/)?')}$`,
  )
const expressions = patterns.map(toExpression)

describe(`rules of proxies mean what they say (seed ${SEED})`, () => {
  test(`${CASES} targets: what is answered is at that path in every view`, async () => {
    const random = createSeededRandom(SEED)
    const pick = <One>(list: readonly One[]) => list[Math.floor(random() * list.length)] as One
    const cases = Array.from({ length: CASES }, () => ({
      target: makeTarget(pick, random),
      host: pick(HOSTS),
    }))
    const found: unknown[] = []
    let answered = 0
    const checkNext = async () => {
      for (let next = cases.pop(); next; next = cases.pop()) {
        const outcome = await sendRaw(next.target, next.host, 'OPTIONS')
        if (outcome.status === 405) answered++
        const wrong = findBypass(next.target, outcome)
        if (wrong) found.push({ ...next, ...wrong })
      }
    }
    await Promise.all(Array.from({ length: 16 }, checkNext))
    expect(found.slice(0, 5)).toEqual([])
    expect(answered).toBeGreaterThan(CASES / 50)
  }, 120_000)
})

const HOSTS = [
  'x',
  'ab',
  'abc',
  'localhost',
  '1',
  '127.1',
  '[::1]',
  'a:80',
  'a.b:65535',
  '1.2.3.999',
]
const ORIGINS = ['', '', '', '', 'http://o', 'http://o:8', 'HTTPS://u:p@o', 'http://[::1]']
const PARTS = [
  ...['', '.', '..', '%2e', '%2E%2e', '.%2e', '..;', '%2f', '%5c', '\\', '..\\', '\\..', '%252e'],
  ...[
    'a',
    'metrics',
    'health',
    'api',
    'v1',
    'models',
    'keys',
    'docs',
    '%6d',
    '%00',
    'é',
    '#',
    '#x',
  ],
]
const TAILS = [
  '',
  '',
  '',
  '/',
  '//',
  '/.',
  '/..',
  '?',
  '?a=/../metrics',
  '#',
  '%2f',
  '%20',
  ';x',
  '\\',
]
type Pick = <One>(list: readonly One[]) => One

function makeTarget(pick: Pick, random: () => number): string {
  const parts = pick(patterns)
    .split('/')
    .slice(1)
    .map(part => (part.startsWith(':') ? pick(PARTS) : part))
  const changes = Math.floor(random() * 4)
  for (let i = 0; i < changes; i++) disturb(parts, pick, random)
  return `${pick(ORIGINS)}/${parts.join(pick(['/', '/', '/', '/', '/', '//', '\\', '%2f']))}${pick(TAILS)}`
}

function disturb(parts: string[], pick: Pick, random: () => number): void {
  const at = Math.floor(random() * (parts.length + 1))
  const kind = random()
  if (kind < 0.5) parts.splice(at, 0, pick(PARTS), ...(random() < 0.5 ? ['..'] : []))
  else if (kind < 0.75) parts[at] = `${parts[at] ?? ''}${pick(PARTS)}`
  else if (parts[at])
    parts[at] = parts[at].replace(/[a-z]/, sign => `%${sign.charCodeAt(0).toString(16)}`)
}

/** Returns the view in which something was answered that is not there. */
function findBypass(target: string, { status, body, headers }: Outcome) {
  // OPTIONS has no route: 405 says that the path has one, and Allow which methods.
  if (status >= 500) return { status, body }
  if (status !== 405) return undefined
  const matching = Object.values(VIEWS).map(view => listPatterns(view(target)))
  const [answered = []] = matching
  // A rule about the pattern that answers has to see the request, however it reads the path.
  const isSeen = (seen: string[]) => answered.length > 0 && answered.every(it => seen.includes(it))
  const blind = Object.keys(VIEWS).filter((_, i) => !isSeen(matching[i] ?? []))
  return blind.length > 0 ? { status, allow: headers.allow, blind, matching } : undefined
}

const listPatterns = (path: string) =>
  patterns.filter((_, i) => expressions[i]?.test(path)).map(nameModel)

// A model's id is one segment with an encoded slash, or two: a rule has to name both.
const nameModel = (pattern: string) => pattern.replace(/(\/models)\/:author(\/:slug)?$/, '$1/MODEL')
