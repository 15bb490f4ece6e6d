import { type Attribute, attribute, type ResourceType, type Schema } from './attributes.ts'

const readOnly = { mutability: 'readOnly' as const }

/** Defines a list of values with their usual sub-attributes (RFC 7643, 2.4). */
function plural(
  name: string,
  description: string,
  canonicalValues: string[] = [],
  value: Partial<Attribute> = {},
): Attribute {
  return attribute(name, description, {
    type: 'complex',
    multiValued: true,
    subAttributes: [
      attribute('value', 'The value itself', value),
      attribute('display', 'The text to show'),
      attribute('type', 'The purpose', canonicalValues.length > 0 ? { canonicalValues } : {}),
      attribute('primary', 'Whether this is the preferred value', { type: 'boolean' }),
    ],
  })
}

const NAME = attribute('name', 'The parts of the name', {
  type: 'complex',
  subAttributes: [
    attribute('formatted', 'The whole name'),
    attribute('familyName', 'The family name'),
    attribute('givenName', 'The given name'),
    attribute('middleName', 'The middle names'),
    attribute('honorificPrefix', 'The prefix of the name, such as a title'),
    attribute('honorificSuffix', 'The suffix of the name'),
  ],
})

const ADDRESSES = attribute('addresses', 'Postal addresses', {
  type: 'complex',
  multiValued: true,
  subAttributes: [
    attribute('formatted', 'The whole address'),
    attribute('streetAddress', 'Street and number'),
    attribute('locality', 'The city'),
    attribute('region', 'The state or region'),
    attribute('postalCode', 'The postal code'),
    attribute('country', 'The country'),
    attribute('type', 'The purpose', { canonicalValues: ['work', 'home', 'other'] }),
    attribute('primary', 'Whether this is the preferred address', { type: 'boolean' }),
  ],
})

const GROUPS = attribute('groups', 'The groups of the user', {
  ...readOnly,
  type: 'complex',
  multiValued: true,
  subAttributes: [
    attribute('value', 'The group’s id', { ...readOnly, caseExact: true }),
    attribute('$ref', 'The URL of the group', {
      ...readOnly,
      type: 'reference',
      caseExact: true,
      referenceTypes: ['Group'],
    }),
    attribute('display', 'The group’s name', readOnly),
    attribute('type', 'The kind of membership', { ...readOnly, canonicalValues: ['direct'] }),
  ],
})

const USER_SCHEMA: Schema = {
  id: 'urn:ietf:params:scim:schemas:core:2.0:User',
  name: 'User',
  description: 'A member of the organization',
  attributes: [
    attribute('userName', 'The name to sign in with', { required: true, uniqueness: 'server' }),
    NAME,
    attribute('displayName', 'The name to show'),
    attribute('nickName', 'The nickname'),
    attribute('profileUrl', 'The URL of the profile page', {
      type: 'reference',
      caseExact: true,
      referenceTypes: ['external'],
    }),
    attribute('title', 'The job title, such as “Vice President”'),
    attribute('userType', 'The relation to the organization'),
    attribute('preferredLanguage', 'The preferred languages'),
    attribute('locale', 'The locale for numbers and dates'),
    attribute('timezone', 'The time zone'),
    attribute('active', 'Whether the user is active', { type: 'boolean' }),
    attribute('password', 'Accepted and not stored', {
      caseExact: true,
      mutability: 'writeOnly',
      returned: 'never',
    }),
    plural('emails', 'E-mail addresses', ['work', 'home', 'other']),
    plural('phoneNumbers', 'Telephone numbers', [
      'work',
      'home',
      'mobile',
      'fax',
      'pager',
      'other',
    ]),
    plural('ims', 'Addresses of instant messaging'),
    plural('photos', 'URLs of photos', ['photo', 'thumbnail'], {
      type: 'reference',
      caseExact: true,
      referenceTypes: ['external'],
    }),
    ADDRESSES,
    GROUPS,
    plural('entitlements', 'Entitlements'),
    plural('roles', 'Roles'),
    plural('x509Certificates', 'Certificates', [], { type: 'binary', caseExact: true }),
  ],
}

const ENTERPRISE_SCHEMA: Schema = {
  id: 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User',
  name: 'EnterpriseUser',
  description: 'Attributes of employees',
  attributes: [
    attribute('employeeNumber', 'The employee number'),
    attribute('costCenter', 'The cost center'),
    attribute('organization', 'The organization'),
    attribute('division', 'The division'),
    attribute('department', 'The department'),
    attribute('manager', 'The manager', {
      type: 'complex',
      subAttributes: [
        attribute('value', 'The manager’s id', { caseExact: true }),
        attribute('$ref', 'The URL of the manager', {
          type: 'reference',
          caseExact: true,
          referenceTypes: ['User'],
        }),
        attribute('displayName', 'The manager’s name', readOnly),
      ],
    }),
  ],
}

const GROUP_SCHEMA: Schema = {
  id: 'urn:ietf:params:scim:schemas:core:2.0:Group',
  name: 'Group',
  description: 'A group of users',
  attributes: [
    attribute('displayName', 'The group’s name', { required: true }),
    attribute('members', 'The members of the group', {
      type: 'complex',
      multiValued: true,
      subAttributes: [
        attribute('value', 'The user’s id', { caseExact: true, required: true }),
        attribute('$ref', 'The URL of the user', {
          ...readOnly,
          type: 'reference',
          caseExact: true,
          referenceTypes: ['User'],
        }),
        attribute('display', 'The user’s name', readOnly),
        attribute('type', 'The type of the member', { ...readOnly, canonicalValues: ['User'] }),
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
