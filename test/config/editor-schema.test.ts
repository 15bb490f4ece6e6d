import { describe, expect, test } from 'bun:test'
import type { TSchema } from '@sinclair/typebox'
import Ajv2020 from 'ajv/dist/2020.js'
import { listSettings } from '../../scripts/docs/settings.ts'
import { buildEditorSchema, SCHEMA_LINE } from '../../src/config/editor-schema.ts'
import { Config, createDefaultConfig, parseConfig } from '../../src/config.ts'
import { listBlocks, readDocuments } from '../support/documents.ts'
import { runGateway } from '../support/server.ts'

const { stdout } = await runGateway(['config', 'schema'])
const schema = JSON.parse(stdout)
// A validator of others, which refuses keywords and formats that it does not know.
const validate = new Ajv2020({ strict: true, allErrors: true, allowUnionTypes: true }).compile(
  schema,
)

const listErrors = (config: unknown) =>
  validate(config)
    ? []
    : validate.errors?.map(({ instancePath, message }) => [instancePath, message])

const blocks = (await readDocuments())
  .flatMap(listBlocks)
  .filter(({ language }) => language === 'yaml')

// As it stands in a file.
const [PORT, HOST] = ['PORT', 'HOST'].map(name => ['$', `{${name}}`].join(''))

describe('the schema of the config file', () => {
  test('is what the command prints, with an id and a title', () => {
    expect(schema).toEqual(JSON.parse(JSON.stringify(buildEditorSchema(Config))))
    expect(schema).toMatchObject({ $id: 'urn:gateway:config', title: 'gateway.yaml' })
  })

  test.each(blocks.map(({ document, code }) => [document, code]))('accepts %s', (_, code) => {
    expect(listErrors(Bun.YAML.parse(code))).toEqual([])
  })

  test('there are blocks to accept', () => {
    expect(blocks.length).toBeGreaterThanOrEqual(10)
  })

  test('accepts every default, nothing at all, and variables', () => {
    expect(listErrors(createDefaultConfig())).toEqual([])
    expect(listErrors({})).toEqual([])
    expect(listErrors({ server: { port: PORT, site_url: `https://${HOST}/` } })).toEqual([])
    expect(parseConfig(`server: { port: "${PORT}" }`, { PORT: '90' }).server.port).toBe(90)
  })

  test.each([
    ['an unknown section', 'colour: blue'],
    ['an unknown setting', 'server: { prot: 80 }'],
    ['a number that is too large', 'server: { port: 70000 }'],
    ['a number as a word', 'server: { port: many }'],
    ['a word that is none of them', 'routing: { choice: random }'],
    ['a text in the place of a list', 'server: { trusted_proxies: 10.0.0.1 }'],
    ['an address that is none', 'server: { site_url: nowhere }'],
    ['a model without an id', 'models: [{ endpoints: [] }]'],
    ['a credential with a line break', 'providers: { openai: { api_key: "a\\nb" } }'],
    ['a negative timeout', 'timeouts: { idle_seconds: -1 }'],
    ['a list', '[]'],
  ])('refuses %s, as the gateway does', (_, text) => {
    expect(() => parseConfig(text, {})).toThrow()
    expect(listErrors(Bun.YAML.parse(text))).not.toEqual([])
  })

  test('describes every setting, and offers words as an enum', () => {
    expect(
      listSettings(Config)
        .filter(({ description }) => !description)
        .map(({ path }) => path),
    ).toEqual([])
    expect(schema.properties.routing.properties.choice.enum).toEqual(['weighted', 'listed'])
    expect(schema.properties.server.properties.port.default).toBe(8080)
  })

  test('has every setting that the gateway has', () => {
    const paths = (one: unknown) => listSettings(one as TSchema).map(({ path }) => path)
    expect(new Set(paths(schema))).toEqual(new Set(paths(Config)))
  })

  test('is found by editors through a line that the gateway takes', async () => {
    expect(parseConfig(`${SCHEMA_LINE}\nserver: { port: 90 }`, {}).server.port).toBe(90)
    const [manual] = (await readDocuments()).filter(({ path }) => path === 'docs/configuration.md')
    expect(manual?.text).toContain(SCHEMA_LINE)
  })
})
