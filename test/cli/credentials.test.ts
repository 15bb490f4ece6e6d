import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '../../src/cli/config-file.ts'
import { openCatalog } from '../../src/resources/models.ts'
import { protocolNames } from '../../src/translation/protocols/registry.ts'

const home = mkdtempSync(join(tmpdir(), 'gateway-credentials-'))
const file = join(home, 'gateway.yaml')
afterAll(() => rmSync(home, { recursive: true, force: true }))

const price = 'usd_per_million_tokens: {prompt: 1, completion: 2}'
writeFileSync(
  file,
  `models:
  - id: acme/both
    context_length: 1000
    endpoints:
      - {provider: deepinfra, model: m, ${price}}
      - {provider: sandbox, model: echo}
`,
)
const open = async (withoutSecrets: boolean) => {
  const { config } = await readConfig({ paths: [file], isNamed: true }, { withoutSecrets })
  return openCatalog(config, protocolNames, new Date())
}

test('a model of a known provider needs its credential, which is named', async () => {
  await expect(open(false)).rejects.toThrow(
    'models.0.endpoints.0.provider: expected a provider with a credential: set ' +
      'DEEPINFRA_API_KEY, or providers.deepinfra',
  )
})

test('a command that calls no provider needs no credential', async () => {
  const { models } = await open(true)
  expect(models.get('acme/both')?.endpoints.map(({ provider }) => provider.slug)).toEqual([
    'sandbox',
  ])
})

test('a provider that nobody knows is refused to every command', async () => {
  const text = `models: [{id: a/b, context_length: 1, endpoints: [{provider: magic, model: m, ${price}}]}]\n`
  writeFileSync(file, text)
  for (const withoutSecrets of [false, true])
    await expect(open(withoutSecrets)).rejects.toThrow('expected one of sandbox, found magic')
})
