import { Database } from 'bun:sqlite'
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { chat, eventually, keyState, limitedKey, metric, routesConfig, usageOf } from '../support/chat.ts'
import type { Outcome } from '../support/raw-client.ts'
import { type Server, startServer } from '../support/server.ts'
import { completion, delta, done, finish, type Script, sseHead, startUpstream, type Upstream, usage } from '../support/upstream.ts'

/** A dollar for a million tokens of output, and nothing for input: a call of this bound costs at most ten cents. */
const BOUND = 100_000
const PRICED = { prompt: 0, completion: 1 }

let upstream: Upstream
let server: Server

beforeEach(async () => {
  upstream = await startUpstream()
  upstream.answer(({ json }) => answer((json as { stream?: boolean }).stream ?? false))
  server = await startServer({ config: config() })
})

afterEach(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const config = (more: Record<string, unknown> = {}) => ({
  ...routesConfig({}),
  providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
  models: [
    { id: 'acme/small', context_length: 1_000_000, endpoints: [{ provider: 'local', model: 'm', usd_per_million_tokens: PRICED }] },
    { id: 'acme/free', endpoints: [{ provider: 'local', model: 'm', usd_per_million_tokens: { prompt: 0, completion: 0 } }] },
  ],
  ...more,
})

/** What a call costs is the upstream's choice: from five cents to ten. */
const tokens = () => BOUND / 2 + Math.floor((Math.random() * BOUND) / 2)

const answer = (streamed: boolean): Script =>
  streamed
    ? [sseHead(), delta('Hel'), delta('lo'), finish('stop', usage(1, tokens())), done(), '0\r\n\r\n']
    : completion('Hello', { usage: usage(1, tokens()) })

/** So many calls at once, every other one streamed. */
const atOnce = (count: number, key: string, body: object = { max_tokens: BOUND }): Promise<Outcome[]> =>
  Promise.all(Array.from({ length: count }, (_, i) => chat(server, { stream: i % 2 === 0, ...body }, { key }).outcome()))

const nanosOf = (usd: number) => Math.round(usd * 1e9)
const spentBy = (outcomes: Outcome[]) => outcomes.reduce((sum, one) => sum + (one.status === 200 ? nanosOf(usageOf(one)?.cost ?? 0) : 0), 0)

describe('A-01 a limit of one dollar', () => {
  for (const count of [1, 10, 100, 1_000]) {
    test(`holds for ${count} calls at once: nobody pays more, whoever is refused asked nobody`, async () => {
      const key = await limitedKey(server, 1)
      const outcomes = await atOnce(count, key)
      const answered = outcomes.filter(({ status }) => status === 200)
      const refused = outcomes.filter(({ status }) => status === 402)
      expect(answered.length + refused.length).toBe(count)
      expect(answered.length).toBeGreaterThanOrEqual(Math.min(count, 10))
      expect(upstream.hits.length).toBe(answered.length)
      await eventually(async () => (await metric(server, 'gateway_running_calls')) === 0)
      const { usage: spent, limit_remaining } = await keyState(server, key)
      expect(spent).toBeLessThanOrEqual(1)
      expect(nanosOf(spent)).toBe(spentBy(answered))
      // What remains is the limit less what was spent: nothing is held any more.
      expect(nanosOf(limit_remaining ?? Number.NaN)).toBe(1e9 - nanosOf(spent))
    }, 60_000)
  }

  test('is used up to less than the price of one call by calls that come one after another', async () => {
    const key = await limitedKey(server, 1)
    let last = 200
    for (let i = 0; last === 200 && i < 25; i++) last = (await chat(server, { max_tokens: BOUND }, { key }).outcome()).status
    expect(last).toBe(402)
    const { usage: spent } = await keyState(server, key)
    expect(spent).toBeLessThanOrEqual(1)
    expect(spent).toBeGreaterThan(0.9)
  })

  test('says which limit it was, in the public words, and nothing is left of the call', async () => {
    const key = await limitedKey(server, 0.01)
    const { status, body } = await chat(server, { max_tokens: BOUND }, { key }).outcome()
    expect(status).toBe(402)
    expect(JSON.parse(body).error).toMatchObject({
      code: 402,
      message: 'Key limit exceeded (total limit)',
      metadata: { error_type: 'payment_required' },
    })
    expect(await keyState(server, key)).toMatchObject({ usage: 0, limit_remaining: 0.01 })
  })

  test('does not stop what is free', async () => {
    const key = await limitedKey(server, 0)
    expect((await chat(server, { model: 'acme/free' }, { key }).outcome()).status).toBe(200)
    expect((await chat(server, { max_tokens: 1 }, { key }).outcome()).status).toBe(402)
  })

  test('is given back in full by calls that fail, that are cut, and whose clients leave', async () => {
    const key = await limitedKey(server, 1)
    upstream.plan([sseHead(), delta('Hel'), { wait: 'never' }])
    const left = Array.from({ length: 5 }, () => chat(server, { stream: true, max_tokens: BOUND }, { key }))
    await Promise.all(left.map(call => call.sees('Hel')))
    for (const call of left) call.hangUp('rst')
    await eventually(async () => (await metric(server, 'gateway_running_calls')) === 0)
    upstream.plan('HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    for (const { status } of await atOnce(9, key)) expect(status).toBe(502)
    const { usage: spent, limit_remaining } = await keyState(server, key)
    expect(nanosOf(limit_remaining ?? Number.NaN)).toBe(1e9 - nanosOf(spent))
    expect(spent).toBeLessThan(0.001)
  })
})

describe('A-18 a call without a bound', () => {
  const CENTS = { limits: { max_tokens: 50_000 } }

  test('on a nearly empty limit is refused', async () => {
    const key = await limitedKey(server, 0.01)
    expect((await chat(server, {}, { key }).outcome()).status).toBe(402)
    expect(upstream.hits.length).toBe(0)
  })

  test('under a limit is sent with the bound that was set aside for', async () => {
    await server[Symbol.asyncDispose]()
    server = await startServer({ config: config(CENTS) })
    const key = await limitedKey(server, 1)
    expect((await chat(server, {}, { key }).outcome()).status).toBe(200)
    expect(upstream.hits[0]?.json).toMatchObject({ max_tokens: 50_000 })
  })

  test('without any limit is sent without one', async () => {
    expect((await chat(server).outcome()).status).toBe(200)
    expect(upstream.hits[0]?.json).not.toHaveProperty('max_tokens')
  })

  test('is sent with the max_tokens that the limit can pay for, where limits are strict', async () => {
    await server[Symbol.asyncDispose]()
    server = await startServer({ config: config({ limits: { strict: true } }) })
    const key = await limitedKey(server, 0.01)
    expect((await chat(server, {}, { key }).outcome()).status).toBe(200)
    expect(upstream.hits[0]?.json).toMatchObject({ max_tokens: 10_000 })
  })

  test('that bounds itself is not made larger, and one that cannot say anything useful is refused', async () => {
    await server[Symbol.asyncDispose]()
    server = await startServer({ config: config({ limits: { strict: true } }) })
    const key = await limitedKey(server, 0.01)
    upstream.answer(() => completion('Hello', { usage: usage(1, 10) }))
    await chat(server, { max_tokens: 500 }, { key }).outcome()
    expect(upstream.hits[0]?.json).toMatchObject({ max_tokens: 500 })
    const empty = await limitedKey(server, 0.000_01)
    expect((await chat(server, { max_tokens: 500 }, { key: empty }).outcome()).status).toBe(402)
  })
})

describe('while another process holds the store', () => {
  /** Keeps the lock as a terminal would that writes. */
  function lock(): () => void {
    const db = new Database(join(server.data, 'gateway.db'))
    db.run('begin immediate')
    return () => {
      db.run('rollback')
      db.close()
    }
  }

  test('no call goes out before its hold is written, and it goes out then', async () => {
    const unlock = lock()
    const call = chat(server, { max_tokens: 10 }).outcome()
    await Bun.sleep(300)
    expect(upstream.hits.length).toBe(0)
    unlock()
    expect((await call).status).toBe(200)
  })

  test('what is free needs no hold, and waits only for its record', async () => {
    const unlock = lock()
    const call = chat(server, { model: 'acme/free', stream: true }).outcome()
    await upstream.hit()
    unlock()
    expect((await call).status).toBe(200)
  })

  test('for too long, the call is refused, nothing was sent, and its money is back', async () => {
    const key = await limitedKey(server, 1)
    const unlock = lock()
    const { status, headers } = await chat(server, { max_tokens: 10 }, { key }).outcome()
    expect([status, headers['retry-after']]).toEqual([503, '5'])
    unlock()
    await eventually(async () => (await chat(server, { model: 'acme/free' }, { key }).outcome()).status === 200)
    expect(upstream.hits.length).toBe(1)
    expect(await keyState(server, key)).toMatchObject({ usage: 0, limit_remaining: 1 })
  }, 30_000)
})
