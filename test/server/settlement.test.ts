import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { findFaults, lockStore, readBooks, toNanos } from '../support/books.ts'
import { createLimitedKey, fetchKeyState, readMetric, waitUntil } from '../support/chat.ts'
import { type RawCall, request } from '../support/raw-client.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  completion,
  delta,
  done,
  finish,
  json,
  type Script,
  sseHead,
  startUpstream,
  type Upstream,
  usage,
} from '../support/upstream.ts'

/** A dollar per thousand tokens in or out, so that a single token shows. */
const PRICES = { prompt: 1_000, completion: 1_000 }
/** The cost of ten tokens in and five out; for vectors and rankings of the ten in. */
const WHOLE = 15_000_000
const VECTORS = 10_000_000
const LIMIT = 1

let server: LocalServer
let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
  const provider = (base_url: string) => ({ protocol: 'openai-chat', base_url, api_key: 'mock' })
  const model = (id: string, provider: string, more: object = {}) => ({
    id,
    context_length: 128_000,
    endpoints: [{ provider, model: 'm', usd_per_million_tokens: PRICES }],
    ...more,
  })
  const vectors = { output_modalities: ['embeddings'] }
  server = await startLocalServer({
    providers: { local: provider(upstream.url), closed: provider('http://127.0.0.1:1/v1') },
    models: [
      model('acme/text', 'local'),
      model('acme/text-closed', 'closed'),
      model('acme/vectors', 'local', vectors),
      model('acme/vectors-closed', 'closed', vectors),
      model('acme/ranks', 'local', { output_modalities: ['rerank'] }),
      model('acme/ranks-closed', 'closed', { output_modalities: ['rerank'] }),
    ],
    limits: { max_tokens: 100 },
  })
})

afterAll(async () => {
  expect(await findFaults(server.data)).toBeNull()
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

afterEach(() => upstream.emptied())

/** A kind of call: the route, the body, and how its provider answers. */
interface Way {
  path: string
  body: { model: string; stream?: boolean; [name: string]: unknown }
  kind: 'stream' | 'whole' | 'vectors' | 'rankings'
}

const MESSAGES = [{ role: 'user', content: 'Hi' }]
const ways = (model: string, path: string, more: object): [name: string, way: Way][] => [
  [`${path}, whole`, { path, body: { model, max_tokens: 50, ...more }, kind: 'whole' }],
  [
    `${path}, streamed`,
    { path, body: { model, max_tokens: 50, stream: true, ...more }, kind: 'stream' },
  ],
]

const WAYS: [name: string, way: Way][] = [
  ...ways('acme/text', '/chat/completions', { messages: MESSAGES }),
  ...ways('acme/text', '/completions', { prompt: 'Hi' }),
  ...ways('acme/text', '/messages', { messages: MESSAGES }),
  [
    '/embeddings',
    { path: '/embeddings', body: { model: 'acme/vectors', input: 'Hi' }, kind: 'vectors' },
  ],
  [
    '/rerank',
    {
      path: '/rerank',
      body: { model: 'acme/ranks', query: 'Hi', documents: ['Hello', 'Bye'] },
      kind: 'rankings',
    },
  ],
]

const ask = ({ path, body }: Way, key: string, more: object = {}): RawCall =>
  request(server.base + path, {
    json: { ...body, ...more },
    headers: { authorization: `Bearer ${key}` },
  })

const ANSWERS: Record<Way['kind'], () => Script> = {
  stream: () => [
    sseHead(),
    delta('Hel'),
    delta('lo'),
    finish('stop', usage()),
    done(),
    '0\r\n\r\n',
  ],
  whole: () => completion('Hello'),
  vectors: () =>
    json({
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding: [1] }],
      usage: { prompt_tokens: 10, total_tokens: 10 },
    }),
  rankings: () =>
    json({ results: [{ index: 1, relevance_score: 0.5 }], usage: { total_tokens: 10 } }),
}

const costOf = ({ kind }: Way) => (kind === 'vectors' || kind === 'rankings' ? VECTORS : WHOLE)

/** What a provider sends until it breaks off, and what that costs: nothing, something, or all. */
const BREAKS: [
  name: string,
  said: (kind: Way['kind']) => Script,
  cost: (way: Way) => 'nothing' | 'something' | number,
][] = [
  ['with its connection, before it answers', () => [], () => 'nothing'],
  ['within its head', () => 'HTTP/1.1 200 OK\r\ncontent-', () => 'nothing'],
  ['after its head', kind => (kind === 'stream' ? sseHead() : headOf(kind)), () => 'nothing'],
  [
    'after an empty word',
    kind =>
      kind === 'stream' ? [sseHead(), delta({ role: 'assistant', content: '' })] : headOf(kind),
    () => 'nothing',
  ],
  [
    'in the middle',
    kind => (kind === 'stream' ? [sseHead(), delta('Hel')] : halfOf(kind)),
    ({ kind }) => (kind === 'stream' ? 'something' : 'nothing'),
  ],
  [
    'with an error status',
    () => 'HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n',
    () => 'nothing',
  ],
  [
    'after the whole answer, but before its end',
    kind =>
      kind === 'stream'
        ? [sseHead(), delta('Hello'), finish('stop', usage()), done()]
        : ANSWERS[kind](),
    costOf,
  ],
]

const textOf = (kind: Way['kind']) => String(ANSWERS[kind]())
const headOf = (kind: Way['kind']) => `${textOf(kind).split('\r\n\r\n', 1)[0]}\r\n\r\n`
const halfOf = (kind: Way['kind']) => textOf(kind).slice(0, -40)

/** Expects that nothing is held any more, and that all records of money agree. */
async function expectSettled(key: string, cost: 'nothing' | 'something' | number): Promise<void> {
  await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
  await waitUntil(async () => readBooks(server.data, key).held === 0)
  const { ledger, counted, recorded } = readBooks(server.data, key)
  const { usage: spent, limit_remaining } = await fetchKeyState(server, key)
  expect([
    counted,
    recorded,
    toNanos(spent),
    1e9 * LIMIT - toNanos(limit_remaining ?? Number.NaN),
  ]).toEqual(Array(4).fill(ledger))
  if (cost === 'something') expect(ledger).toBeWithin(1, WHOLE + 1)
  else expect(ledger).toBe(cost === 'nothing' ? 0 : cost)
}

describe.each(WAYS)('A-04 %s:', (_, way) => {
  test.each(BREAKS)('a provider that breaks off %s', async (_, said, cost) => {
    upstream.plan([said(way.kind), { end: 'rst' }])
    const key = await createLimitedKey(server, LIMIT)
    await ask(way, key).outcome()
    await expectSettled(key, cost(way))
    expect(readBooks(server.data, key).calls).toBe(1)
  })

  test('a provider that cannot be reached', async () => {
    const key = await createLimitedKey(server, LIMIT)
    expect((await ask(way, key, { model: `${way.body.model}-closed` }).outcome()).status).toBe(502)
    await expectSettled(key, 'nothing')
  })

  test('a call that is refused before money is held, or for lack of money', async () => {
    const key = await createLimitedKey(server, LIMIT)
    const poor = await createLimitedKey(server, 0)
    const asked = upstream.hits.length
    expect((await ask(way, key, { model: 'acme/nothing' }).outcome()).status).toBe(400)
    expect((await ask(way, key, { provider: { only: ['nobody'] } }).outcome()).status).toBeWithin(
      400,
      405,
    )
    expect((await ask(way, poor).outcome()).status).toBe(402)
    expect(upstream.hits.length).toBe(asked)
    await expectSettled(key, 'nothing')
    expect(readBooks(server.data, poor)).toEqual({
      ledger: 0,
      counted: 0,
      recorded: 0,
      calls: 0,
      held: 0,
    })
  })

  for (const how of ['fin', 'rst'] as const)
    test(`a client that leaves by ${how} while it waits, and while it reads, pays for the prompt`, async () => {
      const key = await createLimitedKey(server, LIMIT)
      upstream.plan({ wait: 'never' })
      const before = upstream.hits.length
      const waiting = ask(way, key)
      await upstream.hit(before + 1)
      waiting.hangUp(how)
      await expectSettled(key, 'something')
      upstream.plan([
        way.kind === 'stream' ? [sseHead(), delta('Hel')] : halfOf(way.kind),
        { wait: 'never' },
      ])
      const reading = ask(way, key)
      await upstream.hit(before + 2)
      if (way.kind === 'stream') await reading.sees('Hel')
      reading.hangUp(how)
      await expectSettled(key, 'something')
    })

  test('an answer is charged once', async () => {
    upstream.plan(ANSWERS[way.kind]())
    const key = await createLimitedKey(server, LIMIT)
    expect(await ask(way, key).outcome()).toMatchObject({ status: 200, complete: true })
    await expectSettled(key, costOf(way))
  })
})

describe('A-04 while another process holds the store', () => {
  const keys = () => Promise.all(WAYS.map(() => createLimitedKey(server, LIMIT)))

  test('longer than an answer waits: the charge is written once, later', async () => {
    const all = await keys()
    const answers = new Map(WAYS.map(([, { path, kind }]) => [`${path} ${kind}`, kind]))
    upstream.answer(hit => [{ wait: 'locked' }, ANSWERS[kindOf(hit.path, hit.json)]()])
    const before = upstream.hits.length
    const calls = WAYS.map(([, way], i) => ask(way, all[i] ?? ''))
    await upstream.hit(before + answers.size)
    const unlock = lockStore(server)
    upstream.open('locked')
    const outcomes = await Promise.all(calls.map(call => call.outcome()))
    // A caller who gets an error still pays for what the provider delivered.
    expect(
      outcomes.map(({ status }) => status).every(status => status === 200 || status === 503),
    ).toBe(true)
    unlock()
    await waitUntil(
      async () => (await ask(WAYS[0]?.[1] as Way, server.inference_key).outcome()).status === 200,
    )
    for (const [i, [, way]] of WAYS.entries()) await expectSettled(all[i] ?? '', costOf(way))
  })
})

const kindOf = (path: string, body: unknown): Way['kind'] => {
  if (path.endsWith('/embeddings')) return 'vectors'
  if (path.endsWith('/rerank')) return 'rankings'
  return (body as { stream?: boolean }).stream ? 'stream' : 'whole'
}
