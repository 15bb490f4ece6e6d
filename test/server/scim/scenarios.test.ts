import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { listAudit } from '../../../src/resources/audit.ts'
import { createKey, updateKey } from '../../../src/resources/keys.ts'
import { updateMember } from '../../../src/resources/members.ts'
import { createGroupMapping, updateGroupMapping } from '../../../src/resources/scim/operations.ts'
import { createWorkspace } from '../../../src/resources/workspaces.ts'
import { getApp } from '../../support/app.ts'
import { testGateway } from '../../support/gateway.ts'
import {
  ENTERPRISE,
  GROUP_ID,
  type IdentityProvider,
  openIdentityProvider,
  USER_ID,
} from '../../support/scim.ts'
import { setWorkspaceMember } from '../../support/workspace-members.ts'

let gateway: Gateway
let idp: IdentityProvider
let workspace_id: string

beforeEach(async () => {
  gateway = await testGateway()
  idp = await openIdentityProvider(gateway)
  workspace_id = (
    await createWorkspace(gateway, getOperator(gateway), { name: 'Other', slug: 'other' })
  ).data.id
})

const map = async (scim_group_id: string, role: 'admin' | 'member') =>
  (await createGroupMapping(gateway, getOperator(gateway), { scim_group_id, workspace_id, role }))
    .data.id

const memberOf = async (id: string) => {
  const user = await gateway.store.scim.users.byId(id)
  const [member] = await gateway.store.members.byIds([user?.user_id ?? ''])
  if (!member) throw new Error(`${id} is no member`)
  return member
}

/** Lists the active members of the workspace by address, with role and source. */
async function inWorkspace(): Promise<string[]> {
  const rows = await gateway.store.members.listInWorkspace(workspace_id)
  const members = await gateway.store.members.byIds(rows.map(one => one.user_id))
  return rows
    .map(row => `${members.find(one => one.id === row.user_id)?.email} ${row.role} ${row.source}`)
    .sort()
}

/** Returns what a key may call. */
async function opens(key: string): Promise<number> {
  const request = new Request('http://gateway.test/api/v1/key', {
    headers: { authorization: `Bearer ${key}` },
  })
  return (await getApp(gateway).handle(request)).status
}

test('Okta: a user is assigned, grouped, promoted, removed, deactivated, reactivated', async () => {
  // Does the user exist already?
  const looked = await idp.ask(
    'GET',
    `/Users?${new URLSearchParams({
      filter: 'userName eq "isaac@acme.example"',
      startIndex: '1',
      count: '100',
    })}`,
  )
  expect(looked.body).toMatchObject({ totalResults: 0, Resources: [] })
  const created = await idp.ask('POST', '/Users', {
    schemas: [USER_ID],
    userName: 'isaac@acme.example',
    name: { givenName: 'Isaac', familyName: 'Brock' },
    emails: [{ primary: true, value: 'isaac@acme.example', type: 'work' }],
    displayName: 'Isaac Brock',
    locale: 'en-US',
    externalId: '00ujl29u0le5T6Aj10h7',
    groups: [],
    password: '1mz050nq',
    active: true,
  })
  expect(created.status).toBe(201)
  const { id } = created.body
  expect(await memberOf(id)).toMatchObject({
    email: 'isaac@acme.example',
    first_name: 'Isaac',
    last_name: 'Brock',
    active: true,
  })

  // Group push: the empty group first, then its members.
  const group = (
    await idp.ask('POST', '/Groups', { schemas: [GROUP_ID], displayName: 'Engineers', members: [] })
  ).body.id
  const mapping = await map(group, 'member')
  const pushed = await idp.patch(`/Groups/${group}`, {
    op: 'add',
    path: 'members',
    value: [{ value: id, display: 'isaac@acme.example' }],
  })
  expect(pushed.body.members).toMatchObject([{ value: id, display: 'Isaac Brock' }])
  expect(await inWorkspace()).toEqual(['isaac@acme.example member scim'])
  await updateGroupMapping(gateway, getOperator(gateway), mapping, { role: 'admin' })
  expect(await inWorkspace()).toEqual(['isaac@acme.example admin scim'])

  // The group is renamed: Okta sends its id again.
  await idp.patch(`/Groups/${group}`, {
    op: 'replace',
    value: { id: group, displayName: 'Builders' },
  })
  expect((await idp.ask('GET', `/Groups/${group}`)).body).toMatchObject({
    displayName: 'Builders',
    members: [{ value: id }],
  })
  await idp.patch(`/Groups/${group}`, { op: 'remove', path: `members[value eq "${id}"]` })
  expect(await inWorkspace()).toEqual([])
  await idp.patch(`/Groups/${group}`, { op: 'add', path: 'members', value: [{ value: id }] })

  // The user is unassigned and assigned again: their keys stay disabled.
  const { key, data } = await createKey(gateway, getOperator(gateway), {
    name: 'his',
    creator_user_id: (await memberOf(id)).id,
  })
  expect(await opens(key)).toBe(200)
  expect(
    (await idp.patch(`/Users/${id}`, { op: 'replace', value: { active: false } })).body.active,
  ).toBe(false)
  expect([await opens(key), await inWorkspace(), (await memberOf(id)).active]).toEqual([
    401,
    [],
    false,
  ])
  const whole = (await idp.ask('GET', `/Users/${id}`)).body
  expect((await idp.ask('PUT', `/Users/${id}`, { ...whole, active: true })).status).toBe(200)
  expect([await opens(key), await inWorkspace(), (await memberOf(id)).active]).toEqual([
    401,
    ['isaac@acme.example admin scim'],
    true,
  ])
  await updateKey(gateway, getOperator(gateway), data.hash, { disabled: false })
  expect(await opens(key)).toBe(200)

  expect((await idp.ask('DELETE', `/Groups/${group}`)).status).toBe(204)
  expect([await inWorkspace(), await gateway.store.scim.mappings.count()]).toEqual([[], 0])
})

test('Entra ID: the same in its own format, with a user deleted and created again', async () => {
  const created = await idp.ask('POST', '/Users', {
    schemas: [USER_ID, ENTERPRISE],
    externalId: '0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef',
    userName: 'Test_User_ab6490ee@acme.example',
    active: true,
    emails: [{ primary: true, type: 'work', value: 'test.user@acme.example' }],
    meta: { resourceType: 'User' },
    name: { formatted: 'givenName familyName', familyName: 'familyName', givenName: 'givenName' },
    roles: [],
    [ENTERPRISE]: { department: 'IT' },
  })
  expect(created.status).toBe(201)
  const { id } = created.body
  const found = await idp.ask(
    'GET',
    `/Users?${new URLSearchParams({
      filter: 'externalId eq "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef"',
    })}`,
  )
  expect(found.body.Resources[0].id).toBe(id)

  const changes = [
    { op: 'Replace', path: 'emails[type eq "work"].value', value: 'updated@acme.example' },
    { op: 'Replace', path: 'name.familyName', value: 'updatedFamilyName' },
    { op: 'Add', path: 'phoneNumbers[type eq "mobile"].value', value: '+1 555' },
    { op: 'Add', path: `${ENTERPRISE}:manager`, value: id },
  ]
  const changed = await idp.patch(`/Users/${id}`, ...changes)
  expect(changed.body).toMatchObject({
    name: { familyName: 'updatedFamilyName' },
    emails: [{ type: 'work', primary: true, value: 'updated@acme.example' }],
    phoneNumbers: [{ type: 'mobile', value: '+1 555' }],
    [ENTERPRISE]: { department: 'IT', manager: { value: id } },
  })
  expect(await memberOf(id)).toMatchObject({
    email: 'updated@acme.example',
    last_name: 'updatedFamilyName',
  })

  const group = (
    await idp.ask('POST', '/Groups', {
      schemas: [GROUP_ID],
      externalId: '8aa1a0c0',
      displayName: 'displayName',
      meta: { resourceType: 'Group' },
    })
  ).body.id
  await map(group, 'admin')
  const query = new URLSearchParams({
    excludedAttributes: 'members',
    filter: 'displayName eq "displayName"',
  })
  expect((await idp.ask('GET', `/Groups?${query}`)).body.Resources).toMatchObject([
    { id: group, displayName: 'displayName' },
  ])
  await idp.patch(`/Groups/${group}`, {
    op: 'Add',
    path: 'members',
    value: [{ $ref: null, value: id }],
  })
  expect(await inWorkspace()).toEqual(['updated@acme.example admin scim'])
  await idp.patch(`/Groups/${group}`, {
    op: 'Remove',
    path: 'members',
    value: [{ $ref: null, value: id }],
  })
  expect(await inWorkspace()).toEqual([])
  await idp.patch(`/Groups/${group}`, { op: 'Add', path: 'members', value: [{ value: id }] })

  await setWorkspaceMember(
    gateway,
    getOperator(gateway),
    gateway.memory.owner.workspace_id,
    (await memberOf(id)).id,
    'admin',
    'manual',
  )
  const before = await memberOf(id)
  const { key } = await createKey(gateway, getOperator(gateway), {
    name: 'his',
    creator_user_id: before.id,
  })
  expect(
    (await idp.patch(`/Users/${id}`, { op: 'Replace', path: 'active', value: 'False' })).body
      .active,
  ).toBe(false)
  expect([await opens(key), (await memberOf(id)).active]).toEqual([401, false])
  expect((await idp.ask('DELETE', `/Users/${id}`)).status).toBe(204)
  expect(await inWorkspace()).toEqual([])

  // Created again, they are the same member. Memberships by groups are gone, those by hand remain,
  // and their keys stay disabled.
  const again = await idp.user('updated@acme.example')
  expect([again === id, (await memberOf(again)).id]).toEqual([false, before.id])
  expect([await opens(key), await inWorkspace()]).toEqual([401, []])
  expect(
    await gateway.store.members.findWorkspaceMember(gateway.memory.owner.workspace_id, before.id),
  ).toMatchObject({
    role: 'admin',
    source: 'manual',
  })
})

describe('an existing member', () => {
  test('becomes managed by the identity provider by address, and keeps their role', async () => {
    await updateMember(gateway, getOperator(gateway), gateway.memory.owner.user_id, {
      email: 'Owner@acme.example',
    })
    const id = await idp.user('owner@acme.example', { name: { givenName: 'O' } })
    expect(await memberOf(id)).toMatchObject({
      id: gateway.memory.owner.user_id,
      role: 'org:admin',
      first_name: 'O',
      email: 'owner@acme.example',
    })
  })

  test('who owns the data directory cannot be deactivated, and stays a member', async () => {
    await updateMember(gateway, getOperator(gateway), gateway.memory.owner.user_id, {
      email: 'owner@acme.example',
    })
    expect(
      (
        await idp.ask('POST', '/Users', {
          schemas: [USER_ID],
          userName: 'owner@acme.example',
          active: false,
        })
      ).body.scimType,
    ).toBe('mutability')
    const id = await idp.user('owner@acme.example')
    expect(
      await idp.patch(`/Users/${id}`, { op: 'replace', value: { active: false } }),
    ).toMatchObject({
      status: 400,
      body: { scimType: 'mutability' },
    })
    expect((await idp.ask('DELETE', `/Users/${id}`)).status).toBe(204)
    expect(await gateway.store.members.byIds([gateway.memory.owner.user_id])).toMatchObject([
      { active: true },
    ])
  })
})

test('every change by an identity provider is audited as its own', async () => {
  const [ada, group] = [await idp.user('ada@acme.example'), await idp.group('E')]
  await map(group, 'member')
  await idp.patch(`/Groups/${group}`, { op: 'add', path: 'members', value: [{ value: ada }] })
  await idp.patch(`/Users/${ada}`, { op: 'replace', path: 'title', value: 'Dr' })
  await idp.patch(`/Users/${ada}`, { op: 'replace', path: 'title', value: 'Dr' })
  await idp.ask('DELETE', `/Users/${ada}`)
  const { data } = await listAudit(gateway, getOperator(gateway), { limit: 100 })
  const his = data.filter(one => one.actor === 'scim').map(one => one.action)
  expect(his.reverse()).toEqual([
    ...[
      'scim_users.create',
      'members.create',
      'scim_groups.create',
      'scim_groups.update',
      'workspace_members.add',
    ],
    ...['scim_users.update', 'scim_users.delete', 'members.deactivate', 'workspace_members.remove'],
  ])
  expect(JSON.stringify(data)).not.toContain(idp.token)
})
