import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { toPrintable } from '../../src/base/printable.ts'
import { buildRoutesConfig, fetchKeyState, readMetric, sendChat } from '../support/chat.ts'
import { type Outcome, type RawRequest, request } from '../support/raw-client.ts'
import { type Server, startServer } from '../support/server.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

/** A marker in every body that no answer may repeat. */
const CANARY = 'canary-4d3b'
const MIB = 1024 * 1024
const messages = [{ role: 'user', content: CANARY }]

let server: Server
let upstream: Upstream
let used: number

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.plan(completion('Hello'))
  server = await startServer({
    config: buildRoutesConfig({ 'acme/small': { local: upstream.url } }),
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

beforeEach(async () => {
  upstream.hits.length = 0
  used = (await fetchKeyState(server)).usage
})

interface Sending extends RawRequest {
  at?: string
  authorization?: string | null
}

/** Sends a request to the API with the inference key, another `authorization`, or none. */
function send({
  at = '/chat/completions',
  authorization = `Bearer ${server.inference_key}`,
  ...options
}: Sending): Promise<Outcome> {
  const headers = { ...(authorization === null ? {} : { authorization }), ...options.headers }
  return request(server.base + at, { method: 'POST', ...options, headers }).outcome()
}

/**
 * Expects a refusal in the error envelope that reached no provider, cost nothing and repeats
 * nothing of the body.
 */
async function expectRefused(
  outcome: Outcome,
  code: number,
  message: string | RegExp = '',
): Promise<void> {
  expect(outcome).toMatchObject({ status: code, complete: true })
  expect(outcome.headers['content-type']).toStartWith('application/json')
  const answer = JSON.parse(outcome.body)
  expect(Object.keys(answer)).toEqual(['error'])
  expect(answer.error).toMatchObject({
    code,
    message: expect.stringMatching(message),
    metadata: { error_type: expect.any(String) },
  })
  expect(answer.error.metadata.request_id).toBe(outcome.headers['x-request-id'])
  expect(outcome.body + JSON.stringify(outcome.headers)).not.toContain(CANARY)
  expect(outcome.body).not.toMatch(/\/src\/|\.ts\b|node_modules| at \w+ \(/)
  expect(upstream.hits).toHaveLength(0)
  expect((await fetchKeyState(server)).usage).toBe(used)
  expect(await readMetric(server, 'gateway_running_calls')).toBe(0)
}

const each = (name: string, ...values: unknown[]) => values.map(value => [name, value] as const)

/** Every parameter with a range or a shape, and values outside it. */
const WRONG: (readonly [field: string, value: unknown])[] = [
  ...each('temperature', -0.1, 2.1, '1', CANARY, [], {}, true),
  ...each('top_p', 0, -0.1, 1.1, '0.5', CANARY),
  ...each('top_k', -1, 1.5, '5', CANARY),
  ...each('frequency_penalty', -2.1, 2.1, CANARY),
  ...each('presence_penalty', -2.1, 2.1, CANARY),
  ...each('repetition_penalty', 0, -1, 2.1, CANARY),
  ...each('min_p', -0.1, 1.1, CANARY),
  ...each('top_a', -0.1, 1.1, CANARY),
  ...each('max_tokens', 0, -1, 1.5, 128_000, 1e15, '5', CANARY),
  ...each('max_completion_tokens', 0, -1, 1.5, CANARY),
  ...each('top_logprobs', -1, 21, 1.5, CANARY),
  ...each('seed', 1.5, 1e300, '7', CANARY, {}),
  ...each(
    'logit_bias',
    { 1: 101 },
    { 1: -101 },
    { 1: CANARY },
    { [CANARY]: 1 },
    { '-1': 1 },
    [1],
    5,
    CANARY,
  ),
  ...each('stop', ['a', 'b', 'c', 'd', CANARY], 5, [5], { a: CANARY }),
  ...each('stream', 'true', 1, CANARY),
  ...each('stream_options', true, { include_usage: CANARY }),
  ...each('model', 5, '', ['acme/small'], { id: CANARY }),
  ...each(
    'models',
    'acme/small',
    [5],
    [''],
    ['a/1', 'a/2', 'a/3', 'a/4', 'a/5', 'a/6', 'a/7', 'a/8'],
  ),
  ...each('route', CANARY, 5),
  ...each(
    'provider',
    CANARY,
    { order: CANARY },
    { sort: CANARY },
    { data_collection: CANARY },
    { max_price: { prompt: -1 } },
    { only: [] },
  ),
  ...each(
    'response_format',
    CANARY,
    { type: CANARY },
    { type: 'json_schema' },
    { type: 'json_schema', json_schema: { name: '' } },
  ),
  ...each(
    'tools',
    {},
    [CANARY],
    [{ type: 'function' }],
    [{ type: 'function', function: { name: CANARY.repeat(10) } }],
  ),
  ...each('tool_choice', CANARY, 5, { type: 'function' }),
  ...each('parallel_tool_calls', CANARY, 1),
  ...each('plugins', CANARY, [CANARY], [{}]),
  ...each(
    'reasoning',
    CANARY,
    { effort: CANARY },
    { max_tokens: 0 },
    { effort: 'low', max_tokens: 100 },
  ),
  ...each('prediction', CANARY, { type: CANARY }),
  ...each('user', 5, CANARY.repeat(30)),
  ...each('session_id', 5, CANARY.repeat(30)),
  ...each('metadata', CANARY, { a: 5 }),
  ...each('debug', CANARY, { echo_upstream_body: CANARY }),
  ...each(
    'messages',
    [],
    null,
    CANARY,
    {},
    [CANARY],
    [null],
    [{}],
    [{ role: 'user' }],
    [{ content: CANARY }],
  ),
  ...each(
    'messages',
    [{ role: CANARY, content: CANARY }],
    [{ role: 'User', content: CANARY }],
    [{ role: 5, content: CANARY }],
  ),
  ...each(
    'messages',
    [{ role: 'user', content: 5 }],
    [{ role: 'user', content: null }],
    [{ role: 'user', content: [CANARY] }],
  ),
  ...each(
    'messages',
    [{ role: 'user', content: [{ type: CANARY, text: CANARY }] }],
    [{ role: 'user', content: [{ type: 'text' }] }],
  ),
  ...each(
    'messages',
    [{ role: 'user', content: [{ type: 'image_url', image_url: CANARY }] }],
    [{ role: 'tool', content: CANARY }],
  ),
  ...each('messages', [
    { role: 'assistant', tool_calls: [{ id: 'a', function: { name: CANARY } }] },
  ]),
]

describe('a request is refused with the invalid field when', () => {
  test.each(WRONG.map(([field, value]) => [field, shown(value), value] as const))(
    '%s is %s',
    async (field, _, value) => {
      await expectRefused(
        await sendChat(server, { messages, [field]: value }).outcome(),
        400,
        field,
      )
    },
  )

  test('E9 it has neither messages nor prompt', async () => {
    await expectRefused(
      await sendChat(server, { messages: undefined }).outcome(),
      400,
      /messages.*prompt/,
    )
  })

  test('E9 it has both messages and prompt', async () => {
    await expectRefused(
      await sendChat(server, { messages, prompt: CANARY }).outcome(),
      400,
      /messages.*prompt/,
    )
  })

  test('E9 the model is unknown', async () => {
    await expectRefused(
      await sendChat(server, { messages, model: 'acme/unknown' }).outcome(),
      400,
      'acme/unknown',
    )
  })

  test('E9 one of the fallback models is unknown', async () => {
    await expectRefused(
      await sendChat(server, { messages, models: ['acme/unknown'] }).outcome(),
      400,
      'acme/unknown',
    )
  })

  test('E9 a stream was requested', async () => {
    await expectRefused(
      await sendChat(server, { messages, stream: true, temperature: 3 }).outcome(),
      400,
      'temperature',
    )
  })

  test('E9 it has no prompt on the old path', async () => {
    await expectRefused(
      await sendChat(server, { messages }, { path: '/completions' }).outcome(),
      400,
      'prompt',
    )
  })
})

describe('a number is refused as', () => {
  test.each([
    ['C-09 1e999', 'temperature', '1e999'],
    ['C-09 -1e999', 'presence_penalty', '-1e999'],
    ['C-09 1e999 where an integer belongs', 'max_tokens', '1e999'],
    ['C-09 an integer past 2^53, which would be rounded', 'seed', '9223372036854775807'],
    ['C-09 an integer below -2^53', 'seed', '-9007199254740993'],
    ['C-09 no choice at all', 'n', '0'],
  ])('%s', async (_, field, number) => {
    const start = `{"model":"acme/small","messages":${JSON.stringify(messages)}`
    const body = `${start},"${field}":${number}}`
    await expectRefused(await send({ body }), 400, field)
  })

  test('C-09 a limit of 1e999, which would be unlimited', async () => {
    const authorization = `Bearer ${server.management_key}`
    await expectRefused(
      await send({ at: '/keys', authorization, body: `{"name":"${CANARY}","limit":1e999}` }),
      400,
      'limit',
    )
  })
})

describe('a body is refused that', () => {
  const inMessage = (bytes: number[]) =>
    Buffer.concat([
      Buffer.from(`{"model":"acme/small","messages":[{"role":"user","content":"${CANARY}`),
      Buffer.from(bytes),
      Buffer.from('"}]}'),
    ])

  test.each<[name: string, body: string | Uint8Array]>([
    ['is empty', ''],
    ['is cut', `{"model":"acme/small","messages":[{"role":"user","content":"${CANARY}`],
    ['has trailing text', `${JSON.stringify({ model: 'acme/small', messages })} ${CANARY}`],
    ['is a form', `model=acme/small&messages=${CANARY}`],
    ['is a text', JSON.stringify(CANARY)],
    ['is a list', JSON.stringify([CANARY])],
    ['is null', 'null'],
    ['is a number', '5'],
    [
      'C-09 has NaN in it',
      `{"model":"acme/small","temperature":NaN,"messages":${JSON.stringify(messages)}}`,
    ],
    ['has single quotes', `{'model':'${CANARY}'}`],
    ['C-08 is not UTF-8', inMessage([0xc3, 0x28])],
    ['C-08 has a stray byte', inMessage([0xff])],
    ['C-08 is cut inside a character', inMessage([0xf0, 0x9f])],
    ['C-08 has a surrogate in UTF-8', inMessage([0xed, 0xa0, 0x80])],
    ['C-08 has an overlong character', inMessage([0xc0, 0xaf])],
    ['C-08 is UTF-16', Buffer.from(JSON.stringify({ model: 'acme/small', messages }), 'utf16le')],
    ['C-08 has a NUL in it', `{"model":"acme/small",\0"messages":[]}`],
    ['C-06 nests 5 MB deep', `{"messages":${'['.repeat(5_000_000)}`],
    ['C-06 nests 5 MB deep and back', '['.repeat(2_500_000) + ']'.repeat(2_500_000)],
    ['C-06 nests 5 MB deep in objects', '{"a":'.repeat(1_000_000)],
    ['C-06 nests one too deep', `{"a":${'['.repeat(128)}${']'.repeat(128)}}`],
    ['C-06 has 500,001 tokens', `[${'1,'.repeat(500_000)}1]`],
    [
      'C-06 has a million keys',
      `{${Array.from({ length: 1_000_000 }, (_, i) => `"${i}":1`).join()}}`,
    ],
    [
      'X-30 has its messages in its prototype',
      `{"model":"acme/small","__proto__":{"messages":${JSON.stringify(messages)}}}`,
    ],
    [
      'X-30 has a prototype for a bias',
      `{"logit_bias":{"__proto__":{"1":1}},"messages":${JSON.stringify(messages)}}`,
    ],
    [
      'X-30 has a constructor for a bias',
      `{"logit_bias":{"constructor":1},"messages":${JSON.stringify(messages)}}`,
    ],
  ])('%s', async (_, body) =>
    expectRefused(
      await send({ body, headers: { 'content-length': String(Buffer.byteLength(body)) } }),
      400,
    ),
  )
})

test('C-07 of a key that comes twice the last counts: what is sent is what was priced', async () => {
  const twice =
    '{"model":"acme/none","model":"acme/small","max_tokens":9000,"max_tokens":5,"stream":true,' +
    '"stream":false,"messages":[{"role":"user","content":"first","content":"last"}]}'
  expect((await send({ body: twice })).status).toBe(200)
  expect(upstream.hits[0]?.body).toBe(
    '{"model":"test-model","messages":[{"role":"user","content":"last"}],"max_tokens":5}',
  )
})

describe('C-14 a head is refused with 431, and the server goes on, for', () => {
  const headers = (count: number, value: string) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`x-${i}`, value]))
  test.each<[name: string, sending: Sending]>([
    ['a header of 32 KiB', { headers: headers(1, 'x'.repeat(32_768)) }],
    ['250 headers', { headers: headers(250, '1') }],
    ['a URL of 20 KiB', { at: `/chat/completions?${'a'.repeat(20_480)}` }],
  ])('%s', async (_, sending) => {
    expect(await send({ json: { model: 'acme/small', messages }, ...sending })).toMatchObject({
      status: 431,
      complete: true,
    })
    expect(upstream.hits).toHaveLength(0)
    expect((await fetch(`${server.url}/health`)).status).toBe(200)
  })
})

describe('C-18 a header of the app’s name or site is stored harmless, or refused:', () => {
  test.each<[name: string, value: string, status: number]>([
    ['another script', '日本', 200],
    ['control and direction marks', 'caf\u00e9 \u009b31m \u202e', 200],
    ['a long text', 'x'.repeat(4_000), 200],
    ['sequences of terminals', '\u001b[31mred\u001b]0;title\u0007', 400],
    ['a NUL', 'a\u0000b', 400],
  ])('%s', async (_, value, status) => {
    const headers = { 'x-title': value, 'http-referer': value, 'user-agent': value }
    const outcome = await send({ json: { model: 'acme/small', messages }, headers })
    expect(outcome.status).toBe(status)
    if (status !== 200) return
    const id = JSON.parse(outcome.body).id
    const answer = await server.fetch(`/generation?id=${id}`)
    const { data } = (await answer.json()) as { data: Record<string, string> }
    for (const text of [data.http_referer ?? '', data.user_agent ?? '']) {
      expect(text).toBe(toPrintable(text))
      expect(text.length).toBeLessThanOrEqual(512)
    }
    expect(JSON.stringify(upstream.hits[0]?.headers)).not.toContain(value.slice(0, 6))
  })
})

describe('C-19 the bounds of a session and of metadata are exact:', () => {
  const pairs = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 'v']))
  test.each<[name: string, fields: object, status: number]>([
    ['a session of 256', { session_id: 'x'.repeat(256) }, 200],
    ['a session of 256 signs of two code units', { session_id: '🌍'.repeat(256) }, 200],
    ['a session of 257', { session_id: 'x'.repeat(257) }, 400],
    ['a session of 257 signs of two code units', { session_id: '🌍'.repeat(257) }, 400],
    ['16 pairs', { metadata: pairs(16) }, 200],
    ['17 pairs', { metadata: pairs(17) }, 400],
    ['a name of 64', { metadata: { ['k'.repeat(64)]: 'v' } }, 200],
    ['a name of 65', { metadata: { ['k'.repeat(65)]: 'v' } }, 400],
    ['a value of 512', { metadata: { k: 'v'.repeat(512) } }, 200],
    ['a value of 513', { metadata: { k: 'v'.repeat(513) } }, 400],
    ['a name with brackets', { metadata: { 'a[b]': 'v' } }, 400],
  ])('%s', async (_, fields, status) => {
    const json = { model: 'acme/small', input: 'Hi', ...fields }
    expect((await send({ at: '/responses', json })).status).toBe(status)
    expect(upstream.hits).toHaveLength(status === 200 ? 1 : 0)
  })
})

test('X-20 neither a body, nor a query, nor a header chooses who is called', async () => {
  await using other = await startUpstream()
  other.plan(completion('stolen'))
  const fields = Object.fromEntries(
    ['api_base', 'base_url', 'baseURL', 'endpoint', 'host', 'url'].map(name => [name, other.url]),
  )
  const header = (name: string) => [name, other.url]
  const names = [
    'x-portkey-custom-host',
    'x-forwarded-host',
    'x-upstream',
    'x-base-url',
    'api-base',
  ]
  const outcome = await send({
    at: `/chat/completions?${new URLSearchParams(fields)}`,
    json: { model: 'acme/small', messages, ...fields, extra_body: fields },
    headers: Object.fromEntries(names.map(header)),
  })
  const inProvider = { model: 'acme/small', messages, provider: { ...fields, order: [other.url] } }
  const routed = await send({ json: inProvider })
  expect(outcome.status).toBe(200)
  expect([200, 400, 404]).toContain(routed.status)
  expect(upstream.hits.length).toBe(routed.status === 200 ? 2 : 1)
  expect(other.hits).toHaveLength(0)
})

test('X-31 schemas of tools and answers are data: they go on as they came, or are refused', async () => {
  const anyOf = Array.from({ length: 2_000 }, () => ({ pattern: '(a+)+$' }))
  const bombs = [
    { $ref: '#' },
    { $ref: 'http://127.0.0.1:1/schema.json' },
    { type: 'string', pattern: '(a+)+$', enum: ['a'.repeat(40)] },
    { anyOf },
    { allOf: [{ $ref: '#/$defs/a' }], $defs: { a: { allOf: [{ $ref: '#/$defs/a' }] } } },
  ]
  for (const schema of bombs) {
    const parameters = { type: 'object', properties: { a: schema } }
    const tools = [{ type: 'function', function: { name: 'f', parameters } }]
    const response_format = { type: 'json_schema', json_schema: { name: 'f', schema: parameters } }
    upstream.hits.length = 0
    const json = { model: 'acme/small', messages, tools, response_format }
    expect((await send({ json })).status).toBe(200)
    expect(upstream.hits[0]?.json).toMatchObject({ tools, response_format })
  }
  const deep = JSON.parse(`${'{"not":'.repeat(200)}{}${'}'.repeat(200)}`)
  const tools = [{ type: 'function', function: { name: 'f', parameters: deep } }]
  expect((await send({ json: { model: 'acme/small', messages, tools } })).status).toBe(400)
})

describe('C-04 a body past 32 MiB is refused', () => {
  const piece = Buffer.alloc(MIB, ' ')

  test('by its length, before any of it arrives', async () => {
    await expectRefused(
      await send({ headers: { 'content-length': String(32 * MIB + 1) } }),
      413,
      'Request payload too large',
    )
  })

  test('by its length, when all of it arrives', async () => {
    await expectRefused(await send({ body: Buffer.alloc(32 * MIB + 1, ' ') }), 413)
  })

  test('by an absurd length', async () => {
    await expectRefused(await send({ headers: { 'content-length': '9007199254740991' } }), 413)
  })

  test('by its size, when it comes in chunks', async () => {
    const call = request(`${server.base}/chat/completions`, {
      raw: chunkedHead(`Bearer ${server.inference_key}`),
    })
    for (let i = 0; i < 32; i++) call.send(chunked(piece))
    call.send(chunked(Buffer.from('  ')))
    await expectRefused(await call.outcome(), 413, 'Request payload too large')
  })

  test('but a caller without a key gets only a 401', async () => {
    await expectRefused(
      await send({ authorization: null, headers: { 'content-length': String(33 * MIB) } }),
      401,
    )
  })

  test('and an unknown path is still not found', async () => {
    await expectRefused(
      await send({ at: '/nowhere', headers: { 'content-length': String(33 * MIB) } }),
      404,
    )
  })

  const chunkedHead = (authorization: string) =>
    'POST /api/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n' +
    `authorization: ${authorization}\r\ntransfer-encoding: chunked\r\n\r\n`
  const chunked = (bytes: Buffer) =>
    Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
})

describe('X-06 X-07 a caller is refused', () => {
  const json = { model: 'acme/small', messages }

  test('without a key', async () => {
    await expectRefused(
      await send({ json, authorization: null }),
      401,
      'Missing Authentication header',
    )
  })

  test.each<[name: string, authorization: (key: string) => string]>([
    ['with a wrong key', () => `Bearer gw-v1-${CANARY}`],
    ['with a truncated key', key => `Bearer ${key.slice(0, -1)}`],
    ['with a key and more', key => `Bearer ${key}0`],
    ['with a key in capitals', key => `Bearer ${key.toUpperCase()}`],
    [
      'with the key’s hash',
      key => `Bearer ${new Bun.CryptoHasher('sha256').update(key).digest('hex')}`,
    ],
    ['with the key’s label', key => `Bearer ${key.slice(0, 9)}...${key.slice(-3)}`],
    ['with the key as JSON', key => `Bearer "${key}"`],
    ['with the bare key', key => key],
    ['with an empty bearer', () => 'Bearer '],
    ['with Basic', key => `Basic ${btoa(`user:${key}`)}`],
    ['with Basic and the key as it is', key => `Basic ${key}`],
    ['with two keys in one header', key => `Bearer ${key}, Bearer ${key}`],
    ['with a quote in it', () => `Bearer ' or 1=1 --${CANARY}`],
    ['with a prototype for a key', () => 'Bearer __proto__'],
    ['with 8 KiB of key', () => `Bearer ${'x'.repeat(8192)}`],
  ])('%s', async (_, authorization) =>
    expectRefused(await send({ json, authorization: authorization(server.inference_key) }), 401),
  )

  test('with a valid key and another in a second header', async () => {
    for (const second of ['Bearer wrong', `Bearer ${server.inference_key}`]) {
      const body = JSON.stringify(json)
      const fields =
        `authorization: Bearer ${server.inference_key}\r\n` +
        `authorization: ${second}\r\ncontent-length: ${body.length}`
      const raw =
        'POST /api/v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n' +
        `connection: close\r\n${fields}\r\n\r\n${body}`
      await expectRefused(await request(server.url, { raw }).outcome(), 401)
    }
  })

  test.each(['api_key', 'key', 'token', 'access_token', 'authorization'])(
    'with the key as %s in the query',
    async name => {
      await expectRefused(
        await send({
          at: `/chat/completions?${name}=${server.inference_key}`,
          json,
          authorization: null,
        }),
        401,
      )
    },
  )

  test('with the key in another header or in the body', async () => {
    const headers = {
      'x-api-key': server.inference_key,
      'api-key': server.inference_key,
      cookie: `key=${server.inference_key}`,
    }
    await expectRefused(
      await send({
        json: { ...json, api_key: server.inference_key },
        authorization: null,
        headers,
      }),
      401,
    )
  })

  test('with a management key, to infer', async () => {
    await expectRefused(await send({ json, authorization: `Bearer ${server.management_key}` }), 403)
  })
})

describe('authentication comes before validation', () => {
  const bad: Sending = { body: `{"${CANARY}` }

  test.each([
    ['POST', '/chat/completions'],
    ['POST', '/completions'],
    ['POST', '/keys'],
    ['PATCH', '/keys/none'],
    ['GET', '/generation'],
  ])('%s %s without a key', async (method, at) =>
    expectRefused(await send({ ...bad, method, at, authorization: null }), 401),
  )

  test.each([
    '/keys/../chat/completions',
    '/./chat/completions',
    '/keys/%2e%2e/chat/completions',
    '//chat/completions',
    '/chat/completions/',
  ])('X-08 by another spelling of the path: %s', async at => {
    const outcome = await send({ path: `/api/v1${at}`, json: { messages }, authorization: null })
    await expectRefused(outcome, outcome.status === 404 ? 404 : 401)
  })

  test.each([
    ['POST', '/keys'],
    ['PATCH', '/keys/none'],
    ['DELETE', '/keys/none'],
    ['GET', '/keys?offset=-1'],
  ])('%s %s with an inference key', async (method, at) => {
    await expectRefused(
      await send({ ...bad, method, at }),
      403,
      'Only management keys can perform this operation',
    )
  })

  test('POST /keys with a management key and the same body', async () => {
    await expectRefused(
      await send({ ...bad, at: '/keys', authorization: `Bearer ${server.management_key}` }),
      400,
    )
  })
})

describe('an unknown path is not found:', () => {
  test.each([
    ['a path', 'POST', '/nowhere'],
    ['a model in the path', 'POST', '/chat/completions/acme/small'],
    ['a model before the path', 'POST', '/acme/small/chat/completions'],
    ['a model as a path', 'POST', '/models/acme/small'],
    ['a path in capitals', 'POST', '/Chat/Completions'],
    ['a generation', 'GET', `/generation?id=gen-${CANARY}`],
  ])('%s', async (_, method, at) => {
    await expectRefused(await send({ method, json: { messages }, path: `/api/v1${at}` }), 404)
  })

  test.each([
    ['GET', '/chat/completions'],
    ['PUT', '/chat/completions'],
    ['DELETE', '/chat/completions'],
    ['POST', '/generation'],
    ['PUT', '/keys'],
  ])('%s %s, although another method exists', async (method, at) => {
    await expectRefused(await send({ method, at, json: { messages } }), 405, 'Method not allowed')
  })

  test('and the existing methods are in the header Allow', async () => {
    expect((await send({ method: 'PUT', json: { messages } })).headers.allow).toBe('POST')
    expect((await send({ method: 'PUT', at: '/keys', json: { messages } })).headers.allow).toBe(
      'GET, POST',
    )
  })

  test('C-13 an invalid Host header, or two of them', async () => {
    for (const hosts of ['host: a b', 'host: a\r\nhost: b', 'host: a/b', 'host: user@a', 'host:']) {
      const raw =
        `POST /api/v1/chat/completions HTTP/1.1\r\n${hosts}\r\n` +
        'connection: close\r\ncontent-length: 2\r\n\r\n{}'
      expect((await request(server.url, { raw }).outcome()).status).toBe(400)
    }
  })
})

describe('unusual but valid requests are answered:', () => {
  const json = { model: 'acme/small', messages }
  const body = JSON.stringify(json)

  test.each<[name: string, sending: (key: string) => Sending]>([
    ['X-06 bearer in lower case', key => ({ json, authorization: `bearer ${key}` })],
    [
      'X-06 bearer in capitals with spaces around the key',
      key => ({ json, authorization: `BEARER   ${key}  ` }),
    ],
    ['C-08 a byte order mark', () => ({ body: `\uFEFF${body}` })],
    ['another content type', () => ({ body, headers: { 'content-type': 'text/plain' } })],
    [
      'C-06 128 levels',
      () => ({ json: { ...json, extra: JSON.parse('['.repeat(127) + ']'.repeat(127)) } }),
    ],
    [
      'the edges of every range',
      () => ({
        json: {
          ...json,
          temperature: 2,
          top_p: 1,
          frequency_penalty: -2,
          presence_penalty: 2,
          ...EDGES,
        },
      }),
    ],
    [
      'null for every parameter',
      () => ({
        json: { ...json, temperature: null, top_p: null, stop: null, seed: null, max_tokens: null },
      }),
    ],
    [
      'X-30 a prototype',
      () => ({
        body:
          '{"__proto__":{"temperature":5},"constructor":{"prototype":{"stream":true}},' +
          body.slice(1),
      }),
    ],
    [
      'X-30 a prototype in a message',
      () => ({ body: body.replace('"role"', '"__proto__":{"polluted":1},"role"') }),
    ],
  ])('%s', async (_, sending) => {
    const outcome = await send(sending(server.inference_key))
    expect(outcome).toMatchObject({ status: 200, complete: true })
    expect(upstream.hits).toHaveLength(1)
    expect(upstream.hits[0]?.json).toMatchObject({ model: 'test-model', messages })
    expect(upstream.hits[0]?.json).not.toHaveProperty('stream')
  })

  test('X-30 and earlier requests have not affected later ones', async () => {
    await send({ json })
    expect(upstream.hits.at(-1)?.json).toEqual({ model: 'test-model', messages })
  })
})

const EDGES = {
  repetition_penalty: 2,
  min_p: 1,
  top_a: 0,
  top_k: 1,
  max_tokens: 1,
  top_logprobs: 20,
  stop: ['a', 'b', 'c', 'd'],
  logit_bias: { 1: 100, 2: -100 },
  seed: Number.MAX_SAFE_INTEGER,
}

function shown(value: unknown): string {
  const text = JSON.stringify(value)
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
