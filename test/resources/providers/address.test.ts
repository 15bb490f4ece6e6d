import { expect, test } from 'bun:test'
import { parseConfig } from '../../../src/config.ts'
import { openProviders } from '../../../src/resources/providers.ts'
import { protocolNames } from '../../../src/translation/protocols/registry.ts'

function findProvider(slug: string, settings: object) {
  const { providers } = parseConfig(JSON.stringify({ providers: { [slug]: settings } }), {})
  return openProviders(providers, protocolNames).providers.get(slug)
}

const own = (base_url: string, more: object = {}) => ({
  protocol: 'openai-chat',
  base_url,
  api_key: 'x',
  ...more,
})

test.each([
  ['openai', { api_key: 'x' }, true],
  ['anthropic', { api_key: 'x' }, true],
  ['openai', own('https://eu.api.openai.com/v1'), true],
  ['azure', own('https://acme.openai.azure.com/openai/v1'), true],
  ['sandbox', {}, true],
  ['openai', own('http://127.0.0.1:1/v1'), false],
  ['openai', own('http://2130706433/v1'), false],
  ['openai', own('http://[::1]/v1'), false],
  ['openai', own('http://8.8.8.8/v1'), false],
  ['openai', own('http://proxy/v1'), false],
  ['openai', own('http://proxy.internal/v1'), false],
  ['openai', own('http://proxy.default.svc.cluster.local./v1'), false],
  ['ollama', {}, false],
  ['vllm', {}, false],
  ['vllm', { base_url: 'https://vllm.example.com/v1' }, false],
  ['local', own('https://llm.example.com/v1'), false],
  ['local', own('https://llm.example.com/v1', { fetches_urls: true }), true],
  ['ollama', { fetches_urls: true }, true],
  ['openai', { api_key: 'x', fetches_urls: false }, false],
])('URLs of callers go on to %s with %j: %p', (slug, settings, expected) => {
  expect(findProvider(slug, settings)?.fetchesUrls).toBe(expected)
})
