import { describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { createLocalJWKSet, exportSPKI, importJWK, type JWK, jwtVerify } from 'jose'
import { reconfigure } from '../../src/app/reconfigure.ts'
import { parseConfig } from '../../src/config.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { provideKey, requirePolicy } from '../../src/limits/workloads.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { deleteKey, updateKey } from '../../src/resources/keys.ts'
import { createWorkspace, deleteWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { TestClock, testGateway } from '../support/gateway.ts'
import { AUDIENCE, CONFIGURATION, JWKS, TestIssuer } from '../support/issuer.ts'

const MINUTE = 60_000
const FORM = 'application/x-www-form-urlencoded'
const WORDS = {
  grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
  subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
  federation_policy_id: 'ci',
}

/** Opens a gateway that takes the tokens of an issuer, by the policy `ci`. */
async function openHouse(more: Record<string, unknown> = {}, parts: object = {}) {
  const clock = new TestClock()
  const issuer = await TestIssuer.start(clock)
  const buildConfig = (changes: Record<string, unknown>) => ({
    oauth: { issuers: { ci: issuer.buildPolicy(changes) } },
  })
  const gateway = await testGateway({ clock, config: buildConfig(more), ...parts })
  const app = createApp(gateway)
  clock.pass(1_000)
  const post = async (form: Record<string, string>, headers: Record<string, string> = {}) => {
    const response = await app.handle(
      new Request('http://localhost/api/v1/oauth/token', {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
        body: new URLSearchParams(form).toString(),
      }),
    )
    return { status: response.status, headers: response.headers, json: await response.json() }
  }
  const exchange = (subject_token: string, words: Record<string, string> = {}) =>
    post({ ...WORDS, subject_token, ...words })
  const call = async (token: string, model = 'sandbox/echo') => {
    const response = await app.handle(
      new Request('http://localhost/api/v1/chat/completions', {
        method: 'POST',
        headers: { authorization: `Bearer ${token}` },
        body: JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] }),
      }),
    )
    return response.status
  }
  const ask = async (path: string, token: string, body?: object) => {
    const response = await app.handle(
      new Request(`http://localhost/api/v1${path}`, {
        method: body ? 'POST' : 'GET',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...(body ? { body: JSON.stringify(body) } : {}),
      }),
    )
    return { status: response.status, json: await response.json() }
  }
  const configure = (config: Record<string, unknown>) =>
    reconfigure(gateway, parseConfig(JSON.stringify(config), {}))
  return {
    ...{ gateway, issuer, clock, app, post, exchange, call, ask, configure, buildConfig },
    /** Exchanges a token that is right, and returns ours. */
    async get(claims: Record<string, unknown> = {}): Promise<string> {
      const { status, json } = await exchange(await issuer.sign(claims))
      expect([status, json.error_description]).toEqual([200, undefined])
      return json.access_token
    },
    async [Symbol.asyncDispose]() {
      await issuer[Symbol.asyncDispose]()
      await gateway.close()
    },
  }
}

const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

describe('an exchange', () => {
  test('gives a token that calls accept like a key, and that others can verify', async () => {
    await using house = await openHouse()
    const { status, headers, json } = await house.exchange(await house.issuer.sign())
    expect(status).toBe(200)
    expect(headers.get('cache-control')).toBe('no-store')
    expect(json).toEqual({
      access_token: expect.stringMatching(/^eyJ/),
      expires_in: 600,
      issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      scope: 'inference',
      token_type: 'Bearer',
    })
    expect(await house.call(json.access_token)).toBe(200)
    const jwks = await (
      await house.app.handle(new Request('http://localhost/api/v1/oauth/jwks'))
    ).json()
    expect(jwks.keys.map((key: JWK) => [key.alg, key.crv, key.use, 'd' in key])).toEqual(
      Array(3).fill(['ES256', 'P-256', 'sig', false]),
    )
    const { payload, protectedHeader } = await jwtVerify(
      json.access_token,
      createLocalJWKSet(jwks),
      { currentDate: house.clock.now() },
    )
    expect(payload).toMatchObject({ sub: 'repo:acme/app', client_id: 'ci', scope: 'inference' })
    expect(protectedHeader.typ).toBe('at+jwt')
  })

  test('gives at most fifteen minutes, and no more than the policy and the token say', async () => {
    await using house = await openHouse()
    const now = Math.floor(house.clock.now().getTime() / 1000)
    const lifeOf = async (exp: number) =>
      (await house.exchange(await house.issuer.sign({ exp }))).json.expires_in
    expect(await lifeOf(now + 3_600)).toBe(900)
    expect(await lifeOf(now + 100)).toBe(100)
    await house.configure(house.buildConfig({ token_seconds: 60 }))
    expect(await lifeOf(now + 3_600)).toBe(60)
    const token = await house.get()
    house.clock.pass(MINUTE - 1)
    expect(await house.call(token)).toBe(200)
    house.clock.pass(1)
    expect(await house.call(token)).toBe(401)
  })

  test('counts spending and limits by subject, which a deleted key does not forget', async () => {
    await using house = await openHouse({ limit: 2.5, limit_reset: 'daily' })
    const [first, again] = [await house.get(), await house.get()]
    const other = await house.get({ sub: 'repo:acme/other' })
    const hashes = [...house.gateway.memory.keys.values()].map(({ name }) => name)
    expect(hashes.sort()).toEqual(['ci: repo:acme/app', 'ci: repo:acme/other'])
    const { json } = await house.ask('/key', first)
    expect(json.data).toMatchObject({ limit: 2.5, limit_reset: 'daily' })
    expect(await house.call(again)).toBe(200)
    expect(await house.call(other)).toBe(200)
    const key = house.gateway.memory.keys.filter(({ name }) => name === 'ci: repo:acme/app')[0]
    await house.configure(house.buildConfig({ limit: 0 }))
    expect(await house.call(await house.get())).toBe(200)
    const operator = getOperator(house.gateway)
    await deleteKey(house.gateway, operator, key?.hash ?? '')
    expect(await house.call(first)).toBe(401)
    expect((await house.ask('/key', await house.get())).json.data.limit).toBe(0)
    expect(house.gateway.memory.keys.has(key?.hash ?? '')).toBe(true)
  })

  test('gives a token that pays for no call beyond the limit of its subject', async () => {
    await using house = await openHouse()
    const usd_per_million_tokens = { prompt: 1, completion: 1 }
    const paid = {
      providers: {
        acme: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9', api_key: 'k' },
      },
      models: [
        {
          id: 'acme/small',
          endpoints: [{ provider: 'acme', model: 'small', usd_per_million_tokens }],
        },
      ],
    }
    await house.configure({ ...paid, ...house.buildConfig({ limit: 0.000001 }) })
    expect(await house.call(await house.get(), 'acme/small')).toBe(402)
    // Nothing listens there: without the limit the call goes out.
    await house.configure({ ...paid, ...house.buildConfig({}) })
    expect(await house.call(await house.get(), 'acme/small')).toBe(502)
  })

  test('makes one key for simultaneous exchanges of a new subject', async () => {
    await using house = await openHouse()
    const token = await house.issuer.sign()
    const answers = await Promise.all(Array.from({ length: 8 }, () => house.exchange(token)))
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200))
    expect([...house.gateway.memory.keys.values()]).toHaveLength(1)
  })

  test('makes one key where its store answers only once all of them wait', async () => {
    await using house = await openHouse()
    const { gateway } = house
    const token = await house.issuer.sign()
    const all = Promise.withResolvers<void>()
    let callers = 0
    const { catchUp } = gateway
    gateway.catchUp = async () => {
      const isChanged = await catchUp()
      callers += 1
      if (callers === 8) all.resolve()
      return isChanged
    }
    const { insert } = gateway.store.keys
    let inserts = 0
    gateway.store.keys.insert = async (...key) => {
      inserts += 1
      await all.promise
      return insert(...key)
    }
    const answers = await Promise.all(Array.from({ length: 8 }, () => house.exchange(token)))
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200))
    expect(inserts).toBe(1)
  })

  test('gives the models of the policy’s guardrail, and nothing while that is missing', async () => {
    await using house = await openHouse()
    const { data } = await createGuardrail(house.gateway, getOperator(house.gateway), {
      name: 'CI',
      allowed_models: ['sandbox/image'],
    })
    await house.configure(house.buildConfig({ guardrail: data.id }))
    const token = await house.get()
    expect(await house.call(token)).toBe(404)
    await house.configure(house.buildConfig({ guardrail: '00000000-0000-4000-8000-000000000000' }))
    const { status, json } = await house.exchange(await house.issuer.sign({ sub: 'new' }))
    expect([status, json.error]).toEqual([503, 'temporarily_unavailable'])
  })

  test('refuses more subjects than the policy has, and a subject whose key is disabled', async () => {
    await using house = await openHouse({ most_subjects: 1 })
    const token = await house.get()
    const second = await house.exchange(await house.issuer.sign({ sub: 'repo:acme/second' }))
    expect([second.status, second.json.error]).toEqual([400, 'invalid_grant'])
    const [key] = house.gateway.memory.keys.filter(() => true)
    await updateKey(house.gateway, getOperator(house.gateway), key?.hash ?? '', { disabled: true })
    expect(await house.call(token)).toBe(401)
    const again = await house.exchange(await house.issuer.sign())
    expect([again.status, again.json.error]).toEqual([400, 'invalid_grant'])
  })

  test('makes no more keys than the policy has subjects, when they come at the same moment', async () => {
    await using house = await openHouse({ most_subjects: 2 })
    const { gateway } = house
    const provide = (name: string) =>
      provideKey(gateway, 'ci', requirePolicy(gateway, 'ci'), { name })
    const made = await Promise.allSettled(['a', 'b', 'c', 'a', 'd'].map(provide))
    const refused = made.flatMap((one, i) => (one.status === 'rejected' ? i : []))
    expect(refused).toEqual([2, 4])
    expect(gateway.memory.keys.size).toBe(2)
  })

  test('takes a single-use token again for which it gave nothing', async () => {
    await using house = await openHouse({ single_use: true, workspace: 'ci' })
    const { gateway, issuer } = house
    const token = await issuer.sign({ jti: 'one' })
    expect((await house.exchange(token)).status).toBe(503)
    await createWorkspace(gateway, getOperator(gateway), { name: 'CI', slug: 'ci' })
    expect((await house.exchange(token)).status).toBe(200)
    expect((await house.exchange(token)).status).toBe(400)
  })

  test('takes a single-use token once, and none without an id or from before the start', async () => {
    await using house = await openHouse({ single_use: true })
    const token = await house.issuer.sign({ jti: 'one' })
    expect((await house.exchange(token)).status).toBe(200)
    const start = Math.floor(house.clock.now().getTime() / 1000) - 10
    for (const wrong of [
      token,
      await house.issuer.sign(),
      await house.issuer.sign({ jti: 'two', iat: start }),
      await house.issuer.sign({ jti: 'three', iat: start + 60 }),
    ]) {
      const { status, json } = await house.exchange(wrong)
      expect([status, json.error]).toEqual([400, 'invalid_grant'])
    }
    expect((await house.exchange(await house.issuer.sign({ jti: 'four' }))).status).toBe(200)
  })
})

describe('an exchange refuses', () => {
  test('tokens that are not what the policy expects', async () => {
    await using house = await openHouse()
    const { issuer } = house
    const now = Math.floor(house.clock.now().getTime() / 1000)
    const good = await issuer.sign()
    const [head = '', body = '', signature = ''] = good.split('.')
    const publicKey = (await importJWK(issuer.shown, 'ES256')) as CryptoKey
    const hs256 = `${encode({ alg: 'HS256', kid: 'first' })}.${body}`
    const forge = (secret: string) =>
      `${hs256}.${createHmac('sha256', secret).update(hs256).digest('base64url')}`
    const wrong = {
      'no algorithm': `${encode({ alg: 'none', kid: 'first' })}.${body}.`,
      'key confusion with PEM': forge(await exportSPKI(publicKey)),
      'key confusion with JWK': forge(JSON.stringify(issuer.shown)),
      'other body': `${head}.${encode({ iss: issuer.url, aud: AUDIENCE, sub: 'x' })}.${signature}`,
      'no signature': `${head}.${body}.`,
      'two parts': `${head}.${body}`,
      'no JWT': 'gw-v1-0000',
      'wrong audience': await issuer.sign({ aud: 'https://other.example' }),
      'no audience': await issuer.sign({ aud: undefined }),
      'wrong issuer': await issuer.sign({ iss: 'https://other.example' }),
      'issuer with a slash': await issuer.sign({ iss: `${issuer.url}/` }),
      over: await issuer.sign({ iat: now - 700, exp: now - 61 }),
      'over within what clocks differ by': await issuer.sign({ iat: now - 700, exp: now }),
      'no end': await issuer.sign({ exp: undefined }),
      'no beginning': await issuer.sign({ iat: undefined }),
      'not yet valid': await issuer.sign({ nbf: now + 61 }),
      'from the future': await issuer.sign({ iat: now + 61 }),
      'too long a life': await issuer.sign({ exp: now + 86_401 }),
      'unknown key': await issuer.sign({}, { kid: 'unknown' }),
      'other repository': await issuer.sign({ repository: 'acme/app2' }),
      'no repository': await issuer.sign({ repository: undefined }),
      'repository in another form': await issuer.sign({ repository: { name: 'acme/app' } }),
      'other branch': await issuer.sign({ ref: 'refs/tags/refs/heads/main' }),
      'no subject': await issuer.sign({ sub: undefined }),
      'subject with a line break': await issuer.sign({ sub: 'a\nb' }),
      'long subject': await issuer.sign({ sub: 'x'.repeat(501) }),
      'critical header': await issuer.sign({}, { crit: ['x'], x: 1 }).catch(() => `${head}.e.x`),
      'our own token': await house.get(),
    }
    for (const [name, token] of Object.entries(wrong)) {
      const { status, json } = await house.exchange(token)
      expect([name, status, json.error]).toEqual([name, 400, 'invalid_grant'])
      expect(typeof json.error_description).toBe('string')
      expect(await house.call(token)).toBe(name === 'our own token' ? 200 : 401)
    }
    expect(await house.call(good)).toBe(401)
  })

  test('forms that are not what RFC 8693 says', async () => {
    await using house = await openHouse()
    const token = await house.issuer.sign()
    const errorOf = async (words: Record<string, string>) =>
      (await house.exchange(token, words)).json.error
    expect(await errorOf({ grant_type: 'client_credentials' })).toBe('unsupported_grant_type')
    expect(await errorOf({ scope: 'management' })).toBe('invalid_scope')
    expect(await errorOf({ subject_token_type: 'saml2' })).toBe('invalid_request')
    expect(await errorOf({ requested_token_type: 'refresh_token' })).toBe('invalid_request')
    for (const policy of ['other', '__proto__', 'constructor'])
      expect(await errorOf({ federation_policy_id: policy })).toBe('invalid_grant')
    expect((await house.post({ ...WORDS })).json.error).toBe('invalid_request')
    const json = await house.post(WORDS, { 'content-type': 'application/json' })
    expect([json.status, json.json.error]).toEqual([400, 'invalid_request'])
    const long = await house.exchange('e'.repeat(20_000))
    expect([long.status, long.json.error]).toEqual([400, 'invalid_request'])
    const huge = await house.exchange('e'.repeat(1_000_000))
    expect([huge.status, huge.json.error]).toEqual([413, 'invalid_request'])
    expect(house.issuer.asked).toEqual([])
  })

  test('an empty form, and one without values, by the name of what is missing', async () => {
    await using house = await openHouse()
    const token = await house.issuer.sign()
    const missing = { error: 'invalid_request', error_description: expect.any(String) }
    for (const form of [{}, { grant_type: '', scope: '' }]) {
      const { status, json } = await house.post(form as Record<string, string>)
      expect([status, json]).toEqual([400, missing])
      expect(json.error_description).toStartWith('grant_type: expected')
    }
    const { json } = await house.post({ ...WORDS, subject_token: '' })
    expect(json.error_description).toStartWith('subject_token: expected')
    // What is not JSON has none of its limits, and what has no value is left out.
    const odd = { scope: '', brackets: `"${'['.repeat(200)}` }
    expect((await house.exchange(token, odd)).status).toBe(200)
    const latin = await house.app.handle(
      new Request('http://localhost/api/v1/oauth/token', {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: new Uint8Array([0x61, 0x3d, 0xff]),
      }),
    )
    expect([latin.status, (await latin.json()).error]).toEqual([400, 'invalid_request'])
  })

  test('tokens while its issuer is down, lies, redirects or sends too much', async () => {
    await using house = await openHouse()
    const { issuer, clock } = house
    const url = (path: string) => `${issuer.url}${path}`
    const big = () =>
      new Response(
        new ReadableStream({
          pull: controller => controller.enqueue(new Uint8Array(1024 * 1024).fill(32)),
        }),
      )
    const broken: Record<string, () => Response> = {
      down: () => new Response('', { status: 500 }),
      'an issuer that it is not': () =>
        Response.json({ issuer: 'https://other.example', jwks_uri: url(JWKS) }),
      redirect: () => Response.redirect('http://127.0.0.1:1/'),
      'keys in the private network': () =>
        Response.json({ issuer: issuer.url, jwks_uri: 'https://10.0.0.1/jwks' }),
      'keys without TLS': () =>
        Response.json({ issuer: issuer.url, jwks_uri: 'http://keys.example/jwks' }),
      'keys in a file': () => Response.json({ issuer: issuer.url, jwks_uri: 'file:///etc/passwd' }),
      'no keys': () => Response.json({ issuer: issuer.url }),
      'no JSON': () => new Response('<html>'),
      'without end': big,
    }
    for (const [name, answer] of Object.entries(broken)) {
      issuer.answers.set(CONFIGURATION, answer)
      clock.pass(MINUTE)
      const { status, headers, json } = await house.exchange(await issuer.sign())
      expect([name, status, json.error]).toEqual([name, 503, 'temporarily_unavailable'])
      expect(headers.get('retry-after')).toBe('60')
    }
    issuer.answers.clear()
    issuer.answers.set(JWKS, () => Response.redirect(url('/elsewhere')))
    clock.pass(MINUTE)
    expect((await house.exchange(await issuer.sign())).status).toBe(503)
    expect(issuer.asked).not.toContain('/elsewhere')
    issuer.answers.clear()
    // It is asked at most once a minute.
    expect((await house.exchange(await issuer.sign())).status).toBe(503)
    clock.pass(MINUTE)
    expect((await house.exchange(await issuer.sign())).status).toBe(200)
  })
})

describe('an issuer’s keys', () => {
  test('are asked for once, and again for an unknown one, at most once a minute', async () => {
    await using house = await openHouse()
    const { issuer, clock } = house
    const token = await issuer.sign()
    await Promise.all(Array.from({ length: 5 }, () => house.exchange(token)))
    expect(issuer.asked).toEqual([CONFIGURATION, JWKS])
    await issuer.rotate('second')
    const rotated = await issuer.sign()
    for (let i = 0; i < 5; i++) expect((await house.exchange(rotated)).status).toBe(400)
    expect(issuer.asked).toHaveLength(2)
    clock.pass(MINUTE)
    expect((await house.exchange(rotated)).status).toBe(200)
    expect(issuer.asked).toHaveLength(4)
    expect((await house.exchange(token)).json.error).toBe('invalid_grant')
  })

  test('stay for a day while the issuer is down, and no longer', async () => {
    await using house = await openHouse()
    const { issuer, clock } = house
    await house.get()
    issuer.answers.set(CONFIGURATION, () => new Response('', { status: 500 }))
    clock.pass(2 * 60 * MINUTE)
    await house.get()
    expect(issuer.asked).toHaveLength(3)
    clock.pass(22 * 60 * MINUTE)
    expect((await house.exchange(await issuer.sign())).status).toBe(503)
  })

  test('come from where the config says', async () => {
    await using house = await openHouse()
    const jwks_url = `${house.issuer.url}${JWKS}`
    await house.configure(house.buildConfig({ jwks_url }))
    await house.get()
    expect(house.issuer.asked).toEqual([JWKS])
  })
})

describe('a token', () => {
  test('is void once the config loses its issuer, or its workspace', async () => {
    await using house = await openHouse()
    const token = await house.get()
    for (const oauth of [
      { issuers: {} },
      { enabled: false, issuers: { ci: house.issuer.buildPolicy() } },
      { issuers: { ci: house.issuer.buildPolicy({ issuer: 'https://other.example' }) } },
      { issuers: { ci: house.issuer.buildPolicy({ workspace: 'other' }) } },
    ]) {
      await house.configure({ oauth })
      expect(await house.call(token)).toBe(401)
    }
    await house.configure(house.buildConfig({}))
    expect(await house.call(token)).toBe(200)
  })

  test('is void once its workspace is deleted, as are exchanges', async () => {
    await using house = await openHouse()
    const operator = getOperator(house.gateway)
    const { data } = await createWorkspace(house.gateway, operator, { name: 'CI', slug: 'ci' })
    await house.configure(house.buildConfig({ workspace: 'ci' }))
    const token = await house.get()
    const [key] = house.gateway.memory.keys.filter(() => true)
    expect(key?.workspace_id).toBe(data.id)
    await deleteKey(house.gateway, operator, key?.hash ?? '')
    await deleteWorkspace(house.gateway, operator, data.id, {})
    expect(await house.call(token)).toBe(401)
    expect((await house.exchange(await house.issuer.sign())).status).toBe(503)
  })

  test('listens at /mcp for as long as it lives and its policy holds', async () => {
    await using house = await openHouse()
    const timeouts = { keep_alive_seconds: 0.01 }
    for (const end of [
      () => house.clock.pass(15 * MINUTE),
      () => house.configure({ timeouts, oauth: { issuers: {} } }),
    ]) {
      await house.configure({ ...house.buildConfig({}), timeouts })
      const headers = { authorization: `Bearer ${await house.get()}` }
      const ask = (init: RequestInit) => house.app.handle(new Request('http://localhost/mcp', init))
      const body = { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} }
      const begun = await ask({ method: 'POST', headers, body: JSON.stringify(body) })
      const session = { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
      const stream = await ask({ headers: { ...headers, ...session } })
      expect(stream.status).toBe(200)
      await end()
      expect(await stream.text()).not.toContain('data:')
    }
  })

  test('makes no codes for keys, and manages nothing', async () => {
    await using house = await openHouse()
    const token = await house.get()
    const made = await house.ask('/auth/keys/code', token, {
      callback_url: 'https://app.example/callback',
    })
    expect(made.status).toBe(403)
    expect((await house.ask('/keys', token)).status).toBe(403)
  })

  test('holds when our own key rotates, and not with another secret', async () => {
    await using house = await openHouse({}, { secret: 'a'.repeat(32) })
    await using other = await openHouse({}, { secret: 'b'.repeat(32) })
    house.clock.pass(18 * 60 * MINUTE + 50 * MINUTE)
    const token = await house.get()
    expect(house.clock.now().toISOString()).toMatch(/T23:5/)
    house.clock.pass(9 * MINUTE)
    expect(house.clock.now().toISOString()).toMatch(/T00:0/)
    const keys = house.gateway.workloads.tokens.keys
    expect(keys.getCurrent(house.clock.now()).kid).not.toBe(
      JSON.parse(atob(token.split('.')[0] ?? '')).kid,
    )
    expect(await house.call(token)).toBe(200)
    expect(await other.call(await house.get())).toBe(401)
  })

  test('is not the name of its key, which opens nothing', async () => {
    await using house = await openHouse()
    await house.get()
    const [key] = house.gateway.memory.keys.filter(() => true)
    const { policy, subject } = { policy: 'ci', subject: 'repo:acme/app' }
    const named = JSON.stringify([
      ...['workload', policy, house.issuer.url, key?.workspace_id, subject],
    ])
    expect(Bun.CryptoHasher.hash('sha256', named, 'hex')).toBe(key?.hash ?? '')
    expect(await house.call(encodeURI(named))).toBe(401)
    const app = createApp(house.gateway)
    const response = await app.handle(
      new Request('http://localhost/api/v1/key', { headers: { authorization: `Bearer ${named}` } }),
    )
    expect(response.status).toBe(401)
  })
})

describe('the config refuses', () => {
  const parse = (policy: object) => () =>
    parseConfig(JSON.stringify({ oauth: { issuers: { ci: policy } } }), {})
  const right = {
    issuer: 'https://ci.example',
    audiences: ['a'],
    claims: { repository: ['acme/app'] },
  }

  test.each([
    ['an issuer without TLS', { issuer: 'http://ci.example' }, 'issuer'],
    ['an issuer that only begins like loopback', { issuer: 'http://localhost.evil' }, 'issuer'],
    ['an issuer with a query', { issuer: 'https://ci.example?x' }, 'issuer'],
    ['no audience', { audiences: [] }, 'audiences'],
    ['no rule for claims', { claims: {} }, 'claims'],
    ['a rule that all values match', { claims: { repository: ['*'] } }, 'claims'],
    ['a rule without values', { claims: { repository: [] } }, 'claims'],
    ['a star within', { claims: { repository: ['a*b'] } }, 'claims'],
    ['a long life', { token_seconds: 901 }, 'token_seconds'],
    ['a negative limit', { limit: -1 }, 'limit'],
    ['a reset without a limit', { limit_reset: 'daily' }, 'limit_reset'],
    ['an unknown field', { algorithm: 'none' }, 'oauth'],
  ])('%s', (_, change, named) => {
    expect(parse(right)).not.toThrow()
    expect(parse({ ...right, ...change })).toThrow(named)
  })
})

describe('a flood', () => {
  /** Opens a gateway behind a proxy, of which each address may ask twice in a minute. */
  async function openFlooded() {
    const config = {
      oauth: { requests_per_minute: 2 },
      server: { trusted_proxies: ['10.0.0.0/8'] },
    }
    const gateway = await testGateway({ clock: new TestClock(), config })
    const peer = { address: '203.0.113.1' }
    const app = createApp(gateway, () => peer.address)
    const ask = async (address: string, path: string, init: RequestInit = {}, forwarded = '') => {
      peer.address = address
      const headers = { ...init.headers, ...(forwarded ? { 'x-forwarded-for': forwarded } : {}) }
      return app.handle(new Request(`http://localhost${path}`, { ...init, headers }))
    }
    const form = { method: 'POST', headers: { 'content-type': FORM }, body: 'grant_type=x' }
    const exchange = (address: string, forwarded?: string) =>
      ask(address, '/api/v1/oauth/token', form, forwarded)
    const statusesOf = async (address: string, count: number, forwarded?: string) => {
      const statuses: number[] = []
      for (let i = 0; i < count; i++) statuses.push((await exchange(address, forwarded)).status)
      return statuses
    }
    return { gateway, ask, exchange, statusesOf }
  }

  test('is answered with 429 as RFC 6749 has it, by address, until the minute is over', async () => {
    const { gateway, exchange, statusesOf } = await openFlooded()
    expect(await statusesOf('203.0.113.1', 3)).toEqual([400, 400, 429])
    const refused = await exchange('203.0.113.1')
    expect(await refused.json()).toEqual({
      error: 'temporarily_unavailable',
      error_description: 'Rate limit exceeded: oauth-per-min',
    })
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(refused.headers.get('x-ratelimit-limit')).toBe('2')
    expect(await statusesOf('203.0.113.2', 1)).toEqual([400])
    ;(gateway.clock as TestClock).pass(MINUTE)
    expect(await statusesOf('203.0.113.1', 1)).toEqual([400])
    await gateway.close()
  })

  test('of one network is one, and behind a trusted proxy it is the client’s', async () => {
    const { gateway, statusesOf } = await openFlooded()
    expect(await statusesOf('2001:db8::1', 2)).toEqual([400, 400])
    expect(await statusesOf('2001:db8::ffff', 1)).toEqual([429])
    expect(await statusesOf('2001:db8:0:1::1', 1)).toEqual([400])
    expect(await statusesOf('10.0.0.1', 3, '198.51.100.7, 10.0.0.2')).toEqual([400, 400, 429])
    // What the client writes itself stands first, and changes nothing.
    expect(await statusesOf('10.0.0.1', 1, '192.0.2.9, 198.51.100.7:4711')).toEqual([429])
    expect(await statusesOf('10.0.0.1', 1, '192.0.2.9')).toEqual([400])
    // Nobody but a trusted proxy says who asks.
    expect(await statusesOf('203.0.113.9', 3, '192.0.2.77')).toEqual([400, 400, 429])
    await gateway.close()
  })

  test('of all doors of OAuth that need no key counts together', async () => {
    const { gateway, ask } = await openFlooded()
    const json = { 'content-type': 'application/json' }
    const doors: [string, string, RequestInit][] = [
      ['192.0.2.1', '/api/v1/auth/keys', { method: 'POST', headers: json, body: '{"code":"x"}' }],
      ['192.0.2.2', '/auth', {}],
      ['192.0.2.3', '/auth/sign-in?token=x', {}],
      ['192.0.2.4', '/auth/sign-in', { method: 'POST', headers: { 'content-type': FORM } }],
      ['192.0.2.5', '/auth/start', {}],
      ['192.0.2.6', '/auth/callback?code=x', {}],
      ['192.0.2.7', '/auth/sign-out', { method: 'POST' }],
      ['192.0.2.8', '/auth', { method: 'POST', headers: { 'content-type': FORM } }],
      ['192.0.2.9', '/auth/backchannel-logout', { method: 'POST' }],
    ]
    for (const [address, path, init] of doors) {
      const first = [await ask(address, path, init), await ask(address, path, init)]
      const last = await ask(address, path, init)
      expect([path, first.some(({ status }) => status === 429), last.status]).toEqual([
        ...[path, false, 429],
      ])
      const type = path.startsWith('/auth') && !path.endsWith('-logout') ? 'html' : 'json'
      expect(last.headers.get('content-type')).toContain(type)
    }
    await gateway.close()
  })

  test('from very many networks takes no more memory: they share a place', async () => {
    const { gateway } = await openFlooded()
    const { counters } = gateway.traffic
    for (let i = 0; i < 10_000; i++) counters.countVisit(`v4 ${i}`)
    counters.countVisit('v4 10000')
    counters.countVisit('v4 10001')
    expect(() => counters.countVisit('v4 10002')).toThrow('oauth-per-min')
    expect(() => counters.countVisit('v4 9')).not.toThrow()
    await gateway.close()
  })
})
