import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/base/errors.ts'
import { applyPatch, parseOperations } from '../../../src/resources/scim/patch.ts'
import { parseResource } from '../../../src/resources/scim/resource.ts'
import { GROUP, USER } from '../../../src/resources/scim/schemas.data.ts'
import { countWork } from '../../support/work-count.ts'

const PATCH_OP = 'urn:ietf:params:scim:api:messages:2.0:PatchOp'
const ENTERPRISE = 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'
const USER_ID = 'urn:ietf:params:scim:schemas:core:2.0:User'

const BABS = '2819c223-7f76-453a-919d-413861904646'
const JAMES = '08e1d05d-121c-4561-8b96-473d93df9210'

const group = { displayName: 'Tour Guides', members: [{ value: BABS }] }

const user = {
  userName: 'bjensen',
  active: true,
  nickName: 'Barb',
  name: { givenName: 'Barbara', familyName: 'Jensen' },
  emails: [
    { value: 'bjensen@example.com', type: 'work', primary: true },
    { value: 'babs@jensen.org', type: 'home' },
  ],
  addresses: [
    {
      type: 'work',
      streetAddress: '100 Universal City Plaza',
      locality: 'Hollywood',
      country: 'USA',
    },
    { type: 'home', streetAddress: '456 Hollywood Blvd' },
  ],
}

const steps = (...Operations: object[]) => parseOperations({ schemas: [PATCH_OP], Operations })
const ofUser = (...operations: object[]): Record<string, unknown> =>
  applyPatch(USER, user, steps(...operations))
const ofGroup = (...operations: object[]): Record<string, unknown> =>
  applyPatch(GROUP, group, steps(...operations))

const refusalOf = (run: () => unknown) => {
  try {
    run()
    return undefined
  } catch (thrown) {
    const { status, metadata } = GatewayError.from(thrown)
    return `${status} ${metadata.scimType}`
  }
}

describe('many operations', () => {
  const many = <One>(count: number, op: (i: number) => One): One[] =>
    Array.from({ length: count }, (_, i) => op(i))
  const add = (i: number) => ({ op: 'add', path: 'members', value: [{ value: `new ${i}` }] })

  test.each([
    ['add one each', add],
    ['remove one each', (i: number) => ({ op: 'remove', path: `members[value eq "member ${i}"]` })],
    [
      'remove one each by a list',
      (i: number) => ({ op: 'remove', path: 'members', value: [{ value: `member ${i}` }] }),
    ],
    [
      'remove either of two',
      (i: number) => ({
        op: 'remove',
        path: `members[value eq "member ${i}" or value eq "new ${i}"]`,
      }),
    ],
    [
      'replace one each',
      (i: number) => ({
        op: 'replace',
        path: `members[value eq "member ${i}"].value`,
        value: `new ${i}`,
      }),
    ],
    [
      'add and remove in turn',
      (i: number) =>
        i % 2 === 0
          ? add(i)
          : { op: 'remove', path: 'members', value: [{ value: `new ${i - 1}` }] },
    ],
  ])('on a large group that %s read it once, and not each', (_, operation) => {
    const measure = (size: number) => {
      const members = many(size, i => ({ value: `member ${i}` }))
      const operations = steps(...many(200, operation))
      return countWork(() => applyPatch(GROUP, { ...group, members }, operations))
    }
    expect(measure(4_000) - measure(2_000)).toBeLessThan(20 * 2_000)
  })

  test.each([
    [
      'read all members',
      GROUP,
      (i: number) => ({ op: 'remove', path: `members[value ew "x${i}"]` }),
    ],
    [
      'read all members with long filters',
      GROUP,
      () => ({
        op: 'remove',
        path: `members[${many(50, i => `value co "x${i}"`).join(' or ')}]`,
      }),
    ],
    [
      'have long paths',
      GROUP,
      () => ({
        op: 'remove',
        path: `members[${many(300, i => `value eq "new ${i}"`).join(' or ')}]`,
      }),
    ],
    [
      'read a list with long filters',
      USER,
      () => ({
        op: 'remove',
        path: `emails[${many(300, i => `value eq "e${i}"`).join(' or ')}]`,
      }),
    ],
    [
      'write a list under many spellings of its name',
      USER,
      () => ({
        op: 'add',
        value: Object.fromEntries(
          many(32, (i): [string, object[]] => [
            [...'emails'].map((c, at) => ((i >> at) & 1 ? c.toUpperCase() : c)).join(''),
            many(90, n => ({ value: `e${n}@a.example` })),
          ]),
        ),
      }),
    ],
  ])('that %s are refused before others wait for long', (_, type, operation) => {
    const before =
      type === GROUP
        ? { ...group, members: many(10_000, i => ({ value: `member ${i}` })) }
        : { ...user, emails: many(90, i => ({ value: `e${i}@a.example` })) }
    const run = (count: number) =>
      applyPatch(type, before, steps(...many<object>(count, operation)))
    expect(refusalOf(() => run(1))).toBeUndefined()
    let refusal: unknown
    const work = countWork(() => {
      refusal = refusalOf(() => run(1_000))
    })
    expect(refusal).toBe('400 tooMany')
    expect(work).toBeLessThan(30_000_000)
  })

  test('leave the members of a group whom each in turn would leave', () => {
    const ids = fc.constantFrom('a', 'b', 'c', 'd', 'e')
    const some = fc.array(ids, { minLength: 1 })
    const operation = fc.oneof(
      ...[
        'add',
        'replace',
        'remove',
        'remove any',
        'remove others',
        'remove greater',
        'rename',
      ].map(name => fc.tuple(fc.constant(name), some)),
    )
    const toMembers = (values: string[]) => values.map(value => ({ value }))
    const toAny = (op: string, values: string[], word: string) =>
      `members[${values.map(value => `value ${op} "${value}"`).join(` ${word} `)}]`
    const toStep = ([name, values]: [string, string[]]) => {
      const [first = ''] = values
      if (name === 'remove any') return { op: 'remove', path: toAny('eq', values, 'or') }
      if (name === 'remove others') return { op: 'remove', path: toAny('ne', values, 'and') }
      if (name === 'remove greater') return { op: 'remove', path: `members[value gt "${first}"]` }
      if (name === 'rename')
        return { op: 'replace', path: `members[value eq "${first}"].value`, value: values.at(-1) }
      return { op: name, path: 'members', value: toMembers(values) }
    }
    const leave = (left: Set<string>, [name, values]: [string, string[]]): Set<string> => {
      const [first = '', last = ''] = [values[0], values.at(-1)]
      const given = new Set(values)
      if (name === 'add') return left.union(given)
      if (name === 'replace') return given
      if (name === 'remove others') return left.intersection(given)
      if (name === 'remove greater') return new Set([...left].filter(id => id <= first))
      if (name === 'rename') return left.difference(new Set([first])).union(new Set([last]))
      return left.difference(given)
    }
    fc.assert(
      fc.property(fc.array(operation, { minLength: 1, maxLength: 8 }), operations => {
        const left = operations.reduce(leave, new Set([BABS]))
        const members = (ofGroup(...operations.map(toStep)).members ?? []) as { value: string }[]
        expect(members.map(({ value }) => value).sort()).toEqual([...left].sort())
      }),
    )
  })

  test('leave members alone where they name what is only shown of them', () => {
    const operation = { op: 'replace', value: { 'members.display': 'x', displayName: 'Guides' } }
    expect(ofGroup(operation)).toEqual({ ...group, displayName: 'Guides' })
    expect(
      ofGroup({ op: 'add', value: { 'members.display': null, displayName: 'Guides' } }),
    ).toEqual({ ...group, displayName: 'Guides' })
  })

  test('put no more into a list of a user than one may', () => {
    const address = (i: number) => ({
      op: 'add',
      path: 'emails',
      value: [{ value: `${i}@a.example` }],
    })
    expect(ofUser(...many(98, address)).emails).toHaveLength(100)
    expect(refusalOf(() => ofUser(...many(99, address)))).toBe('400 invalidValue')
  })
})

describe('the examples of RFC 7644, 3.5.2', () => {
  test('add a member to a group', () => {
    const value = [
      { display: 'James Smith', $ref: `https://example.com/v2/Users/${JAMES}`, value: JAMES },
    ]
    expect(ofGroup({ op: 'add', path: 'members', value })).toEqual({
      ...group,
      members: [{ value: BABS }, { value: JAMES }],
    })
  })

  test('add attributes without a path', () => {
    const value = { emails: [{ value: 'babs@example.org', type: 'home' }], nickname: 'Babs' }
    expect(ofUser({ op: 'add', value })).toEqual({
      ...user,
      nickName: 'Babs',
      emails: [...user.emails, { value: 'babs@example.org', type: 'home' }],
    })
  })

  test('remove one member, and all of them', () => {
    expect(ofGroup({ op: 'remove', path: `members[value eq "${BABS}"]` })).toEqual({
      displayName: 'Tour Guides',
    })
    expect(ofGroup({ op: 'remove', path: 'members' })).toEqual({ displayName: 'Tour Guides' })
  })

  test('remove a work address that ends in a domain', () => {
    expect(
      ofUser({ op: 'remove', path: 'emails[type eq "work" and value ew "example.com"]' }).emails,
    ).toEqual([user.emails[1]])
  })

  test('remove a member and add another in one request', () => {
    const operations = [
      { op: 'remove', path: `members[value eq "${BABS}"]` },
      { op: 'add', path: 'members', value: [{ value: JAMES }] },
    ]
    expect(ofGroup(...operations).members).toEqual([{ value: JAMES }])
  })

  test('replace all members', () => {
    expect(
      ofGroup({ op: 'replace', path: 'members', value: [{ value: JAMES }, { value: JAMES }] })
        .members,
    ).toEqual([{ value: JAMES }])
  })

  test('replace a whole work address, and a part of it', () => {
    const value = { type: 'work', streetAddress: '911 Universal City Plaza', postalCode: '91608' }
    expect(ofUser({ op: 'replace', path: 'addresses[type eq "work"]', value }).addresses).toEqual([
      value,
      user.addresses[1],
    ])
    const street = {
      op: 'replace',
      path: 'addresses[type eq "work"].streetAddress',
      value: '1010 Broadway Ave',
    }
    expect(ofUser(street).addresses).toEqual([
      { ...user.addresses[0], streetAddress: '1010 Broadway Ave' },
      user.addresses[1],
    ])
  })

  test('replace attributes without a path', () => {
    const value = {
      emails: [{ value: 'bjensen@example.com', type: 'work', primary: true }],
      nickName: 'Babs',
    }
    expect(ofUser({ op: 'replace', value })).toEqual({ ...user, ...value })
  })
})

describe('requests of identity providers', () => {
  test.each([
    [
      'Entra ID, a boolean as text',
      { op: 'Replace', path: 'active', value: 'False' },
      { active: false },
    ],
    ['Okta, no path', { op: 'replace', value: { active: false } }, { active: false }],
    [
      'Entra ID, names with points in a value',
      { op: 'Add', value: { 'name.givenName': 'Babs', active: 'False' } },
      { active: false, name: { givenName: 'Babs', familyName: 'Jensen' } },
    ],
    [
      'Entra ID, the core schema before a name',
      { op: 'replace', path: `${USER_ID}:nickName`, value: 'B' },
      { nickName: 'B' },
    ],
    [
      'Entra ID, an extension’s attribute',
      { op: 'Add', path: `${ENTERPRISE}:department`, value: 'IT' },
      { [ENTERPRISE]: { department: 'IT' } },
    ],
    [
      'Entra ID, an extension’s attribute in a value',
      { op: 'Add', value: { [`${ENTERPRISE}:department`]: 'IT' } },
      { [ENTERPRISE]: { department: 'IT' } },
    ],
    [
      'Entra ID, a manager by id only',
      { op: 'Add', path: `${ENTERPRISE}:manager`, value: BABS },
      { [ENTERPRISE]: { manager: { value: BABS } } },
    ],
    [
      'a whole extension',
      { op: 'replace', path: ENTERPRISE, value: { division: 'X', unknown: 1 } },
      { [ENTERPRISE]: { division: 'X' } },
    ],
    [
      'a whole extension in a value',
      { op: 'add', value: { [ENTERPRISE]: { division: 'X' } } },
      { [ENTERPRISE]: { division: 'X' } },
    ],
    ['a removed extension', { op: 'remove', path: ENTERPRISE }, {}],
    [
      'null, which removes',
      { op: 'replace', path: 'nickName', value: null },
      { nickName: undefined },
    ],
    ['a password, which is not stored', { op: 'replace', path: 'password', value: 'secret' }, {}],
    [
      'a password in a value',
      { op: 'replace', value: { password: 'secret', nickName: 'B' } },
      { nickName: 'B' },
    ],
    [
      'unknown attributes',
      { op: 'replace', value: { shoeSize: 9, 'urn:x:y:shoe': 1, nickName: 'B' } },
      { nickName: 'B' },
    ],
    [
      'a repeated id',
      { op: 'replace', value: { id: BABS, schemas: [], meta: {}, nickName: 'B' } },
      { nickName: 'B' },
    ],
  ])('%s', (_, operation, change) => {
    expect(ofUser(operation)).toEqual(JSON.parse(JSON.stringify({ ...user, ...change })))
  })

  test('Entra ID, the first address of a type', () => {
    const emails = (op: string) =>
      ofUser({ op, path: 'emails[type eq "other"].value', value: 'o@example.com' }).emails
    for (const op of ['Add', 'Replace'])
      expect(emails(op)).toEqual([...user.emails, { type: 'other', value: 'o@example.com' }])
  })

  test('Entra ID, an existing address', () => {
    const [work, home] = user.emails
    expect(
      ofUser({ op: 'Replace', path: 'emails[type eq "work"].value', value: 'new@example.com' })
        .emails,
    ).toEqual([{ ...work, value: 'new@example.com' }, home])
    expect(ofUser({ op: 'Remove', path: 'emails[type eq "work"].value' }).emails).toEqual([
      { type: 'work', primary: true },
      home,
    ])
  })

  test('Azure AD, members removed by a list', () => {
    const both = applyPatch(
      GROUP,
      group,
      steps({ op: 'Add', path: 'members', value: [{ value: JAMES }, { value: BABS }] }),
    )
    expect(both.members).toEqual([{ value: BABS }, { value: JAMES }])
    expect(
      applyPatch(
        GROUP,
        both,
        steps({ op: 'Remove', path: 'members', value: [{ $ref: null, value: BABS }] }),
      ).members,
    ).toEqual([{ value: JAMES }])
  })

  test('Okta, the new name of a group with its id', () => {
    expect(ofGroup({ op: 'replace', value: { id: JAMES, displayName: 'Guides' } })).toEqual({
      ...group,
      displayName: 'Guides',
    })
  })

  test('a new primary value makes the others non-primary', () => {
    const added = ofUser({
      op: 'add',
      path: 'emails',
      value: { value: 'x@example.com', primary: true },
    }).emails
    expect(added).toEqual([
      { ...user.emails[0], primary: false },
      user.emails[1],
      { value: 'x@example.com', primary: true },
    ])
    const moved = ofUser({
      op: 'replace',
      path: 'emails[type eq "home"].primary',
      value: true,
    }).emails
    expect(moved).toEqual([
      { ...user.emails[0], primary: false },
      { ...user.emails[1], primary: true },
    ])
  })
})

describe('refused', () => {
  test.each([
    ['an unknown operation', 'invalidSyntax', { op: 'move', path: 'title' }],
    ['a path that is not a text', 'invalidPath', { op: 'add', path: 5, value: 1 }],
    ['an unknown attribute', 'invalidPath', { op: 'add', path: 'shoeSize', value: '9' }],
    ['an unknown sub-attribute', 'invalidPath', { op: 'add', path: 'name.shoeSize', value: '9' }],
    [
      'a filter on one value',
      'invalidPath',
      { op: 'add', path: 'name[givenName eq "B"].familyName', value: 'x' },
    ],
    ['a removal of nothing', 'noTarget', { op: 'remove' }],
    [
      'a replacement of nothing',
      'noTarget',
      { op: 'replace', path: 'emails[type eq "fax"]', value: { value: 'x' } },
    ],
    [
      'a sub-attribute of a value that the filter does not define',
      'noTarget',
      { op: 'replace', path: 'emails[type sw "fax"].value', value: 'x' },
    ],
    ['another id', 'mutability', { op: 'replace', path: 'id', value: JAMES }],
    [
      'a computed attribute',
      'mutability',
      { op: 'add', path: 'groups', value: [{ value: JAMES }] },
    ],
    [
      'a part of a computed attribute',
      'mutability',
      { op: 'replace', path: 'meta.version', value: 'x' },
    ],
    ['no value', 'invalidValue', { op: 'add', path: 'title' }],
    ['a value of the wrong type', 'invalidValue', { op: 'add', path: 'title', value: {} }],
    ['an invalid boolean', 'invalidValue', { op: 'add', path: 'active', value: 'yes' }],
    ['a value that is no object, without a path', 'invalidValue', { op: 'add', value: 'x' }],
    [
      'two primary values',
      'invalidValue',
      {
        op: 'replace',
        path: 'emails',
        value: [
          { value: 'a', primary: true },
          { value: 'b', primary: true },
        ],
      },
    ],
    ['a removed user name', 'invalidValue', { op: 'remove', path: 'userName' }],
    ['a user name of spaces', 'invalidValue', { op: 'replace', path: 'userName', value: '  ' }],
    [
      'a text that is too long',
      'invalidValue',
      { op: 'add', path: 'title', value: 'x'.repeat(4_097) },
    ],
    [
      'a list that is too long',
      'invalidValue',
      {
        op: 'add',
        path: 'emails',
        value: Array.from({ length: 101 }, (_, i) => ({ value: `${i}` })),
      },
    ],
  ])('%s', (_, scimType, operation) => {
    expect(refusalOf(() => ofUser(operation))).toBe(`400 ${scimType}`)
  })

  test.each([
    ['nothing', null],
    ['no schema', { Operations: [{ op: 'remove', path: 'title' }] }],
    ['another schema', { schemas: [USER_ID], Operations: [{ op: 'remove', path: 'title' }] }],
    ['no operations', { schemas: [PATCH_OP] }],
    ['an empty list', { schemas: [PATCH_OP], Operations: [] }],
    [
      'operations that are no list',
      { schemas: [PATCH_OP], Operations: { op: 'remove', path: 'title' } },
    ],
    ['an operation that is null', { schemas: [PATCH_OP], Operations: [null] }],
    [
      'too many operations',
      {
        schemas: [PATCH_OP],
        Operations: Array.from({ length: 1_001 }, () => ({ op: 'remove', path: 'title' })),
      },
    ],
  ])('a body with %s', (_, body) => {
    expect(refusalOf(() => parseOperations(body))).toBe('400 invalidSyntax')
  })

  test('a member without an id', () => {
    expect(
      refusalOf(() => ofGroup({ op: 'add', path: 'members', value: [{ display: 'James' }] })),
    ).toBe('400 invalidValue')
  })

  test('a patch whose last operation fails changes nothing', () => {
    expect(
      refusalOf(() =>
        ofUser({ op: 'replace', path: 'title', value: 'x' }, { op: 'remove', path: 'id' }),
      ),
    ).toBe('400 mutability')
    expect(user).not.toHaveProperty('title')
  })
})

describe('hostile input', () => {
  const NAMES = [
    '__proto__',
    'constructor',
    'prototype',
    'toString',
    'hasOwnProperty',
    '__defineGetter__',
  ]

  test.each(NAMES)('%s gives no access to inherited members', name => {
    const before = Object.getOwnPropertyNames(Object.prototype).length
    for (const path of [
      name,
      `${name}.polluted`,
      `name.${name}`,
      `${ENTERPRISE}:${name}`,
      `emails[type eq "work"].${name}`,
    ])
      for (const op of ['add', 'replace', 'remove'])
        refusalOf(() => ofUser({ op, path, value: { polluted: true } }))
    const value = JSON.parse(
      `{"${name}":{"polluted":true},"name":{"${name}":{"polluted":true}},` +
        `"${ENTERPRISE}":{"${name}":1}}`,
    )
    expect(ofUser({ op: 'add', value })).toEqual(user)
    expect(parseResource(USER, { ...value, schemas: [USER_ID], userName: 'x' })).toEqual({
      userName: 'x',
    })
    expect({}).not.toHaveProperty('polluted')
    expect(Object.getOwnPropertyNames(Object.prototype)).toHaveLength(before)
  })

  test('any input is either a change of attributes of the schema or a refusal', () => {
    const path = fc.oneof(
      fc.constantFrom(
        'emails',
        'emails[type eq "work"]',
        'name',
        'name.givenName',
        'members',
        ENTERPRISE,
        'active',
      ),
      fc.string(),
    )
    const operation = fc.record({
      op: fc.constantFrom('add', 'remove', 'replace'),
      path: fc.option(path, { nil: undefined }),
      value: fc.jsonValue(),
    })
    const known = [...USER.schema.attributes.map(one => one.name), 'externalId', ENTERPRISE]
    fc.assert(
      fc.property(fc.array(operation, { minLength: 1, maxLength: 4 }), operations => {
        try {
          expect(Object.keys(ofUser(...operations)).filter(name => !known.includes(name))).toEqual(
            [],
          )
        } catch (thrown) {
          if (!(thrown instanceof GatewayError)) throw thrown
          expect(thrown.status).toBe(400)
        }
      }),
    )
  })
})
