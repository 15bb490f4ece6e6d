import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import type { GatewayError } from '../../src/base/errors.ts'
import { checkProviders } from '../../src/network/provider-check.ts'
import { testGateway } from '../support/gateway.ts'
import {
  body,
  type Hit,
  head,
  json,
  type Script,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

let upstream: Upstream
beforeEach(async () => {
  upstream = await startUpstream()
})
afterEach(() => upstream.close())

const LIST = { object: 'list', data: [{ id: 'm' }] }
const KEY = 'sk-very-secret'
const hasKey = ({ headers }: Hit) => Object.values(headers).some(value => value.includes(KEY))

/** Lists models for requests with the credential. */
const guarded =
  (list: unknown = LIST) =>
  (hit: Hit): Script =>
    hasKey(hit) ? json(list) : status(401)

const local = (more: object = {}) => ({
  protocol: 'openai-chat',
  base_url: upstream.url,
  api_key: KEY,
  ...more,
})

/** Returns the result for one provider, with 300 milliseconds to answer. */
async function found(answer: (hit: Hit) => Script, given: object = local()) {
  upstream.answer(answer)
  const gateway = await testGateway({ config: { providers: { one: given } } })
  const { data } = await checkProviders(gateway, [], 300)
  expect(JSON.stringify(data)).not.toContain('secret')
  const [{ provider, milliseconds, ...verdict }] = data as [(typeof data)[number]]
  expect([data.length, provider, milliseconds === null || milliseconds >= 0]).toEqual([
    1,
    'one',
    true,
  ])
  return verdict
}

test('each of several credentials is checked, and named', async () => {
  upstream.answer(guarded())
  const credentials = [
    { name: 'good', api_key: KEY },
    { name: 'revoked', api_key: 'sk-other-secret' },
  ]
  const { api_key: _, ...provider } = local({ credentials })
  const gateway = await testGateway({ config: { providers: { one: provider } } })
  const { data } = await checkProviders(gateway, [], 300)
  expect(data.map(({ credential, ok, status }) => [credential, ok, status])).toEqual([
    ['good', true, 200],
    ['revoked', false, 401],
  ])
})

describe('a provider that', () => {
  test('lists its models only with the credential is fine, and the check is free', async () => {
    expect(await found(guarded())).toEqual({ ok: true, status: 200, error: null })
    expect(upstream.hits.map(({ method, path, body }) => [method, path, body])).toEqual([
      ['GET', '/v1/models', ''],
      ['GET', '/v1/models', ''],
    ])
    expect(upstream.hits.map(hasKey)).toEqual([true, false])
  })

  test('lists its models to all answers, but its credential is not checked', async () => {
    expect(await found(() => json([{ id: 'm' }]))).toEqual({
      ok: null,
      status: 200,
      error: 'answers; lists its models without a credential, so that was not checked',
    })
  })

  test('needs no credential is fine when it answers', async () => {
    expect(
      await found(() => json({ models: [] }), local({ api_key: undefined, auth: 'none' })),
    ).toMatchObject({ ok: true })
    expect(upstream.hits).toHaveLength(1)
  })

  test.each([401, 403])('refuses the credential with %d is reported', async code => {
    expect(await found(() => status(code, `Incorrect API key provided: ${KEY}`))).toEqual({
      ok: false,
      status: code,
      error: 'the credential is refused',
    })
  })

  test.each([404, 405, 501])('has no such list (%d) cannot be checked', async code => {
    const error = 'has no list of models at its base_url: cannot be checked without cost'
    expect(await found(() => status(code))).toEqual({ ok: null, status: code, error })
  })

  test.each([500, 503, 429, 301])(
    'answers with %d fails, and no redirect is followed',
    async code => {
      expect(
        await found(() => status(code, 'no', { location: `${upstream.url}/elsewhere` })),
      ).toEqual({
        ok: false,
        status: code,
        error: `answers with ${code}`,
      })
      expect(upstream.hits).toHaveLength(1)
    },
  )

  test.each([
    ['HTML', () => body('text/html', '<html>Log in</html>')],
    ['JSON of something else', () => json({ hello: 'world' })],
    ['a string', () => json('data')],
    ['null', () => json(null)],
  ])('answers with %s fails, as base_url is probably wrong', async (_, script) => {
    expect(await found(script)).toEqual({
      ok: false,
      status: 200,
      error: 'the answer is no list of models: is base_url right?',
    })
  })

  test.each<[string, Script]>([
    ['sends nothing', { wait: 'never' }],
    [
      'stops within its answer',
      [
        head(200, { 'content-type': 'application/json', 'content-length': '100' }),
        '{"data":',
        { wait: 'never' },
      ],
    ],
    [
      'never ends',
      [
        head(200, { 'content-type': 'application/json', 'content-length': '10000' }),
        { drip: ' '.repeat(10_000), ms: 20 },
      ],
    ],
  ])('%s times out', async (_, script) => {
    expect(await found(() => script)).toEqual({
      ok: false,
      status: null,
      error: 'no answer within 0.3 seconds',
    })
    await upstream.emptied()
  })

  test('breaks off fails', async () => {
    const broken = [head(200, { 'content-length': '100' }), '{"data":[', { end: 'rst' }] as const
    expect(await found(() => broken)).toMatchObject({
      ok: false,
      status: null,
      error: expect.stringMatching(/^the connection failed: [A-Z_]+$/),
    })
  })

  test('refuses the connection fails', async () => {
    const gone = await startUpstream()
    const base_url = gone.url
    await gone.close()
    const refused = { ok: false, status: null, error: 'the connection failed: ECONNREFUSED' }
    expect(await found(guarded(), local({ base_url }))).toEqual(refused)
  })
})

describe('by protocol', () => {
  test.each([
    ['anthropic-messages', '/v1', '/v1/models?limit=1', 'x-api-key', { data: [] }],
    ['gemini', '/v1', '/v1/models?pageSize=1', 'x-goog-api-key', { models: [] }],
    ['cohere-chat', '/v2', '/v1/models?page_size=1', 'authorization', { models: [] }],
    ['openai-responses', '/v1', '/v1/models', 'authorization', LIST],
  ])('%s is asked for its list of models', async (protocol, base, path, header, list) => {
    const base_url = upstream.url.replace('/v1', base)
    expect(await found(guarded(list), local({ protocol, base_url }))).toEqual({
      ok: true,
      status: 200,
      error: null,
    })
    const [hit] = upstream.hits
    expect([hit?.path, hit?.headers[header]?.endsWith(KEY)]).toEqual([path, true])
    if (protocol === 'anthropic-messages')
      expect(hit?.headers['anthropic-version']).toBe('2023-06-01')
  })

  test.each([
    ['bedrock-converse', {}],
    ['voyage-rerank', {}],
    ['gemini', { base_url: 'http://127.0.0.1:9/v1/projects/p/locations/l/publishers/google' }],
  ])('%s cannot be checked without cost, and is not asked', async (protocol, more) => {
    const error = 'cannot be checked without cost'
    expect(await found(guarded(), local({ protocol, auth: 'bearer', ...more }))).toEqual({
      ok: null,
      status: null,
      error,
    })
    expect(upstream.hits).toEqual([])
  })

  test('a service account is fine when it is granted an access token', async () => {
    const private_key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({
      type: 'pkcs8',
      format: 'pem',
    })
    const service_account = {
      client_email: 'a@b.c',
      private_key,
      token_uri: upstream.url,
      secret: 'secret',
    }
    const given = {
      protocol: 'gemini',
      base_url: 'http://127.0.0.1:9/publishers/google',
      service_account,
    }
    expect(await found(() => json({ access_token: 'secret', expires_in: 60 }), given)).toEqual({
      ok: true,
      status: 200,
      error: null,
    })
    const refused = {
      ok: false,
      status: null,
      error: 'no access token is granted to the service account',
    }
    expect(await found(() => status(400), given)).toEqual(refused)
    const silent = { ok: false, status: null, error: 'no answer within 0.3 seconds' }
    expect(await found(() => ({ wait: 'never' }), given)).toEqual(silent)
  })
})

describe('which providers', () => {
  test('the given ones are checked, or all configured ones except the sandbox', async () => {
    upstream.answer(guarded())
    const gateway = await testGateway({ config: { providers: { two: local(), one: local() } } })
    const asked = async (slugs: string[]) =>
      (await checkProviders(gateway, slugs, 1_000)).data.map(({ provider }) => provider)
    expect([await asked([]), await asked(['one'])]).toEqual([['two', 'one'], ['one']])
    expect((await checkProviders(await testGateway(), [], 1_000)).data).toEqual([])
  })

  test.each([
    ['nobody', 'not_found'],
    ['openai', 'invalid_request'],
  ])('%s is refused as %s when it is not configured', async (slug, type) => {
    const refused = checkProviders(await testGateway(), [slug], 1_000)
    expect(await refused.catch(thrown => (thrown as GatewayError).type)).toBe(
      type as GatewayError['type'],
    )
  })
})
