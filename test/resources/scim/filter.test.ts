import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { GatewayError } from '../../../src/base/errors.ts'
import { parseFilter, parsePath, type ScimFilter } from '../../../src/resources/scim/filter.ts'
import { createMatcher } from '../../../src/resources/scim/match.ts'
import { USER } from '../../../src/resources/scim/schemas.data.ts'

const ENTERPRISE = 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'

/** Barbara Jensen of RFC 7643, 8.2 and 8.3. */
const BARBARA = {
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:User', ENTERPRISE],
  id: '2819c223-7f76-453a-919d-413861904646',
  externalId: '701984',
  userName: 'bjensen@example.com',
  name: { formatted: 'Ms. Barbara J Jensen, III', familyName: 'Jensen', givenName: 'Barbara' },
  emails: [
    { value: 'bjensen@example.com', type: 'work', primary: true },
    { value: 'babs@jensen.org', type: 'home' },
  ],
  ims: [{ value: 'someaimhandle', type: 'aim' }],
  userType: 'Employee',
  title: 'Tour Guide',
  active: true,
  [ENTERPRISE]: {
    employeeNumber: '701984',
    manager: { value: '26118915-6090-4610-87e4-49d8ca9f808d', displayName: 'John Smith' },
  },
  meta: {
    resourceType: 'User',
    created: '2010-01-23T04:56:22Z',
    lastModified: '2011-05-13T04:42:34Z',
    version: 'W/"3"',
  },
}

const matches = (filter: string, resource: Record<string, unknown> = BARBARA) =>
  createMatcher(USER, parseFilter(filter))(resource)

const refusalOf = (run: () => unknown) => {
  try {
    run()
    return undefined
  } catch (thrown) {
    const { status, metadata } = GatewayError.from(thrown)
    return `${status} ${metadata.scimType}`
  }
}

describe('a filter', () => {
  test.each([
    ['userName eq "bjensen@example.com"', true],
    ['USERNAME Eq "BJensen@Example.com"', true],
    ['name.familyName co "O\'Malley"', false],
    ['name.familyName co "ense"', true],
    ['userName sw "J"', false],
    ['userName sw "BJ"', true],
    ['urn:ietf:params:scim:schemas:core:2.0:User:userName sw "b"', true],
    ['title pr', true],
    ['nickName pr', false],
    ['meta.lastModified gt "2011-05-13T04:42:34Z"', false],
    ['meta.lastModified ge "2011-05-13T04:42:34Z"', true],
    ['meta.lastModified lt "2011-05-13T06:42:35+02:00"', true],
    ['meta.lastModified le "2011-05-13T04:42:34.000Z"', true],
    ['title pr and userType eq "Employee"', true],
    ['nickName pr or userType eq "Intern"', false],
    [`schemas eq "${ENTERPRISE}"`, true],
    ['userType eq "Employee" and (emails co "example.com" or emails.value co "example.org")', true],
    [
      'userType ne "Employee" and not (emails co "example.com" or emails.value co "example.org")',
      false,
    ],
    ['userType eq "Employee" and (emails.type eq "work")', true],
    ['userType eq "Employee" and emails[type eq "work" and value co "@example.com"]', true],
    ['userType eq "Employee" and emails[type eq "home" and value co "@example.com"]', false],
    [
      'emails[type eq "work" and value co "@example.net"] or ims[type eq "aim" and value sw "some"]',
      true,
    ],
  ])('of RFC 7644 is accepted: %s', (filter, is) => {
    expect(matches(filter)).toBe(is)
  })

  test.each([
    ['emails[type eq "work"].value eq "BJENSEN@example.com"', true],
    ['emails[type eq "home"].value eq "bjensen@example.com"', false],
    ['emails[type eq "work"].value pr and not (emails[type eq "other"].value pr)', true],
    ['emails[not (type eq "work") and value ew ".org"]', true],
    ['emails[primary eq true].type eq "work"', true],
    [`${ENTERPRISE}:employeeNumber eq "701984"`, true],
    [`${ENTERPRISE}:manager.value eq "26118915-6090-4610-87e4-49d8ca9f808d"`, true],
    [`${ENTERPRISE} pr`, true],
    ['active eq true', true],
    ['active eq "True"', true],
    ['active ne True', false],
    ['nickName eq null', true],
    ['title eq NULL', false],
    ['title ne null', true],
    ['nickName ne "Babs"', true],
    ['emails.value ne "bjensen@example.com"', true],
    ['id eq "2819C223-7f76-453a-919d-413861904646"', false],
    ['externalId ew "84"', true],
    ['title ge "tour"', true],
    ['title lt "a"', false],
    ['userName eq 5', false],
    ['userName co 5', false],
    ['name co "Jensen"', false],
    ['not (title pr)', false],
  ])('supports more: %s', (filter, is) => {
    expect(matches(filter)).toBe(is)
  })

  test('binds “and” before “or”, and “not” before both', () => {
    expect(matches('title pr or nickName pr and nickName pr')).toBe(true)
    expect(matches('(title pr or nickName pr) and nickName pr')).toBe(false)
    expect(matches('not (nickName pr) or nickName pr and nickName pr')).toBe(true)
  })

  test('for a value that no user has matches no user', () => {
    for (const filter of [
      'shoeSize eq "9"',
      'name.shoeSize pr',
      'urn:none:of:these:title pr',
      'title.value pr',
      'title[value eq "x"]',
      'emails.value.x pr',
    ])
      expect(matches(filter)).toBe(false)
  })

  test('may contain quotes, backslashes, brackets and any letter', () => {
    const title = 'a "b" \\ (c] 𝄞'
    expect(matches(`title eq ${JSON.stringify(title)}`, { title })).toBe(true)
    expect(matches('title eq "\\ud834\\udd1e"', { title: '𝄞' })).toBe(true)
  })

  test.each([
    '',
    ' ',
    'title',
    'title eq',
    'title is "x"',
    'title eq x',
    'title eq "x',
    'title eq "x" and',
    'and title pr',
    '(title pr',
    'title pr)',
    'not title pr',
    'emails[type eq "work"',
    'emails[]',
    'emails[type eq "work"].',
    'emails[type eq "work"].5 pr',
    'emails[x[y pr]]',
    'title eq {"a":1}',
    'title eq 5x',
    'title eq "\\x"',
    'active gt true',
    'active sw "true"',
    'title gt null',
    'title\tpr',
    '“title” pr',
    'title eq "a\nb"',
    '"title" pr',
    '5 eq 5',
    'title pr title pr',
  ])('that is invalid is refused: %p', filter => {
    expect(refusalOf(() => matches(filter))).toBe('400 invalidFilter')
  })

  test('is not repeated in its refusal', () => {
    const thrown = (() => {
      try {
        return matches('title sounds "canary"')
      } catch (error) {
        return GatewayError.from(error)
      }
    })()
    expect(thrown).toMatchObject({ message: 'expected an operator at character 7' })
  })

  test('that is too long or too deep is refused, and the longest is parsed in one pass', () => {
    const nested = (depth: number) => `${'('.repeat(depth)}title pr${')'.repeat(depth)}`
    expect(matches(nested(20))).toBe(true)
    for (const filter of [
      nested(21),
      nested(4_000),
      `not ${'(not '.repeat(50)}`,
      '('.repeat(10_000),
      'emails['.repeat(1_000),
      `title eq "${'a'.repeat(10_000)}"`,
    ])
      expect(refusalOf(() => matches(filter))).toBe('400 invalidFilter')
    const wide = Array.from({ length: 800 }, () => 'title pr').join(' or ')
    expect(parseFilter(wide)).toMatchObject({ op: 'or', filters: { length: 800 } })
  })

  test('cannot reach inherited members', () => {
    for (const name of [
      '__proto__',
      'constructor',
      'constructor.name',
      'toString',
      'name.constructor',
      'emails[constructor pr]',
    ])
      expect(matchesOrRefused(`${name} pr`)).toBe(false)
  })

  test('means the same when its parsed form is written and parsed again', () => {
    const name = fc.constantFrom('userName', 'title', 'name.familyName', 'emails.value', 'active')
    const value = fc.oneof(
      fc.string(),
      fc.double({ noNaN: true, noDefaultInfinity: true }).map(number => number + 0),
      fc.boolean(),
      fc.constant(null),
    )
    const leaf = fc.oneof(
      fc.record({ op: fc.constant('pr' as const), path: name.map(plain) }),
      fc.record({
        op: fc.constantFrom('eq' as const, 'ne' as const, 'co' as const, 'ge' as const),
        path: name.map(plain),
        value,
      }),
    )
    const { filter } = fc.letrec<{ filter: ScimFilter }>(tie => ({
      filter: fc.oneof(
        { maxDepth: 5 },
        leaf,
        fc.record({ op: fc.constant('not' as const), filter: tie('filter') }),
        fc.record({
          op: fc.constantFrom('and' as const, 'or' as const),
          filters: fc.array(tie('filter'), { minLength: 2, maxLength: 3 }),
        }),
      ) as fc.Arbitrary<ScimFilter>,
    }))
    fc.assert(fc.property(filter, one => expect(parseFilter(written(one))).toEqual(one)))
  })
})

const plain = (name: string) => ({ name, filter: null, subAttribute: null })

const matchesOrRefused = (filter: string) => {
  try {
    return matches(filter)
  } catch {
    return false
  }
}

function written(filter: ScimFilter): string {
  switch (filter.op) {
    case 'and':
    case 'or':
      return filter.filters.map(one => `(${written(one)})`).join(` ${filter.op} `)
    case 'not':
      return `not (${written(filter.filter)})`
    case 'pr':
      return `${filter.path.name} pr`
    default:
      return `${filter.path.name} ${filter.op} ${JSON.stringify(filter.value)}`
  }
}

describe('a path', () => {
  test('is a name, an optional filter, and a sub-attribute', () => {
    expect(parsePath('members')).toEqual({ name: 'members', filter: null, subAttribute: null })
    expect(parsePath('addresses[type eq "work"].streetAddress')).toEqual({
      name: 'addresses',
      filter: { op: 'eq', path: { name: 'type', filter: null, subAttribute: null }, value: 'work' },
      subAttribute: 'streetAddress',
    })
  })

  test.each([
    '',
    'a b',
    'emails[type eq "work"].value.x y',
    'emails[type]',
    'emails[',
    '.value',
    '[type eq "work"]',
    'a'.repeat(10_001),
  ])('that is invalid is refused: %p', path => {
    expect(refusalOf(() => parsePath(path))).toBe('400 invalidPath')
  })
})
