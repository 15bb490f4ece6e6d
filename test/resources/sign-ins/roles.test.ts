import { describe, expect, test } from 'bun:test'
import { parseConfig } from '../../../src/config.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { getMember, updateMember } from '../../../src/resources/members.ts'
import { createScimGroup, deleteScimGroup } from '../../../src/resources/scim/groups.ts'
import { createScimUser } from '../../../src/resources/scim/users.ts'
import { createSignInLink, signIn } from '../../../src/resources/sign-ins.ts'
import { askApi, Browser, openHouse } from '../../support/sign-in.ts'

const GROUPS = { operators: 'org:admin', 'staff.all': 'org:member' }
const NAMED = { sub: 'ada', email: 'ada@acme.example' }

/** Opens a gateway whose provider says the groups, and what signs Ada in with some. */
async function openGrouped(roles: Record<string, unknown> = {}) {
  const house = await openHouse({ roles: { groups: GROUPS, ...roles } })
  const { gateway, member } = house
  /** Signs in, in another browser. */
  const enter = async (claims: Record<string, unknown>) => {
    const browser = new Browser(house.app)
    expect((await house.signIn({ ...NAMED, ...claims }, {}, browser)).status).toBe(303)
    return browser
  }
  const getRole = async () => (await getMember(gateway, member.id)).role
  /** Asks what managers may: 200 for one, 403 for another member, 401 without a session. */
  const manage = async (browser: Browser) => (await askApi(browser, '/guardrails')).status
  return { house, enter, getRole, manage }
}

describe('the groups of a member who signs in', () => {
  test.each([
    [['operators'], 'org:admin'],
    [['others', 'operators', 'staff.all'], 'org:admin'],
    ['operators', 'org:admin'],
    [['staff.all'], 'org:member'],
    [[], 'org:member'],
    [undefined, 'org:member'],
    [null, 'org:member'],
    ['', 'org:member'],
    [['Operators', 'operators ', 'operators*', '*', 'operator'], 'org:member'],
    ['operators,staff.all', 'org:member'],
    [['org:admin', 'admin', 'constructor', '__proto__', 'toString'], 'org:member'],
    [[['operators']], 'org:member'],
    [{ operators: true }, 'org:member'],
    [true, 'org:member'],
    [5, 'org:member'],
  ])('%j give the role %s', async (groups, role) => {
    const { house, enter, getRole, manage } = await openGrouped()
    await using _ = house
    const browser = await enter({ groups })
    expect([await getRole(), await manage(browser)]).toEqual([
      role as 'org:admin',
      role === 'org:admin' ? 200 : 403,
    ])
  })

  test('are in the claim that the config names, and asked for', async () => {
    const { house, enter, getRole } = await openGrouped({ claim: 'https://acme.example/roles' })
    await using _ = house
    await enter({ groups: ['operators'] })
    expect(await getRole()).toBe('org:member')
    await enter({ 'https://acme.example/roles': ['operators'] })
    expect(await getRole()).toBe('org:admin')
    const { sign_in } = house.gateway.config.oauth
    if (sign_in) sign_in.scopes = ['groups']
    const { location } = await house.browser.visit('/auth/start')
    expect(new URL(location).searchParams.get('scope')).toBe('openid email groups')
  })

  test('give no role unless the config says so', async () => {
    await using house = await openHouse()
    await house.signIn({ ...NAMED, groups: ['operators', 'org:admin'], role: 'org:admin' })
    expect((await getMember(house.gateway, house.member.id)).role).toBe('org:member')
  })

  test('are lost with the role and the sessions that had it', async () => {
    const { house, enter, getRole, manage } = await openGrouped()
    await using _house = house
    const { gateway, member } = house
    const manager = await enter({ groups: ['operators'] })
    const { url } = (await createSignInLink(gateway, getOperator(gateway), member.id)).data
    const linked = new Browser(house.app)
    const secret = await signIn(gateway, new URL(url).searchParams.get('token') ?? '')
    linked.cookies.set('__Host-gateway_console', secret)
    expect([await manage(manager), await manage(linked)]).toEqual([200, 200])
    house.clock.pass(1_000)
    const left = await enter({ groups: ['staff.all'] })
    expect(await getRole()).toBe('org:member')
    expect(await Promise.all([manager, linked, left].map(manage))).toEqual([401, 401, 403])
    expect((await askApi(left, '/keys')).status).toBe(200)
    // Others keep theirs, and a role that stays ends none.
    const again = await enter({ groups: ['staff.all'] })
    expect(await Promise.all([left, again].map(manage))).toEqual([403, 403])
    const { entries } = await gateway.store.audit.listPage({ action: 'members.update' }, 0, 9)
    const given = ['org:member', 'org:admin'].map(role => ({
      ...{ actor: 'member', user_id: member.id, resource_id: member.id },
      after: { role },
    }))
    expect(entries).toMatchObject(given)
  })

  test('do not take the directory from its owner', async () => {
    const { house, enter } = await openGrouped()
    await using _ = house
    const { gateway } = house
    const { user_id } = gateway.memory.owner
    await updateMember(gateway, getOperator(gateway), user_id, { email: 'owner@acme.example' })
    await enter({ email: 'owner@acme.example', groups: [] })
    expect((await getMember(gateway, user_id)).role).toBe('org:admin')
  })

  test('are of nobody whom the provider does not vouch for', async () => {
    const { house, getRole } = await openGrouped()
    await using _ = house
    for (const wrong of [
      { email_verified: false },
      { aud: 'another app' },
      { iss: 'https://other.example' },
      { nonce: 'another' },
      { sub: undefined },
      { sub: '' },
      { sub: 7 },
      { sub: 'x'.repeat(1_001) },
    ]) {
      const { status } = await house.signIn({ ...NAMED, groups: ['operators'], ...wrong })
      expect([wrong, status, await getRole()]).toEqual([wrong, 403, 'org:member'])
    }
  })

  test('are those that SCIM lists, of a member whom it provides', async () => {
    const { house, enter, getRole, manage } = await openGrouped()
    await using _house = house
    const { gateway } = house
    const operator = getOperator(gateway)
    const user = await createScimUser(gateway, operator, {
      schemas: ['urn:ietf:params:scim:schemas:core:2.0:User'],
      userName: NAMED.email,
    })
    const claimed = await enter({ groups: ['operators'] })
    expect([await getRole(), await manage(claimed)]).toEqual(['org:member', 403])
    const group = await createScimGroup(gateway, operator, {
      schemas: ['urn:ietf:params:scim:schemas:core:2.0:Group'],
      displayName: 'operators',
      members: [{ value: user.id }],
    })
    const manager = await enter({ groups: [] })
    expect([await getRole(), await manage(manager)]).toEqual(['org:admin', 200])
    await deleteScimGroup(gateway, operator, group.id, { ifMatch: null })
    await enter({ groups: ['operators'] })
    expect([await getRole(), await manage(manager)]).toEqual(['org:member', 401])
  })
})

test.each([
  [
    'an unknown role',
    { groups: { operators: 'owner' } },
    'roles.groups.operators: expected "org:admin" or "org:member"',
  ],
  ['a group whose name has dots', { groups: { 'a.b': 'admin' } }, 'roles.groups.a.b: expected'],
  ['no groups', { groups: {} }, 'roles.groups: expected'],
  ['roles without groups', {}, 'roles.groups: expected'],
  ['an unknown field', { groups: GROUPS, group: 'x' }, 'roles.group: expected no such field'],
  ['an empty claim', { groups: GROUPS, claim: '' }, 'roles.claim: expected'],
])('the config refuses %s', (_, roles, message) => {
  const right = { issuer: 'https://id.example', client_id: 'gateway', client_secret: 'secret' }
  const parse = (more: object) => () =>
    parseConfig(JSON.stringify({ oauth: { sign_in: { ...right, ...more } } }), {})
  expect(parse({ roles: { groups: GROUPS } })).not.toThrow()
  expect(parse({ roles })).toThrow(`oauth.sign_in.${message}`)
  expect(parse({ scopes: ['a b'] })).toThrow('oauth.sign_in.scopes.0: expected')
})
