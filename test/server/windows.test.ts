import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway } from '../../src/app/doctor.ts'
import type { Gateway } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { getApp } from '../support/app.ts'
import { TestClock, testGateway } from '../support/gateway.ts'
import {
  delta,
  done,
  finish,
  sseHead,
  startUpstream,
  type Upstream,
  usage,
} from '../support/upstream.ts'

/** A dollar per million tokens: a call with this bound holds ten cents and costs as much. */
const BOUND = 100_000
const DAY = 86_400_000
/** A tenth of a second before a Monday, which is also the first of a month. */
const EDGE = '2026-05-31T23:59:59.900Z'

let upstream: Upstream
let data: string
let clock: TestClock
let gateway: Gateway

beforeEach(async () => {
  upstream = await startUpstream()
  data = mkdtempSync(join(tmpdir(), 'gateway-windows-'))
  clock = new TestClock(EDGE)
  gateway = await opened()
})

afterEach(async () => {
  expect((await examineGateway(gateway)).data.filter(one => !one.ok)).toEqual([])
  await gateway.close()
  await upstream.close()
  rmSync(data, { recursive: true, force: true })
})

const opened = () => {
  const endpoint = {
    provider: 'local',
    model: 'm',
    usd_per_million_tokens: { prompt: 0, completion: 1 },
  }
  const config = {
    providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
    models: [{ id: 'acme/small', context_length: 1_000_000, endpoints: [endpoint] }],
    limits: { strict: false, wait_seconds: 0 },
  }
  return testGateway({ config, clock, data, ids: ids() })
}

/** Ids that continue when the gateway is reopened. */
let count = 0
const ids = () => {
  const next = () => (++count).toString()
  return {
    uuid: () => `00000000-0000-7000-8000-${next().padStart(12, '0')}`,
    generation: () => `gen-1780000000-${next().padStart(20, '0')}`,
    secret: () => next().padStart(64, '0'),
  }
}

const newKey = async (
  limit: number,
  limit_reset: 'daily' | 'weekly' | 'monthly' | null = 'daily',
) => (await createKey(gateway, getOperator(gateway), { name: 'windows', limit, limit_reset })).key

function ask(key: string, path = '/chat/completions', json?: object): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const init = json ? { method: 'POST', body: JSON.stringify(json) } : {}
  return Promise.resolve(
    getApp(gateway).handle(new Request(`http://localhost/api/v1${path}`, { ...init, headers })),
  )
}

const call = (key: string) =>
  ask(key, '/chat/completions', {
    model: 'acme/small',
    messages: [{ role: 'user', content: 'Hi' }],
    stream: true,
    max_tokens: BOUND,
  })

async function spent(key: string): Promise<number[]> {
  const { data: shown } = (await (await ask(key, '/key')).json()) as {
    data: Record<string, number>
  }
  return ['usage', 'usage_daily', 'usage_weekly', 'usage_monthly', 'limit_remaining'].map(
    name => shown[name] ?? Number.NaN,
  )
}

const answered = () =>
  upstream.plan([
    sseHead(),
    delta('Hel'),
    { wait: 'midnight' },
    finish('stop', usage(1, BOUND)),
    done(),
    '0\r\n\r\n',
  ])

test('A-12 a call across midnight counts in the day, week and month in which it ends', async () => {
  answered()
  const key = await newKey(1)
  const response = await call(key)
  expect(await spent(key)).toEqual([0, 0, 0, 0, 0.9])
  clock.pass(200)
  // Its hold counts in the new day too, so that the money is never free in between.
  expect(await spent(key)).toEqual([0, 0, 0, 0, 0.9])
  upstream.open('midnight')
  await response.text()
  expect(await spent(key)).toEqual([0.1, 0.1, 0.1, 0.1, 0.9])
  clock.pass(DAY)
  expect(await spent(key)).toEqual([0.1, 0, 0.1, 0.1, 1])
})

test('A-12 a hundred calls across midnight: no limit is exceeded, none counts twice', async () => {
  answered()
  const key = await newKey(1)
  const before = await Promise.all(Array.from({ length: 50 }, () => call(key)))
  clock.pass(200)
  const after = await Promise.all(Array.from({ length: 50 }, () => call(key)))
  // Calls of the day before hold money of the new day until they end.
  expect([before, after].map(all => all.filter(({ status }) => status === 200).length)).toEqual([
    10, 0,
  ])
  upstream.open('midnight')
  await Promise.all([...before, ...after].map(response => response.text()))
  expect(await spent(key)).toEqual([1, 1, 1, 1, 0])
  expect((await call(key)).status).toBe(402)
  clock.pass(DAY)
  const next = await Promise.all(Array.from({ length: 15 }, () => call(key)))
  expect(next.filter(({ status }) => status === 200).length).toBe(10)
  await Promise.all(next.map(response => response.text()))
  expect(await spent(key)).toEqual([2, 1, 2, 2, 0])
})

test('A-14 windows follow the clock alone, also across a restart and after a year', async () => {
  answered()
  upstream.open('midnight')
  const key = await newKey(0.1)
  const monthly = await newKey(0.1, 'monthly')
  const forever = await newKey(0.1, null)
  for (const one of [key, monthly, forever]) await (await call(one)).text()
  for (const one of [key, monthly, forever]) expect((await call(one)).status).toBe(402)
  await gateway.close()
  clock.pass(200)
  gateway = await opened()
  expect(await spent(key)).toEqual([0.1, 0, 0, 0, 0.1])
  expect(await spent(forever)).toEqual([0.1, 0, 0, 0, 0])
  for (const one of [key, monthly]) await (await call(one)).text()
  expect((await call(forever)).status).toBe(402)
  clock.pass(365 * DAY)
  expect(await spent(key)).toEqual([0.2, 0, 0, 0, 0.1])
  await gateway.close()
  gateway = await opened()
  expect(await spent(key)).toEqual([0.2, 0, 0, 0, 0.1])
  expect((await call(forever)).status).toBe(402)
})

test('A-13 a clock that is set back does not renew a window, also across a restart', async () => {
  answered()
  upstream.open('midnight')
  const key = await newKey(0.1)
  clock.pass(200)
  await (await call(key)).text()
  clock.pass(-1_000)
  expect((await call(key)).status).toBe(402)
  await gateway.close()
  gateway = await opened()
  expect(await spent(key)).toEqual([0.1, 0.1, 0.1, 0.1, 0])
  expect((await call(key)).status).toBe(402)
})
