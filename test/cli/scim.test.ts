import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { runCommand } from '../support/commands.ts'
import { openDatabase } from '../support/database.ts'
import { GROUP_ID, PATCH_OP, USER_ID } from '../support/scim.ts'
import { type Server, startServer } from '../support/server.ts'

/** The terminal and a running server: two processes on one data directory. */
let server: Server
let token: string
let group: string

const run = (...args: string[]) => runCommand(['scim', ...args, '--data', server.data])
const json = async (...args: string[]) => JSON.parse((await run(...args, '--json')).stdout)
const scim = (method: string, path: string, body?: unknown, key = token) =>
  server.fetch(`/scim/v2${path}`, {
    method,
    key,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
const made = async (path: string, body: object): Promise<string> =>
  ((await (await scim('POST', path, body)).json()) as { id: string }).id

beforeAll(async () => {
  server = await startServer()
  token = (await json('token', 'create', '--name', 'Okta')).token
  const user = await made('/Users', { schemas: [USER_ID], userName: 'ada@acme.example' })
  group = await made('/Groups', {
    schemas: [GROUP_ID],
    displayName: 'Engineers',
    members: [{ value: user }],
  })
  await server.fetch('/workspaces', {
    key: server.management_key,
    json: { name: 'Team', slug: 'team' },
  })
})
afterAll(() => server[Symbol.asyncDispose]())

describe('tokens', () => {
  test('are printed once, listed without secrets, and revoked in a running server', async () => {
    const { code, stdout, stderr } = await run('token', 'create', '--name', 'next')
    expect(code).toBe(0)
    const plaintext = stdout.trim()
    expect([plaintext, stderr]).toEqual([
      expect.stringMatching(/^gw-scim-v1-[0-9a-f]{72}$/),
      expect.stringMatching(/^This token is shown once/),
    ])
    expect((await scim('GET', '/Users', undefined, plaintext)).status).toBe(200)
    const { stdout: list } = await run('token', 'list')
    expect(list).toMatch(/^NAME +LABEL +CREATED +ID\nOkta .*\nnext /)
    expect(list).not.toContain(plaintext.slice(20))
    const { data } = await json('token', 'list')
    expect(await run('token', 'revoke', data[1].id, '--yes')).toEqual({
      code: 0,
      stdout: `Revoked ${data[1].id}\n`,
      stderr: '',
    })
    expect([
      (await scim('GET', '/Users', undefined, plaintext)).status,
      (await scim('GET', '/Users')).status,
    ]).toEqual([401, 200])
    expect((await run('token', 'revoke', data[1].id, '--yes')).code).toBe(3)
    expect(JSON.stringify(await json('token', 'list'))).not.toContain('hash')
  })
})

describe('mappings', () => {
  /** Lists the members of a workspace as the data directory has them. */
  function roles(): string[] {
    const db = openDatabase(server.data, { readonly: true })
    const rows = db.query('select role, source from workspace_members').all() as {
      role: string
      source: string
    }[]
    db.close()
    return rows.map(row => `${row.role} ${row.source}`)
  }

  test('are created, shown, changed and deleted, and the server applies them', async () => {
    expect((await run('groups', 'list')).stdout).toMatch(
      new RegExp(`^NAME +EXTERNAL ID +ID\\nEngineers +- +${group}\\n$`),
    )
    const { data } = await json(
      'mappings',
      'create',
      '--group',
      group,
      '--workspace',
      'team',
      '--role',
      'member',
    )
    const listed = { data: [data], total_count: 1 }
    expect(await json('mappings', 'list')).toEqual(listed)
    expect(
      await (await server.fetch('/scim/group-mappings', { key: server.management_key })).json(),
    ).toEqual(listed)
    expect((await run('mappings', 'list')).stdout.split('\n')[1]).toBe(
      `${group}  ${data.workspace_id}  member  ${data.id}`,
    )
    expect((await run('mappings', 'get', data.id)).stdout).toContain(`organization_id  org_`)
    expect((await json('mappings', 'update', data.id, '--role', 'admin')).data.role).toBe('admin')
    expect(
      (await run('mappings', 'create', '--group', group, '--workspace', 'team', '--role', 'member'))
        .code,
    ).toBe(4)
    expect(roles()).toEqual(['admin scim'])
    expect(await json('sync')).toMatchObject({ data: { status: 'succeeded', synced_groups: 1 } })
    expect((await run('sync')).stdout).toContain('succeeded')
    expect(await run('mappings', 'delete', data.id, '--remove-members', '--yes')).toMatchObject({
      code: 0,
      stdout: `Deleted ${data.id}\n`,
    })
    expect((await run('mappings', 'get', data.id)).code).toBe(3)
  })

  test('concurrent changes by the server and the terminal are all kept', async () => {
    const more = Promise.all(
      Array.from({ length: 12 }, async (_, i) => {
        const user = await made('/Users', {
          schemas: [USER_ID],
          userName: `user-${i}@acme.example`,
        })
        const Operations = [{ op: 'add', path: 'members', value: [{ value: user }] }]
        return (await scim('PATCH', `/Groups/${group}`, { schemas: [PATCH_OP], Operations })).status
      }),
    )
    const [statuses, { data }] = await Promise.all([
      more,
      json('mappings', 'create', '--group', group, '--workspace', 'team', '--role', 'admin'),
    ])
    expect(new Set(statuses)).toEqual(new Set([200]))
    const whole = (await (await scim('GET', `/Groups/${group}`)).json()) as { members: unknown[] }
    expect(whole.members).toHaveLength(13)
    expect(roles()).toEqual(Array.from({ length: 13 }, () => 'admin scim'))
    expect((await run('mappings', 'delete', data.id, '--keep-members', '--yes')).code).toBe(0)
  })

  test.each([
    ['no role', ['mappings', 'create', '--group', 'x', '--workspace', 'team'], 2],
    [
      'a role that is none',
      [
        'mappings',
        'create',
        '--group',
        '00000000-0000-7000-8000-0000000000ff',
        '--workspace',
        'default',
        '--role',
        'owner',
      ],
      2,
    ],
    [
      'a group that does not exist',
      [
        'mappings',
        'create',
        '--group',
        '00000000-0000-7000-8000-0000000000ff',
        '--workspace',
        'team',
        '--role',
        'admin',
      ],
      3,
    ],
    [
      'a workspace that does not exist',
      [
        'mappings',
        'create',
        '--group',
        '00000000-0000-7000-8000-0000000000ff',
        '--workspace',
        'none',
        '--role',
        'admin',
      ],
      3,
    ],
    ['no word on the members', ['mappings', 'delete', 'x'], 2],
    [
      'two words on the members',
      ['mappings', 'delete', 'x', '--keep-members', '--remove-members'],
      2,
    ],
    ['a mapping that does not exist', ['mappings', 'delete', 'x', '--keep-members', '--yes'], 3],
    ['a page of none', ['groups', 'list', '--limit', '0'], 2],
    ['a token without a name', ['token', 'create'], 2],
  ])('with %s are refused in one line', async (_, args, code) => {
    const ran = await run(...args)
    expect([ran.code, ran.stdout, /^gateway: [^\n]+\n$/.test(ran.stderr)]).toEqual([code, '', true])
  })
})
