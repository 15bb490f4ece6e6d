import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { assignKeys, assignMembers } from '../../src/limits/assignments.ts'
import type { NewGuardrail } from '../../src/limits/guardrails/schema.ts'
import { createGuardrail, updateGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { createKey } from '../../src/resources/keys.ts'
import { addMember } from '../../src/resources/members.ts'
import { createApp } from '../../src/server/app.ts'
import { TestClock, testGateway } from '../support/gateway.ts'

const messages = [{ role: 'user', content: 'Hi' }]
const MODEL = { id: 'acme/tiny', endpoints: [{ provider: 'sandbox', model: 'echo' }] }

let clock: TestClock
let gateway: Gateway
let app: ReturnType<typeof createApp>

beforeEach(async () => {
  clock = new TestClock()
  gateway = await testGateway({ clock, config: { models: [MODEL] } })
  app = createApp(gateway)
})

const operator = () => getOperator(gateway)
const makeKey = (more: object = {}) => createKey(gateway, operator(), { name: 'k', ...more })
const setDefault = (rates: object) =>
  updateGuardrail(
    gateway,
    operator(),
    getDefaultGuardrailId(gateway.memory.owner.workspace_id),
    rates,
  )

async function giveKey(hash: string, rates: Partial<NewGuardrail>): Promise<string> {
  const { id } = (await createGuardrail(gateway, operator(), { name: 'mine', ...rates })).data
  await assignKeys(gateway, operator(), id, { key_hashes: [hash] })
  return id
}

const ask = (path: string, key: string, body?: object) =>
  app.handle(
    new Request(`http://localhost/api/v1${path}`, {
      method: body ? 'POST' : 'GET',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      ...(body ? { body: JSON.stringify(body) } : {}),
    }),
  )

async function chat(key: string, more: object = {}) {
  const answer = await ask('/chat/completions', key, { model: MODEL.id, messages, ...more })
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

const describeRates = async (key: string) =>
  ((await (await ask('/key', key)).json()) as { data: { rate_limits?: object[] } }).data.rate_limits

const countGood = async (calls: Promise<{ status: number }>[]) =>
  (await Promise.all(calls)).filter(({ status }) => status === 200).length

const readTokens = ({ text }: { text: string }): number => JSON.parse(text).usage.total_tokens

describe('requests per minute', () => {
  test('are exact when 64 calls come at once, and begin anew with the minute', async () => {
    const { key, data } = await makeKey()
    await giveKey(data.hash, { requests_per_minute: 20 })
    const many = () =>
      countGood(Array.from({ length: 64 }, (_, i) => chat(key, { stream: i % 2 === 0 })))
    expect(await many()).toBe(20)
    clock.pass(52_999)
    expect(await many()).toBe(0)
    clock.pass(1)
    expect(await many()).toBe(20)
  })

  test('are counted for each key, for a workspace and for a member by itself', async () => {
    const ada = (await addMember(gateway, operator(), { email: 'ada@example.com' })).id
    const hers = [await makeKey({ creator_user_id: ada }), await makeKey({ creator_user_id: ada })]
    const other = await makeKey()
    await setDefault({ requests_per_minute: 5 })
    const rules = { name: 'members', requests_per_minute: 3 }
    const { id } = (await createGuardrail(gateway, operator(), rules)).data
    await assignMembers(gateway, operator(), id, { member_user_ids: [ada] })
    await giveKey(String(hers[0]?.data.hash), { requests_per_minute: 1 })
    const keys = hers.map(one => one.key)
    expect((await chat(String(keys[0]))).status).toBe(200)
    expect((await chat(String(keys[0]))).text).toContain(
      'requests-per-min of the guardrail “mine” for this key',
    )
    expect(await countGood(Array.from({ length: 9 }, () => chat(String(keys[1]))))).toBe(2)
    expect((await chat(String(keys[1]))).text).toContain('“members” for its member')
    expect(await countGood(Array.from({ length: 9 }, () => chat(other.key)))).toBe(2)
    expect((await chat(other.key)).text).toContain('for its workspace')
  })

  test('hold as the guardrail has them now, and what was counted stays', async () => {
    const { key, data } = await makeKey()
    const id = await giveKey(data.hash, { requests_per_minute: 2 })
    await chat(key)
    await updateGuardrail(gateway, operator(), id, { requests_per_minute: 1 })
    expect((await chat(key)).status).toBe(429)
    await updateGuardrail(gateway, operator(), id, { requests_per_minute: 3 })
    expect(await countGood([chat(key), chat(key), chat(key)])).toBe(2)
    await updateGuardrail(gateway, operator(), id, { requests_per_minute: null })
    const free = await chat(key)
    expect([free.status, free.headers.get('x-ratelimit-limit-requests')]).toEqual([200, null])
  })

  test('count nothing for a call that another limit refuses', async () => {
    const { key, data } = await makeKey()
    await setDefault({ requests_per_minute: 1 })
    await giveKey(data.hash, { requests_per_minute: 9, tokens_per_minute: 1 })
    expect((await chat(key)).status).toBe(400)
    expect((await chat(key)).text).toContain('tokens-per-min of the guardrail “mine”')
    expect(await describeRates(key)).toMatchObject([
      { scope: 'workspace', requests_per_minute: { limit: 1, used: 0, remaining: 1 } },
      { scope: 'key', requests_per_minute: { used: 0 }, tokens_per_minute: { used: 0 } },
    ])
  })
})

describe('calls at once', () => {
  test('are exact when 64 come at once, and end with their answers', async () => {
    const { key, data } = await makeKey()
    await giveKey(data.hash, { concurrent_requests: 7 })
    const open = () => ask('/chat/completions', key, { model: MODEL.id, messages, stream: true })
    const answers = await Promise.all(Array.from({ length: 64 }, open))
    const good = answers.filter(answer => answer.status === 200)
    expect(good).toHaveLength(7)
    expect((await open()).headers.get('retry-after')).toBe('1')
    await good[0]?.body?.cancel()
    await Promise.all(good.slice(1).map(answer => answer.text()))
    expect(await describeRates(key)).toEqual([
      {
        scope: 'key',
        guardrail_id: expect.any(String),
        concurrent_requests: { limit: 7, used: 0, remaining: 7 },
      },
    ])
  })
})

describe('tokens per minute', () => {
  test('are those that answers took, and refuse before a call that would take more', async () => {
    const { key, data } = await makeKey()
    await giveKey(data.hash, { tokens_per_minute: 2_000 })
    const first = await chat(key, { max_tokens: 1_500 })
    const taken = readTokens(first)
    expect(taken).toBeLessThan(1_000)
    expect(first.status).toBe(200)
    expect(await describeRates(key)).toMatchObject([
      { tokens_per_minute: { limit: 2_000, used: taken, remaining: 2_000 - taken } },
    ])
    const answers = await Promise.all(
      Array.from({ length: 64 }, (_, i) => chat(key, { max_tokens: 400, stream: i % 2 === 0 })),
    )
    const good = answers.filter(({ status }) => status === 200).length
    expect(good).toBeGreaterThan(1)
    expect(good).toBeLessThan(5)
    const refused = answers.find(({ status }) => status === 429)
    expect(refused?.text).toContain('tokens-per-min of the guardrail “mine” for this key')
    expect(refused?.headers.get('x-ratelimit-limit-tokens')).toBe('2000')
    expect(refused?.headers.get('retry-after')).toBe('53')
  })

  test('of a call that no minute has room for are refused by name', async () => {
    const { key, data } = await makeKey()
    await giveKey(data.hash, { tokens_per_minute: 500 })
    const refused = await chat(key, { max_tokens: 600 })
    expect(refused.status).toBe(400)
    expect(refused.text).toContain('ask for fewer max_tokens')
    expect((await chat(key, { max_tokens: 300 })).status).toBe(200)
  })
})

test('their fields are refused by name where they are no whole number that a limit can be', async () => {
  const { key } = await createKey(gateway, operator(), { name: 'm' }, 'management')
  for (const field of ['requests_per_minute', 'tokens_per_minute', 'concurrent_requests'])
    for (const value of [0, -1, 1.5, 1e13, '5', true]) {
      const refused = await ask('/guardrails', key, { name: 'x', [field]: value })
      expect([field, value, refused.status]).toEqual([field, value, 400])
      expect(await refused.text()).toContain(field)
    }
})
