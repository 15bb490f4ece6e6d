import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import { addMember, deactivateMember, updateMember } from '../../src/resources/members.ts'
import {
  addWorkspaceMembers,
  removeWorkspaceMembers,
} from '../../src/resources/workspace-members.ts'
import { createWorkspace, deleteWorkspace } from '../../src/resources/workspaces.ts'
import { createApi, readRefusalStatus, readTrail } from '../support/api.ts'
import { createCountedIds, createTestKeys, TestClock } from '../support/gateway.ts'
import { setWorkspaceMember } from '../support/workspace-members.ts'

let data: string
let clock: TestClock
let gateway: Gateway
let actor: Actor
let keys: Awaited<ReturnType<typeof createTestKeys>>
let ask: ReturnType<typeof createApi>
let team: string
let ada: string
let bob: string
const others: Gateway[] = []

beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  clock = new TestClock()
  gateway = await openGateway({ data, clock, ids: createCountedIds() })
  actor = getOperator(gateway)
  keys = await createTestKeys(gateway)
  ask = createApi(gateway, keys.management)
  team = (await createWorkspace(gateway, actor, { name: 'Team', slug: 'team' })).data.id
  clock.pass(1_000)
  ada = (
    await addMember(gateway, actor, {
      email: 'ada@acme.example',
      first_name: 'Ada',
      role: 'org:admin',
    })
  ).id
  bob = (await addMember(gateway, actor, { email: 'bob@acme.example' })).id
})

afterEach(async () => {
  await Promise.all([gateway, ...others.splice(0)].map(one => one.close()))
  rmSync(data, { recursive: true, force: true })
})

const add = (...user_ids: string[]) =>
  ask('POST', '/workspaces/team/members/add', { body: { user_ids } })
const remove = (...user_ids: string[]) =>
  ask('POST', '/workspaces/team/members/remove', { body: { user_ids } })
const listed = async (path = '/workspaces/team/members') =>
  (await ask('GET', path)).json.data.map(
    (one: { user_id: string; role: string }) => `${one.user_id} ${one.role}`,
  )

describe('GET /organization/members', () => {
  test('lists active members, the oldest first, in pages', async () => {
    const { user_id } = gateway.memory.owner
    expect((await ask('GET', '/organization/members')).json).toEqual({
      data: [
        {
          id: user_id,
          email: 'owner@localhost',
          first_name: null,
          last_name: null,
          role: 'org:admin',
        },
        {
          id: ada,
          email: 'ada@acme.example',
          first_name: 'Ada',
          last_name: null,
          role: 'org:admin',
        },
        {
          id: bob,
          email: 'bob@acme.example',
          first_name: null,
          last_name: null,
          role: 'org:member',
        },
      ],
      total_count: 3,
    })
    const page = (await ask('GET', '/organization/members?offset=1&limit=1')).json
    expect([page.data.length, page.data[0].id, page.total_count]).toEqual([1, ada, 3])
    await deactivateMember(gateway, actor, ada)
    expect((await ask('GET', '/organization/members')).json).toMatchObject({
      data: [{ id: user_id }, { id: bob }],
      total_count: 2,
    })
    for (const query of ['limit=0', 'limit=101', 'offset=-1', 'offset=x'])
      expect((await ask('GET', `/organization/members?${query}`)).status).toBe(400)
  })
})

describe('a workspace', () => {
  test('adds members in their role in the organization', async () => {
    const { status, json } = await add(bob, ada)
    expect([status, json]).toEqual([
      200,
      {
        added_count: 2,
        data: [
          {
            id: expect.stringMatching(/^[0-9a-f-]{36}$/),
            workspace_id: team,
            user_id: bob,
            role: 'member',
            created_at: '2026-03-04T05:06:08.000Z',
          },
          {
            id: expect.stringMatching(/^[0-9a-f-]{36}$/),
            workspace_id: team,
            user_id: ada,
            role: 'admin',
            created_at: '2026-03-04T05:06:08.000Z',
          },
        ],
      },
    ])
    const all = (await ask('GET', `/workspaces/${team}/members`)).json
    expect(all).toEqual({ data: json.data, total_count: 2 })
    expect((await ask('GET', '/workspaces/team/members?offset=1&limit=5')).json).toEqual({
      data: [json.data[1]],
      total_count: 2,
    })
  })

  test('adds each member once, despite duplicates and existing members', async () => {
    expect((await add(bob, bob)).json.added_count).toBe(1)
    expect((await add(bob)).json).toEqual({ added_count: 0, data: [] })
    expect((await add(bob, ada)).json).toMatchObject({ added_count: 1, data: [{ user_id: ada }] })
    await updateMember(gateway, actor, bob, { role: 'org:admin' })
    expect((await add(bob)).json).toMatchObject({
      added_count: 1,
      data: [{ user_id: bob, role: 'admin' }],
    })
    expect(await listed()).toEqual([`${bob} admin`, `${ada} admin`])
  })

  test('adds none if one id is no member, and reports how many are not', async () => {
    await deactivateMember(gateway, actor, ada)
    const { status, json } = await add(bob, 'nobody', ada)
    expect([status, json.error.message, json.error.metadata.field]).toEqual([
      400,
      'user_ids: expected members of the organization, found 2 who are not',
      'user_ids',
    ])
    expect(await listed()).toEqual([])
  })

  test('keeps memberships of a mapping as they are', async () => {
    await setWorkspaceMember(gateway, actor, team, ada, 'member', 'scim')
    expect((await add(ada)).json.added_count).toBe(0)
    expect(await listed()).toEqual([`${ada} member`])
  })

  test('removes members, all or none, and counts those who were in it', async () => {
    await add(ada, bob)
    expect(await remove(ada)).toEqual({ status: 200, json: { removed_count: 1 } })
    expect((await remove(ada, bob, bob)).json).toEqual({ removed_count: 1 })
    expect((await remove(ada, bob)).json).toEqual({ removed_count: 0 })
    expect(await listed()).toEqual([])
    await add(bob)
    expect((await remove(bob, 'nobody')).json.error.message).toBe(
      'user_ids: expected members of the organization, found 1 who is not',
    )
    expect(await listed()).toEqual([`${bob} member`])
  })

  test('keeps members with active keys, and reports how many have some', async () => {
    await add(ada, bob)
    const made = async (creator_user_id: string, workspace_id = team) =>
      (await createKey(gateway, actor, { name: 'x', creator_user_id, workspace_id })).data.hash
    const his = [await made(bob), await made(bob)]
    await made(ada, gateway.memory.owner.workspace_id)
    const { status, json } = await remove(ada, bob)
    expect([status, json.error.message]).toEqual([
      400,
      'user_ids: expected members without active API keys in this workspace, found 1 with some',
    ])
    expect(await listed()).toHaveLength(2)
    for (const hash of his) await updateKey(gateway, actor, hash, { disabled: true })
    expect((await remove(ada, bob)).json.removed_count).toBe(2)
  })

  test('keeps a member with a key that another process has just created', async () => {
    await add(bob)
    const terminal = await openGateway({ data, clock })
    others.push(terminal)
    await createKey(terminal, getOperator(terminal), {
      name: 'x',
      creator_user_id: bob,
      workspace_id: team,
    })
    expect((await remove(bob)).status).toBe(400)
  })

  test('keeps members that the identity provider manages, and reports how many', async () => {
    await add(bob)
    await setWorkspaceMember(gateway, actor, team, ada, 'member', 'scim')
    const { status, json } = await remove(ada, bob)
    expect([status, json.error.message]).toEqual([
      400,
      'user_ids: expected members who were added by hand, found 1 that your identity provider ' +
        'manages: change them there',
    ])
    expect(await listed()).toHaveLength(2)
  })

  test.each([
    ['no list', {}, 'user_ids'],
    ['an empty list', { user_ids: [] }, 'user_ids'],
    ['101 of them', { user_ids: Array.from({ length: 101 }, String) }, 'user_ids'],
    ['an id that is no text', { user_ids: [5] }, 'user_ids.0'],
  ])('refuses %s', async (_, body, field) => {
    for (const verb of ['add', 'remove']) {
      const { status, json } = await ask('POST', `/workspaces/team/members/${verb}`, { body })
      expect([status, json.error.metadata.field]).toEqual([400, field])
    }
  })

  test('adds each member once for two simultaneous requests', async () => {
    const settled = await Promise.allSettled(
      [[ada], [ada, bob], [bob]].map(user_ids =>
        addWorkspaceMembers(gateway, actor, 'team', { user_ids }),
      ),
    )
    const added = settled.flatMap(one => (one.status === 'fulfilled' ? one.value.added_count : []))
    expect(added.reduce((sum, one) => sum + one, 0)).toBe((await listed()).length)
    expect(new Set(await listed()).size).toBe((await listed()).length)
  })

  test('that was deleted accepts no members', async () => {
    const terminal = await openGateway({ data, clock })
    others.push(terminal)
    await deleteWorkspace(terminal, getOperator(terminal), team, {})
    expect(
      await readRefusalStatus(addWorkspaceMembers(gateway, actor, 'team', { user_ids: [ada] })),
    ).toBe(400)
    await gateway.catchUp()
    for (const path of ['add', 'remove'])
      expect(
        (await ask('POST', `/workspaces/team/members/${path}`, { body: { user_ids: [ada] } }))
          .status,
      ).toBe(404)
  })

  test('records each change in the audit trail, and nothing that stayed the same', async () => {
    const before = readTrail(data).length
    await add(ada, bob)
    await add(ada)
    await remove(ada)
    await remove(ada)
    await add('nobody')
    expect(readTrail(data).slice(before)).toEqual([
      `workspace_members.add ${ada}`,
      `workspace_members.add ${bob}`,
      `workspace_members.remove ${ada}`,
    ])
  })
})

describe('the default workspace', () => {
  const path = '/workspaces/default/members'

  test('contains all members of the organization, in their role there', async () => {
    const { json } = await ask('GET', path)
    expect(json.total_count).toBe(3)
    expect(json.data[2]).toEqual({
      ...{
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        workspace_id: gateway.memory.owner.workspace_id,
        user_id: bob,
        role: 'member',
      },
      created_at: '2026-03-04T05:06:08.000Z',
    })
    expect(await listed(path)).toEqual([
      `${gateway.memory.owner.user_id} admin`,
      `${ada} admin`,
      `${bob} member`,
    ])
    expect((await ask('GET', path)).json).toEqual(json)
    expect((await ask('GET', `${path}?offset=2&limit=1`)).json).toEqual({
      data: [json.data[2]],
      total_count: 3,
    })
  })

  test('shows a role that was set in it explicitly', async () => {
    await setWorkspaceMember(
      gateway,
      actor,
      gateway.memory.owner.workspace_id,
      bob,
      'admin',
      'scim',
    )
    expect(await listed(path)).toContain(`${bob} admin`)
  })

  test('accepts additions without effect, and refuses removals', async () => {
    expect((await ask('POST', `${path}/add`, { body: { user_ids: [bob] } })).json).toEqual({
      added_count: 0,
      data: [],
    })
    expect((await ask('POST', `${path}/add`, { body: { user_ids: ['nobody'] } })).status).toBe(400)
    expect((await ask('POST', `${path}/remove`, { body: { user_ids: [bob] } })).status).toBe(400)
    expect(await listed(path)).toHaveLength(3)
  })
})

describe('permissions', () => {
  const OPERATIONS: [method: string, path: string, body?: object][] = [
    ['GET', '/organization/members'],
    ['GET', '/workspaces/team/members'],
    ['POST', '/workspaces/team/members/add', { user_ids: ['x'] }],
    ['POST', '/workspaces/team/members/remove', { user_ids: ['x'] }],
  ]

  test.each(OPERATIONS)(
    '%s %s is 401 without a key, 403 with an inference key, and 500 when the store fails',
    async (method, path, body) => {
      const more = body ? { body } : {}
      expect((await ask(method, path, { ...more, key: null })).status).toBe(401)
      expect((await ask(method, path, { ...more, key: keys.inference })).status).toBe(403)
      gateway.store.members = {} as never
      const broken = await ask(method, path, more)
      expect([broken.status, broken.json.error.message]).toEqual([500, 'Internal Server Error'])
    },
  )

  test('a management key of another workspace manages only its own members', async () => {
    const { key } = await createKey(gateway, actor, { name: 'x', workspace_id: team }, 'management')
    expect((await ask('GET', '/organization/members', { key })).status).toBe(403)
    expect(
      (await ask('POST', '/workspaces/team/members/add', { key, body: { user_ids: [bob] } })).json
        .added_count,
    ).toBe(1)
    expect((await ask('GET', '/workspaces/team/members', { key })).json.total_count).toBe(1)
    expect(
      (await ask('POST', '/workspaces/team/members/remove', { key, body: { user_ids: [bob] } }))
        .json.removed_count,
    ).toBe(1)
    for (const [method, path, body] of OPERATIONS.slice(1)) {
      for (const of of ['default', 'none'])
        expect(
          (await ask(method, path.replace('team', of), { key, ...(body ? { body } : {}) })).status,
        ).toBe(404)
    }
  })

  test('members who left the organization are in no workspace and cannot be removed', async () => {
    await add(bob)
    await deactivateMember(gateway, actor, bob)
    expect(await listed()).toEqual([])
    expect(await removeWorkspaceMembers(gateway, actor, 'team', { user_ids: [bob] })).toEqual({
      removed_count: 0,
    })
  })
})

describe('a member who makes a key at the moment of their removal', () => {
  const make = () =>
    createKey(
      gateway,
      { ...actor, kind: 'member', user_id: bob },
      { name: 'ci', workspace_id: team },
    )
  const remove = () => removeWorkspaceMembers(gateway, actor, team, { user_ids: [bob] })
  const listKeys = () => gateway.memory.keys.filter(({ workspace_id }) => workspace_id === team)
  beforeEach(() => addWorkspaceMembers(gateway, actor, team, { user_ids: [bob] }))

  test('gets none where they are removed first', async () => {
    const { keys } = gateway.store
    const { insert } = keys
    keys.insert = async (...given) => {
      await remove()
      return insert(...given)
    }
    await expect(make()).rejects.toMatchObject({ status: 400 })
    expect(listKeys()).toEqual([])
  })

  test('stays where the key is made first', async () => {
    const { members } = gateway.store
    const { changeWorkspaceMembers } = members
    members.changeWorkspaceMembers = async changes => {
      await make()
      return changeWorkspaceMembers(changes)
    }
    await expect(remove()).rejects.toMatchObject({ status: 409 })
    expect(listKeys()).toHaveLength(1)
  })
})
