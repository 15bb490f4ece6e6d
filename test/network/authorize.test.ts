import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import type { Gateway } from '../../src/app/gateway.ts'
import { Cancellation } from '../../src/base/cancellation.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { Secret } from '../../src/base/secret.ts'
import { authorize } from '../../src/network/authorize.ts'
import type { OutgoingRequest } from '../../src/network/egress.ts'
import type { Provider } from '../../src/resources/providers/provider.ts'
import type { UpstreamRequest } from '../../src/translation/protocols/protocol.ts'
import { buildProvider } from '../support/call.ts'
import { testGateway } from '../support/gateway.ts'
import { json, silence, startUpstream, type Upstream } from '../support/upstream.ts'

let gateway: Gateway
let upstream: Upstream

beforeEach(async () => {
  gateway = await testGateway()
  upstream = await startUpstream()
})

afterEach(async () => {
  await gateway.close()
  await upstream.close()
})

const REQUEST: UpstreamRequest = { path: '/chat/completions', body: { model: 'up-small' } }

const authorized = (
  more: Partial<Provider>,
  request = REQUEST,
  cancellation = new Cancellation(),
) => authorize(gateway, buildProvider(more), request, cancellation)

/** Returns the request, and fails for a promise. */
function atOnce(more: Partial<Provider>, request?: UpstreamRequest): OutgoingRequest {
  const outgoing = authorized(more, request)
  if (outgoing instanceof Promise) throw new Error('It has to be awaited')
  return outgoing
}

const PLAIN = { 'content-type': 'application/json', 'user-agent': 'gateway' }

describe('authorize', () => {
  test('sends a bearer token synchronously', () => {
    expect(atOnce({})).toEqual({
      url: 'http://127.0.0.1:4010/v1/chat/completions',
      headers: { ...PLAIN, authorization: 'Bearer mock' },
      body: '{"model":"up-small"}',
    })
  })

  test.each(['x-api-key', 'api-key', 'x-goog-api-key'] as const)(
    'sends the key only as %s',
    auth => {
      expect(atOnce({ auth }).headers).toEqual({ ...PLAIN, [auth]: 'mock' })
    },
  )

  test('sends no credential if there is none or none is wanted', () => {
    expect(atOnce({ auth: 'none' }).headers).toEqual(PLAIN)
    expect(atOnce({ api_key: null }).headers).toEqual(PLAIN)
  })

  test('the operator’s headers override the protocol’s, and the credential overrides both', () => {
    const request = { ...REQUEST, headers: { 'x-version': '1', accept: 'a' } }
    expect(
      atOnce({ headers: { 'x-version': '2', authorization: 'mine' } }, request).headers,
    ).toEqual({
      ...PLAIN,
      accept: 'a',
      'x-version': '2',
      authorization: 'Bearer mock',
    })
  })

  test('signs requests to AWS, with all our headers and the exact body', () => {
    const aws = {
      access_key_id: 'AKID',
      secret_access_key: new Secret('s'),
      session_token: new Secret('t'),
      region: 'eu-west-1',
    }
    const provider: Partial<Provider> = {
      auth: 'sigv4',
      api_key: null,
      aws,
      headers: { 'x-mine': 'y' },
    }
    const { headers, body } = atOnce(provider)
    expect(body).toBe('{"model":"up-small"}')
    expect(headers).toEqual({
      ...PLAIN,
      'x-mine': 'y',
      'x-amz-date': '20260304T050607Z',
      'x-amz-security-token': 't',
      authorization: expect.stringMatching(
        new RegExp(
          '^AWS4-HMAC-SHA256 Credential=AKID/20260304/eu-west-1/bedrock/aws4_request, ' +
            'SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-mine, ' +
            'Signature=[0-9a-f]{64}$',
        ),
      ),
    })
    const other = atOnce(provider, { ...REQUEST, body: { model: 'other' } })
    expect(other.headers.authorization).not.toBe(headers.authorization)
  })
})

describe('authorize with a service account', () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const account = () => ({
    client_email: 'gateway@acme.iam.gserviceaccount.com',
    private_key: new Secret(privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()),
    private_key_id: null,
    token_uri: `${upstream.url}/token`,
    project_id: null,
  })
  const google = (): Partial<Provider> => ({
    auth: 'google-service-account',
    api_key: null,
    service_account: account(),
  })

  test('sends the token that it fetched', async () => {
    upstream.plan(json({ access_token: 'token-1', expires_in: 3600 }))
    expect((await authorized(google())).headers).toEqual({
      ...PLAIN,
      authorization: 'Bearer token-1',
    })
  })

  test('a call cancelled while it waits ends at once, and others still get the token', async () => {
    upstream.plan([{ wait: 'sold' }, json({ access_token: 'token-1', expires_in: 3600 })])
    const provider = google()
    const leaving = new Cancellation()
    const staying = new Cancellation()
    const left = Promise.resolve(authorized(provider, REQUEST, leaving)).catch(reason => reason)
    const stayed = authorized(provider, REQUEST, staying)
    const reason = new GatewayError('timeout', 'The caller has left')
    leaving.cancel(reason)
    expect(await left).toBe(reason)
    upstream.open('sold')
    expect((await stayed).headers.authorization).toBe('Bearer token-1')
    expect(upstream.hits).toHaveLength(1)
  })

  test('a call that is cancelled already does not wait', async () => {
    upstream.plan(silence())
    const cancellation = new Cancellation()
    const reason = new GatewayError('timeout', 'The caller has left')
    cancellation.cancel(reason)
    expect(
      await Promise.resolve(authorized(google(), REQUEST, cancellation)).catch(thrown => thrown),
    ).toBe(reason)
  })
})

describe('a provider that serves a part of its API at another host', () => {
  const hosts = { 'fal.run': 'queue.fal.run' }
  const urlOf = async (base_url: string) =>
    (await authorized({ base_url }, { path: '/a/requests/1', method: 'GET', hosts, body: {} })).url

  test('is asked there', async () => {
    expect(await urlOf('https://fal.run')).toBe('https://queue.fal.run/a/requests/1')
  })

  test.each(['https://proxy.example/fal.run', 'http://127.0.0.1:9', 'https://queue.fal.run'])(
    'is asked at %s where the config says so',
    async base_url => expect(await urlOf(base_url)).toBe(`${base_url}/a/requests/1`),
  )
})
