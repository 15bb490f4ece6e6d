import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Command } from 'commander'
import { createProgram } from '../../src/cli/main.ts'
import type { DestinationType } from '../../src/observability/destinations/kind.ts'
import { findKind } from '../../src/observability/destinations/registry.ts'
import { runCommand } from '../support/commands.ts'
import { SAMPLES } from '../support/destination-samples.ts'

/** What stands in the middle of every secret, of which masks show nothing. */
const MARK = 'Mark1nTh3M1ddle'
const plant = (name: string) => `first-${name}-${MARK}-0123456789-last`

/** What begins a secret in a sample of a destination. */
const SECRET = /SECRET(?=[-\w])/

const data = mkdtempSync(join(tmpdir(), 'gateway-shown-'))
const config = join(data, 'gateway.yaml')
const env: Record<string, string> = {
  ...{ PROVIDER_KEY: plant('provider'), MAIL_PASSWORD: plant('mail'), MCP_TOKEN: plant('mcp') },
  ...{ BYOK_KEY: plant('byok'), HOOK_SECRET: plant('hook') },
  SLACK_URL: `https://hooks.slack.com/services/${plant('slack')}`,
}

/** What holds a secret: how it is made, how it is changed without a new one, and with one. */
interface Holder {
  noun: string
  create: string[]
  changes: string[][]
}

const writeJson = (name: string, value: unknown): string => {
  const path = join(data, name)
  writeFileSync(path, JSON.stringify(value))
  return path
}

const PRESET_TOOL = {
  ...{ type: 'mcp', server_label: 'files', authorization: plant('authorization') },
  server_url: `https://user:${plant('url')}@mcp.example/sse`,
  headers: { 'X-Own': plant('header') },
}
const PRESET = {
  model: 'acme/small',
  messages: [{ role: 'system', content: `Use sk-proj-${MARK}Ab3dEf6hIj9kLmN0` }],
  tools: [PRESET_TOOL],
}

function listHolders(): Holder[] {
  const hook = ['--webhook', 'https://alerts.example/hook', '--secret-env', 'HOOK_SECRET']
  const slack = ['--slack-env', 'SLACK_URL']
  const alert = (name: string, to: string[]): Holder => ({
    noun: 'alerts',
    create: ['--name', name, '--cause', 'credential_ending', ...to],
    changes: [['--disable'], to],
  })
  const body = writeJson('preset.json', PRESET)
  return [
    {
      noun: 'byok',
      create: ['--provider', 'openai', '--key-env', 'BYOK_KEY'],
      changes: [
        ['--name', 'renamed'],
        ['--key-env', 'BYOK_KEY'],
      ],
    },
    {
      noun: 'presets',
      create: ['preset', '--body', body, '--dialect', 'chat'],
      changes: [
        ['--status', 'disabled'],
        ['--status', 'active'],
      ],
    },
    alert('hook', hook),
    alert('slack', slack),
    ...listDestinations(),
  ]
}

const listDestinations = (): Holder[] =>
  Object.entries(SAMPLES).map(([type, { least, others }]) => {
    const headers = { 'X-Own': plant('header'), Cookie: plant('cookie') }
    const text = JSON.stringify({ ...least, ...others, headers })
      .replace(new RegExp(SECRET, 'g'), `SECRET${MARK}`)
      .replaceAll(/:\d+(?=["/])/g, '')
    const settings = ['--settings', writeJson(`${type}.json`, JSON.parse(text))]
    return {
      noun: 'destinations',
      create: ['--type', type, '--name', type, ...settings],
      changes: [['--disable'], settings],
    }
  })

beforeAll(async () => {
  writeJson('gateway.yaml', {
    providers: {
      acme: {
        ...{ protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1' },
        ...{ api_key: `\${PROVIDER_KEY}`, headers: { 'X-Own': plant('provider-header') } },
      },
    },
    models: [
      { id: 'acme/small', context_length: 4_000, endpoints: [{ provider: 'acme', model: 'up' }] },
    ],
    mcp_servers: {
      files: { url: 'https://mcp.example/mcp', headers: { Authorization: `\${MCP_TOKEN}` } },
    },
    mail: {
      ...{ host: '127.0.0.1', port: 9, security: 'tls', from: 'a@acme.example' },
      ...{ user: 'me', password: `\${MAIL_PASSWORD}` },
    },
  })
  expect((await runCommand(['init', '--data', data])).code).toBe(0)
})
afterAll(() => rmSync(data, { recursive: true }))

async function look(...line: string[]): Promise<string> {
  const place = ['--data', data, '--config', config]
  const { code, stdout, stderr } = await runCommand([...line, ...place], { env })
  expect([line.join(' '), code, code === 0 ? '' : stderr]).toEqual([line.join(' '), 0, ''])
  for (const text of [stdout, stderr])
    if (text.includes(MARK)) throw new Error(`${line.join(' ')} shows a secret: ${text}`)
  return stdout
}

/** Commands that do not say what is kept: they work for long, or want a person or another server. */
const OTHERS = new Set([
  ...['serve', 'setup', 'init', 'agent', 'try', 'selftest', 'bench', 'backup', 'restore'],
  ...['nodes', 'store', 'watch', 'tui', 'completions', 'man', 'import', 'export', 'help', 'status'],
])
/** Verbs that change, or call what is not there. */
const CHANGES = new Set([
  ...['create', 'delete', 'test', 'sync', 'prune', 'update', 'set', 'add', 'init', 'recompute'],
  ...[
    'secret',
    'login',
    'logout',
    'check',
    'upload',
    'rotate',
    'drain',
    'unassign',
    'assign',
    'drop',
  ],
])

/** Lists the lines that tell something and need no argument. */
function listLines(command: Command, words: string[] = []): string[][] {
  if (OTHERS.has(words[0] ?? '') || CHANGES.has(words.at(-1) ?? '')) return []
  if (command.commands.length > 0)
    return command.commands.flatMap(child => listLines(child, [...words, child.name()]))
  const needsMore =
    command.registeredArguments.some(({ required }) => required) ||
    command.options.some(({ mandatory }) => mandatory)
  return needsMore ? [] : [words]
}

/** Lists the verbs of a noun that take one of its things, and nothing else. */
async function listVerbs(noun: string): Promise<string[]> {
  const [command] = (await createProgram(noun)).commands
  return (command?.commands ?? [])
    .filter(({ registeredArguments: [first, ...rest] }) => first?.required && !rest[0]?.required)
    .map(child => child.name())
    .filter(name => !CHANGES.has(name))
}

test('no verb shows a secret that is kept, neither to people nor to programs', async () => {
  for (const { noun, create, changes } of listHolders()) {
    const { data: made } = JSON.parse(await look(noun, 'create', ...create, '--json'))
    const id = made.slug ?? made.id
    // Kinds of destinations differ in their config alone, which each verb shows alike.
    const isLikeOthers = noun === 'destinations' && made.type !== 'webhook'
    for (const form of isLikeOthers ? [['--json']] : [[], ['--json']]) {
      for (const change of changes) await look(noun, 'update', id, ...change, ...form)
      for (const verb of isLikeOthers ? ['get'] : await listVerbs(noun))
        await look(noun, verb, id, ...form)
    }
  }
  const lines = listLines(await createProgram()).filter(words => words.length > 0)
  expect(lines.map(words => words.join(' '))).toEqual(
    expect.arrayContaining(['byok list', 'audit list', 'config show', 'providers list']),
  )
  for (const words of lines) for (const form of [[], ['--json']]) await look(...words, ...form)
})

test('every secret of a destination is planted', () => {
  for (const [type, { least, others }] of Object.entries(SAMPLES)) {
    const { secrets } = findKind(type as DestinationType)
    const planted = Object.entries({ ...least, ...others }).filter(([, value]) =>
      SECRET.test(String(value)),
    )
    expect(planted.map(([name]) => name).sort()).toEqual([...secrets].sort())
  }
})
