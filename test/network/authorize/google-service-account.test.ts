import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createVerify, generateKeyPairSync } from 'node:crypto'
import { GatewayError } from '../../../src/base/errors.ts'
import { Secret } from '../../../src/base/secret.ts'
import { createDefaultConfig } from '../../../src/config.ts'
import { openAccessTokens } from '../../../src/network/authorize/google-service-account.ts'
import { openEgress } from '../../../src/network/egress.ts'
import type { AccessTokens } from '../../../src/network/world.ts'
import type { ServiceAccount } from '../../../src/resources/providers/provider.ts'
import { TestClock } from '../../support/gateway.ts'
import {
  body,
  head,
  type Script,
  startUpstream,
  status,
  type Upstream,
} from '../../support/upstream.ts'

let pair: { publicKey: string; privateKey: string }
let upstream: Upstream
let clock: TestClock
let tokens: AccessTokens
let account: ServiceAccount

beforeAll(() => {
  pair = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  })
})

beforeEach(async () => {
  upstream = await startUpstream()
  clock = new TestClock()
  tokens = openAccessTokens(openEgress(createDefaultConfig), clock)
  account = accountOf()
})

afterEach(() => upstream.close())

const accountOf = (more: Partial<ServiceAccount> = {}): ServiceAccount => ({
  client_email: 'gateway@acme.iam.gserviceaccount.com',
  private_key: new Secret(pair.privateKey),
  private_key_id: 'key-1',
  token_uri: `${upstream.url}/token`,
  project_id: 'acme',
  ...more,
})

const sold = (access_token: unknown, expires_in: unknown = 3600): Script =>
  body('application/json', JSON.stringify({ access_token, expires_in, token_type: 'Bearer' }))

const current = async (of = account) => (await tokens.getToken(of)).reveal()

const decoded = (part: string | undefined): unknown =>
  JSON.parse(Buffer.from(part ?? '', 'base64url').toString())

async function failureOf(promise: Promise<unknown>): Promise<GatewayError> {
  const failure = await promise.then(
    () => expect.unreachable('It was not rejected'),
    reason => reason,
  )
  expect(failure).toBeInstanceOf(GatewayError)
  return failure as GatewayError
}

describe('an access token', () => {
  test('is requested with an assertion signed by the account’s key (RFC 7523)', async () => {
    upstream.plan(sold('token-1'))
    expect(await current()).toBe('token-1')
    const hit = await upstream.hit()
    expect(hit).toMatchObject({ method: 'POST', path: '/v1/token' })
    expect(hit.headers['content-type']).toBe('application/x-www-form-urlencoded')
    const form = new URLSearchParams(hit.body)
    expect(form.get('grant_type')).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer')
    const [head, claims, signature = ''] = (form.get('assertion') ?? '').split('.')
    const iat = Date.parse('2026-03-04T05:06:07Z') / 1000
    expect(decoded(head)).toEqual({ alg: 'RS256', typ: 'JWT', kid: 'key-1' })
    expect(decoded(claims)).toEqual({
      iss: account.client_email,
      scope: 'https://www.googleapis.com/auth/cloud-platform',
      aud: account.token_uri,
      iat,
      exp: iat + 3600,
    })
    expect(
      createVerify('sha256')
        .update(`${head}.${claims}`)
        .verify(pair.publicKey, signature, 'base64url'),
    ).toBe(true)
  })

  test('is used until a minute before its expiry, and then replaced', async () => {
    upstream.plan(sold('token-1', 600), sold('token-2', 600))
    expect(await current()).toBe('token-1')
    clock.pass(539_999)
    expect(await current()).toBe('token-1')
    clock.pass(1)
    expect(await current()).toBe('token-2')
    expect(upstream.hits).toHaveLength(2)
  })

  test('is fetched once for all concurrent calls, also after an expiry', async () => {
    upstream.plan([{ wait: 'first' }, sold('token-1')], [{ wait: 'second' }, sold('token-2')])
    const all = () => Promise.all(Array.from({ length: 50 }, () => current()))
    const first = all()
    upstream.open('first')
    expect(new Set(await first)).toEqual(new Set(['token-1']))
    clock.pass(3_600_000)
    const second = all()
    upstream.open('second')
    expect(new Set(await second)).toEqual(new Set(['token-2']))
    expect(upstream.hits).toHaveLength(2)
  })

  test('is not shared between accounts', async () => {
    upstream.plan(sold('token-1'), sold('token-2'))
    expect(await current()).toBe('token-1')
    expect(await current(accountOf({ client_email: 'other@acme.iam.gserviceaccount.com' }))).toBe(
      'token-2',
    )
    expect(await current()).toBe('token-1')
  })

  test.each([[0], [-5], [30], ['soon'], [null]])(
    'that is valid for %p seconds serves the waiting calls, and none later',
    async expires_in => {
      upstream.plan(sold('token-1', expires_in), sold('token-2'))
      expect(await Promise.all([current(), current()])).toEqual(['token-1', 'token-1'])
      expect(await current()).toBe('token-2')
    },
  )

  test('that claims to be valid for a year is used for a day', async () => {
    upstream.plan(sold('token-1', 31_536_000), sold('token-2'))
    await current()
    clock.pass(86_400_000)
    expect(await current()).toBe('token-2')
  })
})

describe('a token that is not granted', () => {
  const BAD: [name: string, script: () => Script][] = [
    [
      'a refusal',
      () => status(400, '{"error":"invalid_grant","error_description":"leaked-words"}'),
    ],
    ['a failure', () => status(503, 'leaked-words')],
    ['no JSON', () => body('application/json', 'leaked-words')],
    ['JSON without an object', () => body('application/json', 'null')],
    ['an answer without a token', () => body('application/json', '{"id_token":"leaked-words"}')],
    ['a token that is no string', () => sold(5)],
    ['an empty token', () => sold('')],
    ['a token that would begin another header', () => sold('leaked-words\r\nx-evil: 1')],
    ['an answer that is too large', () => sold('x'.repeat(70_000))],
    [
      'an answer cut short',
      () => [head(200, { 'content-length': '50' }), '{"access', { end: 'fin' }],
    ],
  ]
  test.each(BAD)(
    '%s is provider_unavailable, leaks nothing, and the next call retries',
    async (_, script) => {
      upstream.plan(script(), sold('token-2'))
      const failures = await Promise.all([failureOf(current()), failureOf(current())])
      for (const failure of failures) {
        expect(failure).toMatchObject({
          type: 'provider_unavailable',
          message: 'Provider returned error',
          metadata: {},
        })
        expect(Bun.inspect(failure)).not.toContain('leaked-words')
        expect(Bun.inspect(failure)).not.toContain('PRIVATE KEY')
      }
      expect(await current()).toBe('token-2')
      expect(upstream.hits).toHaveLength(2)
    },
  )
})
