import { expect, test } from 'bun:test'
import { buildAuditEntry } from '../../support/audit.ts'
import {
  buildDisabling,
  buildKey,
  buildMember,
  buildWorkspaceMember,
  CREATED,
  countAudit,
  type GetStore,
  LATER,
  readErrorType,
  readRefusal,
  WORKSPACE,
} from './rows.ts'

const TAKEN = '409 A member of the organization has this e-mail address'

/** Tests what every store promises about members and their workspaces. */
export function testMembers(store: GetStore): void {
  const insert = (...ids: string[]) =>
    Promise.all(ids.map(id => store().members.insert(buildMember(id), buildAuditEntry())))

  test('a member is read as inserted, in every field, and the first of an id stays', async () => {
    const { members } = store()
    await members.insertIfAbsent(buildMember('a'))
    await members.insertIfAbsent(buildMember('a', { email: 'other@acme.example' }))
    const gone = buildMember('b', {
      active: false,
      role: 'org:admin',
      last_name: `o'Hara`,
      updated_at: LATER,
    })
    await members.insert(gone, buildAuditEntry())
    expect(await members.byIds(['a'])).toEqual([buildMember('a')])
    expect(await members.byIds(['b', 'none'])).toEqual([gone])
    expect(await members.byIds([])).toEqual([])
    expect(
      await readErrorType(
        members.insert(buildMember('a', { email: 'new@acme.example' }), buildAuditEntry()),
      ),
    ).toBe('conflict')
  })

  test('an active member is found by address, in any case', async () => {
    const { members } = store()
    await members.insert(
      buildMember('gone', { email: 'Ada@acme.example', active: false }),
      buildAuditEntry(),
    )
    expect(await members.findActive('ada@acme.example')).toBeUndefined()
    const ada = buildMember('ada', { email: 'Ada@acme.example' })
    await members.insert(ada, buildAuditEntry())
    expect(await members.findActive('ada@ACME.example')).toEqual(ada)
    expect(await members.findActive('ada')).toBeUndefined()
    expect(await members.findActive('%')).toBeUndefined()
  })

  test('active members are listed and counted, the oldest first', async () => {
    const { members } = store()
    const ages = { d: CREATED, b: LATER, a: LATER, c: CREATED, gone: CREATED }
    for (const [id, created_at] of Object.entries(ages))
      await members.insert(
        buildMember(id, { created_at, active: id !== 'gone' }),
        buildAuditEntry(),
      )
    const ids = async (offset: number, limit: number) =>
      (await members.list(offset, limit)).map(({ id }) => id)
    expect([await ids(0, 9), await ids(1, 2), await ids(9, 9)]).toEqual([
      ['c', 'd', 'a', 'b'],
      ['d', 'a'],
      [],
    ])
    expect(await members.count()).toBe(4)
    expect((await members.listInactive()).map(({ id }) => id)).toEqual(['gone'])
  })

  test('an address belongs to one active member, in any case, until they leave', async () => {
    const { members } = store()
    await insert('ada', 'bob')
    const email = 'ADA@Acme.example'
    expect(
      await readRefusal(members.insert(buildMember('eve', { email }), buildAuditEntry())),
    ).toBe(TAKEN)
    expect(await readRefusal(members.update('bob', { email }, buildAuditEntry()))).toBe(TAKEN)
    await members.update('ada', { email }, buildAuditEntry())
    await members.deactivate('ada', buildDisabling(), buildAuditEntry())
    await members.update('bob', { email, updated_at: LATER }, buildAuditEntry())
    expect(await readRefusal(members.update('ada', { active: true }, buildAuditEntry()))).toBe(
      TAKEN,
    )
    await members.update('bob', { email: 'bob@acme.example' }, buildAuditEntry())
    await members.update('ada', { active: true, first_name: null }, buildAuditEntry())
    expect(await members.byIds(['ada'])).toEqual([
      buildMember('ada', { email, first_name: null, updated_at: LATER }),
    ])
  })

  test('deactivating a member disables exactly the keys that were passed', async () => {
    const { members, keys } = store()
    await insert('ada', 'bob')
    for (const [hash, creator_user_id] of [
      ['a', 'ada'],
      ['b', 'bob'],
      ['c', 'ada'],
    ] as const)
      await keys.insert(buildKey({ hash, creator_user_id }), buildAuditEntry())
    await keys.update('c', { disabled: true }, buildAuditEntry())
    const entries = await countAudit(store())
    const refusal = '409 A key of this member was changed at the same moment. Please try again.'
    for (const hashes of [[], ['a', 'b'], ['a', 'c']])
      expect(
        await readRefusal(members.deactivate('ada', buildDisabling(...hashes), buildAuditEntry())),
      ).toBe(refusal)
    expect([await countAudit(store()), await members.count()]).toEqual([entries, 2])
    await members.deactivate('ada', buildDisabling('a'), buildAuditEntry())
    expect(await countAudit(store())).toBe(entries + 2)
    expect(await members.byIds(['ada'])).toEqual([
      buildMember('ada', { active: false, updated_at: LATER }),
    ])
    const open = [...(await keys.all())].filter(({ disabled }) => !disabled)
    expect(open.map(({ hash }) => hash)).toEqual(['b'])
    expect(
      await readRefusal(
        keys.insert(buildKey({ hash: 'd', creator_user_id: 'ada' }), buildAuditEntry()),
      ),
    ).toBe('400 creator_user_id: expected a member who has not left')
    expect(await readRefusal(keys.update('a', { disabled: false }, buildAuditEntry()))).toBe(
      '400 disabled: expected true, since the key’s workspace was deleted or its creator has left',
    )
  })

  test('a membership is unique, read as inserted, and changed atomically', async () => {
    const { members } = store()
    await insert('ada', 'bob', 'eve')
    const [ada, bob] = [
      buildWorkspaceMember('ada', { created_at: LATER }),
      buildWorkspaceMember('bob', { source: 'scim' }),
    ]
    const put = [ada, bob].map(after => ({ before: null, after, entry: buildAuditEntry() }))
    await members.changeWorkspaceMembers(put)
    expect(await members.listInWorkspace(WORKSPACE)).toEqual([bob, ada])
    expect(await members.findWorkspaceMember(WORKSPACE, 'ada')).toEqual(ada)
    expect(await members.findWorkspaceMember(WORKSPACE, 'eve')).toBeUndefined()
    expect(await members.listWorkspacesOf('ada')).toEqual([WORKSPACE])
    expect(await members.listWorkspacesOf('eve')).toEqual([])

    const entries = await countAudit(store())
    const eve = { before: null, after: buildWorkspaceMember('eve'), entry: buildAuditEntry() }
    const outdated = {
      before: { ...ada, role: 'admin' as const },
      after: ada,
      entry: buildAuditEntry(),
    }
    const late = {
      before: null,
      after: buildWorkspaceMember('ada', { id: 'other' }),
      entry: buildAuditEntry(),
    }
    const stranger = {
      before: null,
      after: buildWorkspaceMember('nobody'),
      entry: buildAuditEntry(),
    }
    for (const wrong of [
      outdated,
      late,
      stranger,
      { before: { ...bob, id: 'old' }, after: null, entry: buildAuditEntry() },
    ])
      expect(await readErrorType(members.changeWorkspaceMembers([eve, wrong]))).toBe('conflict')
    expect([await members.listInWorkspace(WORKSPACE), await countAudit(store())]).toEqual([
      [bob, ada],
      entries,
    ])

    const higher = { ...ada, role: 'admin' as const }
    await members.changeWorkspaceMembers([
      { before: ada, after: higher, entry: buildAuditEntry() },
      { before: bob, after: null, entry: buildAuditEntry() },
      { before: null, after: null, entry: buildAuditEntry() },
    ])
    expect(await members.listInWorkspace(WORKSPACE)).toEqual([higher])
    expect(await countAudit(store())).toBe(entries + 2)
    await members.deactivate('ada', buildDisabling(), buildAuditEntry())
    expect(await members.listInWorkspace(WORKSPACE)).toEqual([])
    expect(await members.findWorkspaceMember(WORKSPACE, 'ada')).toEqual(higher)
  })
}
