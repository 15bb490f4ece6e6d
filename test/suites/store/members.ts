import { expect, test } from 'bun:test'
import { told } from '../../support/audit.ts'
import {
  CREATED,
  countAudit,
  disablingOf,
  keyOf,
  LATER,
  memberOf,
  type Opened,
  placeOf,
  refusalOf,
  typeOf,
  WORKSPACE,
} from './rows.ts'

const TAKEN = '409 A member of the organization has this e-mail address'

/** Tests what every store promises about members and their workspaces. */
export function memberCases(store: Opened): void {
  const insert = (...ids: string[]) =>
    Promise.all(ids.map(id => store().members.insert(memberOf(id), told())))

  test('a member is read as inserted, in every field, and the first of an id stays', async () => {
    const { members } = store()
    await members.first(memberOf('a'))
    await members.first(memberOf('a', { email: 'other@acme.example' }))
    const gone = memberOf('b', {
      active: false,
      role: 'org:admin',
      last_name: `o'Hara`,
      updated_at: LATER,
    })
    await members.insert(gone, told())
    expect(await members.byIds(['a'])).toEqual([memberOf('a')])
    expect(await members.byIds(['b', 'none'])).toEqual([gone])
    expect(await members.byIds([])).toEqual([])
    expect(await typeOf(members.insert(memberOf('a', { email: 'new@acme.example' }), told()))).toBe(
      'conflict',
    )
  })

  test('active members are listed and counted, the oldest first', async () => {
    const { members } = store()
    const ages = { d: CREATED, b: LATER, a: LATER, c: CREATED, gone: CREATED }
    for (const [id, created_at] of Object.entries(ages))
      await members.insert(memberOf(id, { created_at, active: id !== 'gone' }), told())
    const ids = async (offset: number, limit: number) =>
      (await members.list(offset, limit)).map(({ id }) => id)
    expect([await ids(0, 9), await ids(1, 2), await ids(9, 9)]).toEqual([
      ['c', 'd', 'a', 'b'],
      ['d', 'a'],
      [],
    ])
    expect(await members.count()).toBe(4)
  })

  test('an address belongs to one active member, in any case, until they leave', async () => {
    const { members } = store()
    await insert('ada', 'bob')
    const email = 'ADA@Acme.example'
    expect(await refusalOf(members.insert(memberOf('eve', { email }), told()))).toBe(TAKEN)
    expect(await refusalOf(members.update('bob', { email }, told()))).toBe(TAKEN)
    await members.update('ada', { email }, told())
    await members.deactivate('ada', disablingOf(), told())
    await members.update('bob', { email, updated_at: LATER }, told())
    expect(await refusalOf(members.update('ada', { active: true }, told()))).toBe(TAKEN)
    await members.update('bob', { email: 'bob@acme.example' }, told())
    await members.update('ada', { active: true, first_name: null }, told())
    expect(await members.byIds(['ada'])).toEqual([
      memberOf('ada', { email, first_name: null, updated_at: LATER }),
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
      await keys.insert(keyOf({ hash, creator_user_id }), told())
    await keys.update('c', { disabled: true }, told())
    const entries = await countAudit(store())
    const refusal = '409 A key of this member was changed at the same moment. Please try again.'
    for (const hashes of [[], ['a', 'b'], ['a', 'c']])
      expect(await refusalOf(members.deactivate('ada', disablingOf(...hashes), told()))).toBe(
        refusal,
      )
    expect([await countAudit(store()), await members.count()]).toEqual([entries, 2])
    await members.deactivate('ada', disablingOf('a'), told())
    expect(await countAudit(store())).toBe(entries + 2)
    expect(await members.byIds(['ada'])).toEqual([
      memberOf('ada', { active: false, updated_at: LATER }),
    ])
    const open = (await keys.all()).filter(({ disabled }) => !disabled)
    expect(open.map(({ hash }) => hash)).toEqual(['b'])
    expect(await refusalOf(keys.insert(keyOf({ hash: 'd', creator_user_id: 'ada' }), told()))).toBe(
      '400 creator_user_id: expected a member who has not left',
    )
    expect(await refusalOf(keys.update('a', { disabled: false }, told()))).toBe(
      '400 disabled: expected true, since the key’s workspace was deleted or its creator has left',
    )
  })

  test('a membership is unique, read as inserted, and changed atomically', async () => {
    const { members } = store()
    await insert('ada', 'bob', 'eve')
    const [ada, bob] = [placeOf('ada', { created_at: LATER }), placeOf('bob', { source: 'scim' })]
    const put = [ada, bob].map(after => ({ before: null, after, entry: told() }))
    await members.changeWorkspaceMembers(put)
    expect(await members.inWorkspace(WORKSPACE)).toEqual([bob, ada])
    expect(await members.workspaceMember(WORKSPACE, 'ada')).toEqual(ada)
    expect(await members.workspaceMember(WORKSPACE, 'eve')).toBeUndefined()

    const entries = await countAudit(store())
    const eve = { before: null, after: placeOf('eve'), entry: told() }
    const outdated = { before: { ...ada, role: 'admin' as const }, after: ada, entry: told() }
    const late = { before: null, after: placeOf('ada', { id: 'other' }), entry: told() }
    const stranger = { before: null, after: placeOf('nobody'), entry: told() }
    for (const wrong of [
      outdated,
      late,
      stranger,
      { before: { ...bob, id: 'old' }, after: null, entry: told() },
    ])
      expect(await typeOf(members.changeWorkspaceMembers([eve, wrong]))).toBe('conflict')
    expect([await members.inWorkspace(WORKSPACE), await countAudit(store())]).toEqual([
      [bob, ada],
      entries,
    ])

    const higher = { ...ada, role: 'admin' as const }
    await members.changeWorkspaceMembers([
      { before: ada, after: higher, entry: told() },
      { before: bob, after: null, entry: told() },
      { before: null, after: null, entry: told() },
    ])
    expect(await members.inWorkspace(WORKSPACE)).toEqual([higher])
    expect(await countAudit(store())).toBe(entries + 2)
    await members.deactivate('ada', disablingOf(), told())
    expect(await members.inWorkspace(WORKSPACE)).toEqual([])
    expect(await members.workspaceMember(WORKSPACE, 'ada')).toEqual(higher)
  })
}
