import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { toNanos } from '../../src/base/money.ts'
import { addCredit, getCredits, listCredits } from '../../src/limits/credits.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import { listAudit } from '../../src/resources/audit.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createApi } from '../support/api.ts'
import { createOtherWorkspace, createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { spend } from '../support/ledger.ts'
import { readRefusedLimit } from '../support/shortage.ts'

const OTHER = '00000000-0000-7000-8000-0000000000aa'
// A thousand dollars for a million tokens, so that a short answer is worth counting.
const PRICES = { prompt: 1000, completion: 1000 }
const MODELS = [
  {
    id: 'acme/dear',
    endpoints: [{ provider: 'sandbox', model: 'echo', usd_per_million_tokens: PRICES }],
  },
  { id: 'acme/tiny:free', endpoints: [{ provider: 'sandbox', model: 'echo' }] },
]

let clock: TestClock
let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>
let ask: ReturnType<typeof createApi>

async function open(config: object = { limits: { credits: true } }): Promise<void> {
  clock = new TestClock()
  gateway = await testGateway({ clock, config: { models: MODELS, ...config } })
  keys = await createTestKeys(gateway)
  ask = createApi(gateway, keys.management)
}

beforeEach(() => open())

const add = (amount: number, note?: string) =>
  addCredit(gateway, getOperator(gateway), { amount, ...(note ? { note } : {}) })
const balance = () => getCredits(gateway, getOperator(gateway)).data

const chat = (model: string, max_tokens = 5) =>
  ask('POST', '/chat/completions', {
    key: keys.inference,
    body: { model, max_tokens, messages: [{ role: 'user', content: 'Hi' }] },
  })

describe('GET /credits', () => {
  test('returns the credits paid in and spent, in dollars', async () => {
    await add(10)
    await add(-2.5)
    spend(gateway.ledger, clock, 1_250_000_001n)
    spend(gateway.ledger, clock, 7_000_000_000n, { byok: true })
    const { status, json } = await ask('GET', '/credits')
    expect([status, json]).toEqual([
      200,
      { data: { total_credits: 7.5, total_usage: 1.250000001 } },
    ])
  })

  test('answers 401 without a key, 403 for other kinds of key and other workspaces', async () => {
    const { key } = await createOtherWorkspace(gateway, OTHER)
    expect((await ask('GET', '/credits', { key: null })).status).toBe(401)
    expect((await ask('GET', '/credits', { key: keys.inference })).status).toBe(403)
    expect((await ask('GET', '/credits', { key })).status).toBe(403)
    const actor: Actor = {
      kind: 'management',
      user_id: 'user_2',
      workspace_id: OTHER,
      key_hash: 'h',
    }
    expect(addCredit(gateway, actor, { amount: 1 })).rejects.toThrow(
      'Only management keys of the default workspace',
    )
    expect(listCredits(gateway, actor, {})).rejects.toThrow(
      'Only management keys of the default workspace',
    )
    expect(gateway.memory.credits).toBe(0n)
  })

  test('answers 500 when the ledger fails', async () => {
    gateway.ledger.getSpent = () => {
      throw new Error('canary')
    }
    const { status, json } = await ask('GET', '/credits')
    expect([status, json.error.message]).toEqual([500, 'Internal Server Error'])
  })

  test('answers even if the config does not enable credits', async () => {
    await open({})
    await add(1)
    expect((await ask('GET', '/credits')).json).toEqual({
      data: { total_credits: 1, total_usage: 0 },
    })
  })
})

test('POST /credits/coinbase is gone for all callers', async () => {
  for (const key of [null, keys.inference, keys.management]) {
    const { status, json } = await ask('POST', '/credits/coinbase', { key, body: { amount: 5 } })
    expect([status, json.error.code]).toEqual([410, 410])
  }
})

describe('credits', () => {
  test('are stored with note and author, listed newest first, and audited', async () => {
    const { data } = await add(0.000000001, 'The smallest')
    expect(data).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      created_at: '2026-03-04T05:06:07.000Z',
      amount: 0.000000001,
      note: 'The smallest',
      user_id: gateway.memory.owner.user_id,
    })
    const later = (await add(5)).data
    expect(await listCredits(gateway, getOperator(gateway), {})).toEqual({
      data: [later, data],
      total_count: 2,
    })
    expect(await listCredits(gateway, getOperator(gateway), { offset: 1, limit: 1 })).toEqual({
      data: [data],
      total_count: 2,
    })
    const [entry] = (await listAudit(gateway, getOperator(gateway), { action: 'credits.create' }))
      .data
    expect(entry).toMatchObject({
      resource_id: later.id,
      workspace_id: null,
      before: null,
      after: { amount: 5, note: null },
    })
  })

  test('add up exactly', async () => {
    for (let i = 0; i < 10; i++) await add(0.1)
    expect(gateway.memory.credits).toBe(toNanos(1))
    await add(-1)
    expect([balance().total_credits, await gateway.store.credits.computeTotal()]).toEqual([0, 0n])
  })

  test.each([0, 0.0000000001, -0.0000000001])('refuse an amount of zero: %p', async amount => {
    expect(add(amount)).rejects.toThrow('amount: expected at least a nano-dollar')
    expect((await listCredits(gateway, getOperator(gateway), {})).total_count).toBe(0)
  })

  test('keep their sum within 64 bits, up and down', async () => {
    for (const billion of [1e9, -1e9]) {
      for (let i = 0; i < 4; i++) await add(billion)
      expect(add(billion / 1e9)).rejects.toThrow('4 billion USD')
      expect(balance().total_credits).toBe(4 * billion)
      for (let i = 0; i < 4; i++) await add(-billion)
    }
  })
})

describe('a call', () => {
  test('without credits is refused with the page to add some, unless it is free', async () => {
    const { status, json } = await chat('acme/dear')
    expect([status, json.error.metadata.error_type, readRefusedLimit(json.error.message)]).toEqual([
      402,
      'payment_required',
      'Insufficient credits. Add more using http://127.0.0.1:8080/credits',
    ])
    expect((await chat('acme/tiny:free')).status).toBe(200)
    expect((await chat('sandbox/echo')).status).toBe(200)
  })

  test('of any key spends the credits until they are used up', async () => {
    await add(1)
    let answered = 0
    while ((await chat('acme/dear')).status === 200) answered += 1
    const { total_credits, total_usage } = balance()
    expect(answered).toBeGreaterThan(10)
    expect(total_usage).toBeLessThanOrEqual(total_credits)
    const key = (await createKey(gateway, getOperator(gateway), { name: 'another' })).key
    const body = {
      model: 'acme/dear',
      max_tokens: 500,
      messages: [{ role: 'user', content: 'Hi' }],
    }
    expect((await ask('POST', '/chat/completions', { key, body })).status).toBe(402)
    await add(1)
    expect((await chat('acme/dear')).status).toBe(200)
  })

  test('cannot overdraw among many concurrent ones', async () => {
    await add(0.1)
    const all = await Promise.all(Array.from({ length: 100 }, () => chat('acme/dear')))
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([200, 402]))
    expect(balance().total_usage).toBeLessThanOrEqual(0.1)
    expect(gateway.ledger.getHeld('all', false)).toBe(0n)
  })

  test('of a free model is refused too once the balance is negative (K.9)', async () => {
    await add(1)
    await add(-1)
    expect((await chat('acme/tiny:free')).status).toBe(200)
    await add(-0.000000001)
    expect((await chat('acme/tiny:free')).status).toBe(402)
    expect((await chat('sandbox/echo')).status).toBe(402)
    await add(0.000000001)
    expect((await chat('acme/tiny:free')).status).toBe(200)
  })

  test('needs no credits where the config does not enable them', async () => {
    await open({})
    await add(-5)
    expect((await chat('acme/dear')).status).toBe(200)
  })

  test('is refused with the site that the config names', async () => {
    await open({ limits: { credits: true }, server: { site_url: 'https://ai.acme.example/' } })
    expect(readRefusedLimit((await chat('acme/dear')).json.error.message)).toBe(
      'Insufficient credits. Add more using https://ai.acme.example/credits',
    )
  })
})

test('with credits enabled, a key is in the free tier until credits are added', async () => {
  const isFree = async () => (await ask('GET', '/key')).json.data.is_free_tier
  expect(await isFree()).toBe(true)
  await add(1)
  expect(await isFree()).toBe(false)
  await open({})
  expect(await isFree()).toBe(false)
})
