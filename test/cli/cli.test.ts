import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runCommand } from '../support/commands.ts'
import { type CommandResult, type Server, startServer } from '../support/server.ts'

const directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
afterAll(() => rmSync(directory, { recursive: true, force: true }))

/** Creates an empty directory. */
const emptyDirectory = () => mkdtempSync(join(directory, 'd-'))

/** Returns what a command printed with `--json`. Throws if it failed. */
function jsonOf({ code, stdout, stderr }: CommandResult) {
  if (code !== 0) throw new Error(`exit code ${code}: ${stderr}`)
  return JSON.parse(stdout)
}

/** Returns the exit code, and whether the reason is one line on stderr with nothing on stdout. */
const refusal = ({ code, stdout, stderr }: CommandResult) => ({
  code,
  said: stdout,
  oneLine: /^gateway: [^\n]+\n$/.test(stderr),
})
const refused = (code: number) => ({ code, said: '', oneLine: true })

describe('help', () => {
  test('of every command opens nothing and creates no data directory', async () => {
    const cwd = emptyDirectory()
    const commands = [
      '',
      'serve',
      'init',
      'keys',
      'keys create',
      'keys update',
      'byok create',
      'byok update',
      'workspaces delete',
      'members add',
      'budgets set',
      'models list',
      'models endpoints',
      'presets create',
      'presets versions',
      'providers list',
      'generations get',
      'config check',
    ]
    const helps = await Promise.all(
      commands.map(command =>
        runCommand([...command.split(' ').filter(Boolean), '--help'], { cwd }),
      ),
    )
    for (const { code, stdout, stderr } of helps)
      expect([code, stdout.startsWith('Usage: gateway'), stderr]).toEqual([0, true, ''])
    expect(readdirSync(cwd)).toEqual([])
  })

  test('--version prints the version, and like the schema creates no directory', async () => {
    const cwd = emptyDirectory()
    const { version } = await Bun.file(join(import.meta.dir, '../../package.json')).json()
    expect(await runCommand(['--version'], { cwd })).toEqual({
      code: 0,
      stdout: `${version}\n`,
      stderr: '',
    })
    expect((await runCommand(['config', 'schema'], { cwd })).code).toBe(0)
    expect(readdirSync(cwd)).toEqual([])
  })

  test('is printed for a command line without a command, as wrong usage', async () => {
    for (const args of [[], ['keys']]) {
      const { code, stdout, stderr } = await runCommand(args)
      expect([code, stdout, stderr.startsWith('Usage: gateway')]).toEqual([2, '', true])
    }
  })
})

describe('every file', () => {
  test('is readable by its owner only, even in a directory that others may read', async () => {
    const cwd = emptyDirectory()
    const data = join(cwd, 'shared')
    mkdirSync(data, { mode: 0o755 })
    expect((await runCommand(['init', '--data', data], { cwd })).code).toBe(0)
    const modes = readdirSync(data).map(file => statSync(join(data, file)).mode & 0o077)
    expect(modes).toEqual(modes.map(() => 0))
    expect(modes.length).toBeGreaterThan(0)
  })
})

describe('wrong usage is exit code 2 and one line', () => {
  const cwd = emptyDirectory()
  beforeAll(() => runCommand(['init'], { cwd }))

  test.each([
    ['an unknown command', ['nothing']],
    ['a command that is almost one', ['key']],
    ['an unknown verb', ['keys', 'make']],
    ['an unknown option', ['keys', 'list', '--bogus']],
    ['a missing option', ['keys', 'create']],
    ['a missing argument', ['keys', 'get']],
    ['an argument too many', ['keys', 'list', 'x']],
    ['an option without its value', ['keys', 'list', '--data']],
    ['a number that is none', ['keys', 'create', '--name', 'x', '--limit', 'five']],
    ['a negative limit', ['keys', 'create', '--name', 'x', '--limit', '-1']],
    ['an unknown period', ['keys', 'create', '--name', 'x', '--limit-reset', 'yearly']],
    [
      'a time that is none',
      ['keys', 'create', '--name', 'x', '--expires-at', '2099-01-01T00:00+02:00'],
    ],
    [
      'a time that has passed',
      ['keys', 'create', '--name', 'x', '--expires-at', '2020-01-01T00:00:00Z'],
    ],
    ['an empty name', ['keys', 'create', '--name', '']],
    ['a preset without a body', ['presets', 'create', 'x']],
    ['a body that is not there', ['presets', 'create', 'x', '--body', 'nowhere.json']],
    ['a body that is none', ['presets', 'create', 'x', '--body', '/dev/null']],
    ['an unknown dialect', ['presets', 'create', 'x', '--body', '-', '--dialect', 'latin']],
    ['what is no slug', ['presets', 'get', 'a b']],
    ['what is no version', ['presets', 'versions', 'x', 'latest']],
    ['an unknown status', ['presets', 'update', 'x', '--status', 'asleep']],
    ['a page of none', ['presets', 'list', '--limit', '0']],
    ['none at all', ['generations', 'list', '--limit', '0']],
    ['a port that is none', ['serve', '--port', '70000']],
    ['a log format that is none', ['serve', '--port', '0', '--log', 'xml']],
    ['a config that is not there', ['config', 'check', 'nowhere.yaml']],
  ])('%s', async (_, args) => {
    expect(refusal(await runCommand(args, { cwd }))).toEqual(refused(2))
  })

  test('prints no character that moves the cursor', async () => {
    const { stderr } = await runCommand(['keys', 'list', '--\u001b[31mred'], {
      cwd: emptyDirectory(),
    })
    expect(stderr).not.toContain('\u001b')
  })
})

describe('init', () => {
  test('creates the data directory for its owner only, and prints its first keys', async () => {
    const data = join(emptyDirectory(), 'new', 'data')
    const made = jsonOf(await runCommand(['init', '--json', '--data', data]))
    expect(made).toEqual({
      workspace_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      management_key: expect.stringMatching(/^gw-v1-[0-9a-f]{72}$/),
      inference_key: expect.stringMatching(/^gw-v1-[0-9a-f]{72}$/),
    })
    expect(statSync(data).mode & 0o077).toBe(0)
  })

  test('a second time is a conflict, and prints no key', async () => {
    const data = emptyDirectory()
    const { stdout } = await runCommand(['init', '--data', data])
    expect(stdout.match(/gw-v1-[0-9a-f]{72}/g)).toHaveLength(2)
    expect(refusal(await runCommand(['init', '--data', data]))).toEqual(refused(4))
    expect(refusal(await runCommand(['init', '--json', '--data', data]))).toEqual(refused(4))
  })

  test('finds its directory by the flag, then GATEWAY_DATA, then ./gateway-data', async () => {
    const cwd = emptyDirectory()
    await runCommand(['init'], { cwd })
    await runCommand(['init'], { cwd, env: { GATEWAY_DATA: join(cwd, 'by-env') } })
    await runCommand(['init', '--data', join(cwd, 'by-flag')], {
      cwd,
      env: { GATEWAY_DATA: join(cwd, 'by-nobody') },
    })
    expect(readdirSync(cwd).sort()).toEqual(['by-env', 'by-flag', 'gateway-data'])
  })

  test('alone creates a named directory; other commands report it as missing', async () => {
    const cwd = emptyDirectory()
    const misspelt = join(cwd, 'gateway-dat')
    expect(refusal(await runCommand(['keys', 'list', '--data', misspelt]))).toEqual(refused(3))
    expect(
      refusal(
        await runCommand(['keys', 'create', '--name', 'k'], {
          cwd,
          env: { GATEWAY_DATA: 'gateway-dat' },
        }),
      ),
    ).toEqual(refused(3))
    expect(readdirSync(cwd)).toEqual([])
  })

  test('fails with 1 where no directory can be created', async () => {
    const file = join(emptyDirectory(), 'file')
    writeFileSync(file, '')
    expect(refusal(await runCommand(['init', '--data', file]))).toEqual(refused(1))
    expect(refusal(await runCommand(['init', '--data', join(file, 'below')]))).toEqual(refused(1))
  })
})

describe('byok', () => {
  const SECRET = 'sk-canary-0123456789'
  let data: string

  beforeAll(async () => {
    data = emptyDirectory()
    await runCommand(['init', '--data', data])
  })

  const run = (args: string[], more: { stdin?: string; env?: Record<string, string> } = {}) =>
    runCommand(['byok', ...args, '--data', data], more)

  test('create reads the key from stdin, a file or a variable, and prints none of it', async () => {
    const file = join(data, 'key.txt')
    writeFileSync(file, `${SECRET}\n`)
    const create = ['create', '--provider', 'openai', '--json']
    const made = [
      await run([...create, '--name', 'piped'], { stdin: `${SECRET}\n` }),
      await run([...create, '--key-file', file]),
      await run([...create, '--key-env', 'MY_KEY'], { env: { MY_KEY: SECRET } }),
    ]
    for (const { stdout, stderr } of made) expect(stdout + stderr).not.toContain('canary')
    expect(
      made.map(jsonOf).map(({ data }) => [data.provider, data.label, data.sort_order]),
    ).toEqual([
      ['openai', 'sk-c...789', 0],
      ['openai', 'sk-c...789', 1],
      ['openai', 'sk-c...789', 2],
    ])
    expect(statSync(join(data, 'secret.key')).mode & 0o777).toBe(0o600)
    const { stdout } = await run(['create', '--help'])
    expect(stdout).toContain('history')
  })

  test('create refuses an invalid key with 2, and a key as an argument too', async () => {
    const create = ['create', '--provider', 'openai']
    for (const ran of [
      run(create),
      run(create, { stdin: 'ключ' }),
      run([...create, '--key-env', 'NO_SUCH_VARIABLE']),
      run([...create, '--key-file', '/no/such/file']),
      run([...create, '--key', SECRET]),
      run(['create', '--provider', 'nobody'], { stdin: SECRET }),
      run([...create, '--zdr', 'maybe'], { stdin: SECRET }),
    ])
      expect(refusal(await ran)).toEqual(refused(2))
  })

  test('list shows the state of each key; get, update and delete work on one', async () => {
    const { data: made } = jsonOf(
      await run(['create', '--provider', 'groq', '--json', '--required'], { stdin: SECRET }),
    )
    expect(made).toMatchObject({ is_required: true, is_fallback: false })
    expect((await run(['list', '--provider', 'groq'])).stdout).toMatch(
      /PROVIDER.*\n.*groq .* active /,
    )
    const env = { GATEWAY_SECRET: 'another'.repeat(6) }
    expect(refusal(await run(['list', '--provider', 'groq'], { env }))).toEqual(refused(4))
    const listed = jsonOf(await run(['list', '--json', '--provider', 'groq', '--limit', '1']))
    expect(listed).toEqual({ data: [made], total_count: 1 })
    const change = [
      '--disable',
      '--fallback',
      '--no-required',
      '--models',
      'acme/a, acme/b',
      '--zdr',
      'no',
      '--json',
    ]
    const changed = jsonOf(await run(['update', made.id, ...change]))
    const expected = {
      disabled: true,
      is_fallback: true,
      is_required: false,
      allowed_models: ['acme/a', 'acme/b'],
      declared_zdr: false,
    }
    expect(changed.data).toEqual({ ...made, ...expected })
    expect((await run(['list', '--provider', 'groq'])).stdout).toMatch(
      /groq .* fallback +disabled /,
    )
    const rotated = await run(
      ['update', made.id, '--key-stdin', '--enable', '--models', 'none', '--json'],
      {
        stdin: 'gsk-another-one-xyz',
      },
    )
    expect(jsonOf(rotated).data).toMatchObject({
      label: 'gsk-...xyz',
      disabled: false,
      allowed_models: null,
    })
    expect((await run(['get', made.id])).stdout).toMatch(/label +gsk-...xyz/)
    expect(jsonOf(await run(['delete', made.id, '--yes', '--json']))).toEqual({ deleted: true })
    for (const line of [['get'], ['update', '--name', 'x'], ['delete', '--yes']])
      expect(refusal(await run([...line, made.id]))).toEqual(refused(3))
  })

  test('in a workspace that does not exist are not found', async () => {
    expect(refusal(await run(['list', '--workspace', 'nowhere']))).toEqual(refused(3))
  })
})

describe('keys', () => {
  let data: string
  const keys = (...args: string[]) => runCommand(['keys', ...args, '--data', data])
  const keysJson = async (...args: string[]) => jsonOf(await keys(...args, '--json'))

  beforeAll(async () => {
    data = emptyDirectory()
    await runCommand(['init', '--data', data])
  })

  test('create creates a key by the rules of the API and prints it once', async () => {
    const flags = [
      '--name',
      'ci',
      '--limit',
      '5',
      '--limit-reset',
      'weekly',
      '--byok-in-limit',
      '--expires-at',
      '2099-01-01T00:00:00Z',
    ]
    const created = await keysJson('create', ...flags, '--workspace', 'default')
    expect(created.key).toMatch(/^gw-v1-[0-9a-f]{72}$/)
    expect(created.data).toMatchObject({
      name: 'ci',
      limit: 5,
      limit_remaining: 5,
      limit_reset: 'weekly',
      include_byok_in_limit: true,
      expires_at: '2099-01-01T00:00:00Z',
    })
    expect(await keysJson('get', created.data.hash)).toEqual({ data: created.data })
  })

  test('create without --json prints the key alone, and the rest on stderr', async () => {
    const { stdout, stderr } = await keys('create', '--name', 'plain', '--management')
    expect(stdout).toMatch(/^gw-v1-[0-9a-f]{72}\n$/)
    const key = stdout.trim()
    expect(stderr).toContain(new Bun.CryptoHasher('sha256').update(key).digest('hex'))
  })

  test('update changes the named fields; none removes a limit', async () => {
    const { data: made } = await keysJson(
      'create',
      '--name',
      'before',
      '--limit',
      '1',
      '--limit-reset',
      'daily',
    )
    const { data: renamed } = await keysJson(
      'update',
      made.hash,
      '--name',
      'after',
      '--limit',
      '2.5',
    )
    expect(renamed).toMatchObject({ name: 'after', limit: 2.5, limit_reset: 'daily' })
    const { data: unlimited } = await keysJson(
      'update',
      made.hash,
      '--limit',
      'none',
      '--limit-reset',
      'none',
      '--disable',
    )
    expect(unlimited).toMatchObject({
      name: 'after',
      limit: null,
      limit_reset: null,
      disabled: true,
    })
    expect((await keysJson('update', made.hash, '--enable')).data.disabled).toBe(false)
    expect(
      (await keysJson('update', made.hash, '--byok-in-limit')).data.include_byok_in_limit,
    ).toBe(true)
    expect(
      (await keysJson('update', made.hash, '--no-byok-in-limit')).data.include_byok_in_limit,
    ).toBe(false)
  })

  test('list leaves out disabled keys without --all', async () => {
    const { data: made } = await keysJson('create', '--name', 'hidden')
    await keys('update', made.hash, '--disable')
    const hashes = async (...args: string[]) =>
      (await keysJson('list', ...args)).data.map((one: { hash: string }) => one.hash)
    expect(await hashes()).not.toContain(made.hash)
    expect(await hashes('--all')).toContain(made.hash)
    const { stdout } = await keys('list', '--all')
    expect(stdout).toMatch(
      new RegExp(`hidden +inference +gw-v1-\\S+ +\\$0\\.00 +- +disabled +${made.hash}`),
    )
  })

  test('delete confirms the deletion, and the key is gone', async () => {
    const { data: made } = await keysJson('create', '--name', 'short')
    expect(await keysJson('delete', made.hash, '--yes')).toEqual({ deleted: true })
    expect(refusal(await keys('get', made.hash))).toEqual(refused(3))
    expect(refusal(await keys('delete', made.hash, '--yes'))).toEqual(refused(3))
    expect(refusal(await keys('update', made.hash, '--name', 'x'))).toEqual(refused(3))
  })

  test('in a workspace that does not exist are not found', async () => {
    expect(refusal(await keys('create', '--name', 'x', '--workspace', 'nowhere'))).toEqual(
      refused(3),
    )
    expect(refusal(await keys('list', '--workspace', 'nowhere'))).toEqual(refused(3))
  })

  test('with escapes in their name are never printed raw', async () => {
    const name = '\u001b[2J\u0007red\u202E\u009b31m'
    const { data: made } = await keysJson('create', '--name', name)
    expect(made.name).toBe(name)
    const shown = await Promise.all([keys('list'), keys('get', made.hash), keys('list', '--json')])
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to find.
    for (const { stdout } of shown) expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f]/)
    expect(shown[0]?.stdout).not.toMatch(/[\u009b\u202e]/)
  })
})

describe('workspaces, members and budgets', () => {
  let data: string
  const run = (...args: string[]) => runCommand([...args, '--data', data])
  const json = async (...args: string[]) => jsonOf(await run(...args, '--json'))
  const create = (slug: string, ...more: string[]) =>
    json('workspaces', 'create', '--name', 'Team', '--slug', slug, ...more)

  beforeAll(async () => {
    data = emptyDirectory()
    await runCommand(['init', '--data', data])
  })

  test('a workspace is created, listed, shown, changed and deleted', async () => {
    const flags = [
      '--text-model',
      'sandbox/echo',
      '--provider-sort',
      'price',
      '--description',
      'Ours',
    ]
    const { data: made } = await create('team', ...flags)
    expect(made).toMatchObject({
      slug: 'team',
      default_text_model: 'sandbox/echo',
      default_provider_sort: 'price',
      description: 'Ours',
    })
    const withoutEffect = await run(
      'workspaces',
      'update',
      'team',
      '--image-model',
      'sandbox/image',
    )
    expect(refusal(withoutEffect)).toEqual(refused(2))
    expect(withoutEffect.stderr).toContain('--image-model: expected null, as it has no effect')
    expect(await json('workspaces', 'get', 'team')).toEqual({ data: made })
    expect((await json('workspaces', 'list', '--offset', '1')).data).toEqual([made])
    expect((await run('workspaces', 'list')).stdout).toMatch(
      /^SLUG +NAME +TEXT MODEL +CREATED +ID\n(.*\n)*team +Team +sandbox\/echo /,
    )
    const change = [
      '--slug',
      'crew',
      '--text-model',
      'none',
      '--broadcast',
      'no',
      '--description',
      'none',
    ]
    const { data: changed } = await json('workspaces', 'update', 'team', ...change)
    expect(changed).toMatchObject({
      slug: 'crew',
      default_text_model: null,
      is_observability_broadcast_enabled: false,
    })
    expect(changed).toMatchObject({ description: null, default_provider_sort: 'price' })
    expect((await run('workspaces', 'get', 'crew')).stdout).toMatch(/^slug +crew$/m)
    expect(await json('workspaces', 'delete', 'crew', '--yes')).toEqual({ deleted: true })
    for (const line of [['get'], ['update', '--name', 'x'], ['delete', '--yes']])
      expect(refusal(await run('workspaces', ...line, 'crew'))).toEqual(refused(3))
  })

  test('deleting a used, unknown or unconfirmed default workspace fails with 2', async () => {
    await create('used')
    await json('keys', 'create', '--name', 'x', '--workspace', 'used')
    for (const args of [
      ['delete', 'used', '--yes'],
      ['delete', 'default', '--yes'],
      ['create', '--name', 'x', '--slug', 'used'],
      ['create', '--name', 'x', '--slug', 'A B'],
      ['create', '--name', 'x', '--slug', 'b', '--broadcast', 'maybe'],
      ['create', '--name', 'x', '--slug', 'b', '--text-model', 'acme/none'],
      ['list', '--limit', '0'],
    ])
      expect([args, refusal(await run('workspaces', ...args))]).toEqual([args, refused(2)])
  })

  test('members are created, added to a workspace, and deactivated with their keys', async () => {
    await create('place')
    const person = ['--email', 'ada@acme.example', '--first-name', 'Ada', '--role', 'admin']
    const { data: ada } = await json('members', 'create', ...person)
    expect(ada).toEqual({
      id: expect.any(String),
      email: 'ada@acme.example',
      first_name: 'Ada',
      last_name: null,
      role: 'org:admin',
    })
    const twice = await run('members', 'create', ...person)
    expect([refusal(twice), twice.stderr]).toEqual([
      refused(4),
      'gateway: A member of the organization has this e-mail address\n',
    ])
    const { data: changed } = await json(
      'members',
      'update',
      ada.id,
      '--last-name',
      'L',
      '--first-name',
      'none',
      '--role',
      'member',
    )
    expect(changed).toEqual({ ...ada, first_name: null, last_name: 'L', role: 'org:member' })
    expect((await json('members', 'list')).data).toContainEqual(changed)
    expect((await run('members', 'list')).stdout).toContain('ada@acme.example')

    expect((await json('members', 'add', ada.id, '--workspace', 'place')).data).toMatchObject([
      { user_id: ada.id, role: 'member' },
    ])
    expect((await run('members', 'add', ada.id, '--workspace', 'place')).stdout).toBe(
      'Added 0 to place\n',
    )
    expect((await json('members', 'list', '--workspace', 'place')).total_count).toBe(1)
    expect((await run('members', 'list', '--workspace', 'place')).stdout).toMatch(
      new RegExp(`^USER +ROLE +SINCE\\n${ada.id} +member `),
    )
    expect(await json('members', 'remove', ada.id, '--workspace', 'place')).toEqual({
      removed_count: 1,
    })
    expect((await run('members', 'deactivate', ada.id, '--yes')).stdout).toBe(
      `Deactivated ${ada.id}\n`,
    )
    expect(refusal(await run('members', 'add', ada.id, '--workspace', 'place'))).toEqual(refused(2))
    expect((await json('members', 'update', ada.id, '--activate')).data).toEqual(changed)
  })

  test('unknown members are not found, and an invalid address is refused', async () => {
    for (const args of [
      ['update', 'nobody', '--role', 'admin'],
      ['deactivate', 'nobody', '--yes'],
      ['list', '--workspace', 'nowhere'],
    ])
      expect([args, refusal(await run('members', ...args))]).toEqual([args, refused(3)])
    for (const args of [
      ['create'],
      ['create', '--email', 'ada'],
      ['create', '--email', 'a@b', '--role', 'king'],
      ['add', 'x'],
      ['add', '--workspace', 'default'],
    ])
      expect([args, refusal(await run('members', ...args))]).toEqual([args, refused(2)])
  })

  test('budgets are set, listed, shown and deleted in any workspace', async () => {
    await create('spender')
    const { data: made, include_byok_in_budgets } = await json(
      'budgets',
      'set',
      'monthly',
      '--limit',
      '500',
      '--include-byok',
      'yes',
    )
    expect([made.limit_usd, made.reset_interval, include_byok_in_budgets]).toEqual([
      500,
      'monthly',
      true,
    ])
    await json('budgets', 'set', 'lifetime', '--limit', '0.5', '--workspace', 'spender')
    expect((await json('budgets', 'get', 'lifetime', '--workspace', 'spender')).data).toMatchObject(
      {
        limit_usd: 0.5,
        reset_interval: null,
      },
    )
    expect((await json('budgets', 'list')).data).toEqual([made])
    expect((await run('budgets', 'list')).stdout).toMatch(
      /^INTERVAL +LIMIT +KIND +SPENT +LEFT +OWN PROVIDER KEYS +SET\nmonthly +\$500\.00 +hard +\$0\.00 +\$500\.00 +count +\S+\n$/,
    )
    expect((await run('budgets', 'get', 'monthly')).stdout).toMatch(/^limit_usd +500$/m)
    const soft = await json('budgets', 'set', 'daily', '--limit', '700', '--soft')
    expect([soft.data.limit_usd, soft.data.soft]).toEqual([700, true])
    await json('budgets', 'delete', 'daily', '--yes')
    expect(refusal(await run('budgets', 'set', 'weekly', '--limit', '600'))).toEqual(refused(2))
    expect(refusal(await run('budgets', 'get', 'yearly'))).toEqual(refused(2))
    expect(refusal(await run('budgets', 'get', 'daily'))).toEqual(refused(3))
    expect(refusal(await run('budgets', 'list', '--workspace', 'nowhere'))).toEqual(refused(3))
    expect((await run('budgets', 'delete', 'monthly', '--yes')).stdout).toBe(
      'Deleted the monthly budget\n',
    )
    expect(await json('budgets', 'delete', 'monthly', '--yes')).toEqual({ deleted: true })
    expect((await json('budgets', 'list')).data).toEqual([])
  })

  test('the default workspace is deleted if that is confirmed', async () => {
    expect(
      (await run('workspaces', 'delete', 'default', '--confirm-default', '--yes')).stdout,
    ).toBe('Deleted default\n')
    expect(refusal(await run('keys', 'list'))).toEqual(refused(2))
    expect(refusal(await run('budgets', 'list'))).toEqual(refused(3))
    expect(await json('keys', 'create', '--name', 'again', '--management')).toMatchObject({
      data: { disabled: false },
    })
  })
})

describe('presets', () => {
  let data: string
  const presets = (...args: string[]) => runCommand(['presets', ...args, '--data', data])
  const presetsJson = async (...args: string[]) => jsonOf(await presets(...args, '--json'))
  const bodyOf = (body: unknown) => {
    const file = join(emptyDirectory(), 'body.json')
    writeFileSync(file, typeof body === 'string' ? body : JSON.stringify(body))
    return file
  }

  beforeAll(async () => {
    data = emptyDirectory()
    await runCommand(['init', '--data', data])
  })

  test('create adds one version after another, from a body in any dialect', async () => {
    const chat = bodyOf({
      model: 'a/b',
      stop: 'END',
      stream: true,
      messages: [{ role: 'system', content: 'Be brief' }],
    })
    const messages = bodyOf({
      model: 'a/b',
      stop_sequences: ['END'],
      system: 'Two',
      messages: [{ role: 'user', content: 'Hi' }],
    })
    // The body itself, in the place of its file.
    const responses = '{"model":"a/b","max_output_tokens":5,"instructions":"Three"}'
    const version = async (...args: string[]) =>
      (await presetsJson('create', 'made', '--body', ...args)).data.designated_version
    expect(await version(chat)).toMatchObject({
      version: 1,
      config: { model: 'a/b', stop: 'END' },
      system_prompt: 'Be brief',
    })
    expect(await version(messages, '--dialect', 'messages')).toMatchObject({
      version: 2,
      config: { stop: ['END'] },
      system_prompt: 'Two',
    })
    const third = await version(responses, '--dialect', 'responses', '--workspace', 'default')
    expect(third).toMatchObject({ version: 3, config: { max_tokens: 5 }, system_prompt: 'Three' })
    expect((await presetsJson('get', 'made')).data.designated_version).toEqual(third)
    expect(await presetsJson('versions', 'made', '3')).toEqual({ data: third })
    expect(await presetsJson('versions', 'made', '--offset', '2', '--limit', '1')).toEqual({
      data: [third],
      total_count: 3,
    })
  })

  test('create and update report the result, and list, get and versions print it', async () => {
    expect(
      (await presets('create', 'shown', '--body', bodyOf({ model: 'a/b', prompt: 'x' }))).stdout,
    ).toBe('shown is at version 1\n')
    expect((await presets('update', 'shown', '--status', 'disabled')).stdout).toBe(
      'shown is disabled\n',
    )
    expect((await presets('list')).stdout).toMatch(
      /^SLUG +NAME +STATUS +UPDATED\n(.*\n)*shown +shown +disabled +\d{4}-/,
    )
    expect((await presets('get', 'shown')).stdout).toMatch(/^status +disabled$/m)
    expect((await presets('versions', 'shown')).stdout).toMatch(
      /^VERSION +CREATED +MODEL +SYSTEM PROMPT\n1 +\S+ +a\/b +-\n$/,
    )
    expect((await presets('versions', 'shown', '1')).stdout).toMatch(/^config +{"model":"a\/b"}$/m)
  })

  test('that do not exist are not found, and contradicting options are refused', async () => {
    for (const args of [
      ['get', 'none'],
      ['versions', 'none'],
      ['update', 'none', '--status', 'active'],
      ['list', '--workspace', 'none'],
    ])
      expect(refusal(await presets(...args))).toEqual(refused(3))
    const wrong = bodyOf({ prompt: 'x', model: '@preset/made' })
    expect(refusal(await presets('create', 'wrong', '--body', wrong))).toEqual(refused(2))
    expect(refusal(await presets('create', 'wrong', '--body', bodyOf('[1]')))).toEqual(refused(2))
  })
})

describe('config', () => {
  test('check summarizes a good file, and warns of a model without prices', async () => {
    const cwd = emptyDirectory()
    const file = join(cwd, 'gateway.yaml')
    writeFileSync(
      file,
      'models: [{ id: a/b, endpoints: [{ provider: local, model: m }] }]\nproviders: { local: { protocol: openai-chat, base_url: "http://127.0.0.1:9" } }',
    )
    expect(jsonOf(await runCommand(['config', 'check', file, '--json'], { cwd }))).toEqual({
      file,
      models: 7,
      providers: 2,
      unpriced: ['a/b'],
      providers_without_models: [],
    })
    expect((await runCommand(['config', 'check'], { cwd })).stdout).toContain('warning: a/b')
    expect(readdirSync(cwd)).toEqual(['gateway.yaml'])
  })

  test('check names a provider that no model leads to', async () => {
    const cwd = emptyDirectory()
    const providers = { mine: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1' } }
    writeFileSync(join(cwd, 'gateway.yaml'), JSON.stringify({ providers }))
    const { code, stdout } = await runCommand(['config', 'check'], { cwd })
    expect(code).toBe(0)
    expect(stdout).toContain('warning: no model leads to mine: ')
  })

  test('check names the file, the setting, what was expected and what was found', async () => {
    const cwd = emptyDirectory()
    writeFileSync(join(cwd, 'bad.yaml'), 'server: { port: eighty }')
    const { code, stderr } = await runCommand(['config', 'check', 'bad.yaml'], { cwd })
    expect([code, stderr]).toEqual([
      2,
      'gateway: bad.yaml:1:11: server.port: expected integer from 0 to 65535, found a string\n',
    ])
  })

  test('is found by the flag, GATEWAY_CONFIG, the data or the current directory', async () => {
    const cwd = emptyDirectory()
    const data = join(cwd, 'data')
    mkdirSync(data)
    for (const file of ['flag.yaml', 'env.yaml', 'gateway.yaml', 'data/gateway.yaml'])
      writeFileSync(join(cwd, file), '{}')
    const found = async (args: string[], env = {}) =>
      jsonOf(await runCommand(['config', 'check', '--json', ...args], { cwd, env })).file
    const env = { GATEWAY_CONFIG: 'env.yaml' }
    expect(await found(['--config', 'flag.yaml', '--data', data], env)).toBe('flag.yaml')
    expect(await found(['--data', data], env)).toBe('env.yaml')
    expect(await found(['--data', data])).toBe(join(data, 'gateway.yaml'))
    expect(await found([])).toBe('gateway.yaml')
    expect(await found(['--data', 'gateway-data'])).toBe('gateway.yaml')
    expect(await found(['--data', '.'])).toBe('gateway.yaml')
  })

  test('a file of the current directory is not read for another data directory', async () => {
    const cwd = emptyDirectory()
    const data = join(cwd, 'other')
    mkdirSync(data)
    writeFileSync(join(cwd, 'gateway.yaml'), '{}')
    const found = async (args: string[], env = {}) =>
      jsonOf(await runCommand(['config', 'check', '--json', ...args], { cwd, env })).file
    expect(await found(['--data', 'other'])).toBeNull()
    expect(await found([], { GATEWAY_DATA: data })).toBeNull()
    writeFileSync(join(data, 'gateway.yaml'), '{}')
    expect(await found(['--data', 'other'])).toBe('other/gateway.yaml')
  })

  test('schema is a JSON Schema with every setting', async () => {
    const schema = jsonOf(await runCommand(['config', 'schema']))
    expect(schema.$schema).toBe('https://json-schema.org/draft/2020-12/schema')
    expect(Object.keys(schema.properties)).toContain('providers')
    expect(schema.properties.server.properties.port).toMatchObject({
      anyOf: [{ type: 'integer' }, { type: 'string' }],
      default: 8080,
    })
  })
})

describe('beside a running server', () => {
  let server: Server
  const run = (...args: string[]) => runCommand([...args, '--data', server.data])
  const json = async (...args: string[]) => jsonOf(await run(...args, '--json'))
  const api = async (path: string, key = server.management_key) =>
    (await server.fetch(path, { key })).json()
  // Models of a config are as old as the process that read it.
  const undated = (answer: unknown) =>
    JSON.parse(JSON.stringify(answer, (name, value) => (name === 'created' ? 0 : value)))
  const generationIds: string[] = []

  beforeAll(async () => {
    server = await startServer({
      config: {
        models: [{ id: 'acme/small', endpoints: [{ provider: 'sandbox', model: 'echo' }] }],
      },
    })
    for (const content of ['one', 'two']) {
      const response = await server.fetch('/chat/completions', {
        json: { model: 'acme/small', messages: [{ role: 'user', content }] },
      })
      generationIds.push(((await response.json()) as { id: string }).id)
    }
  })

  afterAll(() => server[Symbol.asyncDispose]())

  test('--json is exactly what the API returns', async () => {
    const keys = await api('/keys')
    expect(await json('keys', 'list')).toEqual(keys)
    const [{ hash }] = (keys as { data: [{ hash: string }] }).data
    expect(await json('keys', 'get', hash)).toEqual(await api(`/keys/${hash}`))
    expect(undated(await json('models', 'get', 'acme/small'))).toEqual(
      undated(await api('/model/acme/small')),
    )
    expect(undated(await json('models', 'list'))).toEqual(undated(await api('/models')))
    expect(
      await json(
        'models',
        'list',
        '--all',
        '--q',
        'gpt',
        '--provider',
        'azure',
        '--max-price',
        '1.5',
        '--sort',
        'newest',
      ),
    ).toEqual(await api('/models?all=true&q=gpt&providers=azure&max_price=1.5&sort=newest'))
    expect(undated(await json('models', 'list', '--all', '--output', 'all'))).toEqual(
      undated(await api('/models?all=true&output_modalities=all')),
    )
    for (const [kind, output] of [
      ['speech', 'speech'],
      ['transcription', 'transcription'],
      ['embedding', 'embeddings'],
    ] as const)
      expect(undated(await json('models', 'list', '--kind', kind))).toEqual(
        undated(await api(`/models?output_modalities=${output}`)),
      )
    expect(await json('models', 'endpoints', 'openai/gpt-4o')).toEqual(
      await api('/models/openai/gpt-4o/endpoints'),
    )
    const body = {
      model: 'acme/small',
      temperature: 0.5,
      messages: [{ role: 'user', content: 'Hi' }],
    }
    await server.fetch('/presets/p/chat/completions', { key: server.inference_key, json: body })
    expect(await json('presets', 'list')).toEqual(await api('/presets'))
    expect(await json('presets', 'get', 'p')).toEqual(await api('/presets/p'))
    expect(await json('presets', 'versions', 'p')).toEqual(await api('/presets/p/versions'))
    expect(await json('presets', 'versions', 'p', '1')).toEqual(await api('/presets/p/versions/1'))
    expect(await json('providers', 'list')).toEqual(await api('/providers'))
    expect(await json('generations', 'get', generationIds[0] ?? '')).toEqual(
      await api(`/generation?id=${generationIds[0]}`),
    )
  })

  test('generations list shows the newest first, up to the limit', async () => {
    const ids = async (...args: string[]) =>
      (await json('generations', 'list', ...args)).data.map((one: { id: string }) => one.id)
    expect(await ids()).toEqual([...generationIds].reverse())
    expect(await ids('--limit', '1')).toEqual(generationIds.slice(-1))
    const [, second = ''] = [...generationIds].reverse()
    expect(await ids('--cursor', second)).toEqual([...generationIds].reverse().slice(2))
    expect((await json('generations', 'list', '--limit', '1')).next_cursor).toBe(
      generationIds.at(-1),
    )
    const { stdout } = await run('generations', 'list')
    expect(stdout).toContain(generationIds[0] ?? 'an id')
    expect(stdout).toMatch(/^WHEN +KEY +MODEL/)
    const { stdout: shown } = await run('generations', 'get', generationIds[0] ?? '')
    expect(shown.split('\n').length).toBeLessThan(24)
    expect(shown).toMatch(/\nENDPOINT +STATUS +MS +ERROR +REQUEST ID\n/)
    for (const flag of ['model', 'provider', 'app', 'session'])
      expect([flag, await ids(`--${flag}`, 'nothing-has-this')]).toEqual([flag, []])
    expect(refusal(await run('generations', 'list', '--key', 'no-key-is-this'))).toEqual(refused(2))
    expect(await ids('--status', 'ok')).toEqual([...generationIds].reverse())
    expect(refusal(await run('generations', 'list', '--status', 'fine'))).toEqual(refused(2))
  })

  test('models and generations that do not exist are not found', async () => {
    expect(refusal(await run('models', 'get', 'acme/none'))).toEqual(refused(3))
    expect(refusal(await run('generations', 'get', 'gen-none'))).toEqual(refused(3))
  })

  test('models list and get print a table and the fields', async () => {
    expect((await run('models', 'list')).stdout).toMatch(/^MODEL +NAME[^\n]*\n(.*\n)*acme\/small/)
    expect((await run('models', 'get', 'acme/small')).stdout).toMatch(/^id +acme\/small$/m)
  })

  test('models list applies its filters, and refuses an unknown order', async () => {
    expect(
      (await run('models', 'list')).stdout.split('\n').map(line => line.split(' ')[0]),
    ).toEqual([
      'MODEL',
      'sandbox/echo',
      'acme/small',
      ...[
        'gateway/auto',
        'gateway/auto-beta',
        'gateway/free',
        'gateway/switchyard',
        'gateway/bodybuilder',
      ],
      '',
    ])
    expect(
      (await run('models', 'list', '--all', '--author', 'anthropic', '--limit', '2')).stdout.match(
        /^anthropic\//gm,
      ),
    ).toHaveLength(2)
    expect(refusal(await run('models', 'list', '--sort', 'beauty'))).toEqual(refused(2))
  })

  test('models endpoints and providers list show what is configured', async () => {
    expect((await run('models', 'endpoints', 'acme/small')).stdout).toMatch(/^sandbox +configured/m)
    expect((await run('models', 'endpoints', 'openai/gpt-4o')).stdout).toMatch(
      /^openai +- .* 2\.5 +10$/m,
    )
    const { stdout } = await run('providers', 'list')
    expect(stdout).toMatch(/^PROVIDER +NAME +PROTOCOL +STATE$/m)
    expect(stdout).toMatch(/^sandbox +Sandbox +sandbox +configured$/m)
    expect(stdout).toMatch(/^anthropic +Anthropic +anthropic-messages +-$/m)
  })

  /** Pauses of 20 ms that make a second: how long a change may be unknown to an idle server. */
  const MOST_PAUSES = 50

  /** Counts the pauses until the server answers this key with the status. */
  async function untilAnswered(key: string, status: number): Promise<number> {
    let pauses = 0
    for (; (await server.fetch('/key', { key })).status !== status; pauses++) await Bun.sleep(20)
    return pauses
  }

  test('a new, disabled or deleted key takes effect within a second', async () => {
    const { key, data } = await json('keys', 'create', '--name', 'late')
    expect(await untilAnswered(key, 200)).toBeLessThan(MOST_PAUSES)
    await run('keys', 'update', data.hash, '--disable')
    expect(await untilAnswered(key, 401)).toBeLessThan(MOST_PAUSES)
    await run('keys', 'update', data.hash, '--enable')
    expect(await untilAnswered(key, 200)).toBeLessThan(MOST_PAUSES)
    await run('keys', 'delete', data.hash, '--yes')
    expect(await untilAnswered(key, 401)).toBeLessThan(MOST_PAUSES)
  })

  test('a second server on the same data fails with a conflict', async () => {
    expect(refusal(await run('serve', '--port', '0'))).toEqual(refused(4))
    expect((await server.fetch('/key')).status).toBe(200)
  })
})
