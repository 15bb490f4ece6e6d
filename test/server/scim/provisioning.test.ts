import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { createScimToken, revokeScimToken } from '../../../src/resources/scim/tokens.ts'
import { createApp } from '../../../src/server/app.ts'
import { createTestKeys, testGateway } from '../../support/gateway.ts'
import {
  ENTERPRISE,
  ERROR,
  GROUP_ID,
  type IdentityProvider,
  openIdentityProvider,
  PATCH_OP,
  SEARCH,
  USER_ID,
} from '../../support/scim.ts'

const UNKNOWN = '00000000-0000-7000-8000-0000000000ff'

let gateway: Gateway
let idp: IdentityProvider

beforeEach(async () => {
  gateway = await testGateway({ config: { server: { site_url: 'https://gateway.example' } } })
  idp = await openIdentityProvider(gateway)
})

const userOf = (userName: string, more: object = {}) => ({ schemas: [USER_ID], userName, ...more })
const names = (body: { Resources: { userName?: string; displayName?: string }[] }) =>
  body.Resources.map(one => one.userName ?? one.displayName)

describe('a user', () => {
  test('is created as in RFC 7644 (3.3): 201, with location and version', async () => {
    const given = userOf('bjensen', {
      externalId: 'bjensen',
      name: { formatted: 'Ms. Barbara J Jensen III', familyName: 'Jensen', givenName: 'Barbara' },
    })
    const { status, headers, body } = await idp.ask('POST', '/Users', given)
    const location = `https://gateway.example/api/v1/scim/v2/Users/${body.id}`
    expect(status).toBe(201)
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'application/scim+json',
      location,
      etag: 'W/"1"',
    })
    const time = '2026-03-04T05:06:07.000Z'
    expect(body).toEqual({
      ...given,
      id: expect.any(String),
      active: true,
      meta: { resourceType: 'User', created: time, lastModified: time, location, version: 'W/"1"' },
    })
    expect((await idp.ask('GET', `/Users/${body.id}`)).body).toEqual(body)
    const [member] = (await gateway.store.members.list(0, 10)).slice(1)
    expect(member).toMatchObject({
      email: 'bjensen',
      first_name: 'Barbara',
      last_name: 'Jensen',
      role: 'org:member',
      active: true,
    })
  })

  test('is replaced, and omitted attributes are removed, except active', async () => {
    const id = await idp.user('ada', { nickName: 'A', active: false })
    const { status, headers, body } = await idp.ask(
      'PUT',
      `/Users/${id}`,
      userOf('ada', { title: 'Dr', id: UNKNOWN }),
    )
    expect([status, headers.get('etag')]).toEqual([200, 'W/"2"'])
    expect(body).toMatchObject({ id, userName: 'ada', title: 'Dr', active: false })
    expect(body).not.toHaveProperty('nickName')
    expect((await idp.patch(`/Users/${id}`, { op: 'remove', path: 'active' })).body.active).toBe(
      false,
    )
  })

  test('is patched, keeps the version if nothing changes, and is gone after DELETE', async () => {
    const id = await idp.user('ada')
    const change = { op: 'replace', path: 'displayName', value: 'Ada' }
    expect((await idp.patch(`/Users/${id}`, change)).headers.get('etag')).toBe('W/"2"')
    expect((await idp.patch(`/Users/${id}`, change)).headers.get('etag')).toBe('W/"2"')
    expect(await idp.ask('DELETE', `/Users/${id}`)).toMatchObject({ status: 204, body: null })
    for (const method of ['GET', 'DELETE'])
      expect((await idp.ask(method, `/Users/${id}`)).status).toBe(404)
    expect((await idp.patch(`/Users/${id}`, change)).status).toBe(404)
    expect((await idp.ask('PUT', `/Users/${id}`, userOf('ada'))).status).toBe(404)
  })

  test('has a name that is unique in any case', async () => {
    const id = await idp.user('ada@example.com')
    const other = await idp.user('bob@example.com')
    const refusal = {
      status: 409,
      body: {
        schemas: [ERROR],
        status: '409',
        scimType: 'uniqueness',
        detail: 'userName: expected one that no other user has',
      },
    }
    expect(
      await idp.ask(
        'POST',
        '/Users',
        userOf('ADA@example.com', { emails: [{ value: 'else@example.com' }] }),
      ),
    ).toMatchObject(refusal)
    expect(
      await idp.ask(
        'PUT',
        `/Users/${other}`,
        userOf('Ada@Example.com', { emails: [{ value: 'x@example.com' }] }),
      ),
    ).toMatchObject(refusal)
    expect(
      (await idp.patch(`/Users/${id}`, { op: 'replace', value: { userName: 'ADA@example.com' } }))
        .status,
    ).toBe(200)
    expect(
      (
        await idp.patch(`/Users/${other}`, {
          op: 'replace',
          path: 'emails',
          value: [{ value: 'ada@EXAMPLE.com' }],
        })
      ).body,
    ).toMatchObject({ status: '409', scimType: 'uniqueness' })
    expect(
      (await idp.ask('POST', '/Users', userOf('third', { emails: [{ value: 'ada@example.com' }] })))
        .body,
    ).toMatchObject({
      status: '409',
      scimType: 'uniqueness',
    })
    expect(await gateway.store.members.count()).toBe(3)
  })

  test('is shown with groups, and with selected attributes only', async () => {
    const id = await idp.user('ada', { emails: [{ value: 'a@example.com', type: 'work' }] })
    const group = await idp.group('Engineers', id)
    const { body } = await idp.ask('GET', `/Users/${id}`)
    expect(body.groups).toEqual([
      {
        value: group,
        $ref: `https://gateway.example/api/v1/scim/v2/Groups/${group}`,
        display: 'Engineers',
        type: 'direct',
      },
    ])
    expect((await idp.ask('GET', `/Users/${id}?attributes=userName,emails.value`)).body).toEqual({
      schemas: [USER_ID],
      id,
      userName: 'ada',
      emails: [{ value: 'a@example.com' }],
    })
    expect(
      (await idp.ask('GET', `/Users/${id}?excludedAttributes=groups,emails,meta`)).body,
    ).toEqual({
      schemas: [USER_ID],
      id,
      userName: 'ada',
      active: true,
    })
  })

  test('keeps the enterprise extension under its own schema, and never a password', async () => {
    const given = {
      schemas: [USER_ID, ENTERPRISE],
      userName: 'ada',
      password: 'canary-9b1',
      [ENTERPRISE]: { department: 'IT' },
    }
    const { body } = await idp.ask('POST', '/Users', given)
    expect(body).toMatchObject({
      schemas: [USER_ID, ENTERPRISE],
      [ENTERPRISE]: { department: 'IT' },
    })
    expect(JSON.stringify([body, await gateway.store.scim.users.find()])).not.toContain('canary')
  })
})

describe('a group', () => {
  test('is created with its members, and may share its name with another', async () => {
    const ada = await idp.user('ada', { displayName: 'Ada L' })
    const { status, headers, body } = await idp.ask('POST', '/Groups', {
      schemas: [GROUP_ID],
      displayName: 'E',
      externalId: 'x',
      members: [{ value: ada, display: 'no' }],
    })
    expect([status, headers.get('location')]).toEqual([
      201,
      `https://gateway.example/api/v1/scim/v2/Groups/${body.id}`,
    ])
    const $ref = `https://gateway.example/api/v1/scim/v2/Users/${ada}`
    expect(body).toMatchObject({
      schemas: [GROUP_ID],
      displayName: 'E',
      externalId: 'x',
      members: [{ value: ada, $ref, display: 'Ada L', type: 'User' }],
    })
    expect(await idp.group('E')).not.toBe(body.id)
  })

  test('is replaced and patched, and its version also grows when a member is deleted', async () => {
    const [ada, bob] = [await idp.user('ada'), await idp.user('bob')]
    const id = await idp.group('E', ada)
    const etag = async () => (await idp.ask('GET', `/Groups/${id}`)).headers.get('etag')
    const members = async () =>
      ((await idp.ask('GET', `/Groups/${id}`)).body.members ?? []).map(
        (one: { value: string }) => one.value,
      )
    await idp.ask('PUT', `/Groups/${id}`, {
      schemas: [GROUP_ID],
      displayName: 'E',
      members: [{ value: bob }],
    })
    expect([await members(), await etag()]).toEqual([[bob], 'W/"2"'])
    await idp.patch(
      `/Groups/${id}`,
      { op: 'add', path: 'members', value: [{ value: ada }] },
      { op: 'replace', path: 'displayName', value: 'F' },
    )
    expect([await members(), await etag()]).toEqual([[ada, bob], 'W/"3"'])
    await idp.patch(`/Groups/${id}`, { op: 'add', path: 'members', value: [{ value: bob }] })
    expect(await etag()).toBe('W/"3"')
    await idp.ask('DELETE', `/Users/${ada}`)
    expect([await members(), await etag()]).toEqual([[bob], 'W/"4"'])
    expect((await idp.ask('DELETE', `/Groups/${id}`)).status).toBe(204)
    expect((await idp.ask('GET', `/Groups/${id}`)).status).toBe(404)
  })

  test('accepts no member that does not exist', async () => {
    const id = await idp.group('E')
    const refusal = {
      status: 400,
      body: {
        status: '400',
        scimType: 'invalidValue',
        detail: 'members: expected users that exist',
      },
    }
    expect(
      await idp.ask('POST', '/Groups', {
        schemas: [GROUP_ID],
        displayName: 'E',
        members: [{ value: UNKNOWN }],
      }),
    ).toMatchObject(refusal)
    expect(
      await idp.patch(`/Groups/${id}`, { op: 'add', path: 'members', value: [{ value: id }] }),
    ).toMatchObject(refusal)
    expect((await gateway.store.scim.groups.find()).map(one => one.version)).toEqual([1])
  })
})

describe('a list', () => {
  beforeEach(async () => {
    for (const name of ['Dora', 'ada', 'Carl', 'bob'])
      await idp.user(`${name}@example.com`, {
        displayName: name,
        externalId: `x-${name}`,
        ...(name === 'bob' ? {} : { title: name.toUpperCase() }),
      })
  })

  const list = async (query: Record<string, string>) =>
    (await idp.ask('GET', `/Users?${new URLSearchParams(query)}`)).body

  test('is a page of all, counted from 1, the oldest first', async () => {
    const all = await list({})
    expect(all).toMatchObject({
      schemas: ['urn:ietf:params:scim:api:messages:2.0:ListResponse'],
      totalResults: 4,
      startIndex: 1,
      itemsPerPage: 4,
    })
    expect(names(all)).toEqual(['Dora', 'ada', 'Carl', 'bob'].map(name => `${name}@example.com`))
    const page = await list({ startIndex: '2', count: '2' })
    expect([page.totalResults, page.startIndex, page.itemsPerPage, ...names(page)]).toEqual([
      4,
      2,
      2,
      'ada@example.com',
      'Carl@example.com',
    ])
    for (const [query, expected] of [
      [{ count: '0' }, 0],
      [{ count: '-5' }, 0],
      [{ startIndex: '-3', count: '1' }, 1],
      [{ startIndex: '9' }, 0],
    ] as const)
      expect(await list(query)).toMatchObject({
        totalResults: 4,
        itemsPerPage: expected,
        Resources: { length: expected },
      })
  })

  test('that is a page of all reads none of the others', async () => {
    const { users, groups } = gateway.store.scim
    const fail = () => Promise.reject(new Error('All were read'))
    users.find = fail
    groups.find = fail
    const page = await list({ startIndex: '3', count: '1' })
    expect([page.totalResults, ...names(page)]).toEqual([4, 'Carl@example.com'])
    expect((await idp.ask('GET', '/Groups?count=1')).status).toBe(200)
  })

  test('contains the matches of a filter by name, by foreign id or by any attribute', async () => {
    const found = async (filter: string) => names(await list({ filter }))
    expect(await found('userName eq "ADA@example.com"')).toEqual(['ada@example.com'])
    expect(await found('externalId eq "x-bob" and active eq true')).toEqual(['bob@example.com'])
    expect(await found('externalId eq "x-bob" and active eq false')).toEqual([])
    expect(await found('externalId eq "x-bob" or title pr')).toHaveLength(4)
    expect(await found('not (title pr)')).toEqual(['bob@example.com'])
    expect(await found('meta.lastModified ge "2026-03-04T05:06:07Z"')).toHaveLength(4)
    expect(await found(`userName eq "nobody"`)).toEqual([])
  })

  test('is sorted without regard to case, and missing values come last', async () => {
    expect(names(await list({ sortBy: 'userName' }))).toEqual(
      ['ada', 'bob', 'Carl', 'Dora'].map(name => `${name}@example.com`),
    )
    expect(names(await list({ sortBy: 'title' })).at(-1)).toBe('bob@example.com')
    expect(names(await list({ sortBy: 'displayName', sortOrder: 'descending' }))[0]).toBe(
      'Dora@example.com',
    )
    expect(names(await list({ sortBy: 'shoeSize' }))).toHaveLength(4)
  })

  test('filters users by their groups, and groups by their members', async () => {
    const [ada] = await gateway.store.scim.users.find({ by: 'name', value: 'ada@example.com' })
    const group = await idp.group('Engineers', ada?.id ?? '')
    await idp.group('Others')
    expect(names(await list({ filter: `groups.value eq "${group}"` }))).toEqual(['ada@example.com'])
    const groups = async (query: Record<string, string>) =>
      (await idp.ask('GET', `/Groups?${new URLSearchParams(query)}`)).body
    expect(names(await groups({ filter: `members[value eq "${ada?.id}"]` }))).toEqual(['Engineers'])
    expect(names(await groups({ filter: 'displayName eq "ENGINEERS"' }))).toEqual(['Engineers'])
    expect((await groups({ excludedAttributes: 'members' })).Resources[0]).not.toHaveProperty(
      'members',
    )
    expect((await groups({})).Resources[0].members).toHaveLength(1)
  })

  test('can be requested by POST, for one resource type and for all', async () => {
    const search = async (path: string, more: object) =>
      (await idp.ask('POST', `${path}/.search`, { schemas: [SEARCH], ...more })).body
    await idp.group('ada')
    expect(
      names(
        await search('/Users', {
          filter: 'displayName sw "a"',
          attributes: ['userName'],
          startIndex: 1,
          count: 10,
        }),
      ),
    ).toEqual(['ada@example.com'])
    expect(names(await search('/Groups', { filter: 'displayName sw "a"' }))).toEqual(['ada'])
    const all = await search('', { filter: 'displayName sw "a"' })
    expect([all.totalResults, ...names(all)]).toEqual([2, 'ada@example.com', 'ada'])
    const second = await search('', { startIndex: 4, count: 2 })
    expect([second.totalResults, second.itemsPerPage, ...names(second)]).toEqual([
      5,
      2,
      'bob@example.com',
      'ada',
    ])
    expect((await idp.ask('POST', '/.search', { schemas: [USER_ID] })).body).toMatchObject({
      status: '400',
      scimType: 'invalidSyntax',
    })
  })

  test.each([
    ['filter=userName', 'invalidFilter'],
    ['filter=', 'invalidFilter'],
    ['sortBy=a%20b', 'invalidPath'],
    ['startIndex=x', 'invalidValue'],
    ['count=1.5', 'invalidValue'],
    [`attributes=${'a,'.repeat(200)}`, 'invalidValue'],
  ])('with an unsupported query is refused: %s', async (query, scimType) => {
    expect(await idp.ask('GET', `/Users?${query}`)).toMatchObject({
      status: 400,
      body: { schemas: [ERROR], status: '400', scimType },
    })
  })
})

describe('a version', () => {
  test('known to the client is not sent again, and an outdated one changes nothing', async () => {
    for (const [path, make] of [
      ['/Users', () => idp.user('ada')],
      ['/Groups', () => idp.group('E')],
    ] as const) {
      const at = `${path}/${await make()}`
      const change = { op: 'replace', path: 'externalId', value: 'x' }
      const ask = (method: string, json: unknown, name: string, tag: string) =>
        idp.ask(method, at, json, { headers: { [name]: tag } })
      expect(await ask('GET', undefined, 'if-none-match', 'W/"1"')).toMatchObject({
        status: 304,
        body: null,
      })
      expect((await ask('GET', undefined, 'if-none-match', 'W/"2"')).status).toBe(200)
      const body = { schemas: [PATCH_OP], Operations: [change] }
      expect(await ask('PATCH', body, 'if-match', 'W/"7"')).toMatchObject({
        status: 412,
        body: { schemas: [ERROR], status: '412' },
      })
      expect((await ask('PATCH', body, 'if-match', '"7", W/"1"')).headers.get('etag')).toBe('W/"2"')
      expect(
        (
          await ask(
            'PUT',
            { schemas: [USER_ID, GROUP_ID], userName: 'x', displayName: 'x' },
            'if-match',
            'W/"1"',
          )
        ).status,
      ).toBe(412)
      expect((await ask('DELETE', undefined, 'if-match', 'W/"1"')).status).toBe(412)
      expect((await ask('DELETE', undefined, 'if-match', '*')).status).toBe(204)
    }
  })
})

describe('discovery', () => {
  test('describes the supported features', async () => {
    const { body } = await idp.ask('GET', '/ServiceProviderConfig')
    expect(body).toMatchObject({
      patch: { supported: true },
      bulk: { supported: false },
      filter: { supported: true, maxResults: 200 },
      etag: { supported: true },
      sort: { supported: true },
    })
  })

  test('describes both resource types and every schema, in lists and alone', async () => {
    for (const [path, key] of [
      ['/ResourceTypes', 'id'],
      ['/Schemas', 'id'],
    ] as const) {
      const { body } = await idp.ask('GET', path)
      expect(body.totalResults).toBe(path === '/Schemas' ? 3 : 2)
      for (const one of body.Resources)
        expect((await idp.ask('GET', `${path}/${one[key]}`)).body).toEqual(one)
      expect((await idp.ask('GET', `${path}/urn:none`)).body).toMatchObject({
        schemas: [ERROR],
        status: '404',
      })
      expect((await idp.ask('GET', `${path}?filter=id%20pr`)).status).toBe(403)
    }
    const { body } = await idp.ask('GET', `/Schemas/${USER_ID}`)
    const userName = body.attributes.find((one: { name: string }) => one.name === 'userName')
    expect(userName).toEqual({
      name: 'userName',
      type: 'string',
      description: expect.any(String),
      multiValued: false,
      required: true,
      caseExact: false,
      mutability: 'readWrite',
      returned: 'default',
      uniqueness: 'server',
    })
  })
})

describe('authentication', () => {
  const PATHS = [
    '/Users',
    '/Groups',
    '/Users/x',
    '/ServiceProviderConfig',
    '/Schemas',
    '/ResourceTypes',
  ]

  test('refuses requests without a token, and every key of another kind', async () => {
    const keys = await createTestKeys(gateway)
    for (const path of PATHS) {
      expect(await idp.ask('GET', path, undefined, { token: null })).toMatchObject({
        status: 401,
        body: { schemas: [ERROR], status: '401' },
      })
      expect((await idp.ask('GET', path, undefined, { token: 'gw-scim-v1-x' })).status).toBe(401)
      for (const token of [keys.management, keys.inference])
        expect(await idp.ask('GET', path, undefined, { token })).toMatchObject({
          status: 403,
          body: { schemas: [ERROR], status: '403' },
        })
    }
    expect((await idp.ask('POST', '/Users', '{', { token: 'nobody' })).status).toBe(401)
  })

  test('accepts every token that is not revoked', async () => {
    const { token, data } = await createScimToken(gateway, getOperator(gateway), { name: 'next' })
    expect((await idp.ask('GET', '/Users', undefined, { token })).status).toBe(200)
    await revokeScimToken(gateway, getOperator(gateway), data.id)
    expect((await idp.ask('GET', '/Users', undefined, { token })).status).toBe(401)
    expect((await idp.ask('GET', '/Users')).status).toBe(200)
  })

  test('limits a token to SCIM', async () => {
    const app = createApp(gateway)
    for (const path of [
      '/keys',
      '/key',
      '/scim/groups',
      '/scim/group-mappings',
      '/byok',
      '/presets',
    ]) {
      const request = new Request(`http://gateway.test/api/v1${path}`, {
        headers: { authorization: `Bearer ${idp.token}` },
      })
      expect([path, (await app.handle(request)).status]).toEqual([path, 401])
    }
  })
})

describe('an invalid request', () => {
  test.each([
    ['invalid JSON', '{', 'invalidSyntax'],
    ['a list', '[]', 'invalidSyntax'],
    ['no schemas', '{"userName":"ada"}', 'invalidSyntax'],
    ['another schema', JSON.stringify({ schemas: [GROUP_ID], userName: 'ada' }), 'invalidSyntax'],
    ['no name', JSON.stringify({ schemas: [USER_ID] }), 'invalidValue'],
    [
      'an address that is too long',
      JSON.stringify({ schemas: [USER_ID], userName: 'a'.repeat(321) }),
      'invalidValue',
    ],
    [
      'deep nesting',
      `{"schemas":["${USER_ID}"],"userName":"a","name":${'['.repeat(500)}${']'.repeat(500)}}`,
      'invalidSyntax',
    ],
  ])('is refused in the format of SCIM: %s', async (_, json, scimType) => {
    const { status, headers, body } = await idp.ask('POST', '/Users', json)
    expect([status, headers.get('content-type')]).toEqual([400, 'application/scim+json'])
    expect(body).toEqual({ schemas: [ERROR], status: '400', scimType, detail: expect.any(String) })
    expect(headers.get('x-request-id')).toMatch(/./)
  })

  test('is refused when too large', async () => {
    const json = JSON.stringify(userOf('ada', { title: 'x'.repeat(33 * 1024 * 1024) }))
    expect(await idp.ask('POST', '/Users', json)).toMatchObject({
      status: 413,
      body: { schemas: [ERROR], status: '413' },
    })
  })

  test('a failing store gives a 500 without details', async () => {
    gateway.store.scim.users.byId = () => Promise.reject(new Error('canary'))
    const { status, body } = await idp.ask('GET', `/Users/${UNKNOWN}`)
    expect([status, body]).toEqual([
      500,
      { schemas: [ERROR], status: '500', detail: 'Internal Server Error' },
    ])
  })
})
