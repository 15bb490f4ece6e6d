import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import { createPreset } from '../../src/resources/presets.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { makePreset } from '../support/operations/readings.ts'
import { buildLocalConfig } from '../support/server.ts'
import {
  chunkedEnd,
  completion,
  delta,
  done,
  finish,
  sseHead,
  startUpstream,
  status,
  type Upstream,
  usageChunk,
} from '../support/upstream.ts'

let upstream: Upstream
beforeAll(async () => {
  upstream = await startUpstream()
})
afterAll(() => upstream.close())

const ON = { 'x-openrouter-cache': 'true' }
const PRICED = { usd_per_million_tokens: { prompt: 1, completion: 2 } }
const ASKED = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] }

const CALLS = {
  tool_calls: [{ id: 'a', type: 'function', function: { name: 'datetime', arguments: '{}' } }],
}
const buildChoice = (content: string | null, finish_reason: string, more: object = {}) => ({
  ...{ index: 0, message: { role: 'assistant', content, ...more }, finish_reason },
})

/** Opens a gateway whose upstream numbers its answers. */
async function openHouse(config: Record<string, unknown> = {}) {
  let count = 0
  upstream.answer(body =>
    (body as { stream?: boolean }).stream
      ? [sseHead(), delta(`answer ${++count}`), finish('stop'), usageChunk(), done(), chunkedEnd()]
      : completion(`answer ${++count}`),
  )
  const clock = new TestClock()
  const gateway = await testGateway({ clock, config: buildLocalConfig(upstream.url, config) })
  const keys = await createTestKeys(gateway)
  const app = createApp(gateway)
  const ask = async (
    body: object | string = ASKED,
    headers: Record<string, string> = ON,
    { path = '/chat/completions', key = keys.inference } = {},
  ) => {
    const response = await app.handle(
      new Request(`http://localhost/api/v1${path}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          ...headers,
        },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    )
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json')
    const about = (name: string) => response.headers.get(`x-openrouter-cache-${name}`)
    return {
      ...{ status: response.status, text, json: isJson ? JSON.parse(text) : null },
      ...{ hit: about('status'), age: about('age'), ttl: about('ttl'), source: about('source-id') },
      id: response.headers.get('x-generation-id') ?? '',
    }
  }
  return {
    ...{ gateway, keys, clock, ask, operator: getOperator(gateway) },
    count: () => count,
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

describe('an answer that is kept', () => {
  test('is given again with a new id, no usage and no cost, and is on record', async () => {
    await using house = await openHouse()
    const first = await house.ask()
    expect(first).toMatchObject({ status: 200, hit: 'MISS', ttl: '300', age: null })
    house.clock.pass(61_000)
    const again = await house.ask()
    expect(again).toMatchObject({ status: 200, hit: 'HIT', age: '61', ttl: '239' })
    expect(again.source).toBe(first.id)
    expect(again.id).not.toBe(first.id)
    expect(again.json.id).toBe(again.id)
    expect(again.json.choices).toEqual(first.json.choices)
    expect(again.json.usage).toMatchObject({ prompt_tokens: 0, completion_tokens: 0, cost: 0 })
    expect(house.count()).toBe(1)
    expect(await house.gateway.store.generations.byId(again.id)).toMatchObject({
      ...{ response_cache_source_id: first.id, model: 'acme/small', total_cost: 0n },
      ...{ native_tokens_prompt: 0, finish_reason: 'stop', cancelled: false },
    })
    const { data } = { data: await house.gateway.store.generations.byId(first.id) }
    expect(data?.response_cache_source_id).toBeNull()
  })

  test('is streamed again as a stream, and neither form is taken for the other', async () => {
    await using house = await openHouse()
    const body = { ...ASKED, stream: true }
    const first = await house.ask(body)
    const again = await house.ask(body)
    expect([first.hit, again.hit, house.count()]).toEqual(['MISS', 'HIT', 1])
    expect(again.text).toContain('answer 1')
    expect(again.text).toEndWith('data: [DONE]\n\n')
    expect(again.text).toContain(again.id)
    expect(again.text).not.toContain(first.id)
    expect((await house.ask()).hit).toBe('MISS')
  })

  test.each([
    ['/messages', { ...ASKED, max_tokens: 9 }],
    ['/responses', { model: 'acme/small', input: 'Hi' }],
    ['/embeddings', { model: 'sandbox/embed', input: 'Hi' }],
  ])('is kept for %s, too', async (path, body) => {
    await using house = await openHouse()
    expect((await house.ask(body, ON, { path })).hit).toBe('MISS')
    expect(await house.ask(body, ON, { path })).toMatchObject({ status: 200, hit: 'HIT' })
  })

  test('is that of the same body, whatever its spaces; other bodies and keys differ', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    await house.ask()
    expect((await house.ask(JSON.stringify(ASKED, null, 2))).hit).toBe('HIT')
    const { messages, model } = ASKED
    expect((await house.ask({ messages, model })).hit).toBe('MISS')
    expect((await house.ask({ ...ASKED, temperature: 0 })).hit).toBe('MISS')
    const { key } = await createKey(gateway, operator, { name: 'other' })
    expect((await house.ask(ASKED, ON, { key })).hit).toBe('MISS')
    expect((await house.ask(ASKED, { ...ON, 'x-title': 'App' })).hit).toBe('HIT')
    expect((await house.ask(ASKED, { ...ON, 'x-session-id': 's' })).hit).toBe('MISS')
    expect((await house.ask(ASKED, {})).hit).toBeNull()
  })

  test.each([
    [
      'an integer that JavaScript rounds',
      '{"model":"acme/small","messages":[{"role":"user","content":"Hi"}],"x":9007199254740993}',
      '{"model":"acme/small","messages":[{"role":"user","content":"Hi"}],"x":9007199254740992}',
    ],
    [
      'a text that ends where a field does',
      JSON.stringify({ ...ASKED, messages: [{ role: 'user', content: 'a","x":"b' }] }),
      JSON.stringify({ ...ASKED, messages: [{ role: 'user', content: 'a' }], x: 'b' }),
    ],
    [
      'a number and its text',
      JSON.stringify({ ...ASKED, x: 1 }),
      JSON.stringify({ ...ASKED, x: '1' }),
    ],
    [
      'null and nothing',
      JSON.stringify({ ...ASKED, x: null }),
      JSON.stringify({ ...ASKED, x: [] }),
    ],
  ])('is never taken for that of a body that collides with it: %s', async (_, one, other) => {
    await using house = await openHouse()
    const [first, second] = [await house.ask(one), await house.ask(other)]
    expect([first.hit, second.hit, house.count()]).toEqual(['MISS', 'MISS', 2])
    expect((await house.ask(one)).text).toContain('answer 1')
    expect((await house.ask(other)).text).toContain('answer 2')
  })

  test('is over with its time, which the client chooses', async () => {
    await using house = await openHouse()
    const ttl = async (value: string) =>
      (
        await house.ask(
          { ...ASKED, seed: 1 },
          { ...ON, 'x-openrouter-cache-ttl': value, 'x-openrouter-cache-clear': 'true' },
        )
      ).ttl
    expect(await Promise.all(['0', '60s', '999999'].map(ttl))).toEqual(['1', '60', '86400'])
    await house.ask(ASKED, { ...ON, 'x-openrouter-cache-ttl': '2' })
    house.clock.pass(1_999)
    expect((await house.ask()).hit).toBe('HIT')
    house.clock.pass(1)
    expect((await house.ask()).hit).toBe('MISS')
    const cleared = await house.ask(ASKED, { ...ON, 'x-openrouter-cache-clear': 'true' })
    expect([cleared.hit, cleared.json.choices[0].message.content]).toEqual([
      'MISS',
      `answer ${house.count()}`,
    ])
  })

  test('is not that of a failure', async () => {
    await using house = await openHouse()
    upstream.answer(() => status(500, {}))
    expect((await house.ask()).status).toBeGreaterThanOrEqual(500)
    upstream.answer(() => [sseHead(), delta('half'), chunkedEnd()])
    await house.ask({ ...ASKED, stream: true })
    upstream.answer(() => completion('fine'))
    expect((await house.ask()).hit).toBe('MISS')
    expect(house.gateway.traffic.responseCache.size).toBeGreaterThan(0)
  })

  test('is never kept under zero data retention, nor given under other rules', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    const zdr = { ...ASKED, provider: { zdr: true } }
    expect((await house.ask(zdr)).hit).toBeNull()
    const guarded = await createKey(gateway, operator, { name: 'guarded' })
    const key = guarded.key
    await house.ask(ASKED, ON, { key })
    expect((await house.ask(ASKED, ON, { key })).hit).toBe('HIT')
    const rules = await createGuardrail(gateway, operator, { name: 'Rules' })
    await assignKeys(gateway, operator, rules.data.id, { key_hashes: [guarded.data.hash] })
    expect((await house.ask(ASKED, ON, { key })).hit).toBe('MISS')
    const zero = await createGuardrail(gateway, operator, { name: 'Z', enforce_zdr_other: true })
    await assignKeys(gateway, operator, zero.data.id, { key_hashes: [guarded.data.hash] })
    const { size } = gateway.traffic.responseCache
    expect((await house.ask(ASKED, ON, { key })).hit).toBeNull()
    expect(gateway.traffic.responseCache.size).toBe(size)
    await updateKey(gateway, operator, guarded.data.hash, { disabled: true })
    expect((await house.ask(ASKED, ON, { key })).status).toBe(401)
  })

  test.each(['openai/careful', 'careful', 'openai/careful:nitro', 'openrouter/auto'])(
    'is never kept under zero data retention of its author’s models, however they are named: %s',
    async model => {
      const data_policy = { training: false, retention_days: 0 }
      await using house = await openHouse({
        models: [
          {
            id: 'openai/careful',
            endpoints: [{ provider: 'local', model: 'careful', ...PRICED, data_policy }],
          },
        ],
      })
      const { gateway, operator, keys } = house
      const zero = await createGuardrail(gateway, operator, { name: 'Z', enforce_zdr_openai: true })
      await assignKeys(gateway, operator, zero.data.id, { key_hashes: [keys.hash] })
      expect(await house.ask({ ...ASKED, model })).toMatchObject({ status: 200, hit: null })
      expect(gateway.traffic.responseCache.size).toBe(0)
    },
  )

  test.each([true, false])('is none that a limit has shortened, with stream: %p', async stream => {
    await using house = await openHouse()
    upstream.answer(body => {
      const reason = (body.json as { max_tokens: number }).max_tokens < 20_000 ? 'length' : 'stop'
      return stream
        ? [sseHead(), delta('answer'), finish(reason), usageChunk(), done(), chunkedEnd()]
        : completion('answer', { choices: [buildChoice('answer', reason)] })
    })
    const { key, data } = await createKey(house.gateway, house.operator, { name: 'k', limit: 0.01 })
    const body = { ...ASKED, stream, max_tokens: 20_000 }
    const cut = await house.ask(body, ON, { key })
    expect([cut.hit, cut.text.includes('"length"')]).toEqual(['MISS', true])
    expect(house.gateway.traffic.responseCache.size).toBe(0)
    await updateKey(house.gateway, house.operator, data.hash, { limit: 100 })
    const whole = await house.ask(body, ON, { key })
    expect([whole.hit, whole.text.includes('"stop"')]).toEqual(['MISS', true])
    expect((await house.ask(body, ON, { key })).hit).toBe('HIT')
  })

  test('is none whose tools found nothing left, but one that ends as its call says', async () => {
    await using house = await openHouse({ limits: { requests_per_minute: 2 } })
    upstream.answer(({ json: asked }) =>
      (asked as { tool_choice?: unknown }).tool_choice === 'none'
        ? completion('Enough.')
        : completion('', { choices: [buildChoice(null, 'tool_calls', CALLS)] }),
    )
    const body = { ...ASKED, tools: [{ type: 'openrouter:datetime' }] }
    expect(await house.ask(body)).toMatchObject({ status: 200, hit: 'MISS' })
    expect(house.gateway.traffic.responseCache.size).toBe(0)
    house.clock.pass(61_000)
    expect(await house.ask({ ...body, max_tool_calls: 1 })).toMatchObject({ hit: 'MISS' })
    expect(house.gateway.traffic.responseCache.size).toBeGreaterThan(0)
  })

  test('makes room for newer ones, and is kept in full as content', async () => {
    await using house = await openHouse({ response_cache: { max_mib: 1 } })
    const { gateway, operator } = house
    const long = 'x'.repeat(200_000)
    let count = 0
    upstream.answer(() => completion(`${++count}${long}`))
    await updateWorkspace(gateway, operator, 'default', {
      is_observability_io_logging_enabled: true,
    })
    for (let seed = 0; seed < 5; seed++) await house.ask({ ...ASKED, seed })
    expect(gateway.traffic.responseCache.size).toBeLessThanOrEqual(1024 * 1024)
    expect((await house.ask({ ...ASKED, seed: 4 })).hit).toBe('HIT')
    expect((await house.ask({ ...ASKED, seed: 0 })).hit).toBe('MISS')
    const hit = await house.ask({ ...ASKED, seed: 4 })
    expect((await gateway.store.transcripts.find(hit.id))?.size_bytes).toBeGreaterThan(200_000)
  })
})

describe('presets', () => {
  test('switch the cache on and off, and say for how long', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    const actor = { ...operator, kind: 'inference' as const }
    const make = (slug: string, config: object) =>
      createPreset(gateway, actor, slug, { system_prompt: null, config: { ...config } })
    await make('on', { model: 'acme/small', cache_enabled: true, cache_ttl_seconds: 60 })
    await make('off', { model: 'acme/small', cache_enabled: false })
    await makePreset(gateway, operator, 'silent')
    const ask = (slug: string, headers = {}) =>
      house.ask({ ...ASKED, model: `@preset/${slug}` }, headers)
    expect(await ask('on')).toMatchObject({ hit: 'MISS', ttl: '60' })
    expect((await ask('on')).hit).toBe('HIT')
    expect((await ask('on', { 'x-openrouter-cache': 'false' })).hit).toBeNull()
    expect((await ask('off', ON)).hit).toBeNull()
    await make('on', { model: 'acme/small', cache_enabled: true, temperature: 0 })
    expect((await ask('on')).hit).toBe('MISS')
  })
})

describe('headers that mean nothing are refused', () => {
  test.each<[Record<string, string>, string, number]>([
    [{ 'x-openrouter-cache': 'maybe' }, '/chat/completions', 400],
    [{ ...ON, 'x-openrouter-cache-ttl': 'soon' }, '/chat/completions', 400],
    [{ ...ON, 'x-openrouter-cache-ttl': '-5' }, '/chat/completions', 400],
    [{ 'x-openrouter-cache-ttl': '60' }, '/chat/completions', 400],
    [{ 'x-gateway-cache-clear': 'true' }, '/chat/completions', 400],
    [ON, '/completions', 400],
    [{ 'x-openrouter-cache': 'false' }, '/chat/completions', 200],
    [{ 'x-gateway-cache': 'true' }, '/chat/completions', 200],
  ])('%j at %s: %i', async (headers, path, expected) => {
    await using house = await openHouse()
    const body = path === '/completions' ? { model: 'acme/small', prompt: 'Hi' } : ASKED
    expect((await house.ask(body, headers, { path })).status).toBe(expected)
  })

  test('and the cache itself where it has no room', async () => {
    await using house = await openHouse({ response_cache: { max_mib: 0 } })
    expect((await house.ask()).status).toBe(400)
  })
})
