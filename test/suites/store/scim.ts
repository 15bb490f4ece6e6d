import { expect, test } from 'bun:test'
import type { Member } from '../../../src/resources/members/store.ts'
import type {
  DecideMembership,
  MembershipDifference,
  ScimGroup,
  ScimUser,
} from '../../../src/resources/scim.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import {
  buildDisabling,
  buildKey,
  buildMember,
  buildWorkspace,
  buildWorkspaceMember,
  CREATED,
  countAudit,
  type GetStore,
  LATER,
  readErrorType,
  readRefusal,
  WORKSPACE,
} from './rows.ts'

const TIMES = { version: 1, created_at: CREATED, updated_at: CREATED }

const buildUser = (id: string, resource: Record<string, unknown> = {}): ScimUser => ({
  id,
  user_id: `user_${id}`,
  resource: { userName: id, active: true, ...resource },
  ...TIMES,
})

const buildGroup = (id: string, more: Partial<ScimGroup> = {}): ScimGroup => ({
  id,
  display_name: id.toUpperCase(),
  external_id: `x-${id}`,
  ...TIMES,
  ...more,
})

const buildMapping = (
  scim_group_id: string,
  role: 'admin' | 'member',
  workspace_id = WORKSPACE,
) => ({
  id: `${scim_group_id} in ${workspace_id}`,
  scim_group_id,
  workspace_id,
  role,
  created_at: CREATED,
  updated_at: CREATED,
})

const buildArrival = (user: ScimUser, after: Member = buildMember(user.user_id)) => ({
  user,
  member: { before: null, after, keys: null, entries: [buildAuditEntry()] },
})

/** Tests what every store promises about SCIM resources and their effect on memberships. */
export function testScim(store: GetStore): void {
  const seen: MembershipDifference[] = []

  /** Applies the roles of groups, and records what it was asked. */
  const move: DecideMembership = difference => {
    seen.push(difference)
    const { user_id, workspace_id, granted, current } = difference
    const place =
      current ??
      buildWorkspaceMember(user_id, { id: `${user_id} in ${workspace_id}`, workspace_id })
    return {
      after: granted && { ...place, role: granted, source: 'scim' },
      entry: buildAuditEntry(),
    }
  }

  /** Returns the records since the last call. */
  const asked = () =>
    seen
      .splice(0)
      .map(({ user_id, workspace_id, granted, current }) =>
        [user_id, workspace_id, granted, current?.role ?? null].join(' '),
      )
      .toSorted()

  const rolesIn = async (workspace_id = WORKSPACE) =>
    (await store().members.listInWorkspace(workspace_id))
      .map(one => `${one.user_id} ${one.role} ${one.source}`)
      .toSorted()

  async function arrive(...ids: string[]): Promise<void> {
    for (const id of ids)
      await store().scim.users.insert(buildMember(`user_${id}`).email, () =>
        buildArrival(buildUser(id)),
      )
  }

  const map = (mapping: ReturnType<typeof buildMapping>) =>
    store().scim.mappings.insert(mapping, () => ({ mapping, entry: buildAuditEntry() }), move)

  test('a user is unique by name, address and member; a refused one leaves nothing', async () => {
    const { users } = store().scim
    await arrive('ada')
    const entries = await countAudit(store())
    const bob = buildMember('user_bob')
    expect([
      await readRefusal(
        users.insert(bob.email, () => buildArrival(buildUser('b', { userName: 'ADA' }), bob)),
      ),
      await readRefusal(
        users.insert('x', () =>
          buildArrival(buildUser('b'), { ...bob, email: 'USER_ada@acme.example' }),
        ),
      ),
      await readErrorType(
        users.insert('x', () => buildArrival({ ...buildUser('b'), user_id: 'nobody' }, bob)),
      ),
      await readRefusal(
        users.insert('x', () => {
          throw new RangeError('No')
        }),
      ),
    ]).toEqual([
      '409 userName: expected one that no other user has',
      '409 emails: expected an address that no other member has',
      'conflict',
      '500 Internal Server Error',
    ])
    expect([await users.find(), await countAudit(store())]).toEqual([[buildUser('ada')], entries])
    expect(await store().members.byIds(['user_bob'])).toEqual([])
  })

  test('the decider gets an address’s members: active ones, then the last to leave', async () => {
    const { members, scim } = store()
    const email = 'same@acme.example'
    await arrive('known')
    await scim.users.change(
      'known',
      (user, before) => ({
        user,
        member: {
          before,
          after: { ...before, email, active: false, updated_at: CREATED },
          keys: null,
          entries: [buildAuditEntry()],
        },
      }),
      move,
    )
    await members.insert(
      buildMember('late', { email, active: false, updated_at: LATER }),
      buildAuditEntry(),
    )
    await members.insert(buildMember('never', { email, active: false }), buildAuditEntry())
    await members.insert(buildMember('here', { email: 'SAME@acme.example' }), buildAuditEntry())
    const found: string[] = []
    const decide = (namesakes: { member: Member; isProvisioned: boolean }[]) => {
      for (const { member, isProvisioned } of namesakes) found.push(`${member.id} ${isProvisioned}`)
      const [here] = namesakes
      const before = here?.member ?? buildMember('?')
      return {
        user: { ...buildUser('new'), user_id: before.id },
        member: { before, after: before, keys: null, entries: [buildAuditEntry()] },
      }
    }
    await scim.users.insert('Same@acme.example', decide)
    expect(found).toEqual(['here false', 'late false', 'user_known true', 'never false'])
    expect((await scim.users.byId('new'))?.user_id).toBe('here')
  })

  test('a user is changed as the callback decides, or not if it returns nothing', async () => {
    const { scim, members, keys } = store()
    await arrive('ada', 'bob')
    await keys.insert(buildKey({ creator_user_id: 'user_ada' }), buildAuditEntry())
    const after = {
      ...buildUser('ada', { userName: 'Lady Ada', externalId: 'x' }),
      version: 2,
      updated_at: LATER,
    }
    await scim.users.change(
      'ada',
      (user, before) => {
        expect([user, before]).toEqual([buildUser('ada'), buildMember('user_ada')])
        const member = {
          before,
          after: { ...before, active: false },
          keys: buildDisabling('h1'),
          entries: [buildAuditEntry()],
        }
        return { user: after, member }
      },
      move,
    )
    expect(await scim.users.find({ by: 'name', value: 'lady ada' })).toEqual([after])
    expect(await scim.users.find({ by: 'externalId', value: 'x' })).toEqual([after])
    expect([...(await keys.all())][0]?.disabled).toBe(true)
    expect((await members.byIds(['user_ada']))[0]?.active).toBe(false)
    const entries = await countAudit(store())
    const same = (user: ScimUser, before: Member) => ({
      user,
      member: { before, after: before, keys: null, entries: [] },
    })
    await scim.users.change(
      'bob',
      user => same({ ...user, version: 9 }, buildMember('user_bob')),
      move,
    )
    expect(await scim.users.byId('bob')).toEqual(buildUser('bob'))
    const renamed = (user: ScimUser, before: Member) => ({
      user: { ...user, resource: { userName: 'LADY ADA' } },
      member: { before, after: before, keys: null, entries: [buildAuditEntry()] },
    })
    expect(await readRefusal(scim.users.change('bob', renamed, move))).toBe(
      '409 userName: expected one that no other user has',
    )
    expect(await readRefusal(scim.users.change('none', renamed, move))).toBe('404 User not found')
    expect(await countAudit(store())).toBe(entries)
  })

  test('a group is read as inserted, to the last field, and has only existing users', async () => {
    const { groups, users } = store().scim
    await arrive('ada', 'bob')
    await groups.insert(
      buildGroup('e', { display_name: 'Engineers “𝄞”' }),
      ['bob', 'ada'],
      buildAuditEntry(),
    )
    await groups.insert(
      buildGroup('d', { created_at: LATER, external_id: null }),
      ['ada'],
      buildAuditEntry(),
    )
    const refusal = '400 members: expected users that exist'
    for (const members of [['nobody'], ['ada', 'ada'], ['ada', 'nobody']])
      expect(await readRefusal(groups.insert(buildGroup('x'), members, buildAuditEntry()))).toBe(
        refusal,
      )
    expect(await groups.find()).toEqual([
      buildGroup('e', { display_name: 'Engineers “𝄞”' }),
      buildGroup('d', { created_at: LATER, external_id: null }),
    ])
    expect((await groups.find({ by: 'name', value: 'engineers “𝄞”' })).map(({ id }) => id)).toEqual(
      ['e'],
    )
    expect((await groups.find({ by: 'externalId', value: 'x-e' })).map(({ id }) => id)).toEqual([
      'e',
    ])
    expect((await groups.find({ by: 'id', value: 'd' })).map(({ id }) => id)).toEqual(['d'])
    expect([await groups.count(), (await groups.listPage(1, 1)).map(({ id }) => id)]).toEqual([
      2,
      ['d'],
    ])
    expect((await groups.listMembers(['e'])).map(one => one.scim_user_id)).toEqual(['ada', 'bob'])
    expect((await users.listGroups(['ada'])).map(one => one.display_name)).toEqual([
      'D',
      'Engineers “𝄞”',
    ])
    expect([
      await groups.listMembers([]),
      await users.listGroups([]),
      await groups.byId('x'),
    ]).toEqual([[], [], undefined])
  })

  test('a user joins the workspaces of a group with it, and leaves them with it', async () => {
    const { groups } = store().scim
    await arrive('ada', 'bob', 'eve')
    await store().members.changeWorkspaceMembers([
      { before: null, after: buildWorkspaceMember('user_eve'), entry: buildAuditEntry() },
    ])
    for (const id of ['e', 'admins']) await groups.insert(buildGroup(id), [], buildAuditEntry())
    await map(buildMapping('e', 'member'))
    await map(buildMapping('admins', 'admin'))
    expect(asked()).toEqual([])
    const members =
      (...ids: string[]) =>
      (group: ScimGroup) => ({
        group: { ...group, version: 2 },
        members: ids,
        entry: buildAuditEntry(),
      })
    await groups.change('e', members('ada', 'bob', 'eve'), move)
    expect(asked()).toEqual([`user_ada ${WORKSPACE} member `, `user_bob ${WORKSPACE} member `])
    await groups.change('admins', members('ada'), move)
    expect(asked()).toEqual([`user_ada ${WORKSPACE} admin member`])
    expect(await rolesIn()).toEqual([
      'user_ada admin scim',
      'user_bob member scim',
      'user_eve member manual',
    ])
    await groups.change('e', members('ada'), move)
    expect(asked()).toEqual([`user_bob ${WORKSPACE}  member`])
    const entries = await countAudit(store())
    await groups.change('e', group => ({ group, members: [], entry: null }), move)
    expect(await readRefusal(groups.change('e', members('nobody'), move))).toBe(
      '400 members: expected users that exist',
    )
    expect(await readRefusal(groups.change('none', members(), move))).toBe('404 Group not found')
    expect([asked(), await countAudit(store())]).toEqual([[], entries])
    await groups.change(
      'admins',
      () => ({ group: null, members: [], entry: buildAuditEntry() }),
      move,
    )
    expect(asked()).toEqual([`user_ada ${WORKSPACE} member admin`])
    expect([await groups.count(), await store().scim.mappings.count()]).toEqual([1, 1])
    expect(await rolesIn()).toEqual(['user_ada member scim', 'user_eve member manual'])
  })

  test('a removed user leaves their groups and the memberships that came from them', async () => {
    const { groups, users } = store().scim
    await arrive('ada', 'bob')
    await groups.insert(buildGroup('e'), ['ada', 'bob'], buildAuditEntry())
    await groups.insert(buildGroup('other'), ['bob'], buildAuditEntry())
    await map(buildMapping('e', 'member'))
    asked()
    const leave = (_: ScimUser, before: Member) => ({
      user: null,
      member: {
        before,
        after: { ...before, active: false },
        keys: null,
        entries: [buildAuditEntry({ created_at: LATER })],
      },
    })
    expect((await users.change('ada', leave, move)).user).toBeNull()
    expect(asked()).toEqual([`user_ada ${WORKSPACE}  member`])
    expect(await users.byId('ada')).toBeUndefined()
    expect(await groups.byId('e')).toEqual(buildGroup('e', { version: 2, updated_at: LATER }))
    expect(await groups.byId('other')).toEqual(buildGroup('other'))
    expect((await groups.listMembers(['e'])).map(one => one.scim_user_id)).toEqual(['bob'])
  })

  test('a mapping is unique by group and workspace, and moves the group’s members', async () => {
    const { groups, mappings } = store().scim
    await arrive('ada', 'bob')
    await groups.insert(buildGroup('e'), ['ada'], buildAuditEntry())
    await groups.insert(buildGroup('f'), ['bob'], buildAuditEntry())
    await store().workspaces.insert(buildWorkspace(), buildAuditEntry())
    await map(buildMapping('e', 'member'))
    await map(buildMapping('f', 'member'))
    await map(buildMapping('e', 'member', 'w2'))
    asked()
    const there = buildMapping('e', 'member')
    const found = await mappings.insert(
      { ...buildMapping('e', 'admin'), id: 'new' },
      one => ({ mapping: one ?? there, entry: null }),
      move,
    )
    expect([found, await mappings.count(), asked()]).toEqual([
      { mapping: there, entry: null },
      3,
      [],
    ])
    const entries = await countAudit(store())
    expect(await readRefusal(map(buildMapping('none', 'member')))).toBe('404 SCIM group not found')
    expect(await readRefusal(map(buildMapping('e', 'member', 'none')))).toBe(
      '404 Workspace not found',
    )
    const none = buildMapping('none', 'member')
    expect(await readRefusal(mappings.update(none, buildAuditEntry(), move))).toBe(
      '404 SCIM group mapping not found',
    )
    expect(await readRefusal(mappings.remove(none, buildAuditEntry(), move, null))).toBe(
      '404 SCIM group mapping not found',
    )
    expect([await countAudit(store()), asked()]).toEqual([entries, []])
    await mappings.update({ ...there, role: 'admin', updated_at: LATER }, buildAuditEntry(), move)
    expect(asked()).toEqual([`user_ada ${WORKSPACE} admin member`])
    expect(await mappings.byId(there.id)).toEqual({ ...there, role: 'admin', updated_at: LATER })
    await mappings.remove(there, buildAuditEntry(), move, null)
    expect(asked()).toEqual([`user_ada ${WORKSPACE}  admin`])
    await mappings.remove(buildMapping('f', 'member'), buildAuditEntry(), move, current =>
      buildAuditEntry({ before: current }),
    )
    expect([asked(), await rolesIn(), await rolesIn('w2')]).toEqual([
      [],
      ['user_bob member manual'],
      ['user_ada member scim'],
    ])
  })

  test('a finished job does not change, and its work corrects all memberships', async () => {
    const { groups, jobs } = store().scim
    await arrive('ada')
    await groups.insert(buildGroup('e'), ['ada'], buildAuditEntry())
    await store().workspaces.insert(buildWorkspace(), buildAuditEntry())
    const stay: DecideMembership = () => ({ after: null, entry: buildAuditEntry() })
    const mapping = buildMapping('e', 'admin')
    await store().scim.mappings.insert(mapping, () => ({ mapping, entry: buildAuditEntry() }), stay)
    const left = buildWorkspaceMember('user_ada', {
      id: 'left',
      workspace_id: 'w2',
      source: 'scim',
    })
    await store().members.changeWorkspaceMembers([
      { before: null, after: left, entry: buildAuditEntry() },
    ])
    expect((await jobs.listWorkspaces()).toSorted()).toEqual([WORKSPACE, 'w2'])
    for (const workspace_id of await jobs.listWorkspaces()) await jobs.apply(workspace_id, move)
    expect(asked()).toEqual([`user_ada ${WORKSPACE} admin `, 'user_ada w2  member'])
    expect([await rolesIn(), await rolesIn('w2')]).toEqual([['user_ada admin scim'], []])
    await jobs.apply(WORKSPACE, move)
    expect(asked()).toEqual([])
    expect(await jobs.byId('none')).toBeUndefined()
    await jobs.update('none', { status: 'failed' })
  })

  test('a token is found by its unique hash until it is revoked', async () => {
    const { tokens } = store().scim
    const tokenOf = (id: string, created_at = CREATED) => ({
      id,
      name: 'a',
      label: 'b',
      hash: `hash ${id}`,
      created_by: 'u',
      created_at,
    })
    for (const token of [tokenOf('b'), tokenOf('c'), tokenOf('a', LATER)])
      await tokens.insert(token, buildAuditEntry())
    expect(await tokens.all()).toEqual([tokenOf('b'), tokenOf('c'), tokenOf('a', LATER)])
    expect(
      await readErrorType(tokens.insert({ ...tokenOf('d'), hash: 'hash b' }, buildAuditEntry())),
    ).toBe('conflict')
    await tokens.remove('b', buildAuditEntry())
    expect(await readErrorType(tokens.remove('b', buildAuditEntry()))).toBe('not_found')
    expect([await tokens.byHash('hash b'), await tokens.byHash('hash c')]).toEqual([
      undefined,
      tokenOf('c'),
    ])
  })
}
