import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../src/base/errors.ts'
import { type Config, createDefaultConfig, parseConfig } from '../src/config.ts'
import { openCatalog } from '../src/resources/models.ts'
import { protocolNames } from '../src/translation/protocols/registry.ts'

const parse = (text: string, env: Record<string, string> = {}): Config => parseConfig(text, env)

/** The settings of a complete start: the file, and the catalogue that it defines. */
const open = (text: string) => openCatalog(parse(text), protocolNames, new Date())

function errorOf(act: () => unknown): GatewayError {
  try {
    act()
  } catch (thrown) {
    if (thrown instanceof GatewayError) return thrown
    throw thrown
  }
  throw new Error('expected an error')
}

const refusal = (text: string, env: Record<string, string> = {}) => errorOf(() => parse(text, env))

const EXAMPLE = `
service_name: gateway
server:
  host: 127.0.0.1
  port: 8080
  site_url: "http://127.0.0.1:8080"
  trusted_proxies: [127.0.0.1]
regions: { europe: [eu.example.com], us: [us.example.com] }   # Host header -> ingress region; anything else is global
default_model: sandbox/echo
providers:
  openai: { api_key: "\${OPENAI_API_KEY}" }      # known by name: the credential is enough; any field may be overridden
  local:                                         # any other: how it speaks and where it is
    protocol: openai-chat
    base_url: http://127.0.0.1:4010/v1
    api_key: mock
models:                                          # added to, or laid over, the built-in catalogue
  - id: acme/small
    name: Acme Small
    context_length: 128000
    endpoints:
      - provider: local
        model: gpt-4o-mini                       # the provider's own name for it
        usd_per_million_tokens: { prompt: 0.15, completion: 0.60, cache_read: 0.075, cache_write: 0.1875 }
        max_completion_tokens: 16384
        supported_parameters: [tools, temperature]   # omitted: all
        data_policy: { training: false, retention_days: 0 }
        region: us
`

describe('a config file', () => {
  test('with the documented example is read as documented', () => {
    const config = parse(EXAMPLE, { OPENAI_API_KEY: 'sk-1' })
    expect(config.providers.openai).toEqual({ api_key: 'sk-1' })
    expect(config.regions).toEqual({ europe: ['eu.example.com'], us: ['us.example.com'] })
    const model = openCatalog(config, protocolNames, new Date()).models.get('acme/small')
    expect(model?.endpoints[0]).toMatchObject({
      upstreamModel: 'gpt-4o-mini',
      max_completion_tokens: 16_384,
      region: 'us',
    })
    expect(model?.endpoints[0]?.provider.base_url).toBe('http://127.0.0.1:4010/v1')
  })

  test.each([[''], ['# nothing\n'], ['{}'], ['server:\nproviders:\nmodels:\n']])(
    'without settings (%j) has the defaults',
    text => {
      expect(parse(text)).toEqual(createDefaultConfig())
    },
  )

  test('with the defaults opens a catalogue with the sandbox', () => {
    expect(createDefaultConfig()).toMatchObject({
      service_name: 'gateway',
      server: { host: '127.0.0.1', port: 8080 },
      default_model: 'sandbox/echo',
    })
    expect(open('').models.has('sandbox/echo')).toBe(true)
  })

  test('keeps the defaults of omitted settings within a section', () => {
    expect(parse('server: { port: 9 }').server).toEqual({
      host: '127.0.0.1',
      port: 9,
      idle_seconds: 120,
      cors: [],
      console: true,
      list_all_models: false,
      trusted_proxies: [],
    })
    expect(parse('timeouts: { idle_seconds: 1 }').timeouts).toMatchObject({
      idle_seconds: 1,
      total_seconds: 1800,
    })
  })

  test('refuses keep-alives that come later than a reader is cut', () => {
    expect(() => parse('timeouts: { keep_alive_seconds: 60 }')).toThrow(
      'timeouts.keep_alive_seconds: expected less than timeouts.reader_seconds (60), found 60',
    )
    expect(() => parse('timeouts: { reader_seconds: 0.5 }')).toThrow('timeouts.reader_seconds')
    expect(() => parse('server: { idle_seconds: 241 }')).toThrow('server.idle_seconds')
  })

  test('with regions and no trusted proxy is refused: they would have no effect', () => {
    const { message, metadata } = refusal('regions: { europe: [eu.example.com] }')
    expect([metadata.field, message]).toEqual([
      'regions',
      'regions: expected server.trusted_proxies to name the proxies that set Host, found none',
    ])
    expect(parse('regions: { europe: [] }').regions).toEqual({ europe: [] })
  })

  test.each(['10.0.0.0/33', 'localhost', '10.0.0.1/', '*'])(
    'with the proxy %s is refused by its place',
    proxy => {
      const { message } = refusal(JSON.stringify({ server: { trusted_proxies: [proxy] } }))
      expect(message).toBe(
        'server.trusted_proxies.0: expected string in the form address-range, found a string',
      )
    },
  )

  test.each([
    'https://console.example',
    'console.example/console',
    'Console.example',
    'a console.example',
    '*.example',
    'user@console.example',
    'console.example:65536',
    'console.example:',
    '[::1',
    '',
  ])('with the console at "%s" is refused', console_host => {
    const { message } = refusal(JSON.stringify({ server: { console_host } }))
    expect(message).toStartWith(
      'server.console_host: expected string in the form host[:port], found a',
    )
  })

  test.each([
    [{ site_url: 'https://gateway.example' }, 'gateway.example'],
    [{ site_url: 'https://gateway.example/' }, 'gateway.example:443'],
    [{ site_url: 'http://[::1]:8080' }, '[0:0::1]:8080'],
    [{}, '127.0.0.1:8080'],
    [{ host: '::1', port: 9 }, '[::1]:9'],
  ])('with %j has its console at another host than %s', (server, console_host) => {
    const { message, metadata } = refusal(JSON.stringify({ server: { ...server, console_host } }))
    expect(metadata.field).toBe('server.console_host')
    expect(message).toStartWith('server.console_host: expected another host than the API’s, found')
    const other = { ...server, console_host: 'console.example' }
    expect(() => parse(JSON.stringify({ server: other }))).not.toThrow()
    const none = { ...other, console: false }
    expect(refusal(JSON.stringify({ server: none })).message).toBe(
      'server.console_host: expected server.console beside it, found false',
    )
  })

  test('does not change the defaults for the next one', () => {
    parse('models: []').models.push({ id: 'a/b', endpoints: [] })
    expect(createDefaultConfig().models).toEqual([])
  })
})

describe('a variable', () => {
  test('is replaced anywhere in a text', () => {
    const env = { HOST: '127.0.0.1', PORT: '4010', KEY: 'sk-1' }
    const { local } = parse(
      `providers: { local: { base_url: "http://\${HOST}:\${PORT}/v1", api_key: "\${KEY}" } }`,
      env,
    ).providers
    expect(local).toEqual({ base_url: 'http://127.0.0.1:4010/v1', api_key: 'sk-1' })
  })

  test('may be the port', () => {
    expect(parse(`server: { port: "\${PORT}" }`, { PORT: '9000' }).server.port).toBe(9000)
  })

  test('may be a credential that looks like a number', () => {
    expect(
      parse(`providers: { openai: { api_key: "\${KEY}" } }`, { KEY: '00123456' }).providers.openai,
    ).toEqual({ api_key: '00123456' })
  })

  test('that looks like a number stays a text where a text is expected', () => {
    const env = { ACCOUNT: '0012345' }
    const config = parse(
      `providers: { local: { headers: { x-account: "\${ACCOUNT}" } } }\n` +
        `models: [{ id: a/b, name: "\${ACCOUNT}", ` +
        `endpoints: [{ provider: local, model: "\${ACCOUNT}" }] }]`,
      env,
    )
    expect(config.providers.local?.headers).toEqual({ 'x-account': '0012345' })
    expect(config.models[0]).toMatchObject({ name: '0012345', endpoints: [{ model: '0012345' }] })
  })

  test('cannot add settings, whatever its value', () => {
    const KEY = 'x", base_url: "http://evil.example'
    expect(
      parse(`providers: { openai: { api_key: "\${KEY}" } }`, { KEY }).providers.openai,
    ).toEqual({ api_key: KEY })
  })

  test('within the value of a variable is not replaced', () => {
    expect(
      parse(`providers: { openai: { api_key: "\${KEY}" } }`, { KEY: `\${HOME}` }).providers.openai,
    ).toEqual({ api_key: `\${HOME}` })
  })

  test('that is not set is named, with the setting that uses it', () => {
    expect(refusal(`providers: { openai: { api_key: "\${NO_SUCH_KEY}" } }`)).toMatchObject({
      type: 'invalid_request',
      message:
        'providers.openai.api_key: expected the environment variable NO_SUCH_KEY, found nothing',
      metadata: { field: 'providers.openai.api_key' },
    })
  })
})

describe('an invalid setting is named with what was expected and found', () => {
  test.each([
    ['server: { port: 70000 }', 'server.port: expected integer from 0 to 65535, found 70000'],
    ['server: { port: eighty }', 'server.port: expected integer from 0 to 65535, found a string'],
    ['server: [1]', 'server: expected object, found an array'],
    [
      'server: { prot: 80 }',
      'server.prot: expected no such field, found a number; did you mean "port"?',
    ],
    [
      'provider: {}',
      'provider: expected no such field, found an object; did you mean "providers"?',
    ],
    [
      'service_name: Gateway!',
      'service_name: expected string: lower-case letters, digits and _, a letter first, found a string',
    ],
    [
      'default_model: ""',
      'default_model: expected string of at least 1 character, found an empty string',
    ],
    [
      'providers: { local: { base_url: example.com } }',
      'providers.local.base_url: expected address with http:// or https://, without user and query, found a string',
    ],
    [
      'providers: { local: { base_url: "file:///etc/passwd" } }',
      'providers.local.base_url: expected address with http:// or https://, without user and query, found a string',
    ],
    [
      'providers: { local: { quirks: { output_bound: x } } }',
      'providers.local.quirks.output_bound: expected "max_tokens" or "max_completion_tokens", ' +
        'found a string',
    ],
    [
      'providers: { local: { headers: { a: 1 } } }',
      'providers.local.headers.a: expected string in the form visible-ascii, found a number',
    ],
    [
      'providers: { local: { key: x } }',
      'providers.local.key: expected no such field, found a string',
    ],
    ['models: {}', 'models: expected array, found an object'],
    [
      'models: [{ id: small, endpoints: [] }]',
      'models.0.id: expected string: <author>/<slug> or <author>/*, found a string\n' +
        'models.0.endpoints: expected array of at least 1 item, found an empty array',
    ],
    [
      'models: [{ id: a/b, endpoints: [] }]',
      'models.0.endpoints: expected array of at least 1 item, found an empty array',
    ],
    [
      'models: [{ id: a/b }]',
      'models.0.endpoints: expected array of at least 1 item, found nothing',
    ],
    [
      'models: [{ id: a/b, endpoints: [{ provider: x }] }]',
      'models.0.endpoints.0.model: expected string of at least 1 character, found nothing',
    ],
    [
      'models: [{ id: a/b, endpoints: [{ provider: x, model: y, ' +
        'usd_per_million_tokens: { prompt: -1, completion: 1 } }] }]',
      'models.0.endpoints.0.usd_per_million_tokens.prompt: expected number from 0 to 10000, found -1',
    ],
    [
      'providers: { openai: { api_key: "two\\nlines" } }',
      'providers.openai.api_key: expected string in the form visible-ascii, found a string',
    ],
    [
      'providers: { openai: { api_key: "line\\n" } }',
      'providers.openai.api_key: expected string in the form visible-ascii, found a string',
    ],
    [
      'providers: { openai: { headers: { a: "b\\r\\nc: d" } } }',
      'providers.openai.headers.a: expected string in the form visible-ascii, found a string',
    ],
    [
      'providers: { local: { base_url: "https://ada:secret@example.com/v1" } }',
      'providers.local.base_url: expected address with http:// or https://, without user and query, found a string',
    ],
    [
      'providers: { local: { base_url: "https://example.com/v1?version=1" } }',
      'providers.local.base_url: expected address with http:// or https://, without user and query, found a string',
    ],
    [
      'models: [{ id: a/b, input_modalities: [smell], endpoints: [{ provider: x, model: y }] }]',
      'models.0.input_modalities.0: expected "text" or "image" or "file" or "audio" or "video", ' +
        'found a string',
    ],
    [
      'models: [{ id: a/b, output_modalities: [], endpoints: [{ provider: x, model: y }] }]',
      'models.0.output_modalities: expected array of at least 1 item, found an empty array',
    ],
    [
      'timeouts: { idle_seconds: 0 }',
      'timeouts.idle_seconds: expected number above 0 to 86400, found 0',
    ],
    [
      'storage: { durability: some }',
      'storage.durability: expected "normal" or "full" or "shared", found a string',
    ],
    [
      'storage: { postgres: { url: "postgres://db.example" } }',
      'storage.postgres.url: expected address of a database as ' +
        'postgres://user:password@host:5432/database, found a string',
    ],
    [
      'storage: { postgres: { url: "postgres://db.example/gateway?sslmode=some" } }',
      'storage.postgres.url: expected address of a database as ' +
        'postgres://user:password@host:5432/database, found a string',
    ],
    [
      'storage: { durability: full, postgres: { url: "postgres://db.example/gateway" } }',
      'storage.durability: expected shared, as synchronous_commit decides in storage.postgres, ' +
        'found full',
    ],
    [
      'storage: { durability: shared }',
      'storage.durability: expected normal or full without storage.postgres, found shared',
    ],
    ...[
      ...['http://cache.example', 'redis://', 'redis://cache.example/some', 'redis+unix://'],
      'redis://cache.example?password=hidden',
    ].map((url): [string, string] => [
      `storage: { postgres: { url: "postgres://db.example/gateway" }, valkey: { url: "${url}" } }`,
      'storage.valkey.url: expected address of a server as redis://user:password@host:6379, ' +
        'rediss:// or redis+unix:///path, found a string',
    ]),
    [
      'storage: { valkey: { url: "redis://cache.example" } }',
      'storage.valkey: expected storage.postgres beside it: one server needs none',
    ],
    [
      'storage: { postgres: { url: "postgres://db.example/gateway" }, valkey: { url: "redis://a", tls: "on" } }',
      'storage.valkey.tls: expected no such field, found a string',
    ],
    ['storage: { files: s3 }', 'storage.s3: expected a bucket, as storage.files is s3'],
    [
      'storage: { s3: { bucket: abc, access_key_id: a, secret_access_key: b } }',
      'storage.files: expected s3, as there is storage.s3, found disk',
    ],
    [
      'storage: { files: s3, s3: { bucket: abc, access_key_id: a } }',
      'storage.s3.secret_access_key: expected string in the form visible-ascii, found nothing',
    ],
    [
      'storage: { files: s3, s3: { bucket: a/b, access_key_id: a, secret_access_key: b } }',
      'storage.s3.bucket: expected string: the name of a bucket: letters, digits and . _ -, found a string',
    ],
    [
      'storage: { files: s3, s3: { bucket: abc, prefix: ../x, access_key_id: a, secret_access_key: b } }',
      'storage.s3.prefix: expected string of at most 255 characters: folders of letters, digits and . _ - without .., found a string',
    ],
    [
      'storage: { files: s3, s3: { bucket: abc, endpoint: "ftp://x", access_key_id: a, secret_access_key: b } }',
      'storage.s3.endpoint: expected address with http:// or https://, without user and query, found a string',
    ],
    [
      'storage: { files: s3, s3: { bucket: abc, access_key_id: a, secret_access_key: b } }\n' +
        'sandbox: { home_mib: 6000 }',
      'sandbox.home_mib: expected at most 5120 with storage.files: s3, found 6000',
    ],
  ])('%s', (text, message) => {
    const error = refusal(text)
    expect(error).toMatchObject({
      type: 'invalid_request',
      message,
      metadata: { field: message.slice(0, message.indexOf(':')) },
    })
  })

  test.each([
    [
      'providers: { openai: { sk-1234 } }',
      'providers.openai: expected only fields that there are, found null',
    ],
    [
      'providers: { openai: { sk-12.ab.cd: x } }',
      'providers.openai: expected only fields that there are, found a string',
    ],
    [
      'providers: { openai: { gsk_1234: 5678 } }',
      'providers.openai: expected only fields that there are, found a number',
    ],
    ['sk-12.ab.cd: x', 'The config file: expected only fields that there are, found a string'],
    ['{ sk-1234 }', 'The config file: expected only fields that there are, found null'],
  ])('%s, except for names that may be secrets', (text, message) => {
    expect(refusal(text).message).toBe(message)
    expect(JSON.stringify(refusal(text).metadata)).not.toContain('sk')
  })

  test.each([['- a\n- b'], ['just a text'], ['5']])('%j is not a mapping of settings', text => {
    expect(refusal(text).message).toBe('The config file: expected a mapping of settings')
  })

  test('invalid YAML is reported as such', () => {
    expect(refusal('server: { port: 80').message).toStartWith('The config file is not valid YAML')
    expect(refusal('a: [b\nc: "').type).toBe('invalid_request')
  })

  test('a secret in a wrong place is not repeated', () => {
    const env = { KEY: 'sk-secret' }
    for (const text of [
      `server: { port: "\${KEY}" }`,
      `openai: "\${KEY}"`,
      `providers: { openai: "\${KEY}" }`,
      `providers: { openai: { api_key: ["\${KEY}"] } }`,
    ])
      expect(refusal(text, env).message).not.toContain('sk-secret')
    for (const field of ['api_key', 'apikey'])
      expect(refusal(`providers: { openai: { ${field}: 73577357 } }`).message).toMatch(
        /found a number(; did you mean "api_key"\?)?$/,
      )
  })
})

describe('the catalogue of a config', () => {
  const refused = (text: string) => errorOf(() => open(text)).message

  test('an unknown provider must state its protocol', () => {
    expect(refused('providers: { local: { base_url: "http://127.0.0.1:1/v1" } }')).toStartWith(
      'providers.local.protocol: expected one of openai-chat',
    )
  })

  test('a provider must use a supported protocol', () => {
    expect(
      refused('providers: { local: { protocol: smoke-signals, base_url: "http://127.0.0.1:1" } }'),
    ).toContain('smoke-signals')
  })

  test('a provider needs an address and a credential, unless it has defaults', () => {
    expect(refused('providers: { azure: { api_key: x } }')).toStartWith(
      'providers.azure.base_url: expected',
    )
    expect(refused('providers: { openai: {} }')).toBe(
      'providers.openai.api_key: expected the credential',
    )
    expect(open('providers: { ollama: {} }').providers.get('ollama')?.base_url).toBe(
      'http://127.0.0.1:11434/v1',
    )
  })

  test('a known provider may be overridden field by field', () => {
    const { providers } = open(
      'providers: { openai: { api_key: x, base_url: "https://proxy.example/v1//", name: Mine } }',
    )
    expect(providers.get('openai')).toMatchObject({
      name: 'Mine',
      base_url: 'https://proxy.example/v1',
      quirks: { output_bound: 'max_completion_tokens' },
    })
  })

  test.each([['"bad name"'], ['"a: b"'], ['Host'], ['content-length'], ['"a\\r\\nb"']])(
    'a header named %s cannot be set',
    name => {
      expect(refused(`providers: { openai: { api_key: x, headers: { ${name}: y } } }`)).toBe(
        'providers.openai.headers: expected names of headers, other than those of the connection',
      )
    },
  )

  test('two models with one id are refused', () => {
    const model = '{ id: a/b, endpoints: [{ provider: sandbox, model: x }] }'
    expect(refused(`models: [${model}, ${model}]`)).toBe(
      'models.1.id: expected one that no other model has, found a/b',
    )
  })

  test('unknown quantizations and parameters are refused', () => {
    const endpoint = (more: string) =>
      `models: [{ id: a/b, endpoints: [{ provider: sandbox, model: x, ${more} }] }]`
    expect(refusal(endpoint('quantization: tiny')).metadata.field).toBe(
      'models.0.endpoints.0.quantization',
    )
    expect(refusal(endpoint('supported_parameters: [tools, mood]')).metadata.field).toBe(
      'models.0.endpoints.0.supported_parameters.1',
    )
  })

  test('the provider of a model must exist', () => {
    const message = refused(
      'models: [{ id: a/b, endpoints: ' +
        '[{ provider: sandbox, model: x }, { provider: nobody, model: y }] }]',
    )
    expect(message).toBe('models.0.endpoints.1.provider: expected one of sandbox, found nobody')
  })

  test('the provider of a model must be configured, even if it is known by name', () => {
    const message = refused('models: [{ id: a/b, endpoints: [{ provider: openai, model: x }] }]')
    expect(message).toBe(
      'models.0.endpoints.0.provider: expected a provider with a credential: set ' +
        'OPENAI_API_KEY, or providers.openai',
    )
  })

  test('the default model may be a built-in one, also by an alias', () => {
    expect(open('default_model: openai/gpt-4o').models.has('openai/gpt-4o')).toBe(true)
    expect(
      open('default_model: anthropic/claude-haiku-4-5').models.get('anthropic/claude-haiku-4-5')
        ?.id,
    ).toBe('anthropic/claude-haiku-4.5')
  })

  test('a provider that the config does not name is known but not configured', () => {
    const { providers } = open('providers: { openai: { api_key: x } }')
    expect(providers.get('openai')?.configured).toBe(true)
    expect(providers.get('sandbox')?.configured).toBe(true)
    expect(providers.get('azure')).toMatchObject({
      configured: false,
      name: 'Azure',
      base_url: '',
      api_key: null,
    })
    expect(providers.get('ollama')?.configured).toBe(false)
  })

  test('the default model must exist', () => {
    expect(refused('default_model: a/none')).toBe(
      'default_model: expected a model of the catalogue, found a/none',
    )
  })

  test('a configured model overrides a built-in one with the same name', () => {
    const { models } = open(
      'models: [{ id: sandbox/echo, name: Mine, endpoints: [{ provider: sandbox, model: echo }] }]',
    )
    expect(models.get('sandbox/echo')?.name).toBe('Mine')
    expect(models.size).toBe(open('').models.size)
  })

  test('a credential is never printed', () => {
    const { providers } = open('providers: { openai: { api_key: sk-secret } }')
    const provider = providers.get('openai')
    expect(
      `${JSON.stringify(provider)} ${Bun.inspect(provider)} ${provider?.api_key}`,
    ).not.toContain('sk-secret')
    expect(provider?.api_key?.reveal()).toBe('sk-secret')
  })
})

test('a collector whose credential is missing is left out where nothing is told', () => {
  const text = `telemetry: { otlp: { endpoint: "http://a:1", headers: { a: "\${NO_SUCH}" } } }`
  expect(() => parseConfig(text, {})).toThrow('telemetry.otlp.headers.a: expected the environment')
  const { telemetry } = parseConfig(text, {}, { withoutSecrets: true })
  expect(telemetry.otlp).toBeUndefined()
  expect(telemetry.queue_mib).toBe(256)
})

test('a Valkey whose variable is missing is left out for commands, which do without', () => {
  const postgres = 'postgres: { url: "postgres://db.example/gateway" }'
  const text = `storage: { ${postgres}, valkey: { url: "\${NO_SUCH}" } }`
  expect(() => parseConfig(text, {})).toThrow('storage.valkey.url: expected the environment')
  const { storage } = parseConfig(text, {}, { withoutSecrets: true })
  expect(storage).not.toHaveProperty('valkey')
  expect(storage.postgres?.url).toBe('postgres://db.example/gateway')
})
