import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Gateway } from '../../src/app/gateway.ts'
import { reconfigure } from '../../src/app/reconfigure.ts'
import type { GatewayError } from '../../src/base/errors.ts'
import { createRandomIds } from '../../src/base/ids.ts'
import { createDefaultConfig } from '../../src/config.ts'
import { infer } from '../../src/engine/infer.ts'
import type { Answer } from '../../src/language/answer.ts'
import { openCounters } from '../../src/limits/counters.ts'
import { updateGuardrail } from '../../src/limits/guardrails.ts'
import type { Ledger } from '../../src/limits/ledger.ts'
import { authenticate, getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createApp } from '../../src/server/app.ts'
import { listDescribedRoutes } from '../../src/server/openapi.ts'
import { openFreeCalls } from '../../src/store/free-calls.ts'
import { buildTextCall } from '../support/call.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { LONG } from '../support/random.ts'
import { INPUT_AUDIO } from '../support/recording.ts'
import { startUpstream, status } from '../support/upstream.ts'

const KEY = { key_hash: 'k' }
const NO_BOOKS = {} as Ledger
const messages = [{ role: 'user', content: 'Hi' }]
const FREE = { id: 'acme/tiny:free', endpoints: [{ provider: 'sandbox', model: 'echo' }] }
const PAID = { id: 'acme/tiny', endpoints: [{ provider: 'sandbox', model: 'echo' }] }

/** Creates a gateway with these limits and its keys, on a clock that stands at 05:06:07. */
async function limited(
  limits: object,
  more: { config?: object; data?: string; clock?: TestClock } = {},
) {
  const { config, clock = new TestClock(), ...rest } = more
  const gateway = await testGateway({
    clock,
    config: { limits, models: [FREE, PAID], ...config },
    ...rest,
  })
  const app = createApp(gateway)
  const keys = await createTestKeys(gateway)
  const post = (path: string, body: object, key = keys.inference) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
    return app.handle(
      new Request(
        `http://localhost${/^\/(v1beta|openai|model\/)/.test(path) ? '' : '/api/v1'}${path}`,
        {
          method: 'POST',
          headers,
          body: JSON.stringify(body),
        },
      ),
    )
  }
  const chat = (body: object = {}, key?: string) =>
    post('/chat/completions', { model: 'acme/tiny', messages, ...body }, key)
  const describeKey = async (key = keys.inference) => {
    const request = new Request('http://localhost/api/v1/key', {
      headers: { authorization: `Bearer ${key}` },
    })
    return ((await (await app.handle(request)).json()) as { data: Record<string, unknown> }).data
  }
  return { gateway, app, clock, keys, post, chat, describeKey }
}

const anotherKey = async (gateway: Gateway) =>
  (await createKey(gateway, getOperator(gateway), { name: 'another' })).key

const statuses = async (answers: (Response | Promise<Response>)[]) =>
  (await Promise.all(answers)).map(({ status }) => status)

const limitHeaders = ({ headers }: Response) =>
  Object.fromEntries(
    [...headers].filter(([name]) => name === 'retry-after' || name.startsWith('x-ratelimit')),
  )

/** A valid body of every operation that calls a model. */
const BODIES: Record<string, object> = {
  sendChatCompletionRequest: { messages },
  sendCompletionRequest: { prompt: 'Hi' },
  createMessages: { model: 'sandbox/echo', max_tokens: 50, messages },
  createResponses: { model: 'sandbox/echo', input: 'Hi' },
  compactResponse: { model: 'sandbox/echo', input: 'Hi' },
  createEmbeddings: { model: 'sandbox/embed', input: 'Hi' },
  createRerank: { model: 'sandbox/embed', query: 'Hi', documents: ['Bye'] },
  createAudioTranscriptions: { model: 'sandbox/transcribe', input_audio: INPUT_AUDIO },
  createAudioSpeech: { model: 'sandbox/speech', input: 'Hi' },
  createVideos: { model: 'sandbox/video', prompt: 'Hi' },
  createImages: { model: 'sandbox/image', prompt: 'Hi' },
  converse: { messages: [{ role: 'user', content: [{ text: 'Hi' }] }] },
  converseStream: { messages: [{ role: 'user', content: [{ text: 'Hi' }] }] },
  invokeModel: { max_tokens: 9, messages },
  invokeModelWithResponseStream: { max_tokens: 9, messages },
  generateContent: { contents: 'Hi' },
  streamGenerateContent: { contents: 'Hi' },
  embedContent: { content: { parts: [{ text: 'Hi' }] } },
  batchEmbedContents: { requests: [{ content: { parts: [{ text: 'Hi' }] } }] },
  createDeploymentChatCompletion: { messages },
  createDeploymentCompletion: { prompt: 'Hi' },
  createDeploymentEmbeddings: { input: 'Hi' },
  createDeploymentImages: { prompt: 'Hi' },
  createDeploymentImageEdits: { prompt: 'Hi' },
  createDeploymentSpeech: { input: 'Hi' },
  createDeploymentTranscription: { input_audio: INPUT_AUDIO },
}

/** The models of what the path names. */
const NAMED: Record<string, string> = {
  embedContent: 'sandbox/embed',
  batchEmbedContents: 'sandbox/embed',
  createDeploymentEmbeddings: 'sandbox/embed',
  createDeploymentImages: 'sandbox/image',
  createDeploymentImageEdits: 'sandbox/image',
  createDeploymentSpeech: 'sandbox/speech',
  createDeploymentTranscription: 'sandbox/transcribe',
}

/** The path of a call: one of a door names the model. */
const nameModel = (id: string, path: string): string =>
  path.replace(/:(model|deployment)\b/, encodeURIComponent(NAMED[id] ?? 'acme/tiny')) +
  (path.startsWith('/openai') ? '?api-version=2024-10-21' : '')

const inference = listDescribedRoutes(createApp(await testGateway())).filter(
  ({ method, operation: { statuses: known } }) => method === 'post' && known.includes(402),
)

test('every operation that calls a model has a body here', () => {
  expect(Object.keys(BODIES).sort()).toEqual(inference.map(({ operation }) => operation.id).sort())
})

describe.each(
  inference.map(
    ({ path, operation: { id } }) => [id, nameModel(id, path.replace('/api/v1', ''))] as const,
  ),
)('%s', (id, path) => {
  test('answers 429 with the limit and its reset to a call too many in a minute', async () => {
    const { post, clock } = await limited({ requests_per_minute: 2 })
    const good = [await post(path, BODIES[id] ?? {}), await post(path, BODIES[id] ?? {})]
    expect(await statuses(good)).toEqual(Array(2).fill(id === 'createVideos' ? 202 : 200))
    expect(good.map(limitHeaders)).toEqual([{}, {}])
    const refused = await post(path, BODIES[id] ?? {})
    expect(refused.status).toBe(429)
    const reset = String(Date.parse('2026-03-04T05:07:00.000Z'))
    expect(limitHeaders(refused)).toEqual({
      'retry-after': '53',
      'x-ratelimit-limit': '2',
      'x-ratelimit-remaining': '0',
      'x-ratelimit-reset': reset,
    })
    const json = (await refused.json()) as { error?: object; metadata?: object }
    // Bedrock’s form has no object around it.
    const body = ('error' in json ? json : { ...json, error: json }) as {
      error: { message: string; metadata?: object; details?: { metadata: object }[] }
      metadata?: object
    }
    // Google’s form has texts.
    const [info] = body.error.details ?? []
    const told = Object.entries(info?.metadata ?? {}).map(([name, text]) => [
      name,
      /^(\{|null$)/.test(text) ? JSON.parse(text) : text,
    ])
    expect(body.error.message).toBe('Rate limit exceeded: requests-per-min')
    expect(body.error.metadata ?? body.metadata ?? Object.fromEntries(told)).toMatchObject({
      headers: {
        'X-RateLimit-Limit': '2',
        'X-RateLimit-Remaining': '0',
        'X-RateLimit-Reset': reset,
      },
      provider_name: null,
    })
    clock.pass(52_999)
    expect((await post(path, BODIES[id] ?? {})).status).toBe(429)
    clock.pass(1)
    expect((await post(path, BODIES[id] ?? {})).status).toBeLessThan(203)
  })
})

// What bounds each call is one part of them all: a third of them show it.
describe.each(
  inference
    .filter((_, i) => LONG || i % 3 === 0)
    .map(
      ({ path, operation: { id } }) => [id, nameModel(id, path.replace('/api/v1', ''))] as const,
    ),
)('%s under a guardrail', (id, path) => {
  test('is one request of its rate, and tells what is left', async () => {
    const { post, gateway } = await limited({})
    const operator = getOperator(gateway)
    const guardrail = getDefaultGuardrailId(gateway.memory.owner.workspace_id)
    const rates = { requests_per_minute: 2, tokens_per_minute: 1_000_000, concurrent_requests: 1 }
    await updateGuardrail(gateway, operator, guardrail, rates)
    const first = await post(path, BODIES[id] ?? {})
    await first.text()
    expect(first.headers.get('x-ratelimit-remaining-requests')).toBe('1')
    expect(first.headers.get('x-ratelimit-reset-requests')).toBe('53s')
    expect((await post(path, { model: 'acme/none' })).status).toBeGreaterThan(399)
    const second = await post(path, BODIES[id] ?? {})
    await second.text()
    expect(second.status).toBe(first.status)
    const refused = await post(path, BODIES[id] ?? {})
    expect(refused.status).toBe(429)
    expect(await refused.text()).toContain('requests-per-min of the guardrail')
    expect(limitHeaders(refused)).toMatchObject({
      'retry-after': '53',
      'x-ratelimit-remaining-requests': '0',
      'x-ratelimit-limit-tokens': '1000000',
    })
  })
})

describe('the calls of a minute', () => {
  test('are not limited by default', async () => {
    const { chat, describeKey } = await limited({})
    expect(new Set(await statuses(Array.from({ length: 300 }, () => chat())))).toEqual(
      new Set([200]),
    )
    expect((await describeKey()).rate_limit).toMatchObject({ requests: -1, interval: '1m' })
  })

  test('are counted exactly under concurrency', async () => {
    const { chat } = await limited({ requests_per_minute: 50 })
    const all = await statuses(Array.from({ length: 200 }, (_, i) => chat({ stream: i % 2 === 0 })))
    expect([all.filter(one => one === 200).length, all.filter(one => one === 429).length]).toEqual([
      50, 150,
    ])
  })

  test('are counted for each key separately, and shown in the key’s description', async () => {
    const { gateway, chat, describeKey } = await limited({ requests_per_minute: 1 })
    const key = await anotherKey(gateway)
    expect([
      await statuses([chat(), chat()]),
      await statuses([chat({}, key), chat({}, key)]),
    ]).toEqual([
      [200, 429],
      [200, 429],
    ])
    expect((await describeKey(key)).rate_limit).toMatchObject({ requests: 1, interval: '1m' })
  })

  test('exclude those of management keys, a stopping gateway and unreadable bodies', async () => {
    const { gateway, chat, keys } = await limited({ requests_per_minute: 1 })
    expect((await chat({}, keys.management)).status).toBe(403)
    expect((await chat({ temperature: 5 })).status).toBe(400)
    Object.defineProperty(gateway.recorder, 'healthy', { value: false, configurable: true })
    expect((await chat()).status).toBe(503)
    Object.defineProperty(gateway.recorder, 'healthy', { value: true })
    expect(await statuses([chat(), chat()])).toEqual([200, 429])
  })

  test('are refused with a plain error when streamed', async () => {
    const { chat } = await limited({ requests_per_minute: 1 })
    await chat()
    const refused = await chat({ stream: true })
    expect([refused.status, refused.headers.get('content-type')]).toEqual([
      429,
      'application/json;charset=utf-8',
    ])
    expect(refused.headers.get('x-generation-id')).toStartWith('gen-')
  })
})

describe('the calls of a key that run at once', () => {
  async function started(limits: object = { concurrent_requests: 2 }, config: object = {}) {
    const all = await limited(limits, { config })
    let calls = 0
    const start = (model = 'acme/tiny', key = all.keys.inference) => {
      const call = buildTextCall({ id: `gen-${++calls}`, models: [model] })
      return infer(
        all.gateway,
        authenticate(all.gateway, `Bearer ${key}`),
        'text',
        call,
        new AbortController().signal,
      )
    }
    /** Returns the error of one more call; undefined where it succeeds. */
    const refused = (key?: string, model?: string) =>
      start(model, key).then(
        () => undefined,
        (error: GatewayError) => error,
      )
    return { ...all, start, refused }
  }

  const readToItsEnd = async (answer: Answer<'text'>) => {
    for (;;) if ((await answer.parts.next()).done) return
  }

  test('are at most the limit: one more is refused at once, to retry in a moment', async () => {
    const { start, refused, clock } = await started()
    await Promise.all([start(), start()])
    expect(await refused()).toMatchObject({
      status: 429,
      message: 'Rate limit exceeded: concurrent-requests',
      retryAfter: 1,
      metadata: {
        headers: {
          'X-RateLimit-Limit': '2',
          'X-RateLimit-Reset': String(clock.now().getTime() + 1_000),
        },
      },
    })
  })

  test('release their permit when read to the end, and when abandoned', async () => {
    const { start, refused } = await started()
    const [first, second] = await Promise.all([start(), start()])
    expect((await refused())?.status).toBe(429)
    await readToItsEnd(first)
    await start()
    expect((await refused())?.status).toBe(429)
    await second.parts.return?.()
    await start()
    expect((await refused())?.status).toBe(429)
  })

  test('exclude those that never began, or that no provider answered', async () => {
    const upstream = await startUpstream()
    const gone = { id: 'acme/gone', endpoints: [{ provider: 'gone', model: 'x' }] }
    const { start, refused } = await started(
      { concurrent_requests: 1 },
      {
        models: [FREE, PAID, gone],
        providers: { gone: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'x' } },
      },
    )
    upstream.plan(status(500))
    for (let i = 0; i < 3; i++) {
      expect((await refused(undefined, 'acme/nobody'))?.status).toBe(400)
      expect((await refused(undefined, 'acme/gone'))?.status).toBe(502)
    }
    await start()
    expect((await refused())?.status).toBe(429)
    await upstream.close()
  })

  test('are counted for each key separately: the others go on', async () => {
    const { gateway, start, refused } = await started({ concurrent_requests: 1 })
    const key = await anotherKey(gateway)
    await start()
    expect((await refused())?.status).toBe(429)
    await start('acme/tiny', key)
    expect((await refused(key))?.status).toBe(429)
  })

  test('leave no permit taken after a thousand calls, ten at a time', async () => {
    const { chat, start, refused } = await started({ concurrent_requests: 10 })
    for (let i = 0; i < 100; i++) {
      const answers = await Promise.all(
        Array.from({ length: 10 }, () => chat({ stream: i % 2 === 0 })),
      )
      expect(new Set(answers.map(answer => answer.status))).toEqual(new Set([200]))
      await Promise.all(answers.map(answer => answer.text()))
    }
    await Promise.all(Array.from({ length: 10 }, () => start()))
    expect((await refused())?.status).toBe(429)
  })
})

describe('free models', () => {
  const free = { model: FREE.id }
  const used = async (describeKey: () => Promise<Record<string, unknown>>) =>
    (await describeKey()).free_model_daily_requests

  test('are limited for all keys together, by minute and UTC day; others are not', async () => {
    const { gateway, chat, clock, describeKey } = await limited({
      free_models: { requests_per_minute: 2, requests_per_day: 3 },
    })
    const key = await anotherKey(gateway)
    expect(await statuses([chat(free), chat(free, key), chat(free)])).toEqual([200, 200, 429])
    expect(await statuses([chat(), chat({ models: ['acme/tiny'] })])).toEqual([200, 200])
    expect(await used(describeKey)).toEqual({ limit: 3, remaining: 1, used: 2 })
    clock.pass(60_000)
    expect((await chat(free)).status).toBe(200)
    const refused = await chat(free)
    expect([
      refused.status,
      ((await refused.json()) as { error: { message: string } }).error.message,
    ]).toEqual([429, 'Rate limit exceeded: free-models-per-day'])
    const midnight = Date.parse('2026-03-05T00:00:00.000Z')
    expect(limitHeaders(refused)).toMatchObject({
      'x-ratelimit-reset': String(midnight),
      'x-ratelimit-limit': '3',
    })
    expect(refused.headers.get('retry-after')).toBe(
      String((midnight - clock.now().getTime()) / 1000),
    )
    expect(await used(describeKey)).toEqual({ limit: 3, remaining: 0, used: 3 })
    clock.pass(midnight - clock.now().getTime())
    expect(await used(describeKey)).toEqual({ limit: 3, remaining: 3, used: 0 })
    expect((await chat(free)).status).toBe(200)
  })

  test('are counted over a restart, whatever records have of them', () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-free-calls-'))
    const clock = new TestClock('2026-03-04T23:59:58.000Z')
    const config = createDefaultConfig()
    config.limits.free_models = { requests_per_day: 3 }
    const call = () => {
      // Each process opens the file anew, and has one call on record.
      const counters = openCounters(config, clock, NO_BOOKS, 1, { free: openFreeCalls(data) })
      return counters.take({ actor: KEY, call: { models: [FREE.id] }, request: true })
    }
    expect([call(), call()]).toHaveLength(2)
    expect(call).toThrow('free-models-per-day')
    clock.pass(2_000)
    expect([call(), call()]).toHaveLength(2)
    writeFileSync(join(data, 'free-calls'), 'x'.repeat(50))
    expect([call(), call()]).toHaveLength(2)
    rmSync(data, { recursive: true })
  })

  test('are counted as fallbacks', async () => {
    const { chat } = await limited({ free_models: { requests_per_day: 1 } })
    expect(
      await statuses([
        chat({ models: ['acme/tiny', FREE.id] }),
        chat({ models: ['acme/tiny', FREE.id] }),
        chat(),
      ]),
    ).toEqual([200, 429, 200])
  })

  test.each([
    `${FREE.id}:floor`,
    `${FREE.id}:nitro`,
    'gateway/free',
    'gateway/free:floor',
    'openrouter/free:nitro',
  ])('are counted under the name %s too', async model => {
    const { chat } = await limited({ free_models: { requests_per_day: 1 } })
    expect(await statuses([chat({ model }), chat({ model }), chat()])).toEqual([200, 429, 200])
  })

  test('are counted through the router of a service that was renamed meanwhile', async () => {
    const limits = { free_models: { requests_per_day: 1 } }
    const { gateway, chat } = await limited(limits)
    await reconfigure(gateway, { ...gateway.config, service_name: 'acme_ai' })
    expect(
      await statuses([chat({ model: 'acme_ai/free' }), chat({ model: 'acme_ai/free' })]),
    ).toEqual([200, 429])
  })

  test('refused by one limit are not counted by another', async () => {
    const { chat, clock, describeKey } = await limited({
      requests_per_minute: 3,
      free_models: { requests_per_minute: 1, requests_per_day: 10 },
    })
    expect(await statuses([chat(free), chat(free), chat(free)])).toEqual([200, 429, 429])
    expect(await used(describeKey)).toEqual({ limit: 10, remaining: 9, used: 1 })
    expect(await statuses([chat(), chat(), chat()])).toEqual([200, 200, 429])
    clock.pass(60_000)
    expect(await statuses([chat(), chat(), chat(), chat(free)])).toEqual([200, 200, 200, 429])
    expect(await used(describeKey)).toEqual({ limit: 10, remaining: 9, used: 1 })
  })

  test('are not limited by default, and then no usage is shown', async () => {
    for (const limits of [{}, { free_models: false }, { free_models: {} }]) {
      const { chat, describeKey } = await limited(limits)
      expect(new Set(await statuses(Array.from({ length: 30 }, () => chat(free))))).toEqual(
        new Set([200]),
      )
      expect(await used(describeKey)).toEqual({
        limit: -1,
        remaining: -1,
        used: 0,
      })
    }
  })

  test('keep the day’s count over a restart, and start at zero on a new day', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
    const open = async (clock: TestClock) => {
      const config = { limits: { free_models: { requests_per_day: 3 } }, models: [FREE] }
      const gateway = await testGateway({ clock, data, config, ids: createRandomIds() })
      const key = await anotherKey(gateway)
      const app = createApp(gateway)
      const init = {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify({ ...free, messages }),
      }
      return {
        gateway,
        ask: () => app.handle(new Request('http://localhost/api/v1/chat/completions', init)),
      }
    }
    const first = await open(new TestClock('2026-03-04T23:00:00.000Z'))
    expect(await statuses([first.ask(), first.ask()])).toEqual([200, 200])
    await first.gateway.close()
    const again = await open(new TestClock('2026-03-04T23:30:00.000Z'))
    expect(again.gateway.traffic.counters.getFreeUsage()).toEqual({ limit: 3, used: 2 })
    expect([(await again.ask()).status, (await again.ask()).status]).toEqual([200, 429])
    await again.gateway.close()
    const nextDay = await open(new TestClock('2026-03-05T00:00:00.000Z'))
    expect(nextDay.gateway.traffic.counters.getFreeUsage()).toEqual({ limit: 3, used: 0 })
    await nextDay.gateway.close()
    rmSync(data, { recursive: true })
  })
})

describe('A-13 a clock that jumps', () => {
  const JUMPS: [what: string, moments: string[]][] = [
    ['an hour back', ['2026-03-04T04:06:10.000Z']],
    ['a day back', ['2026-03-03T05:06:10.000Z']],
    ['an hour back and forth', ['2026-03-04T04:06:10.000Z', '2026-03-04T05:06:20.000Z']],
    ['a year ahead and back', ['2027-03-04T05:06:10.000Z', '2026-03-04T05:06:20.000Z']],
    [
      'ahead, further back and to where it was',
      ['2026-03-04T06:06:10.000Z', '2026-03-04T04:06:10.000Z', '2026-03-04T05:06:20.000Z'],
    ],
  ]
  const config = createDefaultConfig()
  const jump = (clock: TestClock, moment: string) =>
    clock.pass(Date.parse(moment) - clock.now().getTime())
  const limits = { requests_per_minute: 2, free_models: { requests_per_day: 3 } }

  for (const [what, moments] of JUMPS)
    test(`${what} gives no request of the minute and no free call of the day back`, () => {
      const clock = new TestClock('2026-03-04T05:06:07.000Z')
      const rates = openCounters(
        { ...config, limits: { ...config.limits, ...limits } },
        clock,
        NO_BOOKS,
      )
      const call = (model: string) => {
        try {
          rates.take({ actor: KEY, call: { models: [model] }, request: true })
          return true
        } catch {
          return false
        }
      }
      rates.reconfigure({ ...config, limits: { ...config.limits, ...limits } }, 3)
      expect([call('a/b'), call('a/b'), call('a/b'), call('a/b:free')]).toEqual([
        ...[true, true, false, false],
      ])
      for (const moment of moments) jump(clock, moment)
      expect([call('a/b'), call('a/b:free')]).toEqual([false, false])
    })

  test('ahead for good begins new windows, as does the next minute after it was set back', () => {
    const clock = new TestClock('2026-03-04T05:06:07.000Z')
    const rates = openCounters(
      { ...config, limits: { ...config.limits, ...limits } },
      clock,
      NO_BOOKS,
    )
    const call = () => rates.take({ actor: KEY, call: { models: ['a/b'] }, request: true })
    const tryCall = () => {
      try {
        call()
      } catch {}
    }
    for (const moment of ['2026-03-04T06:06:07.000Z', '2026-03-04T05:00:07.000Z']) {
      jump(clock, moment)
      tryCall()
      clock.pass(60_000)
      expect([call(), call()]).toHaveLength(2)
      expect(call).toThrow('Rate limit exceeded')
    }
  })
})

test('a provider’s own 429 is not presented as a limit of the gateway', async () => {
  const upstream = await startUpstream()
  upstream.plan(status(429, '{}', { 'x-ratelimit-limit': '7', 'x-ratelimit-reset': '1' }))
  const busy = { id: 'acme/busy', endpoints: [{ provider: 'busy', model: 'x' }] }
  const providers = { busy: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'x' } }
  const { chat } = await limited(
    { requests_per_minute: 5 },
    { config: { models: [busy, PAID], providers } },
  )
  const answer = await chat({ model: 'acme/busy' })
  expect([answer.status, Object.keys(limitHeaders(answer))]).toEqual([429, []])
  expect(await answer.text()).not.toContain('RateLimit')
  await upstream.close()
})

test.each([
  [{ requests_per_minute: 0 }, 'limits.requests_per_minute'],
  [{ concurrent_requests: 1.5 }, 'limits.concurrent_requests'],
  [{ free_models: { requests_per_day: -1 } }, 'limits.free_models.requests_per_day'],
  [{ free_models: true }, 'limits.free_models'],
])('a config with %j is refused, naming the setting', async (limits, field) => {
  expect(testGateway({ config: { limits } })).rejects.toThrow(`${field}: expected`)
})
