import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import {
  buildRoutesConfig,
  fetchGeneration,
  fetchKeyState,
  readGenerationId,
  readMetric,
  waitUntil,
} from '../support/chat.ts'
import { type Outcome, type RawCall, type RawRequest, request } from '../support/raw-client.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  completion,
  delta,
  ending,
  sseHead,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

/** Part of every body, and of no answer. */
const CANARY = 'canary-77c1'
const KEEP_ALIVE = 0.4
const asked = { model: 'acme/small', messages: [{ role: 'user', content: CANARY }] }

let server: LocalServer
let upstream: Upstream

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

beforeEach(() => {
  upstream.plan(completion('Hello'))
  upstream.hits.length = 0
})

const keyed = (): Record<string, string> => ({ 'x-api-key': server.inference_key })

function messages(body: unknown, { headers = keyed(), ...options }: RawRequest = {}): RawCall {
  return request(`${server.base}/messages`, { method: 'POST', json: body, ...options, headers })
}

interface Event {
  type: string
  [name: string]: unknown
}

/** The events of a stream. Each is named after its type. */
function eventsOf({ body }: Outcome): Event[] {
  return body.split('\n\n').flatMap(block => {
    if (block === '') return []
    const [name = '', data = ''] = block.split('\n')
    const event: Event = JSON.parse(data.replace('data: ', ''))
    expect(name).toBe(`event: ${event.type}`)
    return [event]
  })
}

/** Expects a refusal in Anthropic's envelope that cost nothing and repeats nothing of the body. */
async function expectRefused(
  outcome: Outcome,
  code: number,
  type: string,
  message: string | RegExp = '',
): Promise<void> {
  expect(outcome).toMatchObject({ status: code, complete: true })
  const answer = JSON.parse(outcome.body)
  expect(answer.type).toBe('error')
  expect(answer.error.type).toBe(type)
  expect(answer.error.message).toMatch(message)
  expect(answer.request_id).toBe(code === 401 ? null : readGenerationId(outcome))
  expect(outcome.body).not.toContain(CANARY)
  expect(upstream.hits).toHaveLength(0)
  expect(await readMetric(server, 'gateway_running_calls')).toBe(0)
}

describe('the key', () => {
  test.each<[name: string, headersOf: (key: string) => Record<string, string>]>([
    ['in x-api-key', key => ({ 'x-api-key': key })],
    ['as a bearer token', key => ({ authorization: `Bearer ${key}` })],
    [
      'as a bearer, with an empty x-api-key',
      key => ({ authorization: `Bearer ${key}`, 'x-api-key': '' }),
    ],
    ['in x-api-key, with an empty authorization', key => ({ authorization: '', 'x-api-key': key })],
  ])('is accepted %s', async (_, headersOf) => {
    expect(
      await messages(asked, { headers: headersOf(server.inference_key) }).outcome(),
    ).toMatchObject({ status: 200 })
  })

  test.each<[name: string, headersOf: (key: string) => Record<string, string>]>([
    ['that is missing', () => ({})],
    ['that is unknown', () => ({ 'x-api-key': `sk-${CANARY}` })],
    ['of two words', key => ({ 'x-api-key': `${key} ${key}` })],
    ['with Bearer before it', key => ({ 'x-api-key': `Bearer ${key}` })],
    ['with a wrong bearer token', key => ({ 'x-api-key': key, authorization: 'Bearer wrong' })],
    ['under another name', key => ({ 'api-key': key })],
  ])('is refused %s, before the body is read', async (_, headersOf) => {
    const headers = headersOf(server.inference_key)
    await expectRefused(await messages(asked, { headers }).outcome(), 401, 'authentication_error')
    const call = request(`${server.base}/messages`, {
      method: 'POST',
      body: `{"${CANARY}`,
      headers,
    })
    await expectRefused(await call.outcome(), 401, 'authentication_error')
  })

  test('of a manager may not call models', async () => {
    await expectRefused(
      await messages(asked, { headers: { 'x-api-key': server.management_key } }).outcome(),
      403,
      'permission_error',
    )
  })

  test('is accepted in x-api-key on this route alone', async () => {
    const outcome = await request(`${server.base}/chat/completions`, {
      json: asked,
      headers: keyed(),
    }).outcome()
    expect(outcome.status).toBe(401)
    expect(JSON.parse(outcome.body)).toMatchObject({ error: { code: 401 } })
  })
})

const each = (field: string, ...values: unknown[]) => values.map(value => [field, value] as const)
const content = (...blocks: unknown[]) => [{ role: 'user', content: blocks }]
const image = (source: unknown) => content({ type: 'image', source })

/** Every parameter with a range or a form, and values outside it. */
const WRONG: (readonly [field: string, value: unknown])[] = [
  ...each('model', undefined, 5, '', [CANARY], null),
  ...each('models', CANARY, [5], ['a/1', 'a/2', 'a/3', 'a/4', 'a/5', 'a/6', 'a/7', 'a/8']),
  ...each('fallbacks', CANARY, [CANARY], [{}]),
  ...each('max_tokens', 0, -1, 1.5, 128_000, '5', CANARY),
  ...each('temperature', -0.1, 1.1, '1', CANARY, {}),
  ...each('top_p', -0.1, 1.1, CANARY),
  ...each('top_k', -1, 1.5, CANARY),
  ...each('stop_sequences', CANARY, [5], {}),
  ...each('stream', 'true', 1, CANARY),
  ...each('system', 5, [CANARY], [{ type: 'image' }], [{ type: 'text' }]),
  ...each(
    'thinking',
    CANARY,
    { type: CANARY },
    { type: 'enabled' },
    { type: 'enabled', budget_tokens: 1023 },
    { type: 'adaptive', display: CANARY },
  ),
  ...each(
    'output_config',
    CANARY,
    { effort: CANARY },
    { format: { type: CANARY } },
    { format: { type: 'json_schema' } },
  ),
  ...each(
    'tools',
    {},
    [CANARY],
    [{ name: CANARY }],
    [{ input_schema: {} }],
    [{ name: CANARY.repeat(20), input_schema: {} }],
    [{ type: 5 }],
  ),
  ...each(
    'tool_choice',
    CANARY,
    { type: CANARY },
    { type: 'tool' },
    { type: 'any', disable_parallel_tool_use: CANARY },
  ),
  ...each('metadata', CANARY, { user_id: 5 }, { user_id: CANARY.repeat(30) }),
  ...each('user', 5, CANARY.repeat(30)),
  ...each('session_id', 5, CANARY.repeat(30)),
  ...each('provider', CANARY, { order: CANARY }, { only: [] }),
  ...each('plugins', CANARY, [{}]),
  ...each('speed', CANARY, 5),
  ...each('service_tier', 5),
  ...each('cache_control', CANARY, { type: CANARY }, { type: 'ephemeral', ttl: CANARY }),
  ...each(
    'messages',
    undefined,
    null,
    [],
    CANARY,
    [CANARY],
    [{}],
    [{ role: 'user' }],
    [{ role: CANARY, content: CANARY }],
    [{ role: 'user', content: 5 }],
  ),
  ...each(
    'messages',
    content(CANARY),
    content({}),
    content({ type: 5 }),
    content({ type: 'text' }),
    content({ type: '' }),
  ),
  ...each(
    'messages',
    image(CANARY),
    image({}),
    image({ type: 'base64', data: CANARY }),
    image({ type: 'url', url: 5 }),
    image({ type: 'file' }),
  ),
  ...each(
    'messages',
    content({ type: 'document', source: { type: 'text' } }),
    content({ type: 'document', source: { type: CANARY } }),
  ),
  ...each(
    'messages',
    content({ type: 'tool_use', id: CANARY }),
    content({ type: 'tool_use', name: CANARY }),
    content({ type: 'tool_result' }),
  ),
  ...each(
    'messages',
    content({
      type: 'tool_result',
      tool_use_id: 'a',
      content: [{ type: 'tool_result', tool_use_id: 'b' }],
    }),
  ),
  ...each(
    'messages',
    content({ type: 'tool_result', tool_use_id: 'a', is_error: CANARY }),
    content({ type: 'thinking', thinking: CANARY }),
  ),
  ...each('messages', content({ type: 'text', text: CANARY, cache_control: { type: CANARY } })),
]

describe('a request is refused with the name of the invalid field when', () => {
  test.each(
    WRONG.map(
      ([field, value]) =>
        [field, (JSON.stringify(value) ?? 'missing').slice(0, 80), value] as const,
    ),
  )('%s is %s', async (field, _, value) => {
    await expectRefused(
      await messages({ ...asked, [field]: value }).outcome(),
      400,
      'invalid_request_error',
      field,
    )
  })

  test('it is too large, or not JSON', async () => {
    await expectRefused(
      await messages(undefined, { body: `{"${CANARY}`, headers: keyed() }).outcome(),
      400,
      'invalid_request_error',
      'JSON',
    )
    const head = { ...keyed(), 'content-length': String(40 * 1024 * 1024) }
    await expectRefused(
      await request(`${server.base}/messages`, {
        method: 'POST',
        headers: head,
        body: '{}',
      }).outcome(),
      413,
      'invalid_request_error',
    )
  })

  test('a number is too long to count with, or is where an object must be', async () => {
    for (const field of ['max_tokens', 'top_k', 'thinking', 'metadata', 'provider']) {
      const body = JSON.stringify(asked).replace('{', `{"${field}":12345678901234567890,`)
      await expectRefused(
        await request(`${server.base}/messages`, {
          method: 'POST',
          body,
          headers: keyed(),
        }).outcome(),
        400,
        'invalid_request_error',
        field,
      )
    }
  })

  test('the method or the path is wrong', async () => {
    const get = await request(`${server.base}/messages`, {
      method: 'GET',
      headers: keyed(),
    }).outcome()
    expect([get.status, JSON.parse(get.body).error.code, get.headers.allow]).toEqual([
      405,
      405,
      'POST',
    ])
    const deeper = await request(`${server.base}/messages/none`, {
      json: asked,
      headers: keyed(),
    }).outcome()
    expect([deeper.status, JSON.parse(deeper.body).error.code]).toEqual([404, 404])
  })
})

describe('trap 26: integers that JavaScript would round', () => {
  const LONG = '12345678901234567890'

  test('reach the provider unchanged, in arguments and in schemas', async () => {
    const tool = `{"name":"get","input_schema":{"type":"object","properties":{"id":{"type":"integer","maximum":${LONG}}}}}`
    const use = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"get","input":{"id":${LONG}}}]}`
    const result =
      '{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"ok"}]}'
    const body = `{"model":"acme/small","messages":[{"role":"user","content":"Hi"},${use},${result}],"tools":[${tool}]}`
    expect(await messages(undefined, { body }).outcome()).toMatchObject({ status: 200 })
    expect(upstream.hits[0]?.body).toContain(`"maximum":${LONG}`)
    expect(upstream.hits[0]?.body).toContain(`"arguments":"{\\"id\\":${LONG}}"`)
  })

  test('reach the client unchanged, whole and streamed', async () => {
    const call = {
      index: 0,
      id: 'a',
      type: 'function',
      function: { name: 'get', arguments: `{"id":${LONG}}` },
    }
    const message = { role: 'assistant', content: null, tool_calls: [call] }
    upstream.plan(completion('', { choices: [{ index: 0, message, finish_reason: 'tool_calls' }] }))
    expect((await messages(asked).outcome()).body).toContain(`"input":{"id":${LONG}}`)
    upstream.plan([sseHead(), delta({ tool_calls: [call] }), ending()])
    const pieces = eventsOf(await messages({ ...asked, stream: true }).outcome()).map(
      event => event.delta,
    )
    expect(pieces).toContainEqual({ type: 'input_json_delta', partial_json: `{"id":${LONG}}` })
  })
})

describe('a waiting stream', () => {
  const PING = 'event: ping\ndata: {"type":"ping"}\n\n'

  test('is kept alive with pings until its answer, and between its words', async () => {
    upstream.plan([
      { wait: 'begun' },
      sseHead(),
      delta('Hel'),
      { wait: 'thought' },
      delta('lo'),
      ending(),
    ])
    const call = messages({ ...asked, stream: true })
    await call.sees(PING)
    upstream.open('begun')
    await call.sees('"Hel"')
    await waitUntil(async () => call.text.slice(call.text.indexOf('"Hel"')).includes(PING))
    upstream.open('thought')
    const outcome = await call.outcome()
    expect(outcome).toMatchObject({ status: 200, complete: true })
    const events = eventsOf(outcome).filter(({ type }) => type !== 'ping')
    expect(events.map(({ type }) => type)).toEqual([
      'message_start',
      'content_block_start',
      'content_block_delta',
      'content_block_delta',
      'content_block_stop',
      'message_delta',
      'message_stop',
    ])
    expect(outcome.body).not.toContain('[DONE]')
    expect(outcome.body).not.toContain('\n:')
  })

  test('trap 74: that then fails gets the error as an event, and nothing after it', async () => {
    upstream.plan([{ wait: 'failed' }, status(500, CANARY)])
    const call = messages({ ...asked, stream: true })
    await call.sees(PING)
    upstream.open('failed')
    const outcome = await call.outcome()
    expect(outcome).toMatchObject({ status: 200, complete: true })
    const [event, ...more] = eventsOf(outcome).filter(({ type }) => type !== 'ping')
    expect(event).toMatchObject({
      type: 'error',
      error: { type: 'api_error', error_type: 'provider_unavailable' },
      request_id: readGenerationId(outcome),
    })
    expect(more).toEqual([])
    expect(outcome.body).not.toContain(CANARY)
    expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject({
      error_type: 'provider_unavailable',
      total_cost: 0,
    })
  })

  test('that fails at once has a plain error and its status', async () => {
    upstream.plan(status(429, CANARY, { 'retry-after': '2' }))
    const outcome = await messages({ ...asked, stream: true }).outcome()
    expect(outcome).toMatchObject({ status: 429, headers: { 'retry-after': '2' } })
    expect(JSON.parse(outcome.body)).toMatchObject({
      type: 'error',
      error: { type: 'rate_limit_error' },
      request_id: readGenerationId(outcome),
    })
  })
})

describe('a finished call', () => {
  test.each([false, true])(
    'is recorded under the id in its header, and charged (streamed: %p)',
    async stream => {
      if (stream) upstream.plan([sseHead(), delta('Hello'), ending()])
      const before = (await fetchKeyState(server)).usage
      const outcome = await messages({ ...asked, stream }).outcome()
      expect(outcome.body).toContain(readGenerationId(outcome))
      const { total_cost } = await fetchGeneration(server, readGenerationId(outcome))
      expect(await fetchGeneration(server, readGenerationId(outcome))).toMatchObject({
        model: 'acme/small',
        streamed: stream,
        finish_reason: 'stop',
      })
      expect(total_cost).toBeGreaterThan(0)
      expect((await fetchKeyState(server)).usage).toBeCloseTo(before + total_cost, 12)
    },
  )

  test('whose client disconnects ends at its provider too', async () => {
    upstream.plan([sseHead(), delta('Hello'), { wait: 'never' }])
    const call = messages({ ...asked, stream: true })
    await call.sees('"Hello"')
    call.hangUp('rst')
    await upstream.emptied()
    await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
  })
})
