import { describe, expect, test } from 'bun:test'
import { parseConfig } from '../../src/config.ts'

describe('a secret file', () => {
  const files: Record<string, string> = { 'openai.key': 'sk-from-a-file\n' }
  const readSecretFile = (path: string) => {
    const text = files[path]
    if (text === undefined) throw new Error('a reason with a secret')
    return text
  }
  const parse = (text: string) => parseConfig(text, {}, { readSecretFile })

  test('fills a setting, without the line break at its end', () => {
    const config = parse(`providers: { openai: { api_key: "\${file:openai.key}" } }`)
    expect(config.providers.openai).toEqual({ api_key: 'sk-from-a-file' })
  })

  test('that cannot be read is reported by its name and the path of the setting', () => {
    const text = `providers: { openai: { api_key: "\${file:other.key}" } }`
    const message = 'providers.openai.api_key: expected a file other.key that can be read'
    expect(() => parse(text)).toThrow(message)
    expect(() => parseConfig(text, {})).toThrow(message)
  })
})

describe('providers whose secrets are missing', () => {
  const parse = (providers: object) =>
    parseConfig(JSON.stringify({ providers }), { KEY: 'k' }, { withoutSecrets: true }).providers

  test('keep their other settings, and send no credential', () => {
    expect(
      parse({
        openai: {
          api_key: `\${NONE}`,
          base_url: 'http://127.0.0.1:1/v1',
          headers: { a: `\${NONE}` },
        },
        groq: { api_key: `\${KEY}` },
        mistral: { api_key: `\${file:none}` },
      }),
    ).toEqual({
      openai: { base_url: 'http://127.0.0.1:1/v1', auth: 'none' },
      groq: { api_key: 'k' },
      mistral: { auth: 'none' },
    })
  })

  test('have an address that leads nowhere if theirs is missing', () => {
    const nowhere = { base_url: 'http://missing.invalid', auth: 'none' as const }
    expect(
      parse({
        bedrock: {
          aws: { access_key_id: `\${A}`, secret_access_key: `\${B}`, region: 'us-east-1' },
        },
        vertex: { service_account: `\${GSA}`, region: 'europe-west4' },
        local: { protocol: 'openai-chat', base_url: `\${URL}` },
      }),
    ).toEqual({
      bedrock: nowhere,
      vertex: { ...nowhere, region: 'europe-west4' },
      local: { ...nowhere, protocol: 'openai-chat' },
    })
  })

  test('excuse no other setting', () => {
    const text = `default_model: "\${NONE}"`
    expect(() => parseConfig(text, {}, { withoutSecrets: true })).toThrow('default_model')
  })
})
