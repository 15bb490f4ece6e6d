import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  buildRoutesConfig,
  createLimitedKey,
  fetchGeneration,
  fetchKeyState,
  readGenerationId,
  readMetric,
  sendChat,
} from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  chunkedEnd,
  completion,
  delta,
  done,
  finish,
  sseHead,
  startUpstream,
  type Upstream,
  usage,
  usageChunk,
} from '../support/upstream.ts'

let server: LocalServer
let upstream: Upstream

/** The context of `acme/small` in that config. */
const CONTEXT = 128_000
const METRIC = 'gateway_implausible_usage_total{provider="local"}'

beforeAll(async () => {
  upstream = await startUpstream()
  server = await startLocalServer(buildRoutesConfig({ 'acme/small': { local: upstream.url } }))
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const searched = (count: unknown) => ({
  ...usage(10, 5),
  server_tool_use: { web_search_requests: count },
})

const IMPLAUSIBLE: [name: string, counts: object][] = [
  ['a prompt of more than four contexts', usage(4 * CONTEXT, 1)],
  ['an output of more than four contexts', usage(1, 4 * CONTEXT)],
  ['a billion tokens', usage(1e9, 1e9)],
  ['a negative prompt', usage(-1, 5)],
  ['a negative output', usage(10, -5)],
  ['a fraction', usage(10.5, 5)],
  ['a text', { ...usage(10, 5), prompt_tokens: '10' }],
  ['a boolean', { ...usage(10, 5), completion_tokens: true }],
  ['negative cached tokens', { ...usage(10, 5), prompt_tokens_details: { cached_tokens: -9 } }],
  [
    'a fraction of reasoning',
    { ...usage(10, 5), completion_tokens_details: { reasoning_tokens: 0.5 } },
  ],
  ['a billion searches', searched(1e9)],
  ['negative searches', searched(-3)],
]

test.each(IMPLAUSIBLE)('A-15 %s: estimated, with an alarm', async (_, counts) => {
  const key = await createLimitedKey(server)
  for (const stream of [false, true]) {
    const alarms = await readMetric(server, METRIC)
    upstream.plan(
      stream
        ? [sseHead(), delta('Hello'), finish(), usageChunk(counts as never), done(), chunkedEnd()]
        : completion('Hello', { usage: counts }),
    )
    const outcome = await sendChat(server, { stream }, { key }).outcome()
    expect(outcome.status).toBe(200)
    const generation = await fetchGeneration(server, readGenerationId(outcome), key)
    expect(generation).toMatchObject({ usage_source: 'estimated', finish_reason: 'stop' })
    expect(generation.native_tokens_prompt).toBeLessThan(100)
    expect(generation.native_tokens_completion).toBeLessThan(100)
    expect(generation.total_cost).toBeGreaterThan(0)
    expect(await readMetric(server, METRIC)).toBe(alarms + 1)
  }
  expect((await fetchKeyState(server, key)).usage).toBeLessThan(0.001)
})

test('counts up to four contexts are charged as told, and raise no alarm', async () => {
  const key = await createLimitedKey(server)
  const alarms = await readMetric(server, METRIC)
  upstream.plan(completion('Hello', { usage: usage(4 * CONTEXT - 5, 5) }))
  const outcome = await sendChat(server, {}, { key }).outcome()
  expect(await fetchGeneration(server, readGenerationId(outcome), key)).toMatchObject({
    usage_source: 'exact',
    native_tokens_prompt: 4 * CONTEXT - 5,
  })
  expect(await readMetric(server, METRIC)).toBe(alarms)
})
