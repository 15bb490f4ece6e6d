import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { runCommand } from '../support/commands.ts'
import { buildGeneration } from '../support/generation.ts'
import { runOnTerminal } from '../support/terminal.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-lists-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const data = join(directory, 'many')
const KEYS = 130
/** Commands without a terminal. */
const run = (...args: string[]) => runCommand([...args, '--data', data])
const hashesOf = async (...args: string[]): Promise<string[]> =>
  JSON.parse((await run('keys', 'list', '--json', ...args)).stdout).data.map(
    ({ hash }: { hash: string }) => hash,
  )

beforeAll(async () => {
  const gateway = await openGateway({ data })
  for (let i = 0; i < KEYS; i++)
    await createKey(gateway, getOperator(gateway), { name: `key-${i}` })
  await gateway.close()
})

describe('a list', () => {
  test('shows a page, says on stderr how much there is, and how to see more', async () => {
    const { stdout, stderr } = await run('keys', 'list', '--limit', '2', '--offset', '3')
    expect(stdout.trim().split('\n')).toHaveLength(3)
    expect(stderr).toBe('Shown: 2 of 130. --offset 5 shows the next, --all all\n')
  })

  test('has everything with --all, each once', async () => {
    const all = await hashesOf('--all')
    expect([all.length, new Set(all).size]).toEqual([KEYS, KEYS])
    expect((await run('keys', 'list', '--all')).stderr).toBe('')
  })

  test('of calls goes on by a cursor, or to the end with --all', async () => {
    const calls = join(directory, 'calls')
    const gateway = await openGateway({ data: calls })
    for (let i = 0; i < 230; i++)
      await gateway.store.generations.record([
        { generation: buildGeneration({ id: `gen-${i}` }), charge: null },
      ])
    await gateway.close()
    const list = (...args: string[]) =>
      runCommand(['generations', 'list', ...args, '--data', calls])
    const page = await list('--limit', '2')
    expect(page.stderr).toBe('There are more: --cursor gen-228 shows the next, --all all\n')
    const { data } = JSON.parse((await list('--all', '--json')).stdout)
    expect(new Set(data.map(({ id }: { id: string }) => id)).size).toBe(230)
    expect((await list('--all', '--cursor', 'gen-5')).code).toBe(2)
  })

  test('calls that failed are listed by a class of statuses, as watch and logs take it', async () => {
    const failed = join(directory, 'failed')
    const gateway = await openGateway({ data: failed })
    for (const error_type of ['timeout', 'rate_limit_exceeded', 'provider_unavailable', null])
      await gateway.store.generations.record([
        { generation: buildGeneration({ id: `gen-${error_type}`, error_type }), charge: null },
      ])
    await gateway.close()
    const list = async (status: string) => {
      const line = ['generations', 'list', '--status', status, '--field', 'id', '--data', failed]
      return (await runCommand(line)).stdout.trim().split('\n')
    }
    expect(await list('5xx')).toEqual(['gen-provider_unavailable', 'gen-timeout'])
    expect(await list('4xx')).toEqual(['gen-rate_limit_exceeded'])
    expect(await list('429')).toEqual(['gen-rate_limit_exceeded'])
    expect(await list('error')).toHaveLength(3)
  })

  test.each<string[]>([
    ['keys', 'list', '--all', '--limit', '2'],
    ['keys', 'list', '--limit', '0'],
    ['keys', 'list', '--limit', '1.5'],
    ['keys', 'list', '--offset', '-1'],
    ['keys', 'list', '--limit', '1e9'],
    ['providers', 'list', '--limit', '-1'],
    ['providers', 'list', '--offset', '0.5'],
  ])('%s %s %s %s %s is refused', async (...args: string[]) => {
    const { code, stdout, stderr } = await run(...args)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^gateway: --(all|limit|offset): expected [^\n]+\n$/)
  })

  test('that the core returns whole is cut here', async () => {
    const whole = (await run('providers', 'list')).stdout.trim().split('\n')
    const cut = await run('providers', 'list', '--offset', '1', '--limit', '2')
    expect(cut.stdout.trim().split('\n').slice(1).map(firstWord)).toEqual(
      whole.slice(2, 4).map(firstWord),
    )
    expect(cut.stderr).toContain(`Shown: 2 of ${whole.length - 1}. --offset 3 shows the next\n`)
  })

  test('says what it hides: disabled keys, and those of other workspaces', async () => {
    const other = join(directory, 'hiding')
    const at = (...args: string[]) => runCommand([...args, '--data', other])
    await at('init')
    await at('workspaces', 'create', '--name', 'Lab', '--slug', 'lab')
    await at('keys', 'create', '--name', 'there', '--workspace', 'lab')
    await at('keys', 'update', 'inference', '--disable')
    expect((await at('keys', 'list')).stderr).toBe(
      'Hidden: 1 disabled. --disabled shows them\n' +
        'Hidden: 1 in other workspaces. --workspace shows them\n',
    )
    expect((await at('keys', 'list', '--disabled')).stdout).toMatch(
      /inference +inference .*disabled/,
    )
  })

  test('says what it hides: deactivated members, and what is in other workspaces', async () => {
    const other = join(directory, 'elsewhere')
    const at = (args: string[], stdin?: string) =>
      runCommand([...args, '--data', other], stdin === undefined ? {} : { stdin })
    await at(['init'])
    await at(['workspaces', 'create', '--name', 'Lab', '--slug', 'lab'])
    await at(['members', 'create', '--email', 'gone@example.com'])
    await at(['members', 'deactivate', 'gone@example.com', '--yes'])
    await at(['guardrails', 'create', '--name', 'cheap', '--workspace', 'lab'])
    await at(['budgets', 'set', 'monthly', '--limit', '5', '--workspace', 'lab'])
    await at(['byok', 'create', '--provider', 'openai', '--workspace', 'lab'], 'sk-1')
    const body = join(directory, 'body.json')
    await Bun.write(body, '{"messages":[{"role":"user","content":"Hello"}]}')
    await at(['presets', 'create', 'helper', '--body', body, '--workspace', 'lab'])
    const hidden = 'Hidden: 1 in other workspaces. --workspace shows them\n'
    for (const noun of ['guardrails', 'budgets', 'byok', 'presets']) {
      const { stderr } = await at([noun, 'list'])
      expect([noun, stderr]).toEqual([noun, `No ${noun} found\n${hidden}`])
      expect((await at([noun, 'list', '--workspace', 'lab'])).stderr).toBe('')
    }
    expect((await at(['members', 'list'])).stderr).toBe(
      'Hidden: 1 deactivated. --inactive shows them\n',
    )
    const inactive = await at(['members', 'list', '--inactive'])
    expect([inactive.stdout, inactive.stderr]).toEqual([
      expect.stringMatching(/^E-MAIL [^\n]+\ngone@example\.com [^\n]+\n$/),
      '',
    ])
    expect((await at(['members', 'list', '--inactive', '--limit', '1'])).code).toBe(2)
  })

  test('of models says which it hides: what cannot be called, and what is no text', async () => {
    const list = (...args: string[]) => runCommand(['models', 'list', ...args], { cwd: directory })
    const shown = await list('--limit', '1')
    expect(shown.stdout.trim().split('\n')).toHaveLength(2)
    const [, callable = ''] =
      /^Shown: 1 of (\d+)\. --offset 1 shows the next\n/.exec(shown.stderr) ?? []
    const [, unlisted = ''] =
      /\nHidden: (\d+) that cannot be called here\. --all shows them\n/.exec(shown.stderr) ?? []
    const [, other = ''] =
      /\nHidden: (\d+) that produce no text\. --output all shows them\nCatalogue: of [\d-]+\n$/.exec(
        shown.stderr,
      ) ?? []
    const count = async (...args: string[]) =>
      JSON.parse((await list('--json', ...args)).stdout).total_count
    expect(await count()).toBe(Number(callable))
    expect(await count('--all')).toBe(Number(callable) + Number(unlisted))
    expect(await count('--output', 'all')).toBe(Number(callable) + Number(other))
    expect((await list('--all', '--output', 'all')).stderr).toBe('')
  })

  test.each<string[]>([
    ['workspaces', 'list', '--offset', '9'],
    ['budgets', 'list'],
    ['presets', 'list'],
    ['byok', 'list'],
    ['guardrails', 'list'],
    ['guardrails', 'assignments'],
    ['credits', 'list'],
    ['generations', 'list'],
    ['logs'],
    ['scim', 'token', 'list'],
    ['scim', 'mappings', 'list'],
  ])('that is empty says so on stderr: %s %s', async (...args: string[]) => {
    const { code, stdout, stderr } = await run(...args)
    expect([code, stdout]).toEqual([0, ''])
    expect(stderr).toMatch(/^No [\w ]+ found\n/)
    expect(JSON.parse((await run(...args, '--json')).stdout)).toMatchObject({ data: [] })
  })

  test('fits the width of a terminal, and is whole elsewhere', async () => {
    const line = ['keys', 'list', '--limit', '3', '--data', data]
    const { shown } = await runOnTerminal(line, { cols: 60 })
    const widths = shown
      .trim()
      .split('\r\n')
      .slice(0, 4)
      .map(row => Bun.stringWidth(row))
    expect(Math.max(...widths)).toBe(60)
    expect(shown).toContain('…')
    const [hash = 'none'] = await hashesOf('--limit', '1')
    expect((await run('keys', 'list', '--limit', '3')).stdout).toContain(hash)
  })

  test('shows the kind of each key', async () => {
    const { stdout } = await run('keys', 'list', '--limit', '1')
    expect(stdout).toMatch(/^NAME +KIND .*\nkey-\d+ +inference /)
    expect((await run('keys', 'get', 'key-1')).stdout).toMatch(/\nkind +inference\n/)
  })
})

const firstWord = (line: string) => line.split(' ')[0]

describe('an id', () => {
  test('may be a name, a label, or a beginning that only one has', async () => {
    const [newest = ''] = await hashesOf('--limit', '1')
    const get = async (name: string) => {
      const { stdout } = await run('keys', 'get', name, '--json')
      return JSON.parse(stdout).data
    }
    const { label, name: own } = await get(newest)
    for (const name of [newest, newest.slice(0, 20), own, label])
      expect((await get(name)).hash).toBe(newest)
    expect((await get('key-12')).name).toBe('key-12')
  })

  test('that several have is an error with the candidates', async () => {
    const wrong = await run('keys', 'update', 'key-', '--disable')
    expect([wrong.code, wrong.stdout]).toEqual([2, ''])
    expect(wrong.stderr).toMatch(
      /^gateway: key-: expected one API key, found 130: [0-9a-f]{64} \(key-\d+\), .*, and 120 more\n$/,
    )
  })

  test('of a call may be a beginning too, or the request id that its caller saw', async () => {
    const calls = join(directory, 'some-calls')
    const gateway = await openGateway({ data: calls })
    for (const [id, request_id] of [
      ['gen-100-a', 'mine'],
      ['gen-100-b', 'twice'],
      ['gen-200', 'twice'],
    ] as const)
      await gateway.store.generations.record([
        { generation: buildGeneration({ id, request_id }), charge: null },
      ])
    await gateway.close()
    const get = (id: string) => runCommand(['generations', 'get', id, '--data', calls, '--json'])
    for (const name of ['gen-100-a', 'mine'])
      expect(JSON.parse((await get(name)).stdout).data.id).toBe('gen-100-a')
    expect(JSON.parse((await get('gen-2')).stdout).data.id).toBe('gen-200')
    expect((await get('gen-1')).stderr).toBe(
      'gateway: gen-1: expected one call, found 2: gen-100-a, gen-100-b\n',
    )
    expect((await get('twice')).stderr).toContain('expected one call, found 2: ')
    for (const name of ['gen-3', '', '%'])
      expect(await get(name)).toMatchObject({ code: 3, stdout: '' })
  })

  test('that nothing has is what the core says, exit code 3', async () => {
    expect(await run('keys', 'get', 'nothing')).toMatchObject({ code: 3, stdout: '' })
    expect(await run('keys', 'get', '')).toMatchObject({ code: 3, stdout: '' })
  })

  test('is found so in options too, and of every noun', async () => {
    const other = join(directory, 'nouns')
    const at = async (...args: string[]) => {
      const result = await runCommand([...args, '--data', other])
      expect([args.join(' '), result.code, result.stderr]).toEqual([
        args.join(' '),
        0,
        result.stderr,
      ])
      return result.stdout
    }
    const read = async (...args: string[]) => JSON.parse(await at(...args, '--json')).data
    await at('init')
    await at('workspaces', 'create', '--name', 'Research', '--slug', 'lab')
    await at('members', 'create', '--email', 'ada@example.com')
    await at('members', 'add', 'ada@', '--workspace', 'Research')
    const made = JSON.parse(
      await at(
        'keys',
        'create',
        '--name',
        'ci',
        '--workspace',
        'la',
        '--creator',
        'ada@example.com',
        '--json',
      ),
    ).data
    expect(made.creator_user_id).toStartWith('user_')
    expect((await read('members', 'list', '--workspace', 'lab'))[0].user_id).toBe(
      made.creator_user_id,
    )
    await at('guardrails', 'create', '--name', 'cheap')
    await at('guardrails', 'assign', 'cheap', '--keys', 'inference')
    expect((await read('guardrails', 'assignments', 'chea'))[0].key_name).toBe('inference')
    expect((await read('guardrails', 'get', 'che')).name).toBe('cheap')
    await at('guardrails', 'unassign', 'cheap', '--keys', 'infer')
    await at('budgets', 'set', 'monthly', '--limit', '5', '--workspace', 'Research')
    expect((await read('budgets', 'get', 'monthly', '--workspace', 'lab')).limit_usd).toBe(5)
    expect((await read('audit', 'list', '--resource', 'ci'))[0].action).toBe('keys.create')
    await at('scim', 'token', 'create', '--name', 'okta')
    expect(await at('scim', 'token', 'revoke', 'okta', '--yes')).toBe('Revoked okta\n')
    const { stdout } = await runCommand(['generations', 'list', '--key', 'c', '--data', other])
    expect(stdout).toBe('')
  })
})

describe('a new key', () => {
  test('has the creator and the partner’s user that it is made for', async () => {
    await run('members', 'create', '--email', 'eve@example.com')
    const { stdout } = await run(
      'keys',
      'create',
      '--name',
      'app',
      '--creator',
      'eve@',
      '--external',
      'user-17',
      '--json',
    )
    expect(JSON.parse(stdout).data).toMatchObject({
      creator_user_id: expect.stringMatching(/^user_/),
      external_user: 'user-17',
    })
  })

  test('takes the partner’s own key from stdin, and shows it nowhere', async () => {
    const partner = `partner-canary-${'x'.repeat(32)}`
    const line = ['keys', 'create', '--name', 'known', '--external', 'user-18', '--external-key']
    const made = await runCommand([...line, '--data', data, '--json'], { stdin: partner })
    expect([made.code, made.stdout.includes('canary')]).toEqual([0, false])
    expect((await run('audit', 'list', '--json')).stdout).not.toContain('canary')
    expect((await run('keys', 'create', '--name', 'x', '--external-key')).code).toBe(2)
  })

  test('names no stranger', async () => {
    expect(await run('keys', 'create', '--name', 'x', '--creator', 'nobody')).toMatchObject({
      code: 2,
      stderr: 'gateway: --creator: expected a member of the organization\n',
    })
  })
})

test.each<string[]>([
  ['keys', 'update', 'key-1'],
  ['workspaces', 'update', 'default'],
  ['members', 'update', 'owner@localhost'],
  ['guardrails', 'update', 'default'],
  ['byok', 'update', 'any'],
])('%s %s %s without a change is refused, and says what could be', async (...args: string[]) => {
  const { code, stdout, stderr } = await run(...args)
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toMatch(/^gateway: update: expected a change: .*--(first-)?name[^\n]*\n$/)
})

describe('a delete', () => {
  const count = async () => (await hashesOf('--all')).length
  const create = (name: string) => run('keys', 'create', '--name', name)

  test('asks on a terminal with what is meant, and does nothing unless the answer is yes', async () => {
    await create('doomed')
    const before = await count()
    const line = ['keys', 'delete', 'doom', '--data', data]
    const no = await runOnTerminal(line, { answers: [['[y/N]', 'n\r']] })
    expect([no.code, await count()]).toEqual([1, before])
    expect(no.shown).toMatch(/Delete the API key [0-9a-f]{64} \(doomed\)\? \[y\/N\]/)
    const yes = await runOnTerminal(line, { answers: [['[y/N]', 'y\r']] })
    expect([yes.code, await count()]).toEqual([0, before - 1])
  })

  test('asks nobody with --yes', async () => {
    await create('doomed-2')
    const { code, shown } = await runOnTerminal([
      'keys',
      'delete',
      'doomed-2',
      '--yes',
      '--data',
      data,
    ])
    expect([code, shown]).toEqual([0, 'Deleted doomed-2\r\n'])
  })

  test('needs --yes where nobody can be asked', async () => {
    await create('doomed-3')
    const before = await count()
    const refused = await run('keys', 'delete', 'doomed-3')
    expect([refused.code, await count()]).toEqual([2, before])
    expect(refused.stderr).toMatch(
      /^gateway: Delete the API key \w+ \(doomed-3\)\? There is no terminal .*--yes answers yes\n$/,
    )
    expect((await run('keys', 'delete', 'doomed', '--yes')).code).toBe(0)
    expect(await count()).toBe(before - 1)
  })
})

test('a provider key is typed without echo', async () => {
  const secret = 'sk-canary-0123456789'
  const { code, shown } = await runOnTerminal(
    ['byok', 'create', '--provider', 'openai', '--data', data],
    { answers: [['Provider key: ', `${secret}\r`]] },
  )
  expect([code, shown.includes('canary')]).toEqual([0, false])
  expect((await run('byok', 'list')).stdout).toContain('openai')
})

describe('keys rotate', () => {
  test('prints the new secret alone, and when the one so far ends', async () => {
    await run('keys', 'create', '--name', 'turning')
    const { code, stdout, stderr } = await run('keys', 'rotate', 'turning', '--overlap', '30m')
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^gw-v1-[0-9a-f]{72}\n$/)])
    expect(stderr).toMatch(/\nThe secret so far is valid until \d{4}-[^\n]+Z\n$/)
    expect((await run('keys', 'get', 'turning')).stdout).toMatch(/previous_secret_until +\d{4}-/)
    const now = await run('keys', 'rotate', 'turning', '--overlap', '0')
    expect(now.stderr).toContain('The secret so far is no longer valid\n')
  })

  test.each(['-1h', '1.5h', '5', '1w', '', '91d', '999999999999999999999d'])(
    'refuses --overlap %p',
    async overlap => {
      const { code, stdout, stderr } = await run('keys', 'rotate', 'key-1', `--overlap=${overlap}`)
      expect([code, stdout]).toEqual([2, ''])
      expect(stderr).toMatch(/^gateway: .*--overlap.*expected [^\n]+\n$/)
    },
  )
})
