import { describe, expect, test } from 'bun:test'
import { Secret } from '../../../src/base/secret.ts'
import { type SignableRequest, signV4 } from '../../../src/network/authorize/sigv4.ts'

const NOW = new Date('2015-08-30T12:36:00.789Z')
const HOST = 'https://example.amazonaws.com'
const CREDENTIALS = {
  access_key_id: 'AKIDEXAMPLE',
  secret_access_key: new Secret('wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'),
  session_token: null,
}
const TOKEN =
  'AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=='

const sign = (
  request: Partial<SignableRequest>,
  credentials: Parameters<typeof signV4>[1] = CREDENTIALS,
  service = 'service',
) =>
  signV4(
    { method: 'GET', url: `${HOST}/`, headers: {}, body: '', ...request },
    credentials,
    'us-east-1',
    service,
    NOW,
  )

const signatureOf = (headers: Record<string, string>) =>
  headers.authorization?.split('Signature=')[1]
const signedHeadersOf = (headers: Record<string, string>) =>
  /SignedHeaders=([^,]+)/.exec(headers.authorization ?? '')?.[1]

const FORM = 'application/x-www-form-urlencoded'

/** The vendor's published test suite, as far as its requests can be sent unchanged over HTTP. */
const SUITE: [name: string, request: Partial<SignableRequest>, signature: string][] = [
  ['get-vanilla', {}, '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31'],
  [
    'get-vanilla-empty-query-key',
    { url: `${HOST}/?Param1=value1` },
    'a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb',
  ],
  [
    'get-vanilla-query-order-key-case',
    { url: `${HOST}/?Param2=value2&Param1=value1` },
    'b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500',
  ],
  [
    'get-vanilla-query-unreserved',
    {
      url: `${HOST}/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz`,
    },
    '9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197',
  ],
  [
    'get-vanilla-utf8-query',
    { url: `${HOST}/?ሴ=bar` },
    '2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04',
  ],
  [
    'get-unreserved',
    { url: `${HOST}/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz` },
    '07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f',
  ],
  [
    'get-relative',
    { url: `${HOST}/example/..` },
    '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
  ],
  [
    'get-slashes',
    { url: `${HOST}//example//` },
    '9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84',
  ],
  [
    'get-header-key-duplicate',
    { headers: { 'My-Header1': 'value2,value2,value1' } },
    'c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea',
  ],
  [
    'get-header-value-trim',
    { headers: { 'My-Header1': ' value1', 'My-Header2': ' "a   b   c"' } },
    'acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736',
  ],
  [
    'post-vanilla',
    { method: 'POST' },
    '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
  ],
  [
    'post-vanilla-query',
    { method: 'POST', url: `${HOST}/?Param1=value1` },
    '28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11',
  ],
  [
    'post-header-key-sort',
    { method: 'POST', headers: { 'My-Header1': 'value1' } },
    'c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c',
  ],
  [
    'post-header-value-case',
    { method: 'POST', headers: { 'My-Header1': 'VALUE1' } },
    'cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d',
  ],
  [
    'post-x-www-form-urlencoded',
    { method: 'POST', headers: { 'Content-Type': FORM }, body: 'Param1=value1' },
    'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
  ],
  [
    'post-x-www-form-urlencoded-parameters',
    { method: 'POST', headers: { 'Content-Type': `${FORM}; charset=utf8` }, body: 'Param1=value1' },
    '1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe',
  ],
]

describe('signV4', () => {
  test.each(SUITE)('%s of the vendor’s test suite', (_, request, signature) => {
    expect(signatureOf(sign(request))).toBe(signature)
  })

  test('post-sts-header-before of the vendor’s suite: a session token is signed and sent', () => {
    const headers = sign({ method: 'POST' }, { ...CREDENTIALS, session_token: new Secret(TOKEN) })
    expect(headers['x-amz-security-token']).toBe(TOKEN)
    expect(signatureOf(headers)).toBe(
      '85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead',
    )
  })

  test('names the time, the scope and the signed headers', () => {
    expect(sign({ headers: { 'content-type': 'application/json' } })).toEqual({
      'x-amz-date': '20150830T123600Z',
      authorization: expect.stringMatching(
        new RegExp(
          '^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, ' +
            'SignedHeaders=content-type;host;x-amz-date, Signature=[0-9a-f]{64}$',
        ),
      ),
    })
  })

  test('headers that an intermediary may change are not signed', () => {
    const headers = sign({
      headers: {
        'user-agent': 'gateway',
        connection: 'close',
        authorization: 'Bearer x',
        'x-mine': 'y',
      },
    })
    expect(signedHeadersOf(headers)).toBe('host;x-amz-date;x-mine')
  })

  test('a non-default port is part of the host', () => {
    expect(signatureOf(sign({ url: 'https://example.amazonaws.com:443/' }))).toBe(
      signatureOf(sign({})),
    )
    expect(signatureOf(sign({ url: 'https://example.amazonaws.com:444/' }))).not.toBe(
      signatureOf(sign({})),
    )
  })
})

// Bedrock's own client signs such a path with each segment encoded once more than on the wire.
describe('the path of a model id with reserved characters', () => {
  const ARN =
    'arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0'

  /** Computes the signature of the same request by hand. */
  function byHand(path: string): string {
    const sha256 = (text: string) => new Bun.CryptoHasher('sha256').update(text).digest('hex')
    const hmac = (key: string | Buffer, text: string) =>
      new Bun.CryptoHasher('sha256', key).update(text).digest()
    const request = `POST\n${path}\n\nhost:example.amazonaws.com\nx-amz-date:20150830T123600Z\n\nhost;x-amz-date\n${sha256('{}')}`
    const key = hmac(
      hmac(
        hmac(hmac('AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY', '20150830'), 'us-east-1'),
        'bedrock',
      ),
      'aws4_request',
    )
    const text = `AWS4-HMAC-SHA256\n20150830T123600Z\n20150830/us-east-1/bedrock/aws4_request\n${sha256(request)}`
    return hmac(key, text).toString('hex')
  }

  test.each([
    [
      `/model/${encodeURIComponent('anthropic.claude-v1:0')}/converse`,
      '/model/anthropic.claude-v1%253A0/converse',
    ],
    [
      `/model/${encodeURIComponent(ARN)}/converse-stream`,
      '/model/arn%253Aaws%253Abedrock%253Aus-east-1%253A123456789012%253Ainference-profile%252Fus.anthropic.claude-sonnet-4-20250514-v1%253A0/converse-stream',
    ],
    ["/model/it's(*)!:0", '/model/it%27s%28%2A%29%21%3A0'],
  ])('%s is signed as %s', (wire, canonical) => {
    expect(
      signatureOf(sign({ method: 'POST', url: HOST + wire, body: '{}' }, CREDENTIALS, 'bedrock')),
    ).toBe(byHand(canonical))
  })
})

describe('the signature of a request to S3', () => {
  // The example of Amazon's "Signature Calculations for the Authorization Header", GET Object aside:
  // PUT of `test$file.text` into `examplebucket`.
  test('is that of Amazon’s own example of a PUT', () => {
    const headers = signV4(
      {
        method: 'PUT',
        url: 'https://examplebucket.s3.amazonaws.com/test%24file.text',
        headers: {
          date: 'Fri, 24 May 2013 00:00:00 GMT',
          'x-amz-storage-class': 'REDUCED_REDUNDANCY',
        },
        body: 'Welcome to Amazon S3.',
      },
      {
        access_key_id: 'AKIAIOSFODNN7EXAMPLE',
        secret_access_key: new Secret('wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'),
        session_token: null,
      },
      'us-east-1',
      's3',
      new Date('2013-05-24T00:00:00Z'),
    )
    expect(headers['x-amz-content-sha256']).toBe(
      '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
    )
    expect(signatureOf(headers)).toBe(
      '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
    )
  })
})
