import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { CERTIFICATE } from '../support/certificate.ts'
import {
  buildRoutesConfig,
  COST,
  createLimitedKey,
  fetchGeneration,
  fetchKeyState,
  parseStream,
  readGenerationId,
  readText,
  readUsage,
  sendChat,
} from '../support/chat.ts'
import type { Outcome } from '../support/raw-client.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  body,
  chunkedEnd,
  completion,
  delta,
  done,
  ending,
  errorBody,
  errorInside200,
  event,
  finish,
  type Hit,
  head,
  headerDrip,
  htmlError,
  midError,
  refusedPort,
  resetAtOnce,
  type Script,
  shortContentLength,
  silence,
  sseHead,
  startUpstream,
  status,
  stream,
  type Upstream,
} from '../support/upstream.ts'

/** A provider's text that no client may read. */
const CANARY = 'canary-1f7e'
const TIMEOUTS = {
  first_byte_seconds: 0.8,
  first_byte_stream_seconds: 0.8,
  idle_seconds: 0.8,
  total_seconds: 20,
}

let server: LocalServer
let first: Upstream
let second: Upstream
let third: Upstream
let fourth: Upstream
let key: string
let untrusted: Bun.Server<undefined>

beforeAll(async () => {
  untrusted = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    tls: CERTIFICATE,
    fetch: () => new Response(),
  })
  ;[first, second, third, fourth] = await Promise.all([
    startUpstream(),
    startUpstream(),
    startUpstream(),
    startUpstream(),
  ])
  const refused = `http://127.0.0.1:${await refusedPort()}/v1`
  const routes = {
    'acme/small': { first: first.url, second: second.url },
    'acme/other': { third: third.url },
    'acme/wide': { first: first.url, second: second.url, third: third.url, fourth: fourth.url },
    'acme/refused': { refused, second: second.url },
    'acme/nameless': { nameless: 'http://nobody.invalid/v1', second: second.url },
    'acme/untrusted': { untrusted: `${untrusted.url}v1`, second: second.url },
    'acme/gone': { refused },
    'acme/last': { fourth: fourth.url },
  }
  server = await startLocalServer(buildRoutesConfig(routes, { timeouts: TIMEOUTS }))
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([first, second, third, fourth].map(upstream => upstream.close()))
  await untrusted.stop(true)
})

beforeEach(async () => {
  for (const upstream of [first, second, third, fourth]) {
    upstream.hits.length = 0
    upstream.answer(answering)
  }
  key = await createLimitedKey(server)
})

const answering = ({ json }: Hit): Script =>
  (json as { stream?: boolean }).stream ? stream(['from ', 'another']) : completion('from another')

const ask = (fields: object, streamed: boolean): Promise<Outcome> =>
  sendChat(server, { ...fields, stream: streamed }, { key }).outcome()

const hits = () => [first, second, third, fourth].map(upstream => upstream.hits.length)

/** Sends the role, as streams begin, and nothing that a caller could use. */
const roleOnly = () => [sseHead(), delta({ role: 'assistant', content: '' })]

const toThird = () =>
  head(307, { location: `${third.url}/chat/completions`, 'content-length': '0' })

/** Ways to fail before the first meaningful part, with the recorded status of each. */
const FAILURES: [name: string, script: () => Script, status: number | null][] = [
  ['U-01 500', () => status(500, CANARY), 500],
  ['U-01 502 with a page', () => htmlError(502), 502],
  ['U-01 503', () => status(503, CANARY), 503],
  ['U-03 429 with Retry-After', () => status(429, CANARY, { 'retry-after': '2' }), 429],
  ['U-05 529', () => status(529, CANARY), 529],
  [
    'U-05 400 whose body says overloaded',
    () => status(400, errorBody('overloaded_error', 'Overloaded')),
    400,
  ],
  ['U-05 200 with an error body', () => errorInside200(529, `Overloaded ${CANARY}`), 200],
  ['U-06 401', () => status(401, CANARY), 401],
  ['U-06 403', () => status(403, CANARY), 403],
  ['U-08 a reset without an answer', resetAtOnce, null],
  ['U-11 silence', silence, null],
  ['U-11 a head that never ends', () => headerDrip(), null],
  ['U-12 silence after the role', () => [roleOnly(), silence()], 200],
  ['U-13 a reset after the role', () => [roleOnly(), { ms: 20 }, { end: 'rst' }], 200],
  ['U-13 a close after the role', () => [roleOnly(), { end: 'fin' }], 200],
  ['U-13 a clean end after the role', () => [roleOnly(), chunkedEnd()], 200],
  [
    'U-13 a close inside the first words',
    () => [sseHead(), delta('lost').subarray(0, -10), { end: 'fin' }],
    200,
  ],
  ['U-13 a body shorter than its length', shortContentLength, 200],
  [
    'U-18 an error as the first event',
    () => [sseHead(), event(errorBody(500, CANARY)), chunkedEnd()],
    200,
  ],
  [
    'U-18 an error after the role',
    () => [roleOnly(), event(errorBody(500, CANARY)), done(), chunkedEnd()],
    200,
  ],
  ['U-20 a page', () => body('text/html', `<h1>${CANARY}</h1>`), 200],
  ['U-20 a redirect', toThird, 307],
  ['U-20 invalid JSON', () => body('application/json', '{"choices": ['), 200],
  ['U-20 JSON that is not an answer', () => body('application/json', '{"ok": true}'), 200],
  ['U-20 an empty body', () => body('application/json', ''), 200],
  ['U-20 an empty stream', () => body('text/event-stream', ''), 200],
  ['U-20 a stream of only [DONE]', () => [sseHead(), done(), chunkedEnd()], 200],
  ['U-20 204', () => head(204), 204],
]

for (const streamed of [false, true]) {
  const how = streamed ? 'streamed' : 'whole'

  // `trap 101`: an attempt whose answer never came may have cost the provider. The caller pays for
  // the one that answered, and sees both.
  describe(`U-01 A-08 trap 101: another endpoint answers, ${how}, and is charged once, after`, () => {
    test.each(FAILURES)('%s', async (_, script, code) => {
      first.plan(script())
      const outcome = await ask({}, streamed)

      expect(outcome).toMatchObject({ status: 200, complete: true })
      expect(readText(outcome)).toBe('from another')
      expect(readUsage(outcome)).toMatchObject({
        prompt_tokens: 10,
        completion_tokens: 5,
        cost: COST,
      })
      expect(outcome.body + JSON.stringify(outcome.headers)).not.toContain(CANARY)
      expect(outcome.body).not.toContain('first')
      if (streamed)
        expect(parseStream(outcome.body)).toMatchObject({
          errors: [],
          dones: 1,
          usages: [{ choices: [] }],
        })
      expect(hits()).toEqual([1, 1, 0, 0])
      await expectAttempts(outcome, [
        { provider_name: 'first', status: code },
        { provider_name: 'second', status: 200 },
      ])
      expect(await fetchKeyState(server, key)).toMatchObject({
        usage: COST,
        limit_remaining: 1 - COST,
      })
    })

    test('U-08 a refused connection', async () => {
      const outcome = await ask({ model: 'acme/refused' }, streamed)
      expect(readText(outcome)).toBe('from another')
      await expectAttempts(outcome, [
        { provider_name: 'refused', status: null },
        { provider_name: 'second', status: 200 },
      ])
      expect(await fetchKeyState(server, key)).toMatchObject({
        usage: COST,
        limit_remaining: 1 - COST,
      })
    })
  })

  describe(`U-02 when every endpoint fails, ${how}, the caller gets`, () => {
    test.each<[name: string, script: () => Script, code: number, type: string]>([
      ['U-02 502 for 500', () => status(500, CANARY), 502, 'provider_unavailable'],
      ['U-02 502 for 503', () => status(503, CANARY), 502, 'provider_unavailable'],
      ['U-05 529 for 529', () => status(529, CANARY), 529, 'provider_overloaded'],
      [
        'U-05 529 for a 200 that says overloaded',
        () => errorInside200(529, `Overloaded ${CANARY}`),
        529,
        'provider_overloaded',
      ],
      ['U-06 502 for 401', () => status(401, CANARY), 502, 'provider_unavailable'],
      ['U-11 524 for silence', silence, 524, 'timeout'],
      [
        'U-13 502 for a stream that is cut before its first token',
        () => [roleOnly(), { end: 'fin' }],
        502,
        'provider_unavailable',
      ],
      [
        'U-18 502 for an error as the first event',
        () => [sseHead(), event(errorBody(500, CANARY)), chunkedEnd()],
        502,
        'provider_unavailable',
      ],
      ['U-20 502 for a page', () => body('text/html', CANARY), 502, 'provider_unavailable'],
      ['U-20 502 for a redirect', toThird, 502, 'provider_unavailable'],
      ['U-20 502 for 204', () => head(204), 502, 'provider_unavailable'],
    ])('%s', async (_, script, code, type) => {
      first.plan(script())
      second.plan(script())
      const outcome = await ask({}, streamed)
      expectEnvelope(outcome, code, type)
      expect(hits()).toEqual([1, 1, 0, 0])
      await expectFree(outcome, type)
    })

    test('U-08 502 for a refused connection', async () => {
      const outcome = await ask({ model: 'acme/gone' }, streamed)
      expectEnvelope(outcome, 502, 'provider_unavailable')
      await expectFree(outcome, 'provider_unavailable')
    })

    test('U-03 429 with the shortest Retry-After of all providers', async () => {
      first.plan(status(429, CANARY, { 'retry-after': '2' }))
      second.plan(status(429, CANARY, { 'retry-after': '9' }))
      const outcome = await ask({}, streamed)
      expectEnvelope(outcome, 429, 'rate_limit_exceeded')
      expect(outcome.headers['retry-after']).toBe('2')
      await expectFree(outcome, 'rate_limit_exceeded')
    })

    test('U-07 400 at once, with its words, when the provider refuses the request', async () => {
      first.plan(status(400, 'No such tool'))
      const outcome = await ask({}, streamed)
      expectEnvelope(outcome, 400, 'invalid_request')
      expect(outcome.body).toContain('refused the request as invalid: No such tool')
      expect(hits()).toEqual([1, 0, 0, 0])
      await expectFree(outcome, 'invalid_request')
    })

    test('one attempt at each endpoint', async () => {
      for (const upstream of [first, second, third, fourth]) upstream.plan(status(500, CANARY))
      const outcome = await ask({ model: 'acme/wide' }, streamed)
      expectEnvelope(outcome, 502, 'provider_unavailable')
      expect(hits()).toEqual([1, 1, 1, 1])
      expect(
        (await fetchGeneration(server, readGenerationId(outcome))).provider_responses,
      ).toHaveLength(4)
    })
  })

  describe(`models, ${how}`, () => {
    test('falls back to the next model when every endpoint of one has failed', async () => {
      first.plan(status(500, CANARY))
      second.plan(status(503, CANARY))
      const outcome = await ask({ models: ['acme/other'] }, streamed)
      expect(readText(outcome)).toBe('from another')
      expect(outcome.body).toContain('"model":"acme/other"')
      expect(hits()).toEqual([1, 1, 1, 0])
      await expectAttempts(outcome, [
        { provider_name: 'first', model_permaslug: 'acme/small', status: 500 },
        { provider_name: 'second', model_permaslug: 'acme/small', status: 503 },
        { provider_name: 'third', model_permaslug: 'acme/other', status: 200 },
      ])
    })

    test('U-07 an invalid request goes to the next model, not the same one elsewhere', async () => {
      first.plan(status(400, CANARY))
      const outcome = await ask({ models: ['acme/other'] }, streamed)
      expect(readText(outcome)).toBe('from another')
      expect(outcome.body).toContain('"model":"acme/other"')
      expect(hits()).toEqual([1, 0, 1, 0])
    })

    test('U-07 the next model is tried however many endpoints the refusing one has', async () => {
      first.plan(status(400, CANARY))
      const outcome = await ask({ model: 'acme/wide', models: ['acme/other'] }, streamed)
      expect(readText(outcome)).toBe('from another')
      expect(outcome.body).toContain('"model":"acme/other"')
      expect(hits()).toEqual([1, 0, 1, 0])
    })

    test('every endpoint of a model is tried, then the model after it', async () => {
      for (const upstream of [first, second, third]) upstream.plan(status(500, CANARY))
      fourth.plan(status(500, CANARY), streamed ? stream(['from last']) : completion('from last'))
      const outcome = await ask({ model: 'acme/wide', models: ['acme/last'] }, streamed)
      expect(outcome.body).toContain('"model":"acme/last"')
      expect(hits()).toEqual([1, 1, 1, 2])
    })

    test('the third of three fallbacks is reached', async () => {
      for (const upstream of [first, second, third]) upstream.plan(status(500, CANARY))
      const models = ['acme/other', 'acme/gone', 'acme/last']
      const outcome = await ask({ model: 'acme/small', models }, streamed)
      expect(outcome.body).toContain('"model":"acme/last"')
      expect(hits()).toEqual([1, 1, 1, 1])
    })

    test('every named model is tried once in an outage, whatever the retry budget', async () => {
      for (const upstream of [first, second, third, fourth]) upstream.plan(status(500, CANARY))
      const models = ['acme/other', 'acme/last']
      const calls = Array.from({ length: 40 }, () => ask({ model: 'acme/small', models }, streamed))
      const outcomes = await Promise.all(calls)
      expect(new Set(outcomes.map(outcome => outcome.status))).toEqual(new Set([502]))
      const [, , toOther, toLast] = hits()
      expect([toOther, toLast]).toEqual([40, 40])
    })
  })
}

describe('no other endpoint is tried after a first meaningful part when the stream', () => {
  test.each<[name: string, part: string | object, end: Script]>([
    ['is reset', 'Hello', { end: 'rst' }],
    ['is closed', 'Hello', { end: 'fin' }],
    ['is cut inside the next words', 'Hello', [delta('lost').subarray(0, -10), { end: 'fin' }]],
    ['ends without [DONE]', 'Hello', chunkedEnd()],
    ['sends an error', 'Hello', [event(errorBody(500, CANARY)), chunkedEnd()]],
    [
      'has only called a tool',
      { tool_calls: [{ index: 0, id: 'Hello', function: { name: 'f' } }] },
      { end: 'rst' },
    ],
    ['has only sent reasoning', { reasoning: 'Hello' }, { end: 'rst' }],
  ])('%s', async (name, part, end) => {
    first.plan([sseHead(), delta(part), { wait: name }, end])
    const call = sendChat(server, { stream: true }, { key })
    await call.sees('Hello')
    first.open(name)
    const outcome = await call.outcome()
    expect(outcome).toMatchObject({ status: 200, complete: true })
    expect(parseStream(outcome.body)).toMatchObject({
      errors: [{ error: { code: 502 } }],
      dones: 1,
    })
    expect(outcome.body).not.toContain(CANARY)
    expect(hits()).toEqual([1, 0, 0, 0])
  })
})

describe('a whole message cannot say that it broke off, so another endpoint answers after', () => {
  test.each<[string, () => Script]>([
    ['a reset', () => [sseHead(), delta('lost'), { end: 'rst' }]],
    ['a close', () => [sseHead(), delta('lost'), { end: 'fin' }]],
    ['a clean end without its end', () => [sseHead(), delta('lost'), chunkedEnd()]],
    ['an error among its words', () => midError()],
    [
      'an end that is an error',
      () => [sseHead(), delta('lost'), finish('error'), done(), chunkedEnd()],
    ],
  ])('%s, and is charged alone', async (_, script) => {
    const send = async () => {
      const response = await server.fetch('/messages', {
        key,
        json: { model: 'acme/small', max_tokens: 9, messages: [{ role: 'user', content: 'Hi' }] },
      })
      return { status: response.status, body: (await response.json()) as { content?: object } }
    }
    first.plan(script())
    second.answer(answering)
    expect(await send()).toMatchObject({
      status: 200,
      body: { content: [{ type: 'text', text: 'from another' }] },
    })
    expect((await fetchKeyState(server, key)).usage).toBeCloseTo(COST, 12)
    second.plan(script())
    expect((await send()).status).toBe(502)
    expect((await fetchKeyState(server, key)).usage).toBeCloseTo(COST, 12)
    expect(hits()).toEqual([2, 2, 0, 0])
  })
})

describe('U-04 Retry-After', () => {
  test.each([
    ['is at most five minutes', '99999999999', '300'],
    ['is never negative', '-5', '0'],
    ['is omitted when invalid', 'abc', undefined],
    ['is rounded up from a fraction', '1.5', '2'],
    ['is rounded up from a date', new Date(Date.now() + 3_600_000).toUTCString(), '300'],
  ])('%s', async (_, given, told) => {
    first.plan(status(429, CANARY, { 'retry-after': given }))
    second.plan(status(429, CANARY, { 'retry-after': given }))
    const outcome = await ask({}, false)
    expect(outcome.status).toBe(429)
    expect(outcome.headers['retry-after']).toBe(told as string)
  })

  test.each([
    [503, 502],
    [529, 529],
    [500, 502],
  ])('of %d is passed on where its status means to wait', async (code, told) => {
    for (const upstream of [first, second])
      upstream.plan(status(code, CANARY, { 'retry-after': '99999' }))
    const outcome = await ask({}, false)
    expect([outcome.status, outcome.headers['retry-after']]).toEqual([
      told,
      code === 500 ? undefined : '300',
    ])
  })

  test('is the more precise one where a provider sends both', async () => {
    first.plan(status(429, CANARY, { 'retry-after': '9', 'retry-after-ms': '2400' }))
    second.plan(status(429, CANARY, { 'retry-after': '9', 'retry-after-ms': '8001' }))
    expect((await ask({}, false)).headers['retry-after']).toBe('3')
  })
})

describe('L.3 when all attempted providers are busy', () => {
  const failure = (outcome: Outcome) => JSON.parse(outcome.body).error

  test('429 names them, with the shortest wait', async () => {
    first.plan(status(429, CANARY, { 'retry-after': '70' }))
    second.plan(status(429, CANARY, { 'retry-after': '40' }))
    const outcome = await ask({}, true)
    expectEnvelope(outcome, 429, 'rate_limit_exceeded')
    expect(outcome.headers['retry-after']).toBe('40')
    expect(failure(outcome)).toMatchObject({
      message: 'All providers for acme/small are at capacity. Retry after 40 seconds.',
      metadata: {
        availability: {
          code: 'capacity_exhausted',
          retryable: true,
          retry_after: 40,
          requested_models: ['acme/small'],
          affected_providers: ['first', 'second'],
        },
        previous_errors: [{ provider: 'first', code: 429, status: 429 }],
      },
    })
  })

  test('without a Retry-After from them there is none', async () => {
    for (const upstream of [first, second, third]) upstream.plan(status(429, CANARY))
    const outcome = await ask({ models: ['acme/other'] }, false)
    expect(outcome.headers['retry-after']).toBeUndefined()
    expect(failure(outcome).message).toBe('All providers for acme/small are at capacity.')
    expect(failure(outcome).metadata.availability).toEqual({
      code: 'capacity_exhausted',
      retryable: true,
      requested_models: ['acme/small', 'acme/other'],
      affected_providers: ['first', 'second', 'third'],
    })
  })

  test('another kind of failure among them leaves the last error', async () => {
    first.plan(status(503, CANARY))
    second.plan(status(429, CANARY, { 'retry-after': '40' }))
    const { message, metadata } = failure(await ask({}, false))
    expect([message, metadata.availability]).toEqual(['Rate limit exceeded', undefined])
    expect(metadata.previous_errors).toEqual([{ provider: 'first', code: 502, status: 503 }])
  })

  test('K.2 a provider that gave no answer has no status', async () => {
    second.plan(status(500, CANARY))
    const { metadata } = failure(await ask({ model: 'acme/refused' }, false))
    expect(metadata.previous_errors).toEqual([
      { provider: 'refused', code: 502, status: null, cause: 'connection refused' },
    ])
  })
})

describe('why no connection came about is told to the caller and is on record:', () => {
  test.each([
    ['acme/refused', 'connection refused', 'ECONNREFUSED'],
    ['acme/nameless', 'name not found', 'ENOTFOUND'],
    ['acme/untrusted', 'TLS failed', 'DEPTH_ZERO_SELF_SIGNED_CERT'],
  ])('%s: %s', async (model, cause, code) => {
    second.plan(status(500, CANARY))
    const call = sendChat(server, { model }, { key, headers: { 'x-gateway-metadata': 'enabled' } })
    const outcome = await call.outcome()
    const { error, gateway_metadata } = JSON.parse(outcome.body)
    expect(error.metadata.previous_errors).toMatchObject([{ code: 502, status: null, cause }])
    expect(gateway_metadata.attempts).toMatchObject([{ status: 502, cause }, { status: 500 }])
    const { provider_responses } = await fetchGeneration(server, readGenerationId(outcome))
    expect(provider_responses).toMatchObject([{ error: { code } }, { status: 500 }])
  })

  test('the last attempt, in place of the sentence alone', async () => {
    const outcome = await ask({ model: 'acme/gone' }, false)
    expect(JSON.parse(outcome.body).error).toMatchObject({
      message: 'Provider returned error: connection refused',
      metadata: { cause: 'connection refused', provider_name: 'refused' },
    })
  })
})

test('reads a whole answer in place of a stream, and the other way round', async () => {
  first.plan(completion('whole'), [sseHead(), delta('str'), delta('eamed'), ending()])
  expect(readText(await ask({}, true))).toBe('whole')
  expect(readText(await ask({}, false))).toBe('streamed')
})

test('accepts a finish reason alone as an answer', async () => {
  first.plan([sseHead(), finish('length'), done(), chunkedEnd()])
  expect((await ask({}, true)).status).toBe(200)
  expect(hits()).toEqual([1, 0, 0, 0])
})

async function expectAttempts(outcome: Outcome, attempts: object[]) {
  const generation = await fetchGeneration(server, readGenerationId(outcome))
  expect(generation.provider_responses).toHaveLength(attempts.length)
  expect(generation).toMatchObject({
    provider_responses: attempts,
    total_cost: COST,
    usage_source: 'exact',
    finish_reason: 'stop',
  })
}

function expectEnvelope(outcome: Outcome, code: number, error_type: string) {
  expect(outcome).toMatchObject({ status: code, complete: true })
  expect(outcome.headers['content-type']).toStartWith('application/json')
  const answer = JSON.parse(outcome.body)
  expect(Object.keys(answer)).toEqual(['error'])
  expect(answer.error).toMatchObject({
    code,
    message: expect.any(String),
    metadata: { error_type },
  })
  expect(answer.error.metadata.request_id).toBe(outcome.headers['x-request-id'])
  expect(outcome.body + JSON.stringify(outcome.headers)).not.toContain(CANARY)
}

async function expectFree(outcome: Outcome, error_type: string) {
  expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject({
    total_cost: 0,
    error_type,
    finish_reason: 'error',
    cancelled: false,
  })
  expect(await fetchKeyState(server, key)).toMatchObject({ usage: 0, limit_remaining: 1 })
}
