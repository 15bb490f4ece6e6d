import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import {
  buildRoutesConfig,
  createLimitedKey,
  fetchGeneration,
  fetchKeyState,
  readGenerationId,
  readMetric,
  readUsage,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { openDatabase } from '../support/database.ts'
import { createSeededIntegers, LONG, SEED } from '../support/random.ts'
import type { Outcome } from '../support/raw-client.ts'
import { type LocalServer, type Server, startLocalServer, startServer } from '../support/server.ts'
import { readRefusedLimit } from '../support/shortage.ts'
import {
  completion,
  delta,
  done,
  finish,
  type Hit,
  type Script,
  sseHead,
  startUpstream,
  type Upstream,
  usage,
} from '../support/upstream.ts'

/**
 * One USD per million tokens of output, and nothing for input: a call with this bound costs at most
 * ten cents.
 */
const BOUND = 100_000
const PRICED = { prompt: 0, completion: 1 }
const READS = { prompt: 1, completion: 0 }

let upstream: Upstream
let server: LocalServer

beforeEach(async () => {
  upstream = await startUpstream()
  upstream.answer(({ json }) => answer((json as { stream?: boolean }).stream ?? false))
  server = await startLocalServer(config())
})

afterEach(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const config = (more: Record<string, unknown> = {}) => ({
  ...buildRoutesConfig({}),
  providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
  models: [
    {
      id: 'acme/small',
      context_length: 1_000_000,
      endpoints: [{ provider: 'local', model: 'm', usd_per_million_tokens: PRICED }],
    },
    {
      id: 'acme/reader',
      context_length: 1_000_000,
      endpoints: [{ provider: 'local', model: 'm', usd_per_million_tokens: READS }],
    },
    {
      id: 'acme/free',
      endpoints: [
        { provider: 'local', model: 'm', usd_per_million_tokens: { prompt: 0, completion: 0 } },
      ],
    },
  ],
  // The provider does not keep to bounds: what may be sent at all is what is tried.
  limits: STRICTLY_HELD,
  ...more,
})

const STRICTLY_HELD = { strict: false, wait_seconds: 0 }

/** The upstream decides what a call costs: from five to ten cents. */
const random = createSeededIntegers(SEED)
const tokens = () => BOUND / 2 + random(BOUND / 2)

const answer = (streamed: boolean): Script =>
  streamed
    ? [
        sseHead(),
        delta('Hel'),
        delta('lo'),
        finish('stop', usage(1, tokens())),
        done(),
        '0\r\n\r\n',
      ]
    : completion('Hello', { usage: usage(1, tokens()) })

/** Makes this many calls at once, every other one streamed. */
const atOnce = (
  count: number,
  key: string,
  body: object = { max_tokens: BOUND },
): Promise<Outcome[]> =>
  Promise.all(
    Array.from({ length: count }, (_, i) =>
      sendChat(server, { stream: i % 2 === 0, ...body }, { key }).outcome(),
    ),
  )

const nanosOf = (usd: number) => Math.round(usd * 1e9)
const spentBy = (outcomes: Outcome[]) =>
  outcomes.reduce(
    (sum, one) => sum + (one.status === 200 ? nanosOf(readUsage(one)?.cost ?? 0) : 0),
    0,
  )

describe('A-01 A-02 a limit of one dollar', () => {
  for (const count of [1, 100, LONG ? 1_000 : 300]) {
    test(`holds for ${count} calls at once, and refused calls reach no provider`, async () => {
      const key = await createLimitedKey(server, 1)
      const outcomes = await atOnce(count, key)
      const answered = outcomes.filter(({ status }) => status === 200)
      const refused = outcomes.filter(({ status }) => status === 402)
      expect(answered.length + refused.length).toBe(count)
      expect(answered.length).toBeGreaterThanOrEqual(Math.min(count, 10))
      expect(upstream.hits.length).toBe(answered.length)
      await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
      const { usage: spent, limit_remaining } = await fetchKeyState(server, key)
      expect(spent).toBeLessThanOrEqual(1)
      expect(nanosOf(spent)).toBe(spentBy(answered))
      // What remains is the limit less the spending: there are no holds left.
      expect(nanosOf(limit_remaining ?? Number.NaN)).toBe(1e9 - nanosOf(spent))
    }, 60_000)
  }

  test('is used up to less than the price of one call by consecutive calls', async () => {
    const key = await createLimitedKey(server, 1)
    let last = 200
    for (let i = 0; last === 200 && i < 25; i++)
      last = (await sendChat(server, { max_tokens: BOUND }, { key }).outcome()).status
    expect(last).toBe(402)
    const { usage: spent } = await fetchKeyState(server, key)
    expect(spent).toBeLessThanOrEqual(1)
    expect(spent).toBeGreaterThan(0.9)
  })

  test('names the limit in public terms, and leaves nothing of the call', async () => {
    const key = await createLimitedKey(server, 0.01)
    const { status, body } = await sendChat(server, { max_tokens: BOUND }, { key }).outcome()
    expect(status).toBe(402)
    expect(JSON.parse(body).error).toMatchObject({
      code: 402,
      message:
        'Key limit exceeded (total limit). For this call $0.10 would be set aside, and $0.01 is ' +
        'left: max_tokens of at most 10000 would fit. Nothing was spent.',
      metadata: {
        error_type: 'payment_required',
        limit: 'key',
        limit_reset: null,
        estimated_cost: 0.1,
        limit_remaining: 0.01,
        max_tokens: 10_000,
      },
    })
    expect(await fetchKeyState(server, key)).toMatchObject({ usage: 0, limit_remaining: 0.01 })
    expect((await sendChat(server, { max_tokens: 10_001 }, { key }).outcome()).status).toBe(402)
    expect((await sendChat(server, { max_tokens: 10_000 }, { key }).outcome()).status).toBe(200)
  })

  test('does not stop free calls', async () => {
    const key = await createLimitedKey(server, 0)
    expect((await sendChat(server, { model: 'acme/free' }, { key }).outcome()).status).toBe(200)
    expect((await sendChat(server, { max_tokens: 1 }, { key }).outcome()).status).toBe(402)
  })

  test('is restored in full by failed, cut and abandoned calls', async () => {
    const key = await createLimitedKey(server, 1)
    upstream.plan([sseHead(), delta('Hel'), { wait: 'never' }])
    const left = Array.from({ length: 5 }, () =>
      sendChat(server, { stream: true, max_tokens: BOUND }, { key }),
    )
    await Promise.all(left.map(call => call.sees('Hel')))
    for (const call of left) call.hangUp('rst')
    await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
    upstream.plan('HTTP/1.1 500 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    for (const { status } of await atOnce(9, key)) expect(status).toBe(502)
    const { usage: spent, limit_remaining } = await fetchKeyState(server, key)
    expect(nanosOf(limit_remaining ?? Number.NaN)).toBe(1e9 - nanosOf(spent))
    expect(spent).toBeLessThan(0.001)
  })
})

describe('A-03 limits within limits', () => {
  const management = async (
    method: string,
    path: string,
    json: object,
  ): Promise<{ id: string; hash: string }> => {
    const response = await server.fetch(path, { key: server.management_key, method, json })
    const answer = (await response.json()) as { data: { id: string; hash: string }; key?: string }
    if (response.status >= 300) throw new Error(JSON.stringify(answer))
    return { ...answer.data, ...(answer.key ? { hash: answer.key } : {}) }
  }

  const guardrail = (workspace_id: string, limit_usd: number) =>
    management('POST', '/guardrails', {
      name: 'Rules',
      workspace_id,
      limit_usd,
      reset_interval: 'daily',
    })

  /** Creates two keys of one member in one workspace, with all of these limits on the first. */
  async function nested(
    limits: Record<'key' | 'guardrail' | 'member' | 'default' | 'workspace', number>,
  ) {
    const member = JSON.parse(
      (
        await runCommand([
          'members',
          'create',
          '--email',
          'ada@acme.example',
          '--json',
          '--data',
          server.data,
        ])
      ).stdout,
    ).data.id
    const { id: workspace_id } = await management('POST', '/workspaces', {
      name: 'Team',
      slug: 'team',
    })
    const of = { workspace_id, creator_user_id: member }
    const { hash: key } = await management('POST', '/keys', {
      name: 'first',
      limit: limits.key,
      ...of,
    })
    const { hash: other } = await management('POST', '/keys', { name: 'second', ...of })
    const hash = Bun.CryptoHasher.hash('sha256', key, 'hex')
    const [onKey, onMember] = [
      await guardrail(workspace_id, limits.guardrail),
      await guardrail(workspace_id, limits.member),
    ]
    await management('POST', `/guardrails/${onKey.id}/assignments/keys`, { key_hashes: [hash] })
    await management('POST', `/guardrails/${onMember.id}/assignments/members`, {
      member_user_ids: [member],
    })
    await management('PATCH', `/guardrails/${getDefaultGuardrailId(workspace_id)}`, {
      limit_usd: limits.default,
      reset_interval: 'weekly',
    })
    await management('PUT', `/workspaces/${workspace_id}/budgets/monthly`, {
      limit_usd: limits.workspace,
    })
    return { key, other }
  }

  const WIDE = { key: 9, guardrail: 9, member: 9, default: 9, workspace: 9 }
  const SAID = {
    key: 'Key limit exceeded (total limit)',
    guardrail: 'Guardrail daily budget of $0.60 exceeded. Contact your org admin.',
    member: 'Guardrail daily budget of $0.60 exceeded. Contact your org admin.',
    default: 'Guardrail weekly budget of $0.60 exceeded. Contact your org admin.',
    workspace: 'Workspace monthly budget of $0.60 exceeded. Contact your org admin.',
  }
  /** The limits that count what another key of the same member in the same workspace spends. */
  const SHARED = ['member', 'default', 'workspace']

  for (const scope of Object.keys(SAID) as (keyof typeof SAID)[]) {
    test(`the smallest binds: ${scope}`, async () => {
      const { key, other } = await nested({ ...WIDE, [scope]: 0.6 })
      const before = SHARED.includes(scope) ? await atOnce(3, other) : []
      const outcomes = await atOnce(100, key)
      const answered = outcomes.filter(({ status }) => status === 200)
      const refused = outcomes.filter(({ status }) => status === 402)
      expect(answered.length + refused.length).toBe(100)
      expect(upstream.hits.length).toBe(before.length + answered.length)
      const spent = spentBy([...before, ...answered])
      expect(spent).toBeLessThanOrEqual(0.6e9)
      expect(spent).toBeGreaterThanOrEqual(0.3e9)
      expect(
        new Set(refused.map(({ body }) => readRefusedLimit(JSON.parse(body).error.message))),
      ).toEqual(new Set([SAID[scope]]))
      await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
      const { code } = await runCommand(['doctor', '--data', server.data])
      expect(code).toBe(0)
    }, 60_000)
  }
})

describe('A-18 a call without max_tokens', () => {
  const CENTS = { limits: { ...STRICTLY_HELD, max_tokens: 50_000 } }

  test('on a nearly empty limit is refused', async () => {
    const key = await createLimitedKey(server, 0.01)
    expect((await sendChat(server, {}, { key }).outcome()).status).toBe(402)
    expect(upstream.hits.length).toBe(0)
  })

  test('under a limit is sent with the reserved max_tokens', async () => {
    await server[Symbol.asyncDispose]()
    server = await startLocalServer(config(CENTS))
    const key = await createLimitedKey(server, 1)
    expect((await sendChat(server, {}, { key }).outcome()).status).toBe(200)
    expect(upstream.hits[0]?.json).toMatchObject({ max_tokens: 50_000 })
  })

  test('without any limit is sent without one', async () => {
    expect((await sendChat(server).outcome()).status).toBe(200)
    expect(upstream.hits[0]?.json).not.toHaveProperty('max_tokens')
  })

  test('is sent with the max_tokens that half of the limit can pay for, and says so', async () => {
    await server[Symbol.asyncDispose]()
    server = await startLocalServer(config({ limits: {} }))
    upstream.answer(() => completion('Hello', { usage: usage(1, 10) }))
    for (const body of [{}, { max_tokens: 20_000 }]) {
      const key = await createLimitedKey(server, 0.01)
      const { status, headers } = await sendChat(server, body, { key }).outcome()
      expect([status, headers['x-gateway-max-tokens']]).toEqual([200, '5000'])
      expect(upstream.hits.at(-1)?.json).toMatchObject({ max_tokens: 5_000 })
    }
  })

  test('with max_tokens is not raised, and one with too few is refused', async () => {
    await server[Symbol.asyncDispose]()
    server = await startLocalServer(config({ limits: {} }))
    const key = await createLimitedKey(server, 0.01)
    upstream.answer(() => completion('Hello', { usage: usage(1, 10) }))
    await sendChat(server, { max_tokens: 500 }, { key }).outcome()
    expect(upstream.hits[0]?.json).toMatchObject({ max_tokens: 500 })
    const empty = await createLimitedKey(server, 0.000_01)
    expect((await sendChat(server, { max_tokens: 500 }, { key: empty }).outcome()).status).toBe(402)
  })
})

describe('a limit that calls share', () => {
  /** Completion tokens that a call asks for: two dollars. */
  const DEAR = { max_tokens: 200_000 }
  /** A provider that says as much as it may, and at most this. */
  const say = (most: number) => (hit: Hit) => {
    const { max_tokens } = hit.json as { max_tokens: number }
    return completion('Hello', { usage: usage(0, Math.min(max_tokens, most)) })
  }

  const restart = async (limits: object) => {
    await server[Symbol.asyncDispose]()
    const usd_per_million_tokens = { prompt: 0, completion: 10 }
    const endpoints = [{ provider: 'local', model: 'm', usd_per_million_tokens }]
    const models = [{ id: 'acme/small', context_length: 1_000_000, endpoints }]
    server = await startLocalServer(config({ limits, models }))
  }

  beforeEach(() => restart({}))

  test('lets eight calls run at once that could each spend it twice', async () => {
    const key = await createLimitedKey(server, 1)
    upstream.answer(hit => [{ wait: 'all' }, ...[say(100)(hit)].flat()])
    const calls = Array.from({ length: 8 }, () => sendChat(server, DEAR, { key }).outcome())
    await upstream.hit(8)
    upstream.open('all')
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(Array(8).fill(200))
  })

  test('has a call wait for what others hold, and go when that is given back', async () => {
    const key = await createLimitedKey(server, 0.01)
    upstream.answer(hit => [{ wait: 'first' }, ...[say(100)(hit)].flat()])
    // Half of it, and then the least that is useful: what is left is less than that.
    const first = [0, 1].map(() => sendChat(server, DEAR, { key }).outcome())
    await upstream.hit(2)
    const waiting = sendChat(server, DEAR, { key }).outcome()
    await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 3)
    expect(upstream.hits.length).toBe(2)
    upstream.open('first')
    const [one, two, three] = await Promise.all([...first, waiting])
    expect([one?.status, two?.status, three?.status]).toEqual([200, 200, 200])
    expect(Number(three?.headers['x-gateway-max-tokens'])).toBeGreaterThanOrEqual(256)
  })

  test('refuses a call that has waited in vain, and says what would be set aside', async () => {
    await restart({ wait_seconds: 0.05 })
    const key = await createLimitedKey(server, 0.0001)
    const { status, body } = await sendChat(server, DEAR, { key }).outcome()
    expect([status, JSON.parse(body).error.message]).toEqual([
      402,
      'Key limit exceeded (total limit). For this call at least $0.00016 would be set aside, and ' +
        '$0.0001 is left: no max_tokens would fit. Nothing was spent.',
    ])
  })

  test('is spent by hundreds of calls at once to at least 95 %, and never exceeded', async () => {
    const key = await createLimitedKey(server, 1)
    upstream.answer(say(2_000))
    const outcomes = await Promise.all(
      Array.from({ length: LONG ? 1_000 : 400 }, () => sendChat(server, DEAR, { key }).outcome()),
    )
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set([200, 402]))
    const { usage: spent } = await fetchKeyState(server, key)
    expect(spent).toBeWithin(0.95, 1.000_000_001)
  }, 60_000)
})

describe('A-18 additional costs of a call', () => {
  const LOREM = 'lorem ipsum '.repeat(20_000)
  const said = (content: object[]) => ({ messages: [{ role: 'user', content }] })

  const WAYS: [name: string, body: object][] = [
    ['in its text', { messages: [{ role: 'user', content: LOREM }] }],
    ['in an unknown parameter', { documents: [{ text: LOREM }] }],
    ['in a field of a message', { messages: [{ role: 'user', content: 'Hi', context: LOREM }] }],
    [
      'in a file',
      said([{ type: 'file', file: { file_data: `data:text/plain;base64,${btoa(LOREM)}` } }]),
    ],
    ['in a tool', { tools: [{ type: 'function', function: { name: 'f', description: LOREM } }] }],
    ['in its response_format', { response_format: { type: 'grammar', grammar: LOREM } }],
  ]

  test.each(WAYS)(
    '%s are reserved: together the calls spend no more than the limit',
    async (_, body) => {
      // Ordinary text has four bytes per token.
      upstream.answer(hit =>
        completion('Hello', { usage: usage(Math.ceil(hit.body.length / 4), 1) }),
      )
      const key = await createLimitedKey(server, 0.2)
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, () =>
          sendChat(server, { model: 'acme/reader', max_tokens: 16, ...body }, { key }).outcome(),
        ),
      )
      expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set([200, 402]))
      expect((await fetchKeyState(server, key)).usage).toBeLessThanOrEqual(0.2)
    },
  )

  test('of a preset are reserved: its instructions, and its max_tokens', async () => {
    const preset = (slug: string, body: object) =>
      server.fetch(`/presets/${slug}/chat/completions`, {
        json: { model: 'acme/reader', messages: [{ role: 'user', content: 'x' }], ...body },
      })
    await preset('long', { messages: [{ role: 'system', content: LOREM }] })
    await preset('wide', { model: 'acme/small', max_tokens: BOUND })
    const key = await createLimitedKey(server, 0.05)
    for (const model of ['@preset/long', '@preset/wide'])
      expect((await sendChat(server, { model }, { key }).outcome()).status).toBe(402)
    expect(upstream.hits.length).toBe(0)
  })

  test('of a fallback are reserved at the highest price', async () => {
    const key = await createLimitedKey(server, 0.01)
    const call = sendChat(
      server,
      { model: undefined, models: ['acme/free', 'acme/small'], max_tokens: BOUND },
      { key },
    )
    expect((await call.outcome()).status).toBe(402)
    expect(upstream.hits.length).toBe(0)
  })
})

describe('while another process locks the store', () => {
  /** A server in a process of its own: one that waits for a lock does nothing else. */
  let locked: Server
  beforeEach(async () => {
    locked = await startServer({ config: config() })
  })
  afterEach(() => locked[Symbol.asyncDispose]())

  /** Holds the lock as a writing terminal would. */
  function lock(): () => void {
    const db = openDatabase(locked.data)
    db.run('begin immediate')
    return () => {
      db.run('rollback')
      db.close()
    }
  }

  for (const model of ['acme/small', 'acme/free']) {
    test(`a call of ${model} is paid and answered, and on record after a kill`, async () => {
      const unlock = lock()
      const answer = await sendChat(locked, { model, max_tokens: 10 }).outcome()
      expect(answer.status).toBe(200)
      const { data, inference_key: key } = locked
      await locked.kill()
      unlock()
      locked = await startServer({ data, config: config() })
      const record = await fetchGeneration(locked, readGenerationId(answer), key)
      expect(record).toMatchObject({ finish_reason: 'stop', cancelled: false })
    })
  }

  test('for too long, new calls are refused and reach no provider', async () => {
    const unlock = lock()
    const first = sendChat(locked, { max_tokens: 10 }).outcome()
    await upstream.hit()
    await waitUntil(
      async () => (await sendChat(locked, { max_tokens: 10 }).outcome()).status === 503,
    )
    const asked = upstream.hits.length
    expect((await sendChat(locked, { max_tokens: 10 }).outcome()).headers['retry-after']).toBe('5')
    expect(upstream.hits.length).toBe(asked)
    unlock()
    await first
  })
})
