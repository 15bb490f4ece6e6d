import { describe, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import { GatewayError } from '../../src/base/errors.ts'
import { type ProviderConfig, parseConfig } from '../../src/config.ts'
import { openCatalog } from '../../src/resources/models.ts'
import type { Provider } from '../../src/resources/providers/provider.ts'
import { openProviders, type ProviderIssue } from '../../src/resources/providers.ts'

/** The protocols of the built-in rows, whether this version supports them or not. */
const PROTOCOLS = [
  'openai-chat',
  'anthropic-messages',
  'anthropic-vertex',
  'gemini',
  'bedrock-converse',
  'cohere-chat',
  'sandbox',
]

const opened = (slug: string, given: ProviderConfig) =>
  openProviders(providersOf(slug, given), PROTOCOLS)

/** The provider's settings as read from a config file. */
const providersOf = (slug: string, given: ProviderConfig) =>
  parseConfig(JSON.stringify({ providers: { [slug]: given } }), {}).providers

function providerOf(slug: string, given: ProviderConfig): Provider {
  const { providers, issues } = opened(slug, given)
  expect(issues).toEqual([])
  return providers.get(slug) ?? expect.unreachable(`There is no ${slug}`)
}

const faultOf = (slug: string, given: ProviderConfig): ProviderIssue | undefined =>
  opened(slug, given).issues[0]

const AWS = { access_key_id: 'AKID', secret_access_key: 'aws-secret' }

const pem = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString()
const ACCOUNT = {
  type: 'service_account',
  project_id: 'acme-1',
  private_key_id: 'key-1',
  private_key: pem,
  client_email: 'gateway@acme-1.iam.gserviceaccount.com',
  client_id: '1',
}

const local = (protocol: string, more: ProviderConfig = {}): ProviderConfig => ({
  protocol,
  base_url: 'http://127.0.0.1:1',
  ...more,
})

/** Rows of a table with the names of the settings, so that no key is printed. */
const named = <Rest extends unknown[]>(rows: [slug: string, given: ProviderConfig, ...Rest][]) =>
  rows.map(
    ([slug, given, ...rest]) =>
      [slug, Object.keys(given).join(' and ') || 'nothing', given, ...rest] as const,
  )

describe('a credential', () => {
  test.each(
    named<[Provider['auth']]>([
      ['openai', { api_key: 'k' }, 'bearer'],
      ['azure', { api_key: 'k', base_url: 'https://acme.openai.azure.com/openai/v1' }, 'api-key'],
      ['anthropic', { api_key: 'k' }, 'x-api-key'],
      ['google', { api_key: 'k' }, 'x-goog-api-key'],
      ['cohere', { api_key: 'k' }, 'bearer'],
      ['vertex', { api_key: 'k', region: 'us-central1', project: 'acme' }, 'bearer'],
      ['vertex', { service_account: ACCOUNT, region: 'us-central1' }, 'google-service-account'],
      [
        'vertex',
        { service_account: ACCOUNT, api_key: 'k', region: 'us-central1' },
        'google-service-account',
      ],
      ['bedrock', { api_key: 'k', region: 'us-east-1' }, 'bearer'],
      ['bedrock', { aws: AWS, region: 'us-east-1' }, 'sigv4'],
      ['bedrock', { aws: AWS, api_key: 'k', region: 'us-east-1' }, 'bearer'],
      ['bedrock', { aws: AWS, api_key: 'k', region: 'us-east-1', auth: 'sigv4' }, 'sigv4'],
      ['ollama', {}, 'none'],
      ['ollama', { api_key: 'k' }, 'bearer'],
      ['local', local('anthropic-messages', { api_key: 'k' }), 'x-api-key'],
      ['local', local('anthropic-messages', { api_key: 'k', auth: 'bearer' }), 'bearer'],
      ['local', local('gemini', { api_key: 'k' }), 'x-goog-api-key'],
      ['local', local('openai-chat'), 'none'],
      ['openai', { auth: 'none' }, 'none'],
      ['sandbox', {}, 'none'],
    ]),
  )('is sent to %s as %s', (slug, _, given, auth) => {
    expect(providerOf(slug, given).auth).toBe(auth)
  })

  test('is kept only if it is sent', () => {
    expect(providerOf('bedrock', { aws: AWS, api_key: 'k', region: 'us-east-1' })).toMatchObject({
      aws: null,
      service_account: null,
    })
    expect(providerOf('openai', { api_key: 'k', auth: 'none' }).api_key).toBeNull()
  })
})

describe('credentials', () => {
  test('of AWS are for the region of the provider, or for their own', () => {
    const { aws } = providerOf('bedrock', {
      aws: { ...AWS, session_token: 'lent' },
      region: 'us-east-1',
    })
    expect(aws).toMatchObject({ access_key_id: 'AKID', region: 'us-east-1' })
    expect([aws?.secret_access_key.reveal(), aws?.session_token?.reveal()]).toEqual([
      'aws-secret',
      'lent',
    ])
    expect(providerOf('bedrock', { aws: { ...AWS, region: 'eu-west-1' } }).aws?.region).toBe(
      'eu-west-1',
    )
    expect(
      providerOf('bedrock', { aws: { ...AWS, region: 'eu-west-1' }, region: 'us-east-1' }).aws
        ?.region,
    ).toBe('eu-west-1')
  })

  test.each(['as it is', 'as text'])('of a service account may be its JSON %s', how => {
    const given = how === 'as text' ? JSON.stringify(ACCOUNT) : ACCOUNT
    const { service_account: account } = providerOf('vertex', {
      service_account: given,
      region: 'global',
    })
    expect(account).toMatchObject({
      client_email: 'gateway@acme-1.iam.gserviceaccount.com',
      private_key_id: 'key-1',
      token_uri: 'https://oauth2.googleapis.com/token',
      project_id: 'acme-1',
    })
    expect(account?.private_key.reveal()).toBe(pem)
  })

  test('X-34 never appear when they are printed', () => {
    const secrets = ['aws-secret', 'lent', 'PRIVATE KEY']
    const providers = [
      providerOf('bedrock', { aws: { ...AWS, session_token: 'lent' }, region: 'us-east-1' }),
      providerOf('vertex', { service_account: ACCOUNT, region: 'global' }),
    ]
    for (const secret of secrets)
      expect(`${JSON.stringify(providers)} ${Bun.inspect(providers)}`).not.toContain(secret)
  })

  test.each(
    named<[string, string]>([
      ['openai', {}, 'api_key', 'the credential'],
      ['openai', { auth: 'bearer' }, 'api_key', 'the credential'],
      ['local', local('openai-chat', { auth: 'x-api-key' }), 'api_key', 'the credential'],
      ['bedrock', { region: 'us-east-1' }, 'api_key', 'the credential, or aws'],
      ['bedrock', { api_key: 'k', auth: 'sigv4' }, 'aws', 'access_key_id and secret_access_key'],
      [
        'local',
        local('bedrock-converse', { aws: AWS }),
        'region',
        'the region that requests are signed for',
      ],
      ['vertex', { region: 'global' }, 'api_key', 'the credential, or service_account'],
      [
        'vertex',
        { auth: 'google-service-account' },
        'service_account',
        'the JSON of a Google service account',
      ],
      [
        'vertex',
        { service_account: 'gateway.json' },
        'service_account',
        'the JSON of a Google service account',
      ],
      [
        'vertex',
        { service_account: '5' },
        'service_account',
        'the JSON of a Google service account',
      ],
      [
        'vertex',
        { service_account: { ...ACCOUNT, client_email: 5 } },
        'service_account.client_email',
        'the name of the account',
      ],
      [
        'vertex',
        { service_account: { ...ACCOUNT, private_key: 'none' } },
        'service_account.private_key',
        'an RSA key in PEM',
      ],
      [
        'vertex',
        { service_account: { ...ACCOUNT, token_uri: 'file:///x' } },
        'service_account.token_uri',
        'the address that sells tokens',
      ],
    ]),
  )('that are missing for %s with %s are named', (slug, _, given, field, expected) => {
    expect(faultOf(slug, given)).toEqual({ slug, field, expected })
  })
})

describe('several credentials', () => {
  const several = (...credentials: NonNullable<ProviderConfig['credentials']>): ProviderConfig =>
    local('openai-chat', { credentials })

  test('are opened as one provider each, with numbers for those without a name', () => {
    const { pool, api_key } = providerOf(
      'acme',
      several(
        { api_key: 'one' },
        { name: 'eu', api_key: 'two', base_url: 'http://127.0.0.1:2/', weight: 3 },
      ),
    )
    expect(api_key?.reveal()).toBe('one')
    expect(
      pool?.credentials.map(({ name, weight, hasOwnAddress, provider }) => [
        ...[name, weight, hasOwnAddress, provider.base_url, provider.api_key?.reveal()],
      ]),
    ).toEqual([
      ['1', 1, false, 'http://127.0.0.1:1', 'one'],
      ['eu', 3, true, 'http://127.0.0.1:2', 'two'],
    ])
    expect(Bun.inspect(pool, { depth: 9 })).not.toContain('two')
  })

  test.each<[string, ProviderConfig, string, string]>([
    ['beside one', { ...several({ api_key: 'a' }), api_key: 'b' }, 'credentials', 'no other'],
    ['twice', several({ api_key: 'a' }, { api_key: 'a', weight: 2 }), 'credentials.1', 'another'],
    [
      'with one name',
      several({ name: 'x', api_key: 'a' }, { name: 'x', api_key: 'b' }),
      'credentials.1.name',
      'a name that no other has',
    ],
    [
      'without a weight',
      several({ api_key: 'a', weight: 0 }, { api_key: 'b', weight: 0 }),
      'credentials',
      'a weight above 0',
    ],
    [
      'at a wrong address',
      several({ api_key: 'a', base_url: 'http://x/v1/messages' }),
      'credentials.0.base_url',
      'without /v1/messages',
    ],
  ])('%s are reported', (_, given, field, expected) => {
    const issue = faultOf('acme', given)
    expect([issue?.slug, issue?.field]).toEqual(['acme', field])
    expect(issue?.expected).toContain(expected)
  })

  test.each<[string, unknown]>([
    ['none', []],
    ['a weight below 0', [{ api_key: 'a', weight: -1 }]],
    ['a part of a weight', [{ api_key: 'a', weight: 0.5 }]],
    ['a weight of 2^53', [{ api_key: 'a', weight: 2 ** 53 }]],
    ['an unknown field', [{ api_key: 'a', wieght: 1 }]],
    ['a variable without a value', [{ api_key: '$' + '{MISSING_KEY}' }]],
  ])('are refused by the schema: %s', (_, credentials) => {
    const text = JSON.stringify({ providers: { acme: { ...local('openai-chat'), credentials } } })
    expect(() => parseConfig(text, {})).toThrow(/providers\.acme\.credentials/)
  })
})

describe('an address with blanks', () => {
  const REGIONAL =
    'https://us-central1-aiplatform.googleapis.com/v1/projects/acme-1/locations/us-central1/publishers/google'

  test.each(
    named<[string]>([
      [
        'bedrock',
        { api_key: 'k', region: 'eu-west-1' },
        'https://bedrock-runtime.eu-west-1.amazonaws.com',
      ],
      [
        'bedrock',
        { aws: { ...AWS, region: 'eu-west-1' } },
        'https://bedrock-runtime.eu-west-1.amazonaws.com',
      ],
      ['bedrock', { api_key: 'k', base_url: 'https://mine.example/' }, 'https://mine.example'],
      ['vertex', { service_account: ACCOUNT, region: 'us-central1' }, REGIONAL],
      ['vertex', { api_key: 'k', region: 'us-central1', project: 'acme-1' }, REGIONAL],
      [
        'vertex-anthropic',
        { service_account: ACCOUNT, region: 'us-central1' },
        REGIONAL.replace(/google$/, 'anthropic'),
      ],
      [
        'vertex',
        { service_account: ACCOUNT, region: 'global', project: 'example.com:other' },
        'https://aiplatform.googleapis.com/v1/projects/example.com%3Aother/locations/global/publishers/google',
      ],
    ]),
  )('is filled for %s with %s', (slug, _, given, address) => {
    expect(providerOf(slug, given).base_url).toBe(address)
  })

  test.each(
    named<[string]>([
      ['bedrock', { api_key: 'k' }, 'region'],
      ['vertex', { service_account: ACCOUNT }, 'region'],
      ['vertex', { api_key: 'k', region: 'us-central1' }, 'project'],
      ['vertex', { api_key: 'k', region: 'global' }, 'project'],
    ]),
  )('names what is missing for %s with %s', (slug, _, given, field) => {
    expect(faultOf(slug, given)).toMatchObject({
      slug,
      field,
      expected: expect.stringMatching(new RegExp(`^the ${field} in https://`)),
    })
  })

  test.each(['us/east', 'evil.example#', 'a@b', 'US', ' '])(
    'X-21 takes no region like %j, which would make it another address',
    region => {
      expect(() => providersOf('bedrock', { api_key: 'k', region })).toThrow(
        'providers.bedrock.region: expected string in the form slug, found a string',
      )
    },
  )

  test('without a value is an error of the config that names the setting', () => {
    const config = parseConfig('providers: { bedrock: { api_key: k } }', {})
    expect(() => openCatalog(config, PROTOCOLS, new Date())).toThrow(
      new GatewayError(
        'invalid_request',
        'providers.bedrock.region: expected the region in https://bedrock-runtime.{region}.amazonaws.com',
      ),
    )
  })
})

test('the operator’s headers are kept by lower-case name', () => {
  expect(providerOf('openai', { api_key: 'k', headers: { 'X-Mine': 'y' } }).headers).toEqual({
    'x-mine': 'y',
  })
})
