import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { closeSync, openSync } from 'node:fs'
import { Descriptors } from '../../src/server/connections.ts'
import { waitUntil } from '../support/chat.ts'
import { LONG } from '../support/random.ts'
import { buildLocalConfig, PROGRAM, type Server, startServer } from '../support/server.ts'
import { StubbornClient } from '../support/stubborn-client.ts'
import { delta, sseHead, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * Issue: "with all descriptors in use `/health` still answers and the server recovers by itself".
 * The server may have 256 descriptors, and 400 clients come at once.
 */
const LIMIT = 256
const CLIENTS = 400

let server: Server
let upstream: Upstream
let clients: StubbornClient[] = []

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.plan([sseHead(), delta('Hel'), { wait: 'never' }])
  server = await startServer({
    program: ['sh', '-c', `ulimit -n ${LIMIT}; exec "$0" "$@"`, ...PROGRAM],
    config: buildLocalConfig(upstream.url),
  })
})

afterEach(() => {
  for (const client of clients.splice(0)) client[Symbol.dispose]()
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const body = JSON.stringify({
  model: 'acme/small',
  stream: true,
  messages: [{ role: 'user', content: 'Hi' }],
})

const callFor = (client: StubbornClient) =>
  client
    .sendHead('POST', '/api/v1/chat/completions', {
      authorization: `Bearer ${server.inference_key}`,
      'content-length': String(body.length),
    })
    .send(body)

/** Sends a line of a head every 0.3 s, as long as the connection is open. */
function sendHeadSlowly(client: StubbornClient): void {
  client.send('GET / HTTP/1.1\r\n')
  const timer = setInterval(() => client.send('x: y\r\n'), 300)
  void client.closes(60).finally(() => clearInterval(timer))
}

type Flood = [what: string, send: (client: StubbornClient) => unknown]

const SILENT: Flood = ['send nothing', () => {}]

const FLOODS: Flood[] = [
  ['are kept open after an answer', client => client.sendHead('GET', '/health')],
  ['wait for a stream', callFor],
  ['stop in the middle of a head', client => client.send('GET / HTT')],
  ['never end their head', sendHeadSlowly],
  ...(LONG ? [SILENT] : []),
]

test('O-10 /ready answers 503 while descriptors are scarce, and 200 again', async () => {
  using watcher = new StubbornClient(server.url)
  watcher.sendHead('GET', '/ready')
  await watcher.sees('200 OK')
  clients = Array.from({ length: CLIENTS }, () => callFor(new StubbornClient(server.url)))
  await Promise.race(clients.map(client => client.sees('HTTP/1.1 503').catch(() => {})))
  await waitUntil(async () => (await fetchStatus('/ready')) === 503)
  for (const client of clients.splice(0)) client[Symbol.dispose]()
  await waitUntil(async () => (await fetchStatus('/ready')) === 200)
})

test.each(FLOODS)(
  'connections that %s leave a descriptor for /health',
  async (_, send) => {
    clients = Array.from({ length: CLIENTS }, () => new StubbornClient(server.url))
    for (const client of clients) send(client)
    await Promise.race(clients.map(client => client.sees('HTTP/1.1').catch(() => {}))).catch(
      () => {},
    )
    expect(await fetchStatus('/health')).toBe(200)
    await Promise.all(clients.splice(0).map(async client => client[Symbol.dispose]()))
    await waitUntil(isCalm)
    using client = callFor(new StubbornClient(server.url))
    await client.sees('Hel', 'HTTP/1.1 503')
  },
  60_000,
)

test('a call whose provider is silent outlives the heads that are closed', async () => {
  await waitUntil(isCalm)
  const before = upstream.hits.length
  upstream.plan([{ wait: 'answered' }, sseHead(), delta('Hel'), { wait: 'never' }])
  using client = callFor(new StubbornClient(server.url))
  await upstream.hit(before + 1)
  clients = Array.from({ length: CLIENTS }, () => new StubbornClient(server.url))
  for (const half of clients) half.send('GET / HTT')
  await Promise.race(clients.map(half => half.closes(60)))
  expect(await fetchStatus('/health')).toBe(200)
  upstream.open('answered')
  await client.sees('Hel', 'HTTP/1.1 503')
})

test('O-10 connections that carry streams leave a descriptor for /health, and no call fails', async () => {
  await waitUntil(isCalm)
  for (let round = 0; round < CLIENTS / 20; round++) {
    const some = Array.from({ length: 20 }, () => callFor(new StubbornClient(server.url)))
    clients.push(...some)
    await Promise.all(some.map(client => client.sees('\r\n\r\n')))
  }
  const statuses = new Set(clients.map(({ text }) => text.slice(9, 12)))
  expect([...statuses].sort()).toEqual(['200', '503'])
  expect(clients.filter(({ text }) => text.includes('Hel')).length).toBeGreaterThan(60)
  expect(await fetchStatus('/health')).toBe(200)
})

/** Resolves once no call is left of clients that have gone, and another finds a descriptor. */
const isCalm = async (): Promise<boolean> =>
  (await fetchStatus('/ready')) === 200 && /^gateway_calls_in_flight 0$/m.test(await readMetrics())

const readMetrics = (): Promise<string> =>
  fetch(`${server.url}/metrics`, { keepalive: false }).then(
    response => response.text(),
    () => '',
  )

const fetchStatus = (path: string): Promise<number | string> =>
  fetch(server.url + path, { keepalive: false, signal: AbortSignal.timeout(20_000) }).then(
    response => response.status,
    thrown => (thrown as Error).name,
  )

const openMany = (count: number) => Array.from({ length: count }, () => openSync('/dev/null', 'r'))

test.each<[string, string, () => RequestInit]>([
  [
    'calls under a client’s key that are refused',
    '/api/v1/chat/completions',
    () => ({
      headers: { 'idempotency-key': 'one', 'content-type': 'application/json' },
      body: '{}',
    }),
  ],
  [
    'uploads that are refused',
    '/api/v1/files',
    () => {
      const body = new FormData()
      body.set('purpose', 'vision')
      return { body }
    },
  ],
])('%s keep no descriptor: other calls find one', async (_, path, build) => {
  await waitUntil(isCalm)
  for (let i = 0; i < LIMIT; i++) {
    const { headers, body } = build()
    const authorization = `Bearer ${server.inference_key}`
    const init = { method: 'POST', headers: { ...headers, authorization }, body: body ?? null }
    const response = await fetch(server.url + path, init)
    await response.text()
    expect([i, response.status]).toEqual([i, 400])
  }
  using client = callFor(new StubbornClient(server.url))
  await client.sees('Hel')
})

test('descriptors are scarce when only the reserve is left, and a call notices before', () => {
  const held = openMany(300)
  const changes: boolean[] = []
  const descriptors = new Descriptors({
    onChange: isScarce => changes.push(isScarce),
    limit: Math.max(...held) + 1 + 25 + 64,
  })
  const answers = Array.from({ length: 32 }, () => descriptors.admitCall())
  expect([answers[0], answers.at(-1)]).toEqual([true, false])
  for (const isAdmitted of answers) if (isAdmitted) descriptors.startCall()
  descriptors.look()
  expect(descriptors.admitCall()).toBe(true)
  held.push(...openMany(30))
  descriptors.look()
  expect(descriptors.admitCall()).toBe(false)
  for (const descriptor of held) closeSync(descriptor)
  descriptors.look()
  expect(changes).toEqual([true, false])
})

test('a call is refused only by what is counted then', () => {
  const held = openMany(300)
  const descriptors = new Descriptors({ limit: Math.max(...held) + 1 + 10 + 64 })
  const answers = Array.from({ length: 12 }, () => descriptors.admitCall())
  expect([answers[9], answers[10]]).toEqual([true, false])
  for (const isAdmitted of answers) if (isAdmitted) descriptors.startCall()
  for (const descriptor of held) closeSync(descriptor)
  expect(descriptors.admitCall()).toBe(true)
})

/** Returns how many calls are admitted although all this room was taken after the first. */
function countLateAdmissions(room: number): number {
  const held = openMany(300)
  const descriptors = new Descriptors({ limit: Math.max(...held) + 1 + room + 64 })
  let admitted = 0
  for (; admitted < 1_000 && descriptors.admitCall(); admitted++) {
    descriptors.startCall()
    if (admitted === 0) held.push(...openMany(room + 1))
  }
  for (const descriptor of held) closeSync(descriptor)
  return admitted
}

test('calls look at the descriptors the more often, the fewer are left', () => {
  expect([40, 640, 1_600].map(countLateAdmissions)).toEqual([16, 20, 50])
})

test('it is logged when descriptors are scarce, and when they no longer are', async () => {
  const { stderr } = await server.stop()
  const events = stderr
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line))
  const names = new Set(events.map(({ event }) => event))
  expect(names).toContain('descriptors.few')
  expect(names).toContain('descriptors.scarce')
  expect(names).toContain('descriptors.sufficient')
  expect(events.filter(({ status }) => status === 502)).toEqual([])
  // What fails is said to be the gateway's own shortage, and no endpoint is blamed for it.
  const failures = events.filter(({ event }) => event === 'attempt.failed')
  const kinds = new Set(failures.map(({ type, cause }) => `${type} ${cause}`))
  expect([...kinds].filter(kind => kind !== 'unavailable EMFILE')).toEqual([])
})
