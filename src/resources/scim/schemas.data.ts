import { type Attribute, defineAttribute, type ResourceType, type Schema } from './attributes.ts'

const readOnly = { mutability: 'readOnly' as const }

/** Defines a list of values with their usual sub-attributes (RFC 7643, 2.4). */
function defineMultiValued(
  name: string,
  description: string,
  canonicalValues: string[] = [],
  value: Partial<Attribute> = {},
): Attribute {
  return defineAttribute(name, description, {
    type: 'complex',
    multiValued: true,
    subAttributes: [
      defineAttribute('value', 'The value itself', value),
      defineAttribute('display', 'The text to show'),
      defineAttribute('type', 'The purpose', canonicalValues.length > 0 ? { canonicalValues } : {}),
      defineAttribute('primary', 'Whether this is the preferred value', { type: 'boolean' }),
    ],
  })
}

const NAME = defineAttribute('name', 'The parts of the name', {
  type: 'complex',
  subAttributes: [
    defineAttribute('formatted', 'The whole name'),
    defineAttribute('familyName', 'The family name'),
    defineAttribute('givenName', 'The given name'),
    defineAttribute('middleName', 'The middle names'),
    defineAttribute('honorificPrefix', 'The prefix of the name, such as a title'),
    defineAttribute('honorificSuffix', 'The suffix of the name'),
  ],
})

const ADDRESSES = defineAttribute('addresses', 'Postal addresses', {
  type: 'complex',
  multiValued: true,
  subAttributes: [
    defineAttribute('formatted', 'The whole address'),
    defineAttribute('streetAddress', 'Street and number'),
    defineAttribute('locality', 'The city'),
    defineAttribute('region', 'The state or region'),
    defineAttribute('postalCode', 'The postal code'),
    defineAttribute('country', 'The country'),
    defineAttribute('type', 'The purpose', { canonicalValues: ['work', 'home', 'other'] }),
    defineAttribute('primary', 'Whether this is the preferred address', { type: 'boolean' }),
  ],
})

const GROUPS = defineAttribute('groups', 'The groups of the user', {
  ...readOnly,
  type: 'complex',
  multiValued: true,
  subAttributes: [
    defineAttribute('value', 'The group’s id', { ...readOnly, caseExact: true }),
    defineAttribute('$ref', 'The URL of the group', {
      ...readOnly,
      type: 'reference',
      caseExact: true,
      referenceTypes: ['Group'],
    }),
    defineAttribute('display', 'The group’s name', readOnly),
    defineAttribute('type', 'The kind of membership', { ...readOnly, canonicalValues: ['direct'] }),
  ],
})

const USER_SCHEMA: Schema = {
  id: 'urn:ietf:params:scim:schemas:core:2.0:User',
  name: 'User',
  description: 'A member of the organization',
  attributes: [
    defineAttribute('userName', 'The name to sign in with', {
      required: true,
      uniqueness: 'server',
    }),
    NAME,
    defineAttribute('displayName', 'The name to show'),
    defineAttribute('nickName', 'The nickname'),
    defineAttribute('profileUrl', 'The URL of the profile page', {
      type: 'reference',
      caseExact: true,
      referenceTypes: ['external'],
    }),
    defineAttribute('title', 'The job title, such as “Vice President”'),
    defineAttribute('userType', 'The relation to the organization'),
    defineAttribute('preferredLanguage', 'The preferred languages'),
    defineAttribute('locale', 'The locale for numbers and dates'),
    defineAttribute('timezone', 'The time zone'),
    defineAttribute('active', 'Whether the user is active', { type: 'boolean' }),
    defineAttribute('password', 'Accepted and not stored', {
      caseExact: true,
      mutability: 'writeOnly',
      returned: 'never',
    }),
    defineMultiValued('emails', 'E-mail addresses', ['work', 'home', 'other']),
    defineMultiValued('phoneNumbers', 'Telephone numbers', [
      'work',
      'home',
      'mobile',
      'fax',
      'pager',
      'other',
    ]),
    defineMultiValued('ims', 'Addresses of instant messaging'),
    defineMultiValued('photos', 'URLs of photos', ['photo', 'thumbnail'], {
      type: 'reference',
      caseExact: true,
      referenceTypes: ['external'],
    }),
    ADDRESSES,
    GROUPS,
    defineMultiValued('entitlements', 'Entitlements'),
    defineMultiValued('roles', 'Roles'),
    defineMultiValued('x509Certificates', 'Certificates', [], { type: 'binary', caseExact: true }),
  ],
}

const ENTERPRISE_SCHEMA: Schema = {
  id: 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User',
  name: 'EnterpriseUser',
  description: 'Attributes of employees',
  attributes: [
    defineAttribute('employeeNumber', 'The employee number'),
    defineAttribute('costCenter', 'The cost center'),
    defineAttribute('organization', 'The organization'),
    defineAttribute('division', 'The division'),
    defineAttribute('department', 'The department'),
    defineAttribute('manager', 'The manager', {
      type: 'complex',
      subAttributes: [
        defineAttribute('value', 'The manager’s id', { caseExact: true }),
        defineAttribute('$ref', 'The URL of the manager', {
          type: 'reference',
          caseExact: true,
          referenceTypes: ['User'],
        }),
        defineAttribute('displayName', 'The manager’s name', readOnly),
      ],
    }),
  ],
}

const GROUP_SCHEMA: Schema = {
  id: 'urn:ietf:params:scim:schemas:core:2.0:Group',
  name: 'Group',
  description: 'A group of users',
  attributes: [
    defineAttribute('displayName', 'The group’s name', { required: true }),
    defineAttribute('members', 'The members of the group', {
      type: 'complex',
      multiValued: true,
      subAttributes: [
        defineAttribute('value', 'The user’s id', { caseExact: true, required: true }),
        defineAttribute('$ref', 'The URL of the user', {
          ...readOnly,
          type: 'reference',
          caseExact: true,
          referenceTypes: ['User'],
        }),
        defineAttribute('display', 'The user’s name', readOnly),
        defineAttribute('type', 'The type of the member', {
          ...readOnly,
          canonicalValues: ['User'],
        }),
      ],
    }),
  ],
}

/** Users (RFC 7643, 4.1 and 4.3). */
export const USER: ResourceType = {
  name: 'User',
  endpoint: '/Users',
  description: 'Members of the organization',
  schema: USER_SCHEMA,
  extensions: [ENTERPRISE_SCHEMA],
}

/** Groups (RFC 7643, 4.2). A group holds users and no groups. */
export const GROUP: ResourceType = {
  name: 'Group',
  endpoint: '/Groups',
  description: 'Groups of users, mapped to workspaces',
  schema: GROUP_SCHEMA,
  extensions: [],
}

/** All resource types, and all their schemas. */
export const RESOURCE_TYPES: ResourceType[] = [USER, GROUP]
export const SCHEMAS: Schema[] = [USER_SCHEMA, GROUP_SCHEMA, ENTERPRISE_SCHEMA]
