import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import {
  buildRoutesConfig,
  createLimitedKey,
  fetchGeneration,
  fetchKeyState,
  type Generation,
  parseStream,
  readGenerationId,
  readMetric,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  chunkedEnd,
  completion,
  delta,
  done,
  ending,
  finish,
  type Hit,
  type Script,
  sseHead,
  startUpstream,
  status,
  type Upstream,
  usage,
  usageChunk,
} from '../support/upstream.ts'

const ROUNDS = 20
const rounds = () => Array.from({ length: ROUNDS }, (_, i) => i + 1)
const KEEP_ALIVE = 0.1

let server: LocalServer
let upstream: Upstream
let key: string

beforeAll(async () => {
  upstream = await startUpstream()
  const timeouts = { keep_alive_seconds: KEEP_ALIVE }
  server = await startLocalServer(
    buildRoutesConfig({ 'acme/small': { local: upstream.url } }, { timeouts }),
  )
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

beforeEach(async () => {
  upstream.hits.length = 0
  key = await createLimitedKey(server)
})

afterEach(() => upstream.emptied())

/** Half of a whole answer. */
const half = (): Script => completion('Hello').slice(0, -40)

const words = (): Script => [sseHead(), delta('Hel'), delta('lo')]

/**
 * How far an answer is when the client leaves: what the provider has sent, and what of it the
 * client has seen.
 */
const MOMENTS: [name: string, fields: object, said: () => Script, seen: string | null][] = [
  ['before the first byte of a whole answer', {}, () => [], null],
  ['in the middle of a whole answer', {}, half, null],
  ['before the first byte of a stream', { stream: true }, () => [], null],
  [
    'before the first word of a stream',
    { stream: true },
    () => [sseHead(), delta({ role: 'assistant', content: '' })],
    null,
  ],
  ['while comments are sent', { stream: true }, () => [], ': OPENROUTER PROCESSING'],
  ['in the middle of a stream', { stream: true }, words, '"lo"'],
]

for (const how of ['fin', 'rst'] as const) {
  describe(`C-01 C-02 a client that leaves by ${how}`, () => {
    test.each(MOMENTS)(
      '%s closes the provider’s connection, and is recorded and charged for its part',
      async (_, fields, said, seen) => {
        let round = 0
        upstream.answer(() => [said(), { wait: `${key} ${++round}` }])
        const cancelled = await cancelledCalls()
        const calls = rounds().map(i =>
          sendChat(server, fields, { key, headers: { 'x-request-id': `round-${i}` } }),
        )
        await Promise.all(rounds().map(i => upstream.reached(`${key} ${i}`)))
        if (seen) await Promise.all(calls.map(call => call.sees(seen)))
        for (const call of calls) call.hangUp(how)
        expect(await Promise.all(upstream.hits.map(withinSecond))).toEqual(
          rounds().map(() => 'closed'),
        )
        await waitUntil(async () => (await cancelledCalls()) === cancelled + ROUNDS)
        await expectRecorded()
      },
    )
  })
}

test('C-02 a hundred clients that leave at once close their provider connections', async () => {
  upstream.plan([words(), { wait: 'never' }])
  const cancelled = await cancelledCalls()
  const calls = Array.from({ length: 100 }, () => sendChat(server, { stream: true }, { key }))
  await Promise.all(calls.map(call => call.sees('"lo"')))
  for (const call of calls) call.hangUp('rst')
  expect(new Set(await Promise.all(upstream.hits.map(withinSecond)))).toEqual(new Set(['closed']))
  await waitUntil(async () => (await cancelledCalls()) === cancelled + 100)
  expect(await readMetric(server, 'gateway_running_calls')).toBe(0)
})

test('a client that leaves before the first word pays the prompt that its provider has read', async () => {
  const content = 'lorem ipsum '.repeat(20_000)
  upstream.answer(() => [sseHead(), delta({ role: 'assistant', content: '' }), { wait: 'never' }])
  const call = sendChat(server, { stream: true, messages: [{ role: 'user', content }] }, { key })
  const hit = await upstream.hit()
  call.hangUp('fin')
  expect(await withinSecond(hit)).toBe('closed')
  await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
  const [newestCall] = await newest(1)
  const generation = await fetchGeneration(server, newestCall?.id ?? '', key)
  expect(generation).toMatchObject({ usage_source: 'estimated', native_tokens_completion: 0 })
  expect(generation.native_tokens_prompt).toBeGreaterThan(30_000)
})

test('what the provider counted before its client left is charged as counted', async () => {
  const counted = { ...usage(777, 3), prompt_tokens_details: { cached_tokens: 700 } }
  upstream.answer(() => [
    sseHead(),
    delta({ role: 'assistant', content: '' }),
    usageChunk(counted),
    { wait: `${key} counted` },
  ])
  const call = sendChat(server, { stream: true }, { key })
  await upstream.reached(`${key} counted`)
  await Bun.sleep(50)
  call.hangUp('fin')
  await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
  const [newestCall] = await newest(1)
  expect(await fetchGeneration(server, newestCall?.id ?? '', key)).toMatchObject({
    native_tokens_prompt: 777,
    native_tokens_cached: 700,
  })
})

test('C-01 a client that leaves causes no further attempt', async () => {
  upstream.plan({ wait: 'never' })
  const call = sendChat(server, { models: ['sandbox/echo'] }, { key })
  const hit = await upstream.hit()
  call.hangUp('rst')
  expect(await withinSecond(hit)).toBe('closed')
  const [generation] = await newest(1)
  expect(generation).toMatchObject({
    cancelled: true,
    provider_responses: [{ provider_name: 'local' }],
  })
  expect(generation?.provider_responses).toHaveLength(1)
})

describe('a stream that has to wait', () => {
  test('is kept alive with comments until its answer comes', async () => {
    upstream.plan([{ wait: 'waited' }, words(), ending()])
    const call = sendChat(server, { stream: true }, { key })
    await call.sees(': OPENROUTER PROCESSING\n\n')
    await waitUntil(async () => parseStream(call.text).comments.length >= 2)
    upstream.open('waited')
    const outcome = await call.outcome()
    expect(outcome).toMatchObject({ status: 200, complete: true })
    const { comments, ...answer } = parseStream(outcome.body)
    expect(answer).toMatchObject({ text: 'Hello', errors: [], dones: 1, usages: [{ choices: [] }] })
    expect(new Set(comments)).toEqual(new Set([': OPENROUTER PROCESSING']))
  })

  test('is kept alive with comments while its provider pauses between two parts', async () => {
    upstream.plan([words(), { wait: 'thought' }, delta('!'), ending()])
    const call = sendChat(server, { stream: true }, { key })
    await call.sees('OPENROUTER PROCESSING')
    upstream.open('thought')
    const { text, comments, dones } = parseStream((await call.outcome()).body)
    expect({ text, dones }).toEqual({ text: 'Hello!', dones: 1 })
    expect(comments.length).toBeGreaterThan(0)
  })

  test('R04 over Responses hears events with data all the while, and no comment', async () => {
    upstream.plan([{ wait: 'asked' }, words(), { wait: 'thought' }, delta('!'), ending()])
    const { responses } = new OpenAI({ baseURL: `${server.base}`, apiKey: key })
    const stream = responses.stream({ model: 'acme/small', input: 'Hi' })
    const types: string[] = []
    const count = () => types.filter(type => type === 'response.in_progress').length
    let open = 'asked'
    for await (const { type } of stream) {
      types.push(type)
      if (count() < (open === 'asked' ? 3 : 6) || open === '') continue
      upstream.open(open)
      open = open === 'asked' ? 'thought' : ''
    }
    expect(types.slice(0, 3)).toEqual([
      'response.created',
      ...['response.in_progress', 'response.in_progress'],
    ])
    expect(types.filter(type => type === 'response.created')).toHaveLength(1)
    expect((await stream.finalResponse()).output_text).toBe('Hello!')
  })

  test('has no comments when its answer is quick', async () => {
    upstream.plan([words(), ending()])
    expect(
      parseStream((await sendChat(server, { stream: true }, { key }).outcome()).body).comments,
    ).toEqual([])
  })

  test.each<[name: string, failure: Script, code: number, type: string]>([
    ['500', status(500, 'canary-90aa'), 502, 'provider_unavailable'],
    ['429', status(429, 'canary-90aa', { 'retry-after': '2' }), 429, 'rate_limit_exceeded'],
    ['400', status(400, 'canary-90aa'), 400, 'invalid_request'],
    ['an empty stream', [sseHead(), done(), chunkedEnd()], 502, 'provider_unavailable'],
  ])(
    'and then fails with %s gets an error, zero usage and [DONE]',
    async (name, failure, code, error_type) => {
      upstream.plan([{ wait: name }, failure])
      const call = sendChat(server, { stream: true }, { key })
      await call.sees('OPENROUTER PROCESSING')
      upstream.open(name)
      const outcome = await call.outcome()
      expect(outcome).toMatchObject({ status: 200, complete: true })
      // Of a request that was refused the client gets the reason, and of nothing else.
      expect(outcome.body.includes('canary-90aa')).toBe(code === 400)
      const { text, errors, usages, dones } = parseStream(outcome.body)
      expect({ text, dones }).toEqual({ text: '', dones: 1 })
      expect(errors).toMatchObject([
        { choices: [{ finish_reason: 'error' }], error: { code, metadata: { error_type } } },
      ])
      expect(await fetchGeneration(server, readGenerationId(outcome), key)).toMatchObject({
        finish_reason: 'error',
        error_type,
        total_cost: 0,
      })
      expect(await fetchKeyState(server, key)).toMatchObject({ usage: 0, limit_remaining: 1 })
      expect(usages).toMatchObject([
        { choices: [], usage: { prompt_tokens: 0, completion_tokens: 0, cost: 0 } },
      ])
    },
  )
})

test('C-16 a client that leaves after its whole stream does not cancel the call', async () => {
  upstream.plan([words(), finish(), usageChunk(), done(), { wait: 'never' }])
  const call = sendChat(server, { stream: true }, { key })
  await call.sees('[DONE]')
  call.hangUp('rst')
  const id = /"id":"(gen-[^"]+)"/.exec(call.text)?.[1] ?? ''
  expect(await fetchGeneration(server, id, key)).toMatchObject({
    cancelled: false,
    finish_reason: 'stop',
    usage_source: 'exact',
  })
})

test('A-10 a client that stops reading delays only its own stream', async () => {
  const flood: Script = [
    sseHead(),
    Array.from({ length: 200 }, () => delta('x'.repeat(64 * 1024))),
    ending(),
  ]
  upstream.plan(flood, [words(), ending()])
  // Of a key without a limit: under one it would be cut where what is set aside for it ends.
  const stalled = sendChat(server, { stream: true })
  await stalled.sees('xxx')
  stalled.stopReading()
  expect(
    parseStream((await sendChat(server, { stream: true }, { key }).outcome()).body),
  ).toMatchObject({
    text: 'Hello',
    dones: 1,
  })
  stalled.readOn()
  expect(parseStream((await stalled.outcome()).body).text).toHaveLength(200 * 64 * 1024)
})

const cancelledCalls = async () =>
  (await readMetric(server, 'gateway_generations_total{provider="local",outcome="cancelled"}')) +
  (await readMetric(server, 'gateway_generations_total{provider="none",outcome="cancelled"}'))

function withinSecond({ clientLeft }: Hit): Promise<'closed' | 'open'> {
  const { promise, resolve } = Promise.withResolvers<'open'>()
  const late = setTimeout(() => resolve('open'), 1000)
  return Promise.race([clientLeft.then(() => 'closed' as const), promise]).finally(() =>
    clearTimeout(late),
  )
}

/**
 * The newest calls from the terminal: a client that leaves before the first byte never learns its
 * id.
 */
async function newest(limit: number): Promise<Generation[]> {
  const { stdout } = await runCommand([
    'generations',
    'list',
    '--limit',
    String(limit),
    '--json',
    '--data',
    server.data,
  ])
  return JSON.parse(stdout).data
}

async function expectRecorded() {
  const generations = await Promise.all(
    (await newest(ROUNDS)).map(({ id }) => fetchGeneration(server, id, key)),
  )
  expect(new Set(generations.map(one => one.request_id)).size).toBe(ROUNDS)
  for (const one of generations) {
    expect(one).toMatchObject({ cancelled: true, usage_source: 'estimated' })
    expect(one.total_cost).toBeGreaterThan(0)
  }
  const nanos = generations.reduce((sum, one) => sum + Math.round(one.total_cost * 1e9), 0)
  expect(await fetchKeyState(server, key)).toMatchObject({
    usage: nanos / 1e9,
    limit_remaining: (1e9 - nanos) / 1e9,
  })
  expect(await readMetric(server, 'gateway_running_calls')).toBe(0)
}
