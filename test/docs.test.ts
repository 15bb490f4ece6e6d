import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import type { Command } from 'commander'
import { listSettings, renderSettings } from '../scripts/docs/settings.ts'
import { openGateway } from '../src/app/gateway.ts'
import { isObject } from '../src/base/json.ts'
import { createProgram } from '../src/cli/main.ts'
import { Config, parseConfig } from '../src/config.ts'
import { createApp } from '../src/server/app.ts'
import { listDescribedRoutes } from '../src/server/openapi.ts'
import {
  type Block,
  listAnchors,
  listBlocks,
  listCommands,
  listLinks,
  readDocuments,
  splitCommand,
} from './support/documents.ts'
import { type Server, startServer } from './support/server.ts'

const ROOT = resolve(import.meta.dir, '..')
const documents = await readDocuments()
const blocks = documents.flatMap(listBlocks)

const listBlocksIn = (...languages: string[]): Block[] =>
  blocks.filter(({ language }) => languages.includes(language))

const findDocument = (path: string) => documents.find(document => document.path === path)

test.each([
  ['README.md', 120],
  ['docs/README.md', 15],
])('%s has at most %d lines', (path, most) => {
  expect(findDocument(path)?.text.trimEnd().split('\n').length).toBeLessThanOrEqual(most)
})

test.each([
  ['why a call is a 402', 'docs/limits.md'],
  ['how to upgrade', 'docs/upgrade.md'],
  ['how to make a backup', 'docs/operations.md#backup-and-restore'],
  ['how to add a model', 'docs/configuration.md#models-and-prices'],
  ['how to add a provider', 'docs/how-to/add-a-provider.md'],
  ['how to start an agent', 'docs/agents.md'],
  ['which systems are supported', 'docs/install.md#supported-systems'],
  ['where limits are checked', 'ARCHITECTURE.md#who-owns-what'],
])('the README leads in two steps to %s', (_, target) => {
  const first = listLinksOf('README.md')
  expect([...first, ...first.flatMap(listLinksOf)]).toContain(target)
})

const listLinksOf = (link: string): string[] => {
  const document = findDocument(link.split('#')[0] ?? '')
  return document ? listLinks(document) : []
}

describe('the endpoints of the README', () => {
  const described = listDescribedPaths()
  const rows = [...(findDocument('README.md')?.text ?? '').matchAll(/^\| (`\/.*`) \| (.*) \|$/gm)]

  test.each(rows.map(([, names = '', state = '']) => [names, state] as const))(
    '%s: %s',
    async (names, state) => {
      const paths = await described
      for (const [, name = ''] of names.matchAll(/`(\/[^`]*)`/g))
        expect([name, paths.some(path => `${path}/`.startsWith(`${name}/`))]).toEqual([
          name,
          !state.startsWith('Not yet'),
        ])
    },
  )

  test('name every noun that there is', async () => {
    const named = rows.flatMap(([, names = '']) =>
      [...names.matchAll(/`(\/[^`]*)`/g)].map(([, name = '']) => name.split('/')[1]),
    )
    const nouns = new Set((await described).map(path => path.split('/')[1]))
    expect([...nouns].filter(noun => !named.includes(noun))).toEqual([])
  })
})

/** Lists the paths of the API, below its base. */
async function listDescribedPaths(): Promise<string[]> {
  const gateway = await openGateway()
  const routes = listDescribedRoutes(createApp(gateway))
  await gateway.close()
  return routes.flatMap(({ path }) => path.match(/^\/api\/v1(\/.+)/)?.[1] ?? [])
}

describe('links', () => {
  for (const document of documents)
    test(`of ${document.path} lead to a file and a heading that exist`, () => {
      expect(listLinks(document).filter(link => !leadsSomewhere(link))).toEqual([])
    })
})

function leadsSomewhere(link: string): boolean {
  const [path = '', anchor] = link.split('#')
  if (!existsSync(join(ROOT, path))) return false
  const target = findDocument(path)
  return anchor === undefined || (target !== undefined && listAnchors(target).includes(anchor))
}

test('each row of THREATS.md names a test that exists', () => {
  const text = findDocument('THREATS.md')?.text ?? ''
  const rows = [...text.matchAll(/^\| (?!Who |---)(.+) \|$/gm)].map(([row]) => row)
  expect(rows.length).toBeGreaterThan(50)
  const listTests = (of: string) =>
    [...of.matchAll(/\b(test\/[\w./-]+)/g)].map(([, path = '']) => path)
  expect(rows.filter(row => listTests(row).length === 0)).toEqual([])
  expect(listTests(text).filter(path => !existsSync(join(ROOT, path)))).toEqual([])
})

describe('decisions', () => {
  const table = documents.find(({ path }) => path === 'docs/decisions/README.md')?.text ?? ''
  const rows = [...table.matchAll(/^\| (\d{4}(?:, \d{4})*) \| (.+) \|$/gm)]
  const numbers = rows.flatMap(([, listed = '']) => listed.split(', ')).toSorted()
  // Numbered files are new decisions, before they have a section.
  const pages = documents.filter(({ path }) => /^docs\/decisions\/[a-z]/.test(path))

  test('are at most 40 sections of at most 14 pages, which the table of contents has', () => {
    expect(pages.length).toBeLessThanOrEqual(14)
    expect(pages.flatMap(({ text }) => text.match(/^## /gm) ?? []).length).toBeLessThanOrEqual(40)
    const names = pages.map(({ path }) => basename(path))
    expect(names.filter(name => !table.includes(`](${name})`))).toEqual([])
  })

  test('have each old number once, and where it is told', () => {
    expect(numbers).toEqual([...new Set(numbers)])
    expect(numbers.length).toBeGreaterThanOrEqual(308)
    const files = rows.flatMap(([, , target = '']) => /^`(.+)`$/.exec(target)?.[1] ?? [])
    expect(files.filter(path => !existsSync(join(ROOT, path)))).toEqual([])
  })

  test('name files that are there', () => {
    const named = pages.flatMap(({ text }) => [...text.matchAll(/`(\w[\w.-]*\/[\w./-]+\.ts)`/g)])
    const paths = named.map(([, path = '']) => path)
    const isThere = (path: string) =>
      existsSync(join(ROOT, path)) || existsSync(join(ROOT, 'src', path))
    expect(paths.length).toBeGreaterThan(10)
    expect(paths.filter(path => !isThere(path))).toEqual([])
  })

  test('that have a number still are rows of the table', () => {
    const numbered = documents.flatMap(
      ({ path }) => /^docs\/decisions\/(\d{4})-/.exec(path)?.[1] ?? [],
    )
    expect(numbered.filter(number => !numbers.includes(number))).toEqual([])
  })
})

const program = await createProgram()

describe('commands', () => {
  for (const document of documents) {
    for (const line of listCommands(document))
      test(`${document.path}: gateway ${line}`, () => {
        expect(findUnknownWord(program, splitCommand(line))).toBeUndefined()
      })
  }
})

test('the table of docs/commands.md has every command', () => {
  const { text } = findDocument('docs/commands.md') as { text: string }
  const rows = [...text.matchAll(/^\| `gateway ([^`]+)` \| \S/gm)].map(([, line = '']) => line)
  const listed = new Set(rows.flatMap(listNames))
  expect(listed).toContain('keys create')
  expect(listPaths(program).filter(path => !listed.has(path))).toEqual([])
})

/** Lists the commands, at most two words deep: the rest is in their help. */
const listPaths = (program: Command): string[] =>
  program.commands.flatMap(command =>
    command.commands.length === 0
      ? [command.name()]
      : command.commands.map(child => `${command.name()} ${child.name()}`),
  )

/** Lists the commands that a row stands for: `keys create|list` for two. */
function listNames(line: string): string[] {
  const [name = '', verbs = ''] = line.replaceAll('\\|', '|').split(' ')
  return /^[a-z][a-z|-]*$/.test(verbs) ? verbs.split('|').map(verb => `${name} ${verb}`) : [name]
}

test.each([
  ['keys crate --name me', 'crate'],
  ['keys create --nmae me', '--nmae'],
  ['keys list|remove', 'list|remove'],
  ['doctor now', 'now'],
])('gateway %s would be found', (line, wrong) => {
  expect(findUnknownWord(program, splitCommand(line))).toBe(wrong)
})

/** Finds the first word of a command line that is neither a command, an option nor its value. */
function findUnknownWord(command: Command, words: string[]): string | undefined {
  const [word, ...rest] = words
  if (word === undefined || word.includes('…')) return undefined
  if (/^\[?--?/.test(word)) return findUnknownOption(command, word, rest)
  // `create|list` stands for several commands.
  const names = word.split(/\\?\|/)
  const children = names.map(name => command.commands.find(child => child.name() === name))
  if (command.commands.length > 0) {
    const [child, ...others] = children
    if (!child || others.includes(undefined)) return word
    return findUnknownWord(child, rest)
  }
  return command.registeredArguments.length > 0 ? findUnknownWord(command, rest) : word
}

function findUnknownOption(command: Command, word: string, rest: string[]): string | undefined {
  const flag = word.replace(/[[\]]/g, '')
  if (flag === '--help') return undefined
  const option = command.options.find(({ long, short }) => long === flag || short === flag)
  if (!option) return word
  return findUnknownWord(command, option.required || option.optional ? rest.slice(1) : rest)
}

describe('settings', () => {
  test.each(listBlocksIn('yaml').map(({ document, code }) => [document, code]))(
    '%s shows a config that is taken',
    (_, code) => {
      const variables = [...code.matchAll(/\$\{(\w+)\}/g)].map(([, name = '']) => [
        name,
        name === 'GATEWAY_POSTGRES_URL' ? 'postgres://gateway:secret@db.example/gateway' : 'secret',
      ])
      const text = code.replace(/"\$\{GOOGLE_SERVICE_ACCOUNT\}"/, SERVICE_ACCOUNT)
      const readSecretFile = () => 'secret'
      expect(parseConfig(text, Object.fromEntries(variables), { readSecretFile })).toBeObject()
    },
  )

  test('docs/configuration.md has the table of every setting (bun run docs)', () => {
    const text = findDocument('docs/configuration.md')?.text
    expect(text).toContain(renderSettings(listSettings(Config)))
  })
})

const SERVICE_ACCOUNT = '{ client_email: a@b.example, private_key: secret }'

describe('what the documents let a reader try', () => {
  let server: Server
  beforeAll(async () => {
    server = await startServer({ env: { OPENAI_API_KEY: 'sk-mock' } })
  })
  afterAll(async () => {
    await server[Symbol.asyncDispose]()
  })

  test('the lines that the README has for PowerShell', async () => {
    const [block] = listBlocksIn('powershell').filter(({ document }) => document === 'README.md')
    const [make = '', ask = ''] = block?.code.trim().split('\n') ?? []
    expect(make).toBe('$env:KEY = gateway keys create --name me')
    const read = /^irm (\S+) -Method Post -Headers @\{ (\w+) = "(.*?)" \} -Body '(.*)'$/
    const [, url = '', name = '', value = '', body = ''] = read.exec(ask) ?? []
    const response = await fetch(url.replace('http://127.0.0.1:8080', server.url), {
      headers: { [name]: value.replace('$env:KEY', server.inference_key) },
      ...{ method: 'POST', body },
    })
    expect([response.status, await response.text()]).toEqual([
      200,
      expect.stringContaining('Hello there'),
    ])
  })

  test.each(
    listBlocksIn('ts')
      .filter(({ document }) => document === 'README.md')
      .map(({ code }) => [code]),
  )('%s', async code => {
    process.env.KEY = server.inference_key
    const called = code
      .replace('http://127.0.0.1:8080', server.url)
      .replace('await client', 'export const answer = await client')
    const path = join(ROOT, `test/readme-${Bun.hash(code)}.generated.ts`)
    await Bun.write(path, called)
    try {
      const { answer } = await import(path)
      expect(JSON.stringify(answer)).toContain('Hello there')
    } finally {
      await Bun.file(path).delete()
    }
  })

  test.each(listBlocksIn('json').map(({ document, code }) => [document, code]))(
    '%s shows a request that is understood',
    async (_, code) => {
      const body: unknown = JSON.parse(code)
      if (!isObject(body)) throw new Error('expected an object')
      const json = { ...body, debug: { dry_run: true } }
      const response = await server.fetch('/chat/completions', { key: server.management_key, json })
      expect([response.status, await response.text()]).toEqual([
        200,
        expect.stringContaining('"models"'),
      ])
    },
  )
})
