import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { countRows, findFaults, listHeldCalls, readBooks, toNanos } from '../support/books.ts'
import {
  createLimitedKey,
  fetchKeyState,
  limitEachUser,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { LONG } from '../support/random.ts'
import { runGateway, type Server, startServer } from '../support/server.ts'
import {
  completion,
  delta,
  done,
  finish,
  type Script,
  sseHead,
  startUpstream,
  status,
  type Upstream,
  usage,
} from '../support/upstream.ts'

/** One USD per thousand tokens at the first provider, two at the second. */
const PRICE = 1_000_000
/** The estimate for "Hi": one token, and its framing. */
const PROMPT = 7
/** Forty characters are ten tokens by the rule of thumb. */
const WORDS = 'word '.repeat(8)

let first: Upstream
let second: Upstream
let data: string
let server: Server
let key: string

beforeEach(async () => {
  ;[first, second] = await Promise.all([startUpstream(), startUpstream()])
  data = mkdtempSync(join(tmpdir(), 'gateway-killed-'))
  server = await started()
  key = await createLimitedKey(server, 1)
})

afterEach(async () => {
  if (server.process.exitCode === null) await server.kill()
  await Promise.all([first.close(), second.close()])
  rmSync(data, { recursive: true, force: true })
})

const started = () => {
  const provider = (base_url: string) => ({ protocol: 'openai-chat', base_url, api_key: 'mock' })
  const endpoint = (provider: string, price: number) => ({
    provider,
    model: 'm',
    usd_per_million_tokens: { prompt: price, completion: price },
  })
  return startServer({
    data,
    config: {
      routing: { choice: 'listed', failures: 0 },
      limits: { strict: false, wait_seconds: 0 },
      providers: { first: provider(first.url), second: provider(second.url) },
      models: [
        {
          id: 'acme/small',
          context_length: 128_000,
          endpoints: [endpoint('first', 1_000), endpoint('second', 2_000)],
        },
      ],
    },
  })
}

const ask = (fields: object = { stream: true }) =>
  sendChat(server, { max_tokens: 50, ...fields }, { key })

/**
 * Kills the server and starts it. Expects that the start settles the call at this amount, and that
 * another one finds nothing.
 */
async function expectRecovered(nanos: number, held = 1, starts = LONG ? 2 : 1): Promise<void> {
  await server.kill()
  expect(readBooks(data, key)).toEqual({ ledger: 0, counted: 0, recorded: 0, calls: 0, held })
  for (let start = 1; start <= starts; start++) {
    server = await started()
    await waitUntil(async () => listHeldCalls(data).length === 0)
    expect(readBooks(data, key)).toEqual({
      ledger: nanos,
      counted: nanos,
      recorded: nanos,
      calls: 1,
      held: 0,
    })
    const { usage: spent, limit_remaining } = await fetchKeyState(server, key)
    expect([toNanos(spent), toNanos(limit_remaining ?? Number.NaN)]).toEqual([nanos, 1e9 - nanos])
    await server.kill()
  }
  expect(
    countRows(data, "generations where usageSource = 'estimated' and finish_reason = 'error'"),
  ).toBe(1)
  expect(await findFaults(data)).toBeNull()
}

/** Resolves once the last checkpoint has recorded what was delivered. */
const checkpointed = () =>
  waitUntil(
    async () => listHeldCalls(data).filter(({ spent }) => spent > PROMPT * PRICE * 2).length === 1,
  )

const gate = { wait: 'never' }
const BARRIERS: [
  name: string,
  fields: object,
  script: () => Script,
  seen: string | null,
  tokens: number,
][] = [
  ['a whole answer, before its provider has answered', {}, () => gate, null, 0],
  ['a whole answer, in the middle', {}, () => [completion(WORDS).slice(0, -40), gate], null, 0],
  ['after the head', { stream: true }, () => [sseHead(), gate], null, 0],
  [
    'in the middle',
    { stream: true },
    () => [sseHead(), delta(WORDS), delta(WORDS), gate],
    'word',
    20,
  ],
  [
    'before [DONE]',
    { stream: true },
    () => [sseHead(), delta(WORDS), finish('stop', usage(10, 5)), gate],
    '"stop"',
    10,
  ],
]

describe('A-06 kill -9', () => {
  test.each(BARRIERS)(
    '%s: charges the prompt, and what was delivered by the last checkpoint',
    async (_, fields, script, seen, tokens) => {
      first.plan(script())
      const call = ask(fields)
      await first.hit()
      if (seen) await call.sees(seen)
      if (tokens > 0) await checkpointed()
      await expectRecovered((PROMPT + tokens) * PRICE)
    },
    60_000,
  )

  test('while a fallback is tried: charges the prompt once, at the first’s price', async () => {
    first.plan(status(500, 'No'))
    second.plan(gate)
    ask()
    await second.hit()
    await expectRecovered(PROMPT * PRICE)
  })

  test('while a fallback answers: charges its own price', async () => {
    first.plan(status(500, 'No'))
    second.plan([sseHead(), delta(WORDS), gate])
    const call = ask()
    await call.sees('word')
    await checkpointed()
    await expectRecovered((PROMPT + 10) * 2 * PRICE)
  })

  test.each<[name: string, script: () => Script, seen: string | null, nanos: number]>([
    ['has sent nothing yet: charges the prompt of both', () => gate, null, PROMPT * 3 * PRICE],
    [
      'answers: charges its own price, and the prompt of the other at the dearer one’s',
      () => [sseHead(), delta(WORDS), gate],
      'word',
      (2 * PROMPT + 10) * 2 * PRICE,
    ],
  ])(
    'while a second endpoint is hedging the first, and %s',
    async (_, script, seen, nanos) => {
      first.plan(gate)
      second.plan(script())
      const call = ask({ stream: true, provider: { hedge: { after_ms: 20 } } })
      await second.hit()
      if (seen) await call.sees(seen)
      if (seen) await checkpointed()
      await expectRecovered(nanos, 2, 2)
    },
    60_000,
  )

  test('after an answer: charges what was counted, and nothing more', async () => {
    first.plan([sseHead(), delta('Hel'), finish('stop', usage(10, 5)), done(), '0\r\n\r\n'])
    const outcome = await ask().outcome()
    await server.kill()
    expect(outcome.complete).toBe(true)
    server = await started()
    expect(readBooks(data, key)).toEqual({
      ledger: 15 * PRICE,
      counted: 15 * PRICE,
      recorded: 15 * PRICE,
      calls: 1,
      held: 0,
    })
    expect(await findFaults(data)).toBeNull()
  })

  test('under a budget of its end user: what it has cost counts there, and none of others', async () => {
    // A call may cost some 0.12 USD, as its fallback does.
    await limitEachUser(server, 0.15)
    first.plan(gate)
    ask({ stream: true, user: 'ada' })
    await first.hit()
    await expectRecovered(PROMPT * PRICE)
    expect(countRows(data, `call_spend where nanos = ${PROMPT * PRICE}`)).toBe(1)
    server = await started()
    first.plan(completion('Hi', { usage: usage(PROMPT, 50) }))
    const call = async (user: string) => (await ask({ user }).outcome()).status
    expect([await call('ada'), await call('ada'), await call('eve')]).toEqual([200, 402, 200])
  })

  test('with many calls at once: their spending cannot be spent again', async () => {
    first.plan(gate)
    const asked = Array.from({ length: 8 }, () => ask())
    await first.hit(asked.length)
    expect((await ask().outcome()).status).toBe(402)
    await server.kill()
    server = await started()
    await waitUntil(async () => listHeldCalls(data).length === 0)
    const spent = 8 * PROMPT * PRICE
    expect(toNanos((await fetchKeyState(server, key)).usage)).toBe(spent)
    expect(await findFaults(data)).toBeNull()
  })
})

test('S-05 a second server on one directory does not start, and settles nothing', async () => {
  first.plan(gate)
  ask()
  await first.hit()
  const failure = await started().then(
    () => '',
    thrown => String(thrown),
  )
  expect(failure).toContain('did not start')
  expect(readBooks(data, key)).toMatchObject({ ledger: 0, calls: 0, held: 1 })
  await expectRecovered(PROMPT * PRICE)
})

test('a terminal that writes while calls hold and settle loses no data', async () => {
  first.answer(() => [sseHead(), delta('Hello'), finish('stop', usage(1, 1)), done(), '0\r\n\r\n'])
  const writing = Array.from({ length: 4 }, (_, i) =>
    runGateway(['keys', 'create', '--name', `k${i}`, '--json', '--data', data]),
  )
  const asked = Array.from({ length: 100 }, () =>
    sendChat(server, { stream: true, max_tokens: 1 }, { key: server.inference_key }),
  )
  const outcomes = await Promise.all(asked.map(call => call.outcome()))
  expect((await Promise.all(writing)).map(({ code }) => code)).toEqual([0, 0, 0, 0])
  expect(new Set(outcomes.map(({ status, complete }) => `${status} ${complete}`))).toEqual(
    new Set(['200 true']),
  )
  const nanos = 100 * 2 * PRICE
  expect(readBooks(data, server.inference_key)).toEqual({
    ledger: nanos,
    counted: nanos,
    recorded: nanos,
    calls: 100,
    held: 0,
  })
  expect(await findFaults(data)).toBeNull()
})
