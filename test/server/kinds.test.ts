import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { GatewayError } from '../../src/base/errors.ts'
import type { Kind } from '../../src/language/work.ts'
import { countRows, findFaults, readBooks } from '../support/books.ts'
import { createLimitedKey, fetchGeneration, waitUntil } from '../support/chat.ts'
import { COST, WORK } from '../support/kinds-of-work.ts'
import { type LocalServer, type Server, startLocalServer, startServer } from '../support/server.ts'
import {
  body as answerBody,
  htmlError,
  json,
  type Script,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

/*
 * The life of a call is the same for every kind of work: one table of kinds, and the same cases for
 * each.
 */

/** What is paid for what is sent: of a killed process nobody knows what its provider has done. */
const PAID_WHEN_SENT = new Set<Kind>(['text', 'embedding', 'rerank', 'speech', 'transcription'])
const names = Object.keys(WORK) as Kind[]

let server: LocalServer
let first: Upstream
let second: Upstream
let held: { key: string; hash: string }
let guardrail: string

function buildConfig() {
  const provider = (base_url: string) => ({ protocol: 'openai-chat', base_url, api_key: 'mock' })
  return {
    routing: { choice: 'listed', failures: 0 },
    server: { trusted_proxies: ['127.0.0.0/8'] },
    regions: { europe: ['eu.example.com'] },
    providers: { first: provider(first.url), second: provider(second.url) },
    models: names.map(name => ({
      id: `acme/${name}`,
      output_modalities: [WORK[name].output],
      endpoints: ['first', 'second'].map(slug => ({
        provider: slug,
        model: 'm',
        usd_per_million_tokens: WORK[name].prices,
      })),
    })),
  }
}

beforeAll(async () => {
  ;[first, second] = await Promise.all([startUpstream(), startUpstream()])
  server = await startLocalServer(buildConfig(), { pollPace: { firstPause: 1, longestPause: 1 } })
  await server.gateway.videos.start()
  held = await createHeldKey()
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([first.close(), second.close()])
})

async function manage(method: string, path: string, body?: object) {
  const init = { method, key: server.management_key, ...(body ? { json: body } : {}) }
  return (await (await server.fetch(path, init)).json()) as { key: string; data: Ids }
}

interface Ids {
  id: string
  hash: string
}

/** Creates a key that a guardrail holds. */
async function createHeldKey() {
  const { key, data } = await manage('POST', '/keys', { name: 'held' })
  guardrail = (await manage('POST', '/guardrails', { name: 'rules' })).data.id
  const path = `/guardrails/${guardrail}/assignments/keys`
  await manage('POST', path, { key_hashes: [data.hash] })
  return { key, hash: data.hash }
}

const NO_RULES = { ignored_models: null, ignored_providers: null, allowed_data_regions: null }

const rule = (change: object) =>
  manage('PATCH', `/guardrails/${guardrail}`, { ...NO_RULES, ...change })

/** Resolves when the job of a call is on record. */
async function finishJob(id: string): Promise<void> {
  const { store, events } = server.gateway
  const { promise, resolve } = Promise.withResolvers<void>()
  const unlisten = events.on('generation.finished', one => one.id === id && resolve())
  if (!(await store.generations.byId(id))) await promise
  unlisten()
}

const hits = () => [first.hits.length, second.hits.length]

describe.each(names)('%s', name => {
  const { path, body, answer, cut, api_type, status: good = 200 } = WORK[name]

  const ask = (more: object = {}, init: object = {}) =>
    server.fetch(path, { json: { model: `acme/${name}`, ...body, ...more }, ...init })

  const listen = async (pending: Promise<Response>) => {
    const response = await pending
    const text = Buffer.from(await response.arrayBuffer()).toString('latin1')
    const id = response.headers.get('x-generation-id') ?? ''
    if (response.status === 202) await finishJob(id)
    return { status: response.status, text, id }
  }

  beforeEach(async () => {
    for (const upstream of [first, second]) {
      upstream.hits.length = 0
      upstream.plan(answer)
    }
  })

  test('is answered, charged and recorded', async () => {
    const key = await createLimitedKey(server, 10 * COST)
    const { status: code, text, id } = await listen(ask({}, { key }))
    expect([code, text]).toEqual([good, expect.anything()])
    expect(await fetchGeneration(server, id)).toMatchObject({ api_type, total_cost: COST })
    const state = (await (await server.fetch('/key', { key })).json()) as { data: object }
    expect(state.data).toMatchObject({ usage: COST, limit_remaining: 0.09 })
    expect(hits()).toEqual([good === 202 ? 2 : 1, 0])
  })

  test.each<[string, () => Script]>([
    ['a failure', () => status(503)],
    ['a wrong key', () => status(401, 'Incorrect API key provided')],
    ['a page', () => htmlError(200)],
    ['nothing', () => answerBody('application/json', '')],
    ['an error in JSON', () => json({ error: { message: 'no' } })],
    ['a cut answer', () => cut],
  ])('goes to the next provider after %s, and is charged once', async (_, failure) => {
    first.plan(failure())
    const { status: code, id } = await listen(ask())
    expect([code, ...hits()]).toEqual([good, 1, good === 202 ? 2 : 1])
    const record = await fetchGeneration(server, id)
    expect(record.total_cost).toBe(COST)
    expect(record.provider_responses).toHaveLength(2)
  })

  test('goes to a provider in a cooldown after a failure of another', async () => {
    const { catalog, traffic } = server.gateway
    const [, cooling] = catalog.models.get(`acme/${name}`)?.endpoints ?? []
    if (!cooling) throw new Error('The model has two endpoints')
    traffic.health.rest(cooling, 60_000)
    first.plan(status(429))
    expect([(await listen(ask())).status, ...hits()]).toEqual([good, 1, good === 202 ? 2 : 1])
    traffic.health.wake(cooling)
  })

  test('costs nothing where every provider fails', async () => {
    const key = await createLimitedKey(server, 10 * COST)
    for (const upstream of [first, second]) upstream.plan(cut)
    expect((await listen(ask({}, { key }))).status).toBe(502)
    const state = (await (await server.fetch('/key', { key })).json()) as { data: object }
    expect(state.data).toMatchObject({ usage: 0, limit_remaining: 0.1 })
  })

  test('is a 402 where too little is left, and is not sent', async () => {
    const key = await createLimitedKey(server, COST / 2)
    expect((await listen(ask({}, { key }))).status).toBe(402)
    expect(hits()).toEqual([0, 0])
  })

  test('is refused by a guardrail about models, and is not sent', async () => {
    await rule({ ignored_models: [`acme/${name}`] })
    const { status: code, text } = await listen(ask({}, { key: held.key }))
    expect([code, text]).toEqual([404, expect.stringContaining('ignored_models of a guardrail')])
    expect(hits()).toEqual([0, 0])
  })

  test('goes past a provider that a guardrail ignores', async () => {
    await rule({ ignored_providers: ['first'] })
    expect((await listen(ask({}, { key: held.key }))).status).toBe(good)
    expect(hits()).toEqual([0, good === 202 ? 2 : 1])
  })

  test('is refused outside of the regions of a guardrail', async () => {
    await rule({ allowed_data_regions: ['europe'] })
    expect((await listen(ask({}, { key: held.key }))).status).toBe(403)
    expect(hits()).toEqual([0, 0])
  })

  // A job may have begun by then: it goes on.
  test.skipIf(good === 202)('ends at the provider when its client leaves', async () => {
    await rule({})
    first.plan({ wait: 'never' })
    const controller = new AbortController()
    const call = ask({}, { signal: controller.signal }).catch(() => null)
    const hit = await first.hit()
    controller.abort()
    await call
    await hit.clientLeft
    expect(second.hits).toEqual([])
  })

  test.skipIf(good === 202)('costs the same whatever stops it at its provider', async () => {
    const stop = new GatewayError('unavailable', 'The gateway is shutting down')
    const ends: ((client: AbortController) => void)[] = [
      client => client.abort(),
      () => {
        for (const call of server.gateway.traffic.calls.listRunning())
          call.cancellation.cancel(stop)
      },
    ]
    const costs: bigint[] = []
    for (const [i, end] of ends.entries()) {
      const key = await createLimitedKey(server, 10 * COST)
      const headers = { 'x-title': `${name} ${i}` }
      first.plan({ wait: 'never' })
      first.hits.length = 0
      const recorded = Promise.withResolvers<bigint>()
      const unlisten = server.gateway.events.on('generation.finished', one => {
        if (one.title === headers['x-title']) recorded.resolve(one.total_cost ?? 0n)
      })
      const client = new AbortController()
      const call = ask({}, { key, headers, signal: client.signal }).catch(() => null)
      const hit = await first.hit()
      end(client)
      costs.push(await recorded.promise)
      unlisten()
      await Promise.all([call, hit.clientLeft])
    }
    expect(costs[1]).toBe(costs[0] ?? -1n)
    if (PAID_WHEN_SENT.has(name)) expect(costs[0]).toBeGreaterThan(0n)
  })

  test('is explained without being sent', async () => {
    const { status: code, text } = await listen(
      ask({ debug: { dry_run: true } }, { key: server.management_key }),
    )
    expect([code, ...hits()]).toEqual([200, 0, 0])
    expect(JSON.parse(text)).toMatchObject({ endpoints: [{}, {}] })
  })

  test('goes where the call says', async () => {
    expect((await listen(ask({ provider: { only: ['second'] } }))).status).toBe(good)
    expect(hits()).toEqual([0, good === 202 ? 2 : 1])
  })
})

test('a thousand calls at every door at once spend no more than their dollar, and nearly all of it', async () => {
  const key = await createLimitedKey(server, 1)
  first.answer(({ path, method }) => {
    const name = names.find(one => path.endsWith(WORK[one].path)) ?? 'image'
    return method === 'GET'
      ? WORK.video.answer
      : WORK[path.includes('videos') ? 'video' : name].answer
  })
  const max_tokens = 1
  const doors = [
    ...names.map(name => ({ name, ...WORK[name] })),
    { name: 'text', path: '/messages', body: { ...WORK.text.body, max_tokens } },
    { name: 'text', path: '/responses', body: { input: 'Hi', max_output_tokens: max_tokens } },
    { name: 'text', path: '/completions', body: { prompt: 'Hi', max_tokens } },
  ]
  const calls = Array.from({ length: 1_000 }, async (_, i) => {
    const { name, path, body } = doors[i % doors.length] ?? { name: 'text', ...WORK.text }
    const response = await server.fetch(path, { json: { model: `acme/${name}`, ...body }, key })
    await response.arrayBuffer()
    if (response.status === 202) await finishJob(response.headers.get('x-generation-id') ?? '')
    return response.status
  })
  const statuses = await Promise.all(calls)
  // 503: where the machine is too busy to write records, new calls are refused, and cost nothing.
  expect([...new Set(statuses)].filter(code => code !== 503).toSorted()).toEqual([200, 202, 402])
  const paid = statuses.filter(code => code < 300).length
  const { data } = (await (await server.fetch('/key', { key })).json()) as { data: object }
  expect(data).toMatchObject({ usage: paid * COST })
  expect(paid * COST).toBeWithin(0.95, 1.000001)
  first.hits.length = 0
}, 120_000)

/*
 * One process is killed while every kind has a call that was answered and one that its provider has
 * not answered yet. The next one settles all of it, and the one after that finds nothing to do.
 */
describe('kill -9', () => {
  const answered = new Map<Kind, string>()
  const open = new Map<Kind, string>()
  const nanos = COST * 1e9
  let data: string

  const send = (killed: Server, name: Kind, key: string) => {
    const { path, body } = WORK[name]
    return killed.fetch(path, { json: { model: `acme/${name}`, ...body }, key })
  }

  beforeAll(async () => {
    data = mkdtempSync(join(tmpdir(), 'gateway-kinds-'))
    const start = () => startServer({ data, config: buildConfig() })
    let killed = await start()
    for (const name of names) {
      for (const keys of [answered, open]) keys.set(name, await createLimitedKey(killed, 1))
      first.plan(WORK[name].answer)
      await (await send(killed, name, answered.get(name) ?? '')).arrayBuffer()
    }
    // The job of the video may be asked about meanwhile: that is how it was answered.
    first.answer(({ method }) => (method === 'GET' ? WORK.video.answer : { wait: 'never' }))
    first.hits.length = 0
    for (const name of names) send(killed, name, open.get(name) ?? '').catch(() => null)
    const countCalls = () => first.hits.filter(({ method }) => method === 'POST').length
    await waitUntil(() => countCalls() === names.length)
    await killed.kill()
    for (let starts = 1; starts <= 2; starts++) {
      killed = await start()
      await waitUntil(async () => countRows(data, 'generations') === 2 * names.length)
      await killed.kill()
    }
  })

  afterAll(() => rmSync(data, { recursive: true, force: true }))

  test.each(names)('%s: an answered call is charged once', name => {
    expect(readBooks(data, answered.get(name) ?? '')).toEqual({
      ...{ ledger: nanos, counted: nanos, recorded: nanos, calls: 1, held: 0 },
    })
  })

  test.each(names)('%s: an open call costs what was sent, and holds nothing', name => {
    const { ledger, counted, recorded, calls, held } = readBooks(data, open.get(name) ?? '')
    expect([counted, recorded, calls, held]).toEqual([ledger, ledger, 1, 0])
    expect(ledger).toBe(nanos * (PAID_WHEN_SENT.has(name) ? 1 : 0))
  })

  test('leaves nothing that does not add up', async () => {
    expect(await findFaults(data)).toBeNull()
  })
})
