import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { readBooks, toNanos } from '../support/books.ts'
import {
  buildRoutesConfig,
  createLimitedKey,
  fetchGeneration,
  fetchKeyState,
  parseStream,
  readGenerationId,
  readMetric,
  readText,
  readUsage,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import type { Outcome } from '../support/raw-client.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  completion,
  delta,
  type Hit,
  type Script,
  sseHead,
  startUpstream,
  status,
  stream,
  type Upstream,
} from '../support/upstream.ts'

const NAMES = ['first', 'second', 'third'] as const
/** The price at each provider in USD per million tokens, read or written. */
const PRICE = { first: 1, second: 10, third: 100 }
/** The cost there of 10 tokens in and 5 out. */
const costAt = (name: keyof typeof PRICE) => (15 * PRICE[name]) / 1_000_000

/**
 * Short enough to wait for, and long enough for an immediate answer to arrive first on a busy
 * machine.
 */
const SOON = { hedge: { after_ms: 40 } }
const LATER = { hedge: { after_ms: 800 } }

let upstreams: [Upstream, Upstream, Upstream]
let server: LocalServer
let key: string

beforeAll(async () => {
  upstreams = [await startUpstream(), await startUpstream(), await startUpstream()]
})

afterAll(() => Promise.all(upstreams.map(upstream => upstream.close())))

const from =
  (name: string) =>
  ({ json }: Hit): Script =>
    (json as { stream?: boolean }).stream ? stream([name]) : completion(name)

const start = async (routing: object = { failures: 0 }) => {
  const url = (at: 0 | 1 | 2) => upstreams[at].url
  const routes = {
    'acme/small': { first: url(0), second: url(1), third: url(2) },
    'acme/one': { first: url(0) },
    'acme/pair': { first: url(0), second: url(1) },
    'acme/other': { third: url(2) },
  }
  const config = buildRoutesConfig(routes, { routing: { choice: 'listed', ...routing } })
  const models = config.models.map(model => ({
    ...model,
    endpoints: model.endpoints.map(endpoint => {
      const price = PRICE[endpoint.provider as keyof typeof PRICE]
      return { ...endpoint, usd_per_million_tokens: { prompt: price, completion: price } }
    }),
  }))
  server = await startLocalServer({ ...config, models, limits: { strict: false, wait_seconds: 0 } })
  key = await createLimitedKey(server)
}

beforeEach(() => {
  for (const [i, upstream] of upstreams.entries()) {
    upstream.hits.length = 0
    upstream.answer(from(NAMES[i] ?? ''))
  }
})

afterEach(() => server[Symbol.asyncDispose]())

const send = (body: object = {}) =>
  sendChat(server, { stream: true, max_tokens: 50, provider: SOON, ...body }, { key })
const ask = (body: object = {}): Promise<Outcome> => send(body).outcome()
const hits = () => upstreams.map(upstream => upstream.hits.length)
const never: Script = { wait: 'never' }
const hedges = async (name: string) => [
  await readMetric(server, `gateway_hedges_total{provider="${name}"}`),
  await readMetric(server, `gateway_hedge_wins_total{provider="${name}"}`),
]

/** Resolves once the gateway has closed the connection of the upstream's last request. */
async function left({ hits }: Upstream): Promise<void> {
  await hits.at(-1)?.clientLeft
}

/**
 * Expects that one endpoint alone answered, that the record has these attempts in order, and that
 * the charge is the cost in the answer: with the estimated prompt of the slower one, if there is one.
 */
async function expectAnswer(
  outcome: Outcome,
  name: keyof typeof PRICE,
  tries: [name: string, status: number | null][],
  isOutrun = false,
): Promise<void> {
  expect(outcome).toMatchObject({ status: 200, complete: true })
  expect(readText(outcome)).toBe(name)
  expect(parseStream(outcome.body)).toMatchObject({ errors: [], dones: 1 })
  const cost = readUsage(outcome)?.cost ?? 0
  expect(readUsage(outcome)).toMatchObject({ prompt_tokens: 10, completion_tokens: 5 })
  if (isOutrun) expect(cost).toBeGreaterThan(costAt(name))
  else expect(cost).toBe(costAt(name))
  const generation = await fetchGeneration(server, readGenerationId(outcome), key)
  expect(generation).toMatchObject({
    provider_name: name,
    total_cost: cost,
    usage_source: isOutrun ? 'estimated' : 'exact',
    cancelled: false,
  })
  expect(generation.provider_responses.map(one => [one.provider_name, one.status])).toEqual(tries)
  expect(await fetchKeyState(server, key)).toMatchObject({ usage: cost })
}

describe('two endpoints at once', () => {
  beforeEach(() => start())

  test('a slow one loses to the next, is disconnected, and its prompt is paid', async () => {
    upstreams[0].answer(() => never)
    await expectAnswer(
      await ask(),
      'second',
      [
        ['first', null],
        ['second', 200],
      ],
      true,
    )
    await left(upstreams[0])
    expect([hits(), await hedges('second')]).toEqual([
      [1, 1, 0],
      [1, 1],
    ])
  })

  test('one that has only sent nothing of use to a caller loses too', async () => {
    upstreams[0].answer(() => [sseHead(), delta({ role: 'assistant', content: '' }), never])
    await expectAnswer(
      await ask(),
      'second',
      [
        ['first', 200],
        ['second', 200],
      ],
      true,
    )
    await left(upstreams[0])
  })

  test('where the first answers in time no other is tried, then or later', async () => {
    await expectAnswer(await ask({ provider: LATER }), 'first', [['first', 200]])
    await Bun.sleep(1_000)
    expect([hits(), await hedges('second')]).toEqual([
      [1, 0, 0],
      [0, 0],
    ])
  })

  test('where the first fails in time the second is tried, and may be hedged itself', async () => {
    upstreams[0].answer(() => status(500))
    upstreams[1].answer(() => never)
    await expectAnswer(
      await ask({ provider: LATER }),
      'third',
      [
        ['first', 500],
        ['second', null],
        ['third', 200],
      ],
      true,
    )
    await left(upstreams[1])
  })

  test('both are slow, and the first is still quicker', async () => {
    upstreams[0].answer(hit => [{ wait: 'late' }, from('first')(hit)])
    upstreams[1].answer(() => never)
    const call = send()
    await upstreams[1].hit()
    upstreams[0].open('late')
    await expectAnswer(
      await call.outcome(),
      'first',
      [
        ['first', 200],
        ['second', null],
      ],
      true,
    )
    await left(upstreams[1])
    expect([hits(), await hedges('second')]).toEqual([
      [1, 1, 0],
      [1, 0],
    ])
  })

  test('the first fails, and the second continues', async () => {
    upstreams[0].answer(() => [{ wait: 'fails' }, status(500)])
    upstreams[1].answer(hit => [{ wait: 'goes on' }, from('second')(hit)])
    const call = send()
    await upstreams[1].hit()
    upstreams[0].open('fails')
    await waitUntil(async () => (await readMetric(server, FAILED)) === 1)
    upstreams[1].open('goes on')
    await expectAnswer(await call.outcome(), 'second', [
      ['first', 500],
      ['second', 200],
    ])
    expect([hits(), await hedges('second')]).toEqual([
      [1, 1, 0],
      [1, 1],
    ])
  })

  test('the second fails, and the first continues', async () => {
    upstreams[0].answer(hit => [{ wait: 'first goes on' }, from('first')(hit)])
    upstreams[1].answer(() => status(500))
    const call = send()
    await waitUntil(async () => (await readMetric(server, FAILED.replace('first', 'second'))) === 1)
    upstreams[0].open('first goes on')
    await expectAnswer(await call.outcome(), 'first', [
      ['first', 200],
      ['second', 500],
    ])
    expect([hits(), await hedges('second')]).toEqual([
      [1, 1, 0],
      [1, 0],
    ])
  })

  test('both fail, and the third is tried, but no fourth', async () => {
    upstreams[0].answer(() => [{ wait: 'both fail' }, status(500)])
    upstreams[1].answer(() => [{ ms: 10 }, status(503)])
    const call = send()
    await upstreams[1].hit()
    upstreams[0].open('both fail')
    const outcome = await call.outcome()
    expect(readText(outcome)).toBe('third')
    expect(hits()).toEqual([1, 1, 1])
  })

  test('both fail with no other left, and the error names both', async () => {
    upstreams[0].answer(() => [{ wait: 'nobody is left' }, status(500)])
    upstreams[1].answer(() => status(503))
    const call = send({ model: 'acme/pair' })
    await waitUntil(async () => (await readMetric(server, FAILED.replace('first', 'second'))) === 1)
    upstreams[0].open('nobody is left')
    const outcome = await call.outcome()
    expect(JSON.parse(outcome.body).error.metadata).toMatchObject({
      provider_name: 'first',
      previous_errors: [{ provider: 'second', code: 502, status: 503 }],
    })
    expect(await fetchKeyState(server, key)).toMatchObject({ usage: 0, limit_remaining: 1 })
  })

  test('a refusal by the second would be the first’s too, so the call ends', async () => {
    upstreams[0].answer(() => never)
    upstreams[1].answer(() => status(400))
    expect((await ask()).status).toBe(400)
    await left(upstreams[0])
    expect(hits()).toEqual([1, 1, 0])
  })

  test('and the call continues with the next model', async () => {
    upstreams[0].answer(() => never)
    upstreams[1].answer(() => status(400))
    const outcome = await ask({ model: 'acme/pair', models: ['acme/other'] })
    expect([readText(outcome), ...hits()]).toEqual(['third', 1, 1, 1])
    await left(upstreams[0])
  })

  test('a refusal by another model says nothing about the first', async () => {
    upstreams[0].answer(hit => [{ wait: 'another model' }, from('first')(hit)])
    upstreams[2].answer(() => status(400))
    const call = send({ model: 'acme/one', models: ['acme/other'] })
    await waitUntil(async () => (await readMetric(server, REFUSED)) === 1)
    upstreams[0].open('another model')
    await expectAnswer(await call.outcome(), 'first', [
      ['first', 200],
      ['third', 400],
    ])
  })

  test('a client that disconnects ends both, and pays both for the prompt', async () => {
    for (const upstream of upstreams) upstream.answer(() => never)
    const call = send()
    await upstreams[1].hit()
    call.hangUp('rst')
    await Promise.all([left(upstreams[0]), left(upstreams[1])])
    await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
    const { ledger, recorded, calls, held } = readBooks(server.data, key)
    expect({ calls, held, recorded }).toEqual({ calls: 1, held: 0, recorded: ledger })
    expect(ledger).toBeWithin(1, toNanos(0.001))
    expect(await readMetric(server, FAILED)).toBe(0)
    expect(hits()).toEqual([1, 1, 0])
  })

  test('a client that disconnects while the hedge answers is charged for that, and for the other’s prompt', async () => {
    upstreams[0].answer(() => never)
    upstreams[1].answer(() => [sseHead(), delta('second'), never])
    const call = send()
    await call.sees('second')
    call.hangUp('rst')
    await left(upstreams[1])
    await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
    const { ledger, recorded, calls, held } = readBooks(server.data, key)
    expect({ calls, held, recorded }).toEqual({ calls: 1, held: 0, recorded: ledger })
    expect(ledger).toBeWithin(1, toNanos(costAt('second')))
  })

  test('a limit that pays for one call pays for one hedged call, and for no more', async () => {
    const most = { max_tokens: 1_000 }
    key = await createLimitedKey(server, 0.11)
    upstreams[0].answer(() => never)
    upstreams[1].answer(hit => [{ wait: 'held' }, from('second')(hit)])
    const call = send(most)
    await upstreams[1].hit()
    expect((await ask(most)).status).toBe(402)
    upstreams[1].open('held')
    await expectAnswer(
      await call.outcome(),
      'second',
      [
        ['first', null],
        ['second', 200],
      ],
      true,
    )
    const books = readBooks(server.data, key)
    expect(books).toMatchObject({ calls: 1, held: 0 })
    expect(books.ledger).toBeWithin(toNanos(costAt('second')), toNanos(0.11))
  })

  test('the debug option shows the requests to both', async () => {
    upstreams[0].answer(() => never)
    const outcome = await ask({ debug: { echo_upstream_body: true } })
    expect(readText(outcome)).toBe('second')
    expect(outcome.body.match(/echo_upstream_body/g)).toHaveLength(2)
  })

  test('also in Anthropic’s dialect', async () => {
    upstreams[0].answer(() => never)
    const json = {
      model: 'acme/small',
      max_tokens: 50,
      stream: true,
      provider: SOON,
      messages: [{ role: 'user', content: 'Hi' }],
    }
    const response = await server.fetch('/messages', { key, json })
    expect(await response.text()).toContain('"text":"second"')
    await left(upstreams[0])
  })
})

describe('both endpoints', () => {
  const manage = async (path: string, json: object) =>
    (await (await server.fetch(path, { key: server.management_key, json })).json()) as {
      data: { id: string }
    }

  beforeEach(() => start())

  test('receive the filtered call, and the client gets the filtered answer', async () => {
    const { data } = await manage('/guardrails', {
      name: 'No addresses',
      content_filter_builtins: [{ slug: 'email', action: 'redact' }],
      filter_output: true,
    })
    await manage(`/guardrails/${data.id}/assignments/keys`, {
      key_hashes: [new Bun.CryptoHasher('sha256').update(key).digest('hex')],
    })
    upstreams[0].answer(() => never)
    upstreams[1].answer(() => stream(['Ask eve@', 'acme.example']))
    const outcome = await ask({ messages: [{ role: 'user', content: 'I am bob@acme.example' }] })
    expect(readText(outcome)).toBe('Ask [EMAIL]')
    const redacted = { messages: [{ role: 'user', content: 'I am [EMAIL]' }] }
    expect(upstreams.slice(0, 2).map(({ hits }) => hits[0]?.json)).toMatchObject([
      redacted,
      redacted,
    ])
  })

  test('may be one provider with two credentials, of which each pays what it was asked for', async () => {
    await manage('/byok', { provider: 'first', key: 'sk-mine-0123456789', is_fallback: true })
    const withMine = ({ headers }: Hit) => headers.authorization === 'Bearer sk-mine-0123456789'
    upstreams[0].answer(hit => (withMine(hit) ? stream(['mine']) : never))
    const outcome = await ask({ model: 'acme/one' })
    const cost = readUsage(outcome)?.cost ?? 0
    expect(readText(outcome)).toBe('mine')
    // The prompt at the gateway's own credential, which was slower.
    expect(cost).toBeGreaterThan(0)
    expect(await fetchKeyState(server, key)).toMatchObject({ usage: cost })
    expect(upstreams[0].hits.map(withMine)).toEqual([false, true])
    upstreams[0].answer(hit => [withMine(hit) ? never : { ms: 100 }, stream(['ours'])])
    const again = await ask({ model: 'acme/one' })
    expect([readText(again), readUsage(again)?.cost]).toEqual(['ours', costAt('first')])
  })

  test('are in the routing metadata', async () => {
    upstreams[0].answer(() => never)
    const headers = { 'x-gateway-metadata': 'enabled' }
    const call = sendChat(
      server,
      { stream: true, max_tokens: 50, provider: SOON },
      { key, headers },
    )
    const metadata = parseStream((await call.outcome()).body).events.flatMap(one =>
      one === '[DONE]' ? [] : (Object(one).gateway_metadata ?? []),
    )
    expect(metadata).toMatchObject([
      {
        attempt: 2,
        attempts: [
          { provider: 'first', model: 'acme/small', status: 499 },
          { provider: 'second', model: 'acme/small', status: 200 },
        ],
      },
    ])
  })
})

const FAILED = 'gateway_attempts_failed_total{provider="first",error_type="provider_unavailable"}'
const REFUSED = 'gateway_attempts_failed_total{provider="third",error_type="invalid_request"}'

describe('no hedge starts', () => {
  test('while too many calls are on their second attempt', async () => {
    await start()
    for (const upstream of upstreams)
      upstream.answer(hit => [{ wait: 'budget' }, from('one of them')(hit)])
    const calls = Array.from({ length: 20 }, () => send())
    await Promise.all([upstreams[0].hit(20), upstreams[1].hit(10)])
    await Bun.sleep(100)
    expect(hits()).toEqual([20, 10, 0])
    for (const upstream of upstreams) upstream.open('budget')
    expect(new Set((await Promise.all(calls.map(call => call.outcome()))).map(readText))).toEqual(
      new Set(['one of them']),
    )
    upstreams[0].answer(() => never)
    upstreams[1].answer(from('second'))
    expect(readText(await ask())).toBe('second')
  })

  test('at an endpoint that is cooling down', async () => {
    await start({ pause_seconds: 600 })
    upstreams[1].answer(() => status(500))
    for (let i = 0; i < 5; i++) await ask({ provider: { only: ['second'] } })
    upstreams[0].answer(() => never)
    expect(readText(await ask())).toBe('third')
    expect(hits()).toEqual([1, 5, 1])
  })

  test('at an endpoint that the caller excludes', async () => {
    await start()
    upstreams[0].answer(() => never)
    expect(readText(await ask({ provider: { ...SOON, ignore: ['second'] } }))).toBe('third')
    upstreams[0].answer(hit => [{ ms: 120 }, from('first')(hit)])
    expect(readText(await ask({ provider: { ...SOON, allow_fallbacks: false } }))).toBe('first')
    expect(hits()).toEqual([2, 0, 1])
  })

  test('for an answer without streaming', async () => {
    await start({ failures: 0, hedge: true })
    upstreams[0].answer(hit => [{ ms: 120 }, from('first')(hit)])
    expect(readText(await ask({ stream: false }))).toBe('first')
    expect(hits()).toEqual([1, 0, 0])
  })
})

describe('the time until a hedge starts', () => {
  const slow = () => upstreams[0].answer(hit => [{ ms: 400 }, from('first')(hit)])
  const measure = async (times: number) => {
    for (let i = 0; i < times; i++) await ask({ provider: { hedge: false } })
    for (const upstream of upstreams) upstream.hits.length = 0
  }

  test.each<[measured: number, hedge: boolean | object, answers: string]>([
    [19, true, 'first'],
    [20, true, 'second'],
    [20, {}, 'second'],
    [20, false, 'first'],
    [20, { after_ms: 5_000 }, 'first'],
    [0, { after_ms: 0 }, 'second'],
  ])('after %d measured answers, with hedge %j, %s answers', async (measured, hedge, answers) => {
    await start()
    await measure(measured)
    slow()
    expect(readText(await ask({ provider: { hedge } }))).toBe(answers)
  })

  test('never applies if the config forbids hedges', async () => {
    await start({ failures: 0, hedge: 'never' })
    slow()
    expect(readText(await ask())).toBe('first')
    expect(hits()).toEqual([1, 0, 0])
  })

  test('applies to all calls if the config wants it, unless a call refuses', async () => {
    await start({ failures: 0, hedge: true })
    await measure(20)
    slow()
    expect(readText(await ask({ provider: {} }))).toBe('second')
    expect(readText(await ask({ provider: { hedge: false } }))).toBe('first')
  })

  test('is refused where it is none', async () => {
    await start()
    for (const hedge of ['yes', 1, { after_ms: -1 }, { after_ms: 600_001 }, { after_ms: 'p95' }]) {
      const { status, body } = await ask({ provider: { hedge } })
      expect([hedge, status, body]).toEqual([hedge, 400, expect.stringContaining('provider.hedge')])
    }
    expect(hits()).toEqual([0, 0, 0])
  })
})

test('an endpoint that lost has not failed, and its delay counts as its latency', async () => {
  await start({ failures: 1 })
  upstreams[0].answer(() => never)
  for (let i = 0; i < 3; i++) expect(readText(await ask())).toBe('second')
  const response = await server.fetch('/models/acme/small/endpoints')
  const [first, second] = ((await response.json()) as { data: { endpoints: Shown[] } }).data
    .endpoints
  expect(first).toMatchObject({ status: 0, uptime_last_5m: null })
  expect(first?.latency_last_30m?.p50).toBeGreaterThanOrEqual(40)
  expect(second).toMatchObject({ status: 0, uptime_last_5m: 100 })
})

interface Shown {
  status: number
  uptime_last_5m: number | null
  latency_last_30m: { p50: number } | null
}

test('eighty at once leave no running call, no hold and no connection', async () => {
  await start()
  key = await createLimitedKey(server, 100)
  let slow = 0
  upstreams[0].answer(hit => [{ ms: ++slow % 4 === 0 ? 1_000 : 0 }, from('first')(hit)])
  upstreams[1].answer(hit => [{ ms: 30 }, from('second')(hit)])
  const outcomes = await Promise.all(Array.from({ length: 80 }, () => ask()))
  const texts = outcomes.map(readText)
  const won = texts.filter(text => text === 'second').length
  expect(new Set(texts)).toEqual(new Set(['first', 'second']))
  const [started = 0, wins] = await hedges('second')
  expect([hits()[0], wins]).toEqual([80, won])
  // Some lost before their request was sent.
  expect(hits()[1]).toBeWithin(won, started + 1)
  await Promise.all(upstreams.map(upstream => upstream.emptied()))
  expect(await readMetric(server, 'gateway_running_calls')).toBe(0)
  const nanos = toNanos(won * costAt('second') + (80 - won) * costAt('first'))
  const books = readBooks(server.data, key)
  // Beside the answers, the prompts that the slower ones had taken.
  expect(books.ledger).toBeGreaterThan(nanos)
  expect(books).toEqual({
    ledger: books.ledger,
    counted: books.ledger,
    recorded: books.ledger,
    calls: 80,
    held: 0,
  })
})
