import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/base/errors.ts'
import { applyProjection, parseResource } from '../../../src/resources/scim/resource.ts'
import { GROUP, USER } from '../../../src/resources/scim/schemas.data.ts'

const USER_ID = 'urn:ietf:params:scim:schemas:core:2.0:User'
const GROUP_ID = 'urn:ietf:params:scim:schemas:core:2.0:Group'
const ENTERPRISE = 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'

const refusalOf = (run: () => unknown) => {
  try {
    run()
    return undefined
  } catch (thrown) {
    const { status, metadata } = GatewayError.from(thrown)
    return `${status} ${metadata.scimType}`
  }
}

describe('a resource from a client', () => {
  test('is stored with the names of the schema, without read-only or unknown attributes', () => {
    const sent = {
      schemas: [USER_ID, ENTERPRISE],
      ID: 'mine',
      USERNAME: 'ada',
      externalid: 'e1',
      password: 'secret',
      name: { GivenName: 'Ada', shoe: 9 },
      emails: [{ value: 'ada@example.com', PRIMARY: 'True' }],
      phoneNumbers: [],
      nickName: null,
      groups: [{ value: 'g' }],
      meta: { version: 'x' },
      [ENTERPRISE.toUpperCase()]: { department: 'IT', manager: 'm1' },
      'urn:other': { a: 1 },
      shoeSize: 9,
    }
    expect(parseResource(USER, sent)).toEqual({
      userName: 'ada',
      externalId: 'e1',
      name: { givenName: 'Ada' },
      emails: [{ value: 'ada@example.com', primary: true }],
      [ENTERPRISE]: { department: 'IT', manager: { value: 'm1' } },
    })
  })

  test('for a group contains the ids of its members only', () => {
    const sent = {
      schemas: [GROUP_ID],
      displayName: 'G',
      members: [{ value: 'a', display: 'A', $ref: 'x', type: 'User' }],
    }
    expect(parseResource(GROUP, sent)).toEqual({ displayName: 'G', members: [{ value: 'a' }] })
  })

  test.each([
    ['a value that is no object', 'invalidSyntax', 5],
    ['a list', 'invalidSyntax', []],
    ['no schema', 'invalidSyntax', { userName: 'ada' }],
    ['another schema', 'invalidSyntax', { schemas: [GROUP_ID], userName: 'ada' }],
    ['no name', 'invalidValue', { schemas: [USER_ID] }],
    ['an empty name', 'invalidValue', { schemas: [USER_ID], userName: ' ' }],
    ['a name that is a number', 'invalidValue', { schemas: [USER_ID], userName: 5 }],
    [
      'an address that is a number',
      'invalidValue',
      { schemas: [USER_ID], userName: 'a', emails: [5] },
    ],
    [
      'a complex name that is a text',
      'invalidValue',
      { schemas: [USER_ID], userName: 'a', name: 'Ada' },
    ],
  ])('is refused with %s', (_, scimType, sent) => {
    expect(refusalOf(() => parseResource(USER, sent))).toBe(`400 ${scimType}`)
  })
})

describe('a shown resource', () => {
  const shown = {
    schemas: [USER_ID, ENTERPRISE],
    id: 'u1',
    userName: 'ada',
    name: { givenName: 'Ada', familyName: 'Lovelace' },
    emails: [
      { value: 'a@example.com', type: 'work' },
      { value: 'b@example.com', type: 'home' },
    ],
    [ENTERPRISE]: { department: 'IT', division: 'X' },
    meta: { resourceType: 'User', version: 'W/"1"' },
  }
  const { schemas, id } = shown

  test.each([
    [['userName'], { userName: 'ada' }],
    [['USERNAME', 'nobody.knows', '__proto__x'], { userName: 'ada' }],
    [['name.givenName'], { name: { givenName: 'Ada' } }],
    [['name.givenName', 'name.familyName'], { name: shown.name }],
    [['emails.value'], { emails: [{ value: 'a@example.com' }, { value: 'b@example.com' }] }],
    [['emails.value', 'emails.type'], { emails: shown.emails }],
    [
      [`${USER_ID}:userName`, `${ENTERPRISE}:department`],
      { userName: 'ada', [ENTERPRISE]: { department: 'IT' } },
    ],
    [[ENTERPRISE], { [ENTERPRISE]: shown[ENTERPRISE] }],
    [['meta.version'], { meta: { version: 'W/"1"' } }],
    [['title'], {}],
  ])('contains the selected attributes and those that are always shown: %p', (attributes, rest) => {
    expect(
      applyProjection(USER, shown, {
        attributes: attributes as string[],
        excludedAttributes: null,
      }),
    ).toEqual({
      schemas,
      id,
      ...rest,
    } as never)
  })

  test('omits excluded attributes, except those that are always shown', () => {
    const without = (...excludedAttributes: string[]) =>
      Object.keys(applyProjection(USER, shown, { attributes: null, excludedAttributes }))
    expect(without('id', 'schemas', 'emails', 'meta', 'name')).toEqual([
      'schemas',
      'id',
      'userName',
      ENTERPRISE,
    ])
    expect(without(ENTERPRISE)).not.toContain(ENTERPRISE)
    const parts = applyProjection(USER, shown, {
      attributes: null,
      excludedAttributes: ['name.familyName', 'emails.type', `${ENTERPRISE}:division`],
    })
    expect(parts).toMatchObject({ name: { givenName: 'Ada' }, [ENTERPRISE]: { department: 'IT' } })
    expect(parts.emails).toEqual([{ value: 'a@example.com' }, { value: 'b@example.com' }])
    expect(shown.emails[0]).toHaveProperty('type')
  })
})
