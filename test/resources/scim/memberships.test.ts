import { beforeEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Gateway } from '../../../src/app/gateway.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import { type Actor, getOperator } from '../../../src/resources/actor.ts'
import type { WorkspaceMember } from '../../../src/resources/members/store.ts'
import {
  createScimGroup,
  deleteScimGroup,
  patchScimGroup,
} from '../../../src/resources/scim/groups.ts'
import {
  createGroupMapping,
  deleteGroupMapping,
  finishSyncJob,
  updateGroupMapping,
} from '../../../src/resources/scim/operations.ts'
import { createScimUser, deleteScimUser, patchScimUser } from '../../../src/resources/scim/users.ts'
import { createWorkspace, deleteWorkspace } from '../../../src/resources/workspaces.ts'
import { testGateway } from '../../support/gateway.ts'
import { GROUP_ID, PATCH_OP, USER_ID } from '../../support/scim.ts'
import { removeWorkspaceMember, setWorkspaceMember } from '../../support/workspace-members.ts'

const ALWAYS = { ifMatch: null }

let gateway: Gateway
let actor: Actor
let other: string

beforeEach(async () => {
  gateway = await testGateway()
  actor = { ...getOperator(gateway), kind: 'scim' }
  other = await newWorkspace()
})

const newWorkspace = async () =>
  (await createWorkspace(gateway, actor, { name: 'Other', slug: 'other' })).data.id
const newUser = (userName: string) =>
  createScimUser(gateway, actor, { schemas: [USER_ID], userName })
const newGroup = async (displayName: string) =>
  (await createScimGroup(gateway, actor, { schemas: [GROUP_ID], displayName })).id
const map = async (scim_group_id: string, workspace_id: string, role: WorkspaceMember['role']) =>
  (await createGroupMapping(gateway, actor, { scim_group_id, workspace_id, role })).data.id

const setMembers = (group: string, ids: string[]) =>
  patchScimGroup(
    gateway,
    actor,
    group,
    {
      schemas: [PATCH_OP],
      Operations: [{ op: 'replace', path: 'members', value: ids.map(value => ({ value })) }],
    },
    ALWAYS,
  )

/** Returns the membership of a member in a workspace as `admin scim`, or nothing. */
async function held(workspace_id: string, user_id: string): Promise<string> {
  const found = await gateway.store.members.findWorkspaceMember(workspace_id, user_id)
  return found ? `${found.role} ${found.source}` : ''
}

const statusOf = (promise: Promise<unknown>) =>
  promise.then(
    () => undefined,
    thrown => GatewayError.from(thrown).status,
  )

describe('a mapping', () => {
  test('adds current and future members of the group, and removes those who leave', async () => {
    const [ada, bob] = [await newUser('ada'), await newUser('bob')]
    const group = await newGroup('E')
    await setMembers(group, [ada.id])
    await map(group, other, 'admin')
    expect([await held(other, ada.user_id), await held(other, bob.user_id)]).toEqual([
      'admin scim',
      '',
    ])
    await setMembers(group, [bob.id])
    expect([await held(other, ada.user_id), await held(other, bob.user_id)]).toEqual([
      '',
      'admin scim',
    ])
  })

  test('with the higher role wins in any order, and deleting it leaves the other', async () => {
    const ada = await newUser('ada')
    const [one, two] = [await newGroup('1'), await newGroup('2')]
    for (const group of [one, two]) await setMembers(group, [ada.id])
    const admin = await map(one, other, 'admin')
    await map(two, other, 'member')
    expect(await held(other, ada.user_id)).toBe('admin scim')
    await deleteGroupMapping(gateway, actor, admin, { keep_members: 'false' })
    expect(await held(other, ada.user_id)).toBe('member scim')
  })

  test('created again is applied again; with another role it conflicts', async () => {
    const ada = await newUser('ada')
    const group = await newGroup('E')
    await setMembers(group, [ada.id])
    const first = await map(group, other, 'member')
    await removeWorkspaceMember(gateway, actor, other, ada.user_id)
    expect(await map(group, other, 'member')).toBe(first)
    expect(await held(other, ada.user_id)).toBe('member scim')
    expect(await statusOf(map(group, other, 'admin'))).toBe(409)
    expect(await held(other, ada.user_id)).toBe('member scim')
    expect(await gateway.store.scim.mappings.count()).toBe(1)
  })

  test('when deleted, keeps members with their role as if added by hand, on request', async () => {
    const ada = await newUser('ada')
    const group = await newGroup('E')
    await setMembers(group, [ada.id])
    await deleteGroupMapping(gateway, actor, await map(group, other, 'admin'), {
      keep_members: 'true',
    })
    expect(await held(other, ada.user_id)).toBe('admin manual')
    await map(group, other, 'member')
    await setMembers(group, [])
    expect(await held(other, ada.user_id)).toBe('admin manual')
  })

  test('keeps the id and the time of a membership that it changes', async () => {
    const ada = await newUser('ada')
    const group = await newGroup('E')
    await setMembers(group, [ada.id])
    const id = await map(group, other, 'member')
    const before = await gateway.store.members.findWorkspaceMember(other, ada.user_id)
    await updateGroupMapping(gateway, actor, id, { role: 'admin' })
    expect(await gateway.store.members.findWorkspaceMember(other, ada.user_id)).toEqual({
      ...before,
      role: 'admin',
    } as WorkspaceMember)
  })
})

describe('a member added by hand', () => {
  test('is affected by no mapping, neither when it is created nor when it is deleted', async () => {
    const ada = await newUser('ada')
    const group = await newGroup('E')
    await setWorkspaceMember(gateway, actor, other, ada.user_id, 'member', 'manual')
    await setMembers(group, [ada.id])
    const id = await map(group, other, 'admin')
    expect(await held(other, ada.user_id)).toBe('member manual')
    await deleteGroupMapping(gateway, actor, id, { keep_members: 'false' })
    await deleteScimUser(gateway, actor, ada.id, ALWAYS)
    expect(await held(other, ada.user_id)).toBe('member manual')
  })
})

describe('a deleted workspace', () => {
  test('loses its mappings, and gets no new members', async () => {
    const ada = await newUser('ada')
    const group = await newGroup('E')
    const id = await map(group, other, 'member')
    await deleteWorkspace(gateway, actor, other, {})
    await setMembers(group, [ada.id])
    expect(await held(other, ada.user_id)).toBe('')
    expect(await statusOf(updateGroupMapping(gateway, actor, id, { role: 'admin' }))).toBe(404)
    expect(await statusOf(map(group, other, 'member'))).toBe(404)
  })
})

describe('a half-done change', () => {
  test('does not exist: a change that fails at its last step moves no member', async () => {
    const ada = await newUser('ada')
    const group = await newGroup('E')
    await map(group, other, 'member')
    const { change } = gateway.store.scim.groups
    gateway.store.scim.groups.change = (id, decide, move) =>
      change(id, decide, difference => {
        throw new Error(`${move(difference).entry.action}`)
      })
    await expect(setMembers(group, [ada.id])).rejects.toThrow('workspace_members.add')
    gateway.store.scim.groups.change = change
    expect((await gateway.store.scim.groups.listMembers([group])).length).toBe(0)
    expect(await held(other, ada.user_id)).toBe('')
  })
})

type Step =
  | { do: 'members'; group: number; users: number[] }
  | { do: 'map'; group: number; workspace: number; role: WorkspaceMember['role'] }
  | { do: 'role'; group: number; workspace: number; role: WorkspaceMember['role'] }
  | { do: 'unmap'; group: number; workspace: number; keep: boolean }
  | { do: 'put'; user: number; workspace: number; role: WorkspaceMember['role'] }
  | { do: 'take'; user: number; workspace: number }
  | { do: 'drop'; group: number }
  | { do: 'delete'; user: number }
  | { do: 'active'; user: number; active: boolean }
  | { do: 'sync' }

const index = fc.nat({ max: 2 })
const role = fc.constantFrom('admin' as const, 'member' as const)
const workspace = fc.nat({ max: 1 })
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    arbitrary: fc.record({
      do: fc.constant('members' as const),
      group: index,
      users: fc.uniqueArray(index),
    }),
    weight: 4,
  },
  {
    arbitrary: fc.record({ do: fc.constant('map' as const), group: index, workspace, role }),
    weight: 3,
  },
  fc.record({ do: fc.constant('role' as const), group: index, workspace, role }),
  {
    arbitrary: fc.record({
      do: fc.constant('unmap' as const),
      group: index,
      workspace,
      keep: fc.boolean(),
    }),
    weight: 2,
  },
  fc.record({ do: fc.constant('put' as const), user: index, workspace, role }),
  fc.record({ do: fc.constant('take' as const), user: index, workspace }),
  fc.record({ do: fc.constant('drop' as const), group: index }),
  fc.record({ do: fc.constant('delete' as const), user: index }),
  fc.record({ do: fc.constant('active' as const), user: index, active: fc.boolean() }),
  fc.constant({ do: 'sync' as const }),
)

/** The mappings, groups and memberships by hand, as the test counts them. */
class Reference {
  readonly members = new Map<number, number[]>()
  readonly mappings = new Map<string, WorkspaceMember['role']>()
  readonly manual = new Map<string, WorkspaceMember['role']>()

  /** The rule itself: by hand first, else the highest role of the groups, else nothing. */
  held(user: number, workspace: number): string {
    const byHand = this.manual.get(`${user} ${workspace}`)
    if (byHand) return `${byHand} manual`
    const given = [0, 1, 2]
      .filter(group => this.members.get(group)?.includes(user))
      .map(group => this.mappings.get(`${group} ${workspace}`))
    return given.includes('admin') ? 'admin scim' : given.includes('member') ? 'member scim' : ''
  }
}

test('after any sequence of changes, memberships match a five-line model', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async steps => {
      gateway = await testGateway()
      actor = getOperator(gateway)
      const workspaces = [gateway.memory.owner.workspace_id, await newWorkspace()]
      const users = await Promise.all(['ada', 'bob', 'cy'].map(newUser))
      const groups = await Promise.all(['1', '2', '3'].map(newGroup))
      const ids = new Map<string, string>()
      const reference = new Reference()
      const gone = new Set<number>()
      for (const one of steps) await take(one)
      await gateway.close()

      async function take(one: Step): Promise<void> {
        if ('user' in one && gone.has(one.user)) return
        switch (one.do) {
          case 'members': {
            const left = one.users.filter(user => !gone.has(user))
            await setMembers(
              groups[one.group] ?? '',
              left.map(user => users[user]?.id ?? ''),
            )
            reference.members.set(one.group, left)
            break
          }
          case 'map': {
            const key = `${one.group} ${one.workspace}`
            const there = reference.mappings.get(key)
            const made = map(groups[one.group] ?? '', workspaces[one.workspace] ?? '', one.role)
            if (there && there !== one.role) expect(await statusOf(made)).toBe(409)
            else ids.set(key, await made)
            reference.mappings.set(key, there ?? one.role)
            break
          }
          case 'role': {
            const key = `${one.group} ${one.workspace}`
            const id = ids.get(key)
            if (!id) break
            await updateGroupMapping(gateway, actor, id, { role: one.role })
            reference.mappings.set(key, one.role)
            break
          }
          case 'unmap': {
            const key = `${one.group} ${one.workspace}`
            const id = ids.get(key)
            if (!id) break
            if (one.keep) keep(one.group, one.workspace)
            await deleteGroupMapping(gateway, actor, id, {
              keep_members: one.keep ? 'true' : 'false',
            })
            ids.delete(key)
            reference.mappings.delete(key)
            break
          }
          case 'put':
            await setWorkspaceMember(
              gateway,
              actor,
              workspaces[one.workspace] ?? '',
              users[one.user]?.user_id ?? '',
              one.role,
              'manual',
            )
            reference.manual.set(`${one.user} ${one.workspace}`, one.role)
            break
          case 'take':
            // Only manual memberships can be removed by hand. What a group grants returns with the
            // next change.
            if (!reference.manual.delete(`${one.user} ${one.workspace}`)) break
            await removeWorkspaceMember(
              gateway,
              actor,
              workspaces[one.workspace] ?? '',
              users[one.user]?.user_id ?? '',
            )
            await finishSyncJob(gateway, actor)
            break
          case 'drop': {
            await deleteScimGroup(gateway, actor, groups[one.group] ?? '', ALWAYS)
            groups[one.group] = await newGroup('again')
            reference.members.delete(one.group)
            for (const at of [0, 1]) ids.delete(`${one.group} ${at}`)
            for (const at of [0, 1]) reference.mappings.delete(`${one.group} ${at}`)
            break
          }
          case 'delete':
            await deleteScimUser(gateway, actor, users[one.user]?.id ?? '', ALWAYS)
            gone.add(one.user)
            for (const [group, members] of reference.members)
              reference.members.set(
                group,
                members.filter(user => user !== one.user),
              )
            break
          case 'active': {
            const Operations = [{ op: 'replace', value: { active: one.active } }]
            await patchScimUser(
              gateway,
              actor,
              users[one.user]?.id ?? '',
              { schemas: [PATCH_OP], Operations },
              ALWAYS,
            )
            break
          }
          case 'sync':
            expect((await finishSyncJob(gateway, actor)).data).toMatchObject({
              status: 'succeeded',
              synced_groups: 3,
            })
        }
        for (const [user, { user_id }] of users.entries())
          for (const [at, id] of workspaces.entries())
            expect([one, user, at, await held(id, user_id)]).toEqual([
              one,
              user,
              at,
              reference.held(user, at),
            ])
      }

      function keep(group: number, at: number): void {
        for (const user of reference.members.get(group) ?? []) {
          const [role, source] = reference.held(user, at).split(' ')
          if (source === 'scim')
            reference.manual.set(`${user} ${at}`, role as WorkspaceMember['role'])
        }
      }
    }),
    { numRuns: 60 },
  )
}, 60_000)
