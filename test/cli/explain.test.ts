import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../support/commands.ts'

const provider = {
  protocol: 'openai-chat',
  base_url: 'http://127.0.0.1:9/v1',
  api_key: 'operators-secret',
}
const priced = (provider: string, prompt: number, more: object = {}) => ({
  provider,
  model: 'up',
  usd_per_million_tokens: { prompt, completion: 2 * prompt },
  ...more,
})
const CONFIG = {
  providers: { one: provider, two: provider, three: provider },
  models: [
    {
      id: 'acme/small',
      endpoints: [
        priced('two', 2, { supported_parameters: ['max_tokens'] }),
        priced('one', 1),
        priced('three', 3),
      ],
    },
  ],
  routing: { choice: 'listed' },
}
const REQUEST = {
  model: 'acme/small',
  messages: [{ role: 'user', content: 'Hi' }],
  max_tokens: 100,
  seed: 1,
  provider: { ignore: ['three'] },
}

let data: string
let hash: string

beforeAll(async () => {
  data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  writeFileSync(join(data, 'gateway.yaml'), JSON.stringify(CONFIG))
  writeFileSync(join(data, 'request.json'), JSON.stringify(REQUEST))
  await runCommand(['init', '--data', data], { cwd: data })
  const created = await runCommand([
    'keys',
    'create',
    '--name',
    'ci',
    '--limit',
    '0.5',
    '--limit-reset',
    'daily',
    '--json',
    '--data',
    data,
  ])
  hash = JSON.parse(created.stdout).data.hash
})

afterAll(() => rmSync(data, { recursive: true, force: true }))

const explain = (args: string[], stdin?: string) =>
  runCommand(['explain', ...args, '--data', data], {
    cwd: data,
    ...(stdin === undefined ? {} : { stdin }),
  })

const UNREADABLE =
  'cannot be read: expected a file of JSON, the JSON object itself, or - for standard input'

describe('gateway explain', () => {
  test('takes the body in the place of its file, as its help says', async () => {
    const { code, stdout, stderr } = await explain([JSON.stringify(REQUEST), '--json'])
    expect([code, stderr]).toEqual([0, ''])
    expect(JSON.parse(stdout)).toMatchObject({ models: ['acme/small'], error: null })
  })

  test('shows people the endpoints, what was dropped, and the estimated cost', async () => {
    const { code, stdout, stderr } = await explain(['request.json', '--key', hash])
    expect([code, stderr]).toEqual([0, ''])
    const lines = stdout.split('\n').map(line => line.split(/ {2,}/))
    const found = (first: string) => lines.find(([one]) => one === first)?.slice(1)
    expect(found('key')).toEqual([expect.stringMatching(/^ci \(gw-v1-/)])
    expect(found('models')).toEqual(['acme/small (direct)'])
    expect(found('1')).toEqual([
      'two',
      'acme/small',
      '2',
      '4',
      expect.any(String),
      expect.any(String),
      '-',
      'ignores seed',
    ])
    expect(found('2')?.slice(0, 2)).toEqual(['one', 'acme/small'])
    expect(found('three')?.slice(0, 2)).toEqual(['acme/small', 'allowed_providers'])
    expect(found(`key ${hash.slice(0, 16)}…`)).toEqual(['daily', '$0.50', '$0.50', 'yes'])
    expect(stdout).toMatch(/\nIt would go to two first, as up, with \$0\.000\d+ set aside\.\n$/)
    expect(stdout).not.toContain('secret')
  })

  test('shows the reason for which a call would be refused', async () => {
    const { code, stdout } = await explain(
      ['-'],
      JSON.stringify({ ...REQUEST, provider: { only: ['nobody'] } }),
    )
    expect([code, stdout]).toEqual([
      0,
      expect.stringContaining('\nIt would be refused: 404 No endpoints found for acme/small: '),
    ])
  })

  test('takes other dialects, another workspace, a region and a session', async () => {
    await runCommand(['workspaces', 'create', '--name', 'Team', '--slug', 'team', '--data', data])
    const args = [
      '-',
      '--dialect',
      'embeddings',
      '--workspace',
      'team',
      '--region',
      'europe',
      '--session',
      's',
      '--json',
    ]
    const { stdout } = await explain(args, JSON.stringify({ model: 'sandbox/embed', input: 'Hi' }))
    expect(JSON.parse(stdout)).toMatchObject({
      workspace: { slug: 'team' },
      region: 'europe',
      endpoints: [{ provider: 'sandbox' }],
      error: null,
    })
  })

  test.each<[name: string, args: string[], stdin: string | undefined, code: number, said: string]>([
    ['no file', ['nowhere.json'], undefined, 2, `request: nowhere.json ${UNREADABLE}`],
    ['a directory', ['.'], undefined, 2, `request: . ${UNREADABLE}`],
    ['nothing', ['-'], '', 2, 'body: expected a JSON object, found nothing'],
    ['no JSON', ['-'], '{"model":', 2, 'body: expected valid JSON in UTF-8'],
    ['no object', ['-'], '[]', 2, 'body: expected object, found an empty array'],
    [
      'an empty object',
      ['-'],
      '{}',
      2,
      'request: expected the body of a call, found an empty object',
    ],
    ['no messages', ['-'], '{"model":"acme/small"}', 0, ''],
    [
      'a wrong type',
      ['-'],
      JSON.stringify({ ...REQUEST, max_tokens: 'many' }),
      2,
      'max_tokens: expected integer from 1 or null, found a string',
    ],
    ['deep nesting', ['-'], '['.repeat(100_000), 2, 'body: expected at most 128 levels of nesting'],
    [
      'too many values',
      ['-'],
      `[${'0,'.repeat(600_000)}0]`,
      2,
      'body: expected at most 500000 values',
    ],
    [
      'more than a body may be',
      ['-'],
      `"${'x'.repeat(40 * 1024 * 1024)}"`,
      2,
      'request: expected at most 33554432 bytes',
    ],
    ['a control character', ['-'], JSON.stringify({ ...REQUEST, model: 'a/\u001b[2J' }), 0, ''],
    ['an unknown key', ['request.json', '--key', 'nobody'], undefined, 3, 'API key not found'],
    [
      'an unknown workspace',
      ['request.json', '--workspace', 'nobody'],
      undefined,
      3,
      'Workspace not found',
    ],
    [
      'a key and a workspace',
      ['request.json', '--key', 'k', '--workspace', 'w'],
      undefined,
      2,
      '--workspace: expected none beside --key, which has its own',
    ],
    ['an unknown dialect', ['request.json', '--dialect', 'latin'], undefined, 2, ''],
    ['no request', [], undefined, 2, ''],
  ])('of %s', async (_, args, stdin, code, said) => {
    const ran = await explain(args, stdin)
    expect([ran.code, ran.stderr]).toEqual([
      code,
      code === 0 ? '' : said ? `gateway: ${said}\n` : expect.stringMatching(/^gateway: [^\n]+\n$/),
    ])
    expect(ran.stdout).not.toContain('\u001b')
  })
})
