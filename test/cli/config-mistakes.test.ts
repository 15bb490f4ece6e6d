import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../support/commands.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-mistakes-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** Returns what `config check` says of a file, without its name. */
async function check(text: string): Promise<string[]> {
  const file = join(directory, 'gateway.yaml')
  writeFileSync(file, text)
  const { code, stdout, stderr } = await runCommand(['config', 'check', file])
  expect([code, stdout]).toEqual([2, ''])
  return stderr
    .trim()
    .split('\n')
    .map(line => line.replace(`gateway: ${file}`, ''))
}

test('what the catalogue finds is told at once, each with its place', async () => {
  const found = await check(`providers:
  one: { protocol: telepathy, base_url: "https://one.example" }
  aws.east: { protocol: bedrock-converse, aws: { access_key_id: a, secret_access_key: b } }
  local: { protocol: openai-chat, base_url: "https://two.example", api_key: x }
models:
  - { id: acme/a, endpoints: [{ provider: nobody, model: m }, { provider: one, model: m }] }
  - { id: acme/a, endpoints: [{ provider: local, model: m, protocol: smoke }] }
`)
  expect(found.map(line => line.slice(0, line.indexOf(' expected')))).toEqual([
    ':2:10: providers.one.protocol:',
    ':3:3: providers.aws.east.region:',
    ':3:3: providers.aws.east.base_url:',
    ':7:7: models.1.id:',
    ':6:33: models.0.endpoints.0.provider:',
    ':7:60: models.1.endpoints.0.protocol:',
  ])
})

test('variables without a value are told at once, each with its place', async () => {
  const name = 'GATEWAY_TEST_MISSING'
  expect(
    await check(`providers:
  openai: { api_key: "\${${name}_A}" }
  anthropic: { api_key: "\${file:nowhere.key}" }
`),
  ).toEqual([
    `:2:13: providers.openai.api_key: expected the environment variable ${name}_A, found nothing`,
    ':3:16: providers.anthropic.api_key: expected a file nowhere.key that can be read',
  ])
})

test('settings that contradict each other are told at once', async () => {
  expect(
    await check(`timeouts: { keep_alive_seconds: 900, reader_seconds: 60 }
regions: { europe: [eu.example] }
`),
  ).toEqual([
    expect.stringMatching(/^:1:13: timeouts\.keep_alive_seconds: expected less than /),
    expect.stringMatching(/^:2:1: regions: expected server\.trusted_proxies /),
  ])
})

test('a wrong form is told by what it should be', async () => {
  expect(await check('service_name: "My Gateway"')).toEqual([
    ':1:1: service_name: expected string: lower-case letters, digits and _, a letter first, ' +
      'found a string',
  ])
})

test('a provider’s mistakes are told all at once, each with its place', async () => {
  const found = await check(`providers:
  one:
    protocol: telepathy
    headers: { Host: there }
  openai:
    headers: { "a b": c }
  azure: {}
  bedrock: { auth: sigv4 }
  vertex:
    service_account: { type: service_account, client_email: a, private_key: b, token_uri: c }
`)
  expect(found.map(line => line.slice(0, line.indexOf(' expected')))).toEqual([
    ':3:5: providers.one.protocol:',
    ':4:5: providers.one.headers:',
    ':2:3: providers.one.base_url:',
    ':6:5: providers.openai.headers:',
    ':5:3: providers.openai.api_key:',
    ':7:3: providers.azure.api_key:',
    ':7:3: providers.azure.base_url:',
    ':8:3: providers.bedrock.aws:',
    ':8:3: providers.bedrock.region:',
    ':10:64: providers.vertex.service_account.private_key:',
    ':10:80: providers.vertex.service_account.token_uri:',
    ':9:3: providers.vertex.region:',
  ])
})

test('a variable without a value hides no other mistake', async () => {
  const name = 'GATEWAY_TEST_MISSING'
  expect(
    await check(`providers:
  openai: { api_key: "\${${name}}", retries: 3 }
server: { port: "\${${name}_PORT}", hots: x }
`),
  ).toEqual([
    `:2:13: providers.openai.api_key: expected the environment variable ${name}, found nothing`,
    `:3:11: server.port: expected the environment variable ${name}_PORT, found nothing`,
    expect.stringMatching(/^:3:\d+: server\.hots: expected no such field.*host/),
    expect.stringMatching(/^:2:\d+: providers\.openai\.retries: expected no such field/),
  ])
})

describe('mistakes of every sort are told in one run', () => {
  test('those of forms, of contradictions, of the catalogue and of plugins', async () => {
    const found = await check(`server: { hots: x }
timeouts: { keep_alive_seconds: 900, reader_seconds: 60 }
providers:
  one: { protocol: telepathy, base_url: "https://one.example" }
  two: { protocol: openai-chat, base_url: "https://two.example", api_key: x, retries: 3 }
  local: { protocol: openai-chat, base_url: "https://three.example", api_key: x }
models:
  - { id: acme/a, endpoints: [{ provider: nobody, model: m }, { provider: two, model: m }] }
  - { id: acme/b, endpoints: [{ provider: one }] }
  - { id: acme/a, endpoints: [{ provider: local, model: m }] }
`)
    expect(found.map(line => line.slice(0, line.indexOf(' expected'))).sort()).toEqual([
      ':10:7: models.2.id:',
      ':1:11: server.hots:',
      ':2:13: timeouts.keep_alive_seconds:',
      ':4:10: providers.one.protocol:',
      ':5:78: providers.two.retries:',
      ':8:33: models.0.endpoints.0.provider:',
      ':9:31: models.1.endpoints.0.model:',
    ])
  })

  test('those of the catalogue and all of plugins’ defaults', async () => {
    const found = await check(`default_model: acme/none
providers:
  one: { protocol: telepathy, base_url: "https://one.example" }
plugins:
  defaults: [{ id: tea }, { id: web, engine: abacus }]
  prevent_overrides: [coffee]
`)
    expect(found.map(line => line.slice(0, line.indexOf(' expected')))).toEqual([
      ':3:10: providers.one.protocol:',
      ':1:1: default_model:',
      expect.stringMatching(/^:5:\d+: plugins\.defaults\.0\.id:/),
      expect.stringMatching(/^:5:\d+: plugins\.defaults\.1\.engine:/),
      expect.stringMatching(/^:6:\d+: plugins\.prevent_overrides\.0:/),
    ])
  })

  test('nothing is told that only follows from another mistake', async () => {
    const found = await check(`server: { trusted_proxies: 7 }
regions: { europe: [eu.example] }
timeouts: { keep_alive_seconds: 900, reader_seconds: soon }
providers:
  two: { protocol: openai-chat, base_url: "https://two.example", retries: 3 }
models:
  - { id: acme/a, endpoints: [{ provider: two, model: m }] }
  - { id: acme/a, endpoints: [{ provider: two }] }
default_model: acme/a
`)
    expect(
      found.map(line => line.slice(0, line.indexOf(' expected')).replace(/^[:\d]+ /, '')),
    ).toEqual([
      'server.trusted_proxies:',
      'providers.two.retries:',
      'models.1.endpoints.0.model:',
      'timeouts.reader_seconds:',
    ])
  })

  test('a section of another shape hides no other', async () => {
    const found = await check(`providers: none
models: { id: acme/a }
server: [1]
plugins: { defaults: [{ id: tea }] }
routing: 7
`)
    expect(found.length).toBe(4)
  })
})

test('an address that ends in the path of its protocol is told', async () => {
  const found = await check(`providers:
  one: { protocol: openai-chat, base_url: "https://one.example/v1/chat/completions" }
  two: { protocol: openai-chat, base_url: "https://two.example/v1", api_key: x }
`)
  expect(found).toEqual([
    expect.stringContaining(
      'providers.one.base_url: expected the address without /chat/completions',
    ),
  ])
})
