import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import { Secret } from '../../src/base/secret.ts'
import { signV4 } from '../../src/network/authorize/sigv4.ts'
import {
  buildRoutesConfig,
  fetchGeneration,
  readGenerationId,
  readText,
  sendChat,
} from '../support/chat.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  completion,
  type Hit,
  json,
  startUpstream,
  status,
  stream,
  type Upstream,
} from '../support/upstream.ts'

const AWS = {
  access_key_id: 'AKID',
  secret_access_key: 'aws-secret',
  session_token: 'lent',
  region: 'eu-west-1',
}

let server: LocalServer
let upstream: Upstream
let seller: Upstream

beforeAll(async () => {
  ;[upstream, seller] = await Promise.all([startUpstream(), startUpstream()])
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const service_account = {
    client_email: 'gateway@acme.iam.gserviceaccount.com',
    private_key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    token_uri: `${seller.url}/token`,
  }
  const speaking = { protocol: 'openai-chat', base_url: upstream.url }
  const providers = {
    keyed: { ...speaking, api_key: 'k', auth: 'x-api-key' },
    signed: { ...speaking, aws: AWS },
    sold: { ...speaking, service_account },
    plain: { ...speaking, api_key: 'mock' },
  }
  const routes = {
    'acme/keyed': { keyed: '' },
    'acme/signed': { signed: '' },
    'acme/sold': { sold: '' },
    'acme/either': { sold: '', plain: '' },
  }
  server = await startLocalServer({ ...buildRoutesConfig(routes), providers })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([upstream.close(), seller.close()])
})

beforeEach(() => {
  upstream.hits.length = 0
  seller.hits.length = 0
  upstream.answer(({ json: asked }) =>
    (asked as { stream?: boolean }).stream ? stream(['Hel', 'lo']) : completion('Hello'),
  )
})

const ask = (model: string, streamed = false) =>
  sendChat(server, { model, stream: streamed }).outcome()

/** The headers of a request, without those that every request has. */
function credentialsIn({ headers }: Hit): Record<string, string> {
  const { host, 'content-type': _, 'user-agent': __, 'content-length': ___, ...others } = headers
  const { 'cdn-loop': ____, ...rest } = others
  return rest
}

describe('a provider', () => {
  test('with a key header of its own gets the key there, and nowhere else', async () => {
    expect(readText(await ask('acme/keyed'))).toBe('Hello')
    expect(credentialsIn(await upstream.hit())).toEqual({ 'x-api-key': 'k' })
  })

  test.each([false, true])(
    'with signed requests gets a signature of what arrives (streamed: %p)',
    async streamed => {
      expect(readText(await ask('acme/signed', streamed))).toBe('Hello')
      const { headers, body, path } = await upstream.hit()
      const {
        authorization,
        'x-amz-date': date = '',
        'x-amz-security-token': token,
        host,
        // A proxy on the way adds to it, so it is not signed.
        'cdn-loop': _,
        'content-length': __,
        ...signable
      } = headers
      const now = new Date(date.replace(/^(....)(..)(..T..)(..)(..Z)$/, '$1-$2-$3:$4:$5'))
      const credentials = {
        access_key_id: 'AKID',
        secret_access_key: new Secret('aws-secret'),
        session_token: new Secret('lent'),
      }
      const request = { method: 'POST', url: `http://${host}${path}`, headers: signable, body }
      expect(Math.abs(now.getTime() - Date.now())).toBeLessThan(60_000)
      expect(signV4(request, credentials, 'eu-west-1', 'bedrock', now)).toEqual({
        'x-amz-date': date,
        'x-amz-security-token': token ?? '',
        authorization: authorization ?? '',
      })
    },
  )
})

describe('a provider whose tokens are fetched', () => {
  test('is skipped when no token is issued, without revealing why', async () => {
    seller.plan(status(400, { error: 'invalid_grant', error_description: 'leaked-words' }))
    const outcome = await ask('acme/either')
    expect(readText(outcome)).toBe('Hello')
    expect(upstream.hits).toHaveLength(1)
    const { provider_responses } = await fetchGeneration(server, readGenerationId(outcome))
    expect(provider_responses.map(one => [one.provider_name, one.status])).toEqual([
      ['sold', null],
      ['plain', 200],
    ])
    const alone = await ask('acme/sold')
    expect([alone.status, alone.body.includes('leaked-words')]).toEqual([502, false])
  })

  test('gets a token, which is fetched once for concurrent calls', async () => {
    seller.plan([{ wait: 'sold' }, json({ access_token: 'token-1', expires_in: 3600 })])
    const calls = Array.from({ length: 10 }, (_, i) => ask('acme/sold', i % 2 === 0))
    await seller.reached('sold')
    seller.open('sold')
    for (const outcome of await Promise.all(calls)) expect(readText(outcome)).toBe('Hello')
    expect(seller.hits).toHaveLength(1)
    expect(new Set(upstream.hits.map(hit => hit.headers.authorization))).toEqual(
      new Set(['Bearer token-1']),
    )
  })
})
