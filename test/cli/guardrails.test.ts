import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../support/commands.ts'
import type { CommandResult } from '../support/server.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(data, { recursive: true }))

beforeAll(() => runCommand(['init', '--data', data]))

const run = (...args: string[]) => runCommand(['guardrails', ...args, '--data', data])

function jsonOf({ code, stdout, stderr }: CommandResult) {
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout)
}

const json = async (...args: string[]) => jsonOf(await run(...args, '--json'))
const create = async (...args: string[]) => (await json('create', '--name', 'rules', ...args)).data

/** Returns the exit code of a refusal, which is one line on stderr and nothing else. */
function codeOf({ code, stdout, stderr }: CommandResult): number {
  expect([stdout, stderr]).toEqual(['', expect.stringMatching(/^gateway: [^\n]+\n$/)])
  return code
}

let hash: string
let user: string

beforeAll(async () => {
  const made = jsonOf(
    await runCommand(['keys', 'create', '--name', 'held', '--json', '--data', data]),
  )
  hash = made.data.hash
  user = made.data.creator_user_id
})

describe('guardrails', () => {
  test('create sets everything that the API takes, by options and by a file', async () => {
    const file = join(data, 'rules.json')
    writeFileSync(
      file,
      JSON.stringify({
        content_filters: [{ pattern: 'S-\\d+', action: 'block', label: 'S' }],
        description: 'from the file',
      }),
    )
    const made = await create(
      ...[
        '--from',
        file,
        '--description',
        'from the option',
        '--allow-models',
        'sandbox/echo, openai/gpt-4o',
        '--ignore-models',
        'openai/gpt-4o',
      ],
      ...[
        '--allow-providers',
        'sandbox,openai',
        '--ignore-providers',
        'azure',
        '--regions',
        'europe,us',
        '--zdr',
        'openai,other',
      ],
      ...[
        '--training',
        'paid',
        '--filters',
        'email=redact,phone=block',
        '--filter-output',
        '--limit',
        '5',
        '--reset',
        'daily',
      ],
      ...['--mcp', '{"servers":["files"],"tools":["files:read"]}'],
      ...['--byok-in-budgets', '--workspace', 'default', '--requests-per-minute', '60'],
      ...['--tokens-per-minute', '20000', '--concurrent-requests', '4'],
    )
    expect(made).toMatchObject({
      name: 'rules',
      description: 'from the option',
      allowed_models: ['sandbox/echo', 'openai/gpt-4o'],
      ignored_models: ['openai/gpt-4o'],
      allowed_providers: ['sandbox', 'openai'],
      ignored_providers: ['azure'],
      allowed_data_regions: ['europe', 'us'],
      enforce_zdr_openai: true,
      enforce_zdr_other: true,
      enforce_zdr_anthropic: false,
      enable_free_model_training: false,
      enable_free_model_publication: false,
      enable_paid_model_training: true,
      content_filter_builtins: [
        { slug: 'email', action: 'redact', label: '[EMAIL]' },
        { slug: 'phone', action: 'block', label: '[PHONE]' },
      ],
      content_filters: [{ pattern: 'S-\\d+', action: 'block', label: 'S' }],
      filter_output: true,
      mcp: { servers: ['files'], tools: ['files:read'] },
      limit_usd: 5,
      reset_interval: 'daily',
      include_byok_in_budgets: true,
      requests_per_minute: 60,
      tokens_per_minute: 20_000,
      concurrent_requests: 4,
    })
    expect(await json('get', made.id)).toEqual({ data: made })
    expect((await run('get', made.id)).stdout).toMatch(/limit_usd +5\n/)
  })

  test('update clears with none, and switches off', async () => {
    const { id } = await create(
      '--allow-models',
      'sandbox/echo',
      '--limit',
      '5',
      '--reset',
      'daily',
      '--filters',
      'email=flag',
      '--filter-output',
      '--mcp',
      '{"servers":[]}',
      ...['--tokens-per-minute', '5'],
    )
    expect(codeOf(await run('update', id, '--tokens-per-minute', '1.5'))).toBe(2)
    for (const rule of ['[]', '{', '{"server":[]}'])
      expect(codeOf(await run('update', id, '--mcp', rule))).toBe(2)
    const cleared = [
      '--allow-models',
      'none',
      '--limit',
      'none',
      '--reset',
      'none',
      '--filters',
      'none',
      '--no-filter-output',
      '--mcp',
      'none',
      '--zdr',
      'none',
      ...['--tokens-per-minute', 'none'],
    ]
    const { data: changed } = await json(
      'update',
      id,
      ...cleared,
      '--name',
      'new',
      '--no-byok-in-budgets',
    )
    expect(changed).toMatchObject({
      name: 'new',
      allowed_models: null,
      limit_usd: null,
      reset_interval: null,
      content_filter_builtins: null,
    })
    expect([
      ...[changed.filter_output, changed.mcp, changed.tokens_per_minute],
      changed.enforce_zdr_xai,
    ]).toEqual([...[undefined, undefined, undefined], false])
  })

  test('update takes the name of a workspace for its default guardrail', async () => {
    const { data: made } = await json('update', 'default', '--ignore-providers', 'azure')
    expect(made).toMatchObject({
      name: `Workspace ${made.workspace_id} Default`,
      ignored_providers: ['azure'],
    })
    expect((await json('update', made.workspace_id, '--ignore-providers', 'none')).data.id).toBe(
      made.id,
    )
    expect(codeOf(await run('update', 'default', '--name', 'mine'))).toBe(2)
  })

  test('get and delete take the name of a workspace for its default guardrail too', async () => {
    const { data: made } = await json('update', 'default', '--ignore-providers', 'azure')
    expect((await json('get', 'default')).data.id).toBe(made.id)
    expect((await run('delete', 'default', '--yes')).code).toBe(0)
    expect(codeOf(await run('get', 'default'))).toBe(3)
  })

  test('an error names the option', async () => {
    expect((await run('create', '--name', 'x', '--zdr', 'nobody')).stderr).toStartWith(
      'gateway: --zdr: expected anthropic, ',
    )
    expect((await run('create', '--name', 'x', '--training', 'some')).stderr).toBe(
      'gateway: --training: expected free, paid, all or none\n',
    )
  })

  test('assign, unassign and assignments take keys or members', async () => {
    const { id } = await create()
    expect(await json('assign', id, '--keys', hash)).toEqual({ assigned_count: 1 })
    expect(await json('assign', id, '--members', user)).toEqual({ assigned_count: 1 })
    expect(await json('assignments', id)).toMatchObject({
      data: [{ key_hash: hash, key_name: 'held' }],
      total_count: 1,
    })
    expect(await json('assignments', '--members', '--limit', '1')).toMatchObject({
      data: [{ user_id: user, guardrail_id: id }],
    })
    expect((await run('assignments')).stdout).toMatch(
      new RegExp(`KEY .*\nheld .*${id}  - +${hash}`),
    )
    expect((await run('assignments', '--members')).stdout).toContain(user)
    expect((await run('unassign', id, '--keys', hash)).stdout).toBe('Unassigned 1\n')
    expect(await json('unassign', id, '--members', user)).toEqual({ unassigned_count: 1 })
    expect((await run('assign', id, '--keys', hash)).stdout).toBe('Assigned 1\n')
  })

  test('create prints what was set, and nothing else', async () => {
    const { stdout } = await run('create', '--name', 'x', '--limit', '5', '--reset', 'daily')
    expect(stdout).toMatch(/^limit_usd +5$/m)
    expect(stdout).not.toMatch(/ -$/m)
    await run('delete', /^id +(\S+)$/m.exec(stdout)?.[1] ?? '', '--yes')
  })

  test('list shows budgets, delete deletes', async () => {
    const { id } = await create('--limit', '2.5', '--reset', 'weekly')
    expect((await run('list')).stdout).toMatch(new RegExp(`rules +\\$2.50 weekly +- +${id}`))
    expect((await json('list', '--limit', '1', '--offset', '1')).data).toHaveLength(1)
    expect((await run('delete', id, '--yes')).stdout).toBe(`Deleted ${id}\n`)
    for (const line of [['get'], ['update', '--name', 'x'], ['delete', '--yes']])
      expect(codeOf(await run(...line, id))).toBe(3)
  })

  test('refuses with the messages of the API', async () => {
    const { id } = await create()
    const WRONG = [
      ['create'],
      ['create', '--name', 'x', '--limit', '5'],
      ['create', '--name', 'x', '--ignore-models', 'nobody/none'],
      ['create', '--name', 'x', '--zdr', 'everybody'],
      ['create', '--name', 'x', '--filters', 'email'],
      ['create', '--name', 'x', '--from', '/no/such/file'],
      ['list', '--limit', '0'],
      ['assign', id],
      ['assign', id, '--keys', hash, '--members', user],
      ['assign', id, '--keys', 'nobody'],
    ]
    for (const args of WRONG) expect(codeOf(await run(...args))).toBe(2)
    expect((await run('create', '--name', 'x', '--limit', '5')).stderr).toBe(
      'gateway: --reset: expected together with limit_usd, found nothing\n',
    )
    expect(
      codeOf(await run('assign', '019aa000-0000-7000-8000-0000000000ff', '--keys', hash)),
    ).toBe(3)
    expect(codeOf(await run('list', '--workspace', 'nowhere'))).toBe(3)
  })
})
