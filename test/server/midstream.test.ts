import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { reconfigure } from '../../src/app/reconfigure.ts'
import { parseConfig } from '../../src/config.ts'
import {
  buildRoutesConfig,
  COST,
  createLimitedKey,
  fetchGeneration,
  fetchKeyState,
  parseStream,
  readGenerationId,
  readText,
  sendChat,
} from '../support/chat.ts'
import type { Outcome } from '../support/raw-client.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { renderBytes } from '../support/upstream/steps.ts'
import {
  bomSse,
  chunk,
  chunkedEnd,
  closeDelimited,
  crlfSse,
  delta,
  deltaObject,
  done,
  ending,
  errorBody,
  event,
  eventText,
  finish,
  garbageSse,
  hugeLine,
  inOneWrite,
  noUsage,
  type Script,
  slowDrip,
  splitUtf8,
  sseHead,
  startUpstream,
  stream,
  type Upstream,
  usage,
  usageChunk,
  usageTwice,
} from '../support/upstream.ts'

const CANARY = 'canary-77c2'
const PRICES = { prompt: 150, completion: 600 }

let server: LocalServer
let upstream: Upstream
let key: string

beforeAll(async () => {
  upstream = await startUpstream()
  server = await startLocalServer(buildConfig(0.3))
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

const buildConfig = (idle_seconds: number) => {
  const timeouts = { idle_seconds, first_byte_stream_seconds: 5, total_seconds: 20 }
  return buildRoutesConfig({ 'acme/small': { local: upstream.url } }, { timeouts })
}

/** The end of a good stream. */
const said = () => [finish(), usageChunk(), done()]

let gates = 0

/**
 * Makes the provider send "Hello", waits until the client has it, and then lets the script
 * continue.
 */
async function afterHello(
  then: Script,
  start: Script = [sseHead(), delta('Hel'), delta('lo')],
): Promise<Outcome> {
  const gate = `hello ${++gates}`
  upstream.plan([start, { wait: gate }, then])
  const call = sendChat(server, { stream: true }, { key })
  await call.sees('"lo"')
  upstream.open(gate)
  return call.outcome()
}

describe('a broken answer ends in one error, one usage and [DONE] when the stream', () => {
  test.each<[name: string, then: Script, code: number, type: string]>([
    ['U-13 is closed between two chunks', { end: 'fin' }, 502, 'provider_unavailable'],
    [
      'U-13 is closed inside a chunk',
      [delta('lost').subarray(0, -10), { end: 'fin' }],
      502,
      'provider_unavailable',
    ],
    ['U-13 is reset', { end: 'rst' }, 502, 'provider_unavailable'],
    ['U-13 is closed inside the trailer', ['0\r\n', { end: 'fin' }], 502, 'provider_unavailable'],
    ['U-13 ends cleanly without [DONE]', chunkedEnd(), 502, 'provider_unavailable'],
    [
      'U-13 gives its finish reason and is reset before [DONE]',
      [finish(), { ms: 20 }, { end: 'rst' }],
      502,
      'provider_unavailable',
    ],
    [
      'U-13 gives its finish reason and is closed inside the trailer',
      [finish(), '0\r\n', { end: 'fin' }],
      502,
      'provider_unavailable',
    ],
    [
      'U-13 gives its finish reason and misses its last chunk',
      [finish(), { end: 'fin' }],
      502,
      'provider_unavailable',
    ],
    ['U-12 is silent', { wait: 'never' }, 524, 'timeout'],
    [
      'U-18 tells an error',
      [event(errorBody(503, CANARY)), chunkedEnd()],
      502,
      'provider_unavailable',
    ],
    [
      'U-18 tells an error and then [DONE]',
      [event(errorBody(500, CANARY)), done(), chunkedEnd()],
      502,
      'provider_unavailable',
    ],
    [
      'U-18 tells an error and is silent',
      [event(errorBody(500, CANARY)), { wait: 'never' }],
      502,
      'provider_unavailable',
    ],
    [
      'U-18 tells of too many requests',
      [event(errorBody(429, CANARY)), chunkedEnd()],
      429,
      'rate_limit_exceeded',
    ],
    [
      'U-18 tells of an overload',
      [event(errorBody(529, CANARY)), chunkedEnd()],
      529,
      'provider_overloaded',
    ],
    [
      'U-14 turns to garbage',
      [Array.from({ length: 21 }, () => event('{not json')), ending()],
      502,
      'provider_unavailable',
    ],
  ])('%s', async (_, then, code, type) => expectBroken(await afterHello(then), code, type))

  test('U-13 has no framing and is closed', async () => {
    const [start, hel, lo, end] = closeDelimited() as Script[]
    await expectBroken(
      await afterHello(end ?? '', [start ?? '', hel ?? '', lo ?? '']),
      502,
      'provider_unavailable',
    )
  })

  test('U-13 has no framing, gives its finish reason and is closed', async () => {
    const [start, hel, lo, end] = closeDelimited() as Script[]
    const bare = eventText({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
    await expectBroken(
      await afterHello([bare, end ?? ''], [start ?? '', hel ?? '', lo ?? '']),
      502,
      'provider_unavailable',
    )
  })

  test('U-15 has a line of 64 MiB, of which only a limited part is read', async () => {
    upstream.plan(hugeLine(64 * 1024 * 1024))
    await expectBroken(
      await sendChat(server, { stream: true }, { key }).outcome(),
      502,
      'provider_unavailable',
    )
    await upstream.emptied()
    expect(upstream.hits[0]?.sent).toBeLessThan(32 * 1024 * 1024)
  })

  async function expectBroken(outcome: Outcome, code: number, error_type: string) {
    expect(outcome).toMatchObject({ status: 200, complete: true, ended: 'clean' })
    const { events, text, errors, usages, dones } = parseStream(outcome.body)
    expect(text).toBe('Hello')
    expect([errors.length, usages.length, dones]).toEqual([1, 1, 1])
    expect(events.slice(-3)).toEqual([
      errors[0] as (typeof events)[0],
      usages[0] as (typeof events)[0],
      '[DONE]',
    ])
    expect(errors[0]).toMatchObject({
      choices: [{ finish_reason: 'error' }],
      error: { code, metadata: { error_type } },
    })
    expect(usages[0]?.choices).toEqual([])
    expect(outcome.body).not.toContain(CANARY)
    const cost = usages[0]?.usage?.cost ?? 0
    expect(cost).toBeGreaterThan(0)
    expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject({
      finish_reason: 'error',
      usage_source: 'estimated',
      cancelled: false,
      error_type,
      total_cost: cost,
      provider_responses: [{ provider_name: 'local', status: 200 }],
    })
    expect(await fetchKeyState(server, key)).toMatchObject({
      usage: cost,
      limit_remaining: 1 - cost,
    })
  }
})

describe('a stream succeeds when it', () => {
  // A busy machine may be silent for longer than the tests of silence wait.
  beforeAll(() => reconfigure(server.gateway, parseConfig(JSON.stringify(buildConfig(60)), {})))

  test.each<[name: string, script: () => Script, text: string]>([
    ['U-14 starts with a byte order mark', bomSse, 'Hello'],
    ['U-14 has all kinds of garbage in it', garbageSse, 'Hello'],
    ['U-16 ends its lines in CR LF', () => crlfSse(), 'Hello'],
    ['U-16 is cut inside a character', () => splitUtf8(), 'Hello 🌍'],
    ['U-16 U-17 comes a byte at a time', () => slowDrip(0), 'Hello'],
    ['U-16 comes in one write', () => inOneWrite(), 'Hello'],
    [
      'ends without [DONE] behind its finish reason',
      () => [sseHead(), delta('Hello'), finish(), usageChunk(), chunkedEnd()],
      'Hello',
    ],
    [
      'says [DONE] without a finish reason',
      () => [sseHead(), delta('Hello'), usageChunk(), done(), chunkedEnd()],
      'Hello',
    ],
    ['U-19 ends twice', () => [sseHead(), delta('Hello'), said(), said(), chunkedEnd()], 'Hello'],
  ])('%s', async (_, script, text) => {
    upstream.plan(script())
    const outcome = await sendChat(server, { stream: true }, { key }).outcome()
    expectWhole(outcome, text)
    expect(parseStream(outcome.body).usages[0]?.usage).toMatchObject({
      prompt_tokens: 10,
      completion_tokens: 5,
      cost: COST,
    })
    expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject({
      usage_source: 'exact',
      finish_reason: 'stop',
      total_cost: COST,
    })
  })

  test('U-16 is cut at any byte of an event', async () => {
    const [first, second, third] = [deltaObject('Hé'), deltaObject('l🌍'), deltaObject('lo')].map(
      delta => Buffer.from(eventText(delta).replaceAll('\n', '\r\n')),
    ) as [Buffer, Buffer, Buffer]
    const bytes = Buffer.concat([first, second, third])
    const cuts = Array.from({ length: second.length + 1 }, (_, i) => first.length + i)
    upstream.answer(() => {
      const at = cuts.shift()
      return [
        sseHead(),
        chunk(bytes.subarray(0, at)),
        { ms: 0 },
        chunk(bytes.subarray(at)),
        ending(),
      ]
    })
    for (const outcome of await inTens(cuts.length, () =>
      sendChat(server, { stream: true }, { key }).outcome(),
    ))
      expectWhole(outcome, 'Hél🌍lo')
  })

  test('U-19 counts twice: the last count is reported', async () => {
    upstream.plan(usageTwice())
    const outcome = await sendChat(server, { stream: true }, { key }).outcome()
    expectWhole(outcome, 'Hello')
    expect(parseStream(outcome.body).usages[0]?.usage).toMatchObject({
      prompt_tokens: 10,
      completion_tokens: 6,
    })
  })

  test('U-19 A-11 never counts: what was delivered is estimated', async () => {
    upstream.plan(noUsage())
    await expectEstimate()
  })

  test.each<[name: string, counts: object]>([
    ['a negative number', usage(-5, 5)],
    ['a fraction', usage(1.5, 5)],
    ['a number that no answer has', usage(1e300, 5)],
    ['a number past 2^53', usage(10, 2 ** 53)],
    ['a text', { prompt_tokens: '10', completion_tokens: '5' }],
    ['nothing', {}],
  ])('U-19 A-15 counts %s: what was delivered is estimated', async (_, counts) => {
    upstream.plan([
      sseHead(),
      delta('Hel'),
      delta('lo'),
      finish(),
      usageChunk(counts as Record<string, unknown>),
      done(),
      chunkedEnd(),
    ])
    await expectEstimate()
  })

  test('U-29 X-32 sends headers that are not for clients', async () => {
    const headers = {
      'set-cookie': `a=${CANARY}`,
      authorization: CANARY,
      location: `/${CANARY}`,
      server: CANARY,
      'x-request-id': CANARY,
    }
    upstream.plan(stream(['Hel', 'lo'], headers))
    const outcome = await sendChat(server, { stream: true }, { key }).outcome()
    expectWhole(outcome, 'Hello')
    expect(JSON.stringify(outcome.headers)).not.toContain(CANARY)
  })

  async function expectEstimate() {
    const outcome = await sendChat(server, { stream: true }, { key }).outcome()
    expectWhole(outcome, 'Hello')
    const counted = parseStream(outcome.body).usages[0]?.usage
    expect(counted?.cost).toBe(
      ((counted?.prompt_tokens ?? 0) * PRICES.prompt +
        (counted?.completion_tokens ?? 0) * PRICES.completion) /
        1e9,
    )
    expect(counted?.cost).toBeGreaterThan(0)
    expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject({
      usage_source: 'estimated',
      total_cost: counted?.cost,
    })
  }

  function expectWhole(outcome: Outcome, text: string) {
    expect(outcome).toMatchObject({ status: 200, complete: true })
    const { events, errors, usages, dones } = parseStream(outcome.body)
    expect(readText(outcome)).toBe(text)
    expect([errors.length, usages.length, dones]).toEqual([0, 1, 1])
    expect(usages[0]?.choices).toEqual([])
    expect(events.slice(-2)).toEqual([usages[0] as (typeof events)[0], '[DONE]'])
  }
})

test('words that come together with the error after them still reach the client', async () => {
  const outcome = await afterHello([
    renderBytes([delta(' world'), event(errorBody(500, CANARY))]),
    chunkedEnd(),
  ])
  expect(parseStream(outcome.body)).toMatchObject({
    text: 'Hello world',
    errors: [{ error: { code: 502 } }],
    dones: 1,
  })
})

test('U-12 silence in one stream does not end another', async () => {
  await using patient = await startLocalServer(buildConfig(60))
  upstream.plan(
    [sseHead(), delta('Hel'), { wait: 'silent ended' }, delta('lo'), ending()],
    [sseHead(), delta('Hel'), { wait: 'never' }],
  )
  const other = sendChat(patient, { stream: true })
  await other.sees('"Hel"')
  // Streams that begin from now on may not be silent for long.
  await reconfigure(patient.gateway, parseConfig(JSON.stringify(buildConfig(0.05)), {}))
  const broken = await sendChat(patient, { stream: true }).outcome()
  expect(parseStream(broken.body).errors).toHaveLength(1)
  upstream.open('silent ended')
  const whole = await other.outcome()
  expect(parseStream(whole.body)).toMatchObject({ text: 'Hello', errors: [], dones: 1 })
})

/** Runs a function a number of times, ten at once. */
async function inTens<T>(count: number, run: () => Promise<T>): Promise<T[]> {
  const results: T[] = []
  while (results.length < count)
    results.push(
      ...(await Promise.all(Array.from({ length: Math.min(10, count - results.length) }, run))),
    )
  return results
}
