import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import OpenAI from 'openai'
import type { Gateway } from '../../src/app/gateway.ts'
import { createDiskWatch } from '../../src/cli/commands/serve/timers.ts'
import type { LogOptions } from '../../src/store/log.ts'
import { getApp } from '../support/app.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { buildLocalConfig } from '../support/server.ts'
import {
  completion,
  delta,
  done,
  finish,
  sseHead,
  startUpstream,
  type Upstream,
  usage,
  usageChunk,
} from '../support/upstream.ts'

const MESSAGES = [{ role: 'user' as const, content: 'Hi' }]

/** What the disk was given while it stands still. */
let held: (() => void)[]
let standsStill: boolean
let upstream: Upstream
let data: string
let clock: TestClock
let gateway: Gateway
let secret: string

const write: LogOptions['write'] = (file, text, tell) => {
  const take = () => tell(null, writeSync(file, text))
  if (standsStill) held.push(take)
  else take()
}

beforeEach(async () => {
  held = []
  standsStill = false
  upstream = await startUpstream()
  data = mkdtempSync(join(tmpdir(), 'gateway-slow-disk-'))
  clock = new TestClock()
  gateway = await testGateway({
    ...{ data, access: 'server', clock, log: { write } },
    config: buildLocalConfig(upstream.url),
  })
  secret = (await createTestKeys(gateway)).inference
})

afterEach(async () => {
  recover()
  await gateway.close()
  await upstream.close()
  rmSync(data, { recursive: true, force: true })
})

/** The disk takes what it was given, and all that follows. */
function recover(): void {
  standsStill = false
  for (const take of held.splice(0)) take()
}

async function waitUntil(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise(resolve => setImmediate(resolve))
}

const get = async (path: string) =>
  (await getApp(gateway).handle(new Request(`http://localhost${path}`))).status

const ask = (body: object = {}) =>
  getApp(gateway).handle(
    new Request('http://localhost/api/v1/chat/completions', {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${secret}` },
      body: JSON.stringify({ model: 'acme/small', messages: MESSAGES, ...body }),
    }),
  )

/** An official client, which repeats what it is told to. */
const createClient = () =>
  new OpenAI({
    apiKey: secret,
    baseURL: 'http://localhost/api/v1',
    maxRetries: 2,
    fetch: (url, init) => getApp(gateway).handle(new Request(url, init)),
  })

const countCharges = async () => (await gateway.store.generations.list({}, 9)).length

test('a disk that stands still holds up no health and no chunk of a running stream, and is said', async () => {
  const order: string[] = []
  gateway.events.on('store.slow', ({ milliseconds }) => order.push(`slow ${milliseconds}`))
  gateway.events.on('store.recovered', () => order.push('recovered'))
  const look = createDiskWatch(gateway)
  upstream.plan(
    [sseHead(), delta('One, '), { wait: 'second' }, delta('two'), { wait: 'end' }, finish()].concat(
      [usageChunk(usage(100, 10)), done(), '0\r\n\r\n'],
    ),
    [completion('waited', { usage: usage(100, 10) })],
  )
  const reader = (await ask({ stream: true })).body?.getReader()
  let text = ''
  const readUntil = async (end: string) => {
    while (!text.includes(end)) text += new TextDecoder().decode((await reader?.read())?.value)
  }
  await readUntil('One, ')

  standsStill = true
  const waiting = ask().then(({ status }) => order.push(`call ${status}`))
  await waitUntil(() => held.length === 1)
  order.push(`health ${await get('/health')}`)
  upstream.open('second')
  await readUntil('two')
  order.push('chunk')
  clock.pass(1_000)
  look()
  look()
  order.push(`ready ${await get('/ready')}`)
  clock.pass(1_000)
  // The first look may find that this process stood still itself: the turns after it tell.
  while ((await get('/ready')) === 200) await new Promise(resolve => setImmediate(resolve))
  const refused = await ask()
  order.push(`ready ${await get('/ready')}`, `new call ${refused.status}`)
  expect([refused.headers.get('retry-after'), refused.headers.get('x-should-retry')]).toEqual([
    '5',
    null,
  ])
  expect([upstream.hits.length, held.length]).toEqual([1, 1])

  recover()
  await waiting
  upstream.open('end')
  await readUntil('[DONE]')
  look()
  order.push(`ready ${await get('/ready')}`)
  expect(order).toEqual([
    'health 200',
    'chunk',
    'slow 1000',
    'ready 200',
    'ready 503',
    'new call 503',
    'call 200',
    'recovered',
    'ready 200',
  ])
  expect([upstream.hits.length, await countCharges()]).toEqual([2, 2])
})

test('an official client whose call was paid gets its answer when the disk goes on', async () => {
  upstream.plan([{ wait: 'answer' }, completion('paid', { usage: usage(100, 10) })])
  const answer = createClient().chat.completions.create({ model: 'acme/small', messages: MESSAGES })
  await waitUntil(() => upstream.hits.length === 1)
  standsStill = true
  upstream.open('answer')
  await waitUntil(() => held.length === 1)
  clock.pass(4_000)
  expect(await get('/ready')).toBe(503)
  recover()
  expect((await answer).choices[0]?.message.content).toBe('paid')
  expect([upstream.hits.length, await countCharges()]).toEqual([1, 1])
})

test('where the disk does not go on in time, an official client does not pay twice', async () => {
  upstream.plan([{ wait: 'answer' }, completion('paid', { usage: usage(100, 10) })])
  const answer = createClient()
    .chat.completions.create({ model: 'acme/small', messages: MESSAGES })
    .catch(thrown => thrown)
  await waitUntil(() => upstream.hits.length === 1)
  standsStill = true
  upstream.open('answer')
  await waitUntil(() => held.length === 1)
  clock.pass(6_000)
  expect(await answer).toMatchObject({ status: 503 })
  recover()
  await gateway.recorder.flush()
  expect([upstream.hits.length, await countCharges()]).toEqual([1, 1])
})
