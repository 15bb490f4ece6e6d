import { describe, expect, test } from 'bun:test'
import {
  ALIASES,
  findProviderSlugs,
  listProviderNames,
} from '../../../src/resources/providers/names.ts'
import { PROVIDERS } from '../../../src/resources/providers.data.ts'
import { openProviders } from '../../../src/resources/providers.ts'

const local = { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const config = {
  MyOwn: local,
  'local/eu': local,
  'local/us': local,
  copy: { ...local, name: 'groq' },
}
const { providers } = openProviders(config, ['openai-chat', 'sandbox'])
const called = (said: string) => findProviderSlugs(providers.values(), said)

describe('a provider is found by', () => {
  test.each([
    ['our slug', 'openai', ['openai']],
    ['our slug, however it is spelled', 'OPENAI', ['openai']],
    ['a slug of the config, in the config’s spelling and in another', 'MyOwn', ['MyOwn']],
    ['a slug of the config in another spelling', 'myown', ['MyOwn']],
    ['the public slug', 'amazon-bedrock', ['bedrock']],
    ['the public slug of several', 'google-vertex', ['vertex', 'vertex-anthropic']],
    ['the name that is shown', 'Amazon Bedrock', ['bedrock']],
    ['the name of several', 'Google', ['vertex', 'vertex-anthropic']],
    ['the name that is shown, however it is spelled', 'z.ai', ['zai']],
    ['the base of its slug', 'local', ['local/eu', 'local/us']],
    ['its slug, even if another is displayed by that name', 'groq', ['groq']],
    ['nothing else', 'nobody', []],
    ['no part of a slug', 'open', []],
    ['no name of JavaScript’s own', 'constructor', []],
  ])('%s', (_, said, slugs) => {
    expect(called(said)).toEqual(slugs)
  })

  test('every public name of the table, which stand for existing providers', () => {
    for (const [said, slugs] of Object.entries(ALIASES)) {
      expect(Object.keys(PROVIDERS)).toEqual(expect.arrayContaining(slugs))
      expect(Object.keys(PROVIDERS)).not.toContain(said)
      expect(called(said)).toEqual(slugs)
    }
  })
})

test('a provider has its displayed name, our slug and the public one', () => {
  expect(
    [...providers.values()].filter(({ slug }) => slug === 'bedrock').map(listProviderNames),
  ).toEqual([['bedrock', 'amazon bedrock', 'amazon-bedrock']])
})
