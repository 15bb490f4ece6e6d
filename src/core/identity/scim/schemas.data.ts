import { type Attribute, attribute, type ResourceType, type Schema } from './attributes.ts'

const readOnly = { mutability: 'readOnly' as const }

/** A list of values with what is said of each (RFC 7643, 2.4). */
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
      attribute('display', 'How it is shown'),
      attribute('type', 'What it is for', canonicalValues.length > 0 ? { canonicalValues } : {}),
      attribute('primary', 'Whether it is the one that is preferred', { type: 'boolean' }),
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
    attribute('honorificPrefix', 'What stands before the name'),
    attribute('honorificSuffix', 'What stands after the name'),
  ],
})

const ADDRESSES = attribute('addresses', 'Where the user can be reached by letter', {
  type: 'complex',
  multiValued: true,
  subAttributes: [
    attribute('formatted', 'The whole address'),
    attribute('streetAddress', 'Street and number'),
    attribute('locality', 'The place'),
    attribute('region', 'The state or region'),
    attribute('postalCode', 'The postal code'),
    attribute('country', 'The country'),
    attribute('type', 'What it is for', { canonicalValues: ['work', 'home', 'other'] }),
    attribute('primary', 'Whether it is the one that is preferred', { type: 'boolean' }),
  ],
})

const GROUPS = attribute('groups', 'The groups that the user is in', {
  ...readOnly,
  type: 'complex',
  multiValued: true,
  subAttributes: [
    attribute('value', 'The group’s id', { ...readOnly, caseExact: true }),
    attribute('$ref', 'Where the group is', {
      ...readOnly,
      type: 'reference',
      caseExact: true,
      referenceTypes: ['Group'],
    }),
    attribute('display', 'The group’s name', readOnly),
    attribute('type', 'How he is in it', { ...readOnly, canonicalValues: ['direct'] }),
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
    attribute('nickName', 'What he is called'),
    attribute('profileUrl', 'His page', {
      type: 'reference',
      caseExact: true,
      referenceTypes: ['external'],
    }),
    attribute('title', 'His title, as “Vice President”'),
    attribute('userType', 'How he belongs to the organization'),
    attribute('preferredLanguage', 'The languages that he prefers'),
    attribute('locale', 'How numbers and dates are written for him'),
    attribute('timezone', 'Where it is the same time'),
    attribute('active', 'Whether he may do anything', { type: 'boolean' }),
    attribute('password', 'Taken and not kept', {
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
    plural('photos', 'Where pictures of him are', ['photo', 'thumbnail'], {
      type: 'reference',
      caseExact: true,
      referenceTypes: ['external'],
    }),
    ADDRESSES,
    GROUPS,
    plural('entitlements', 'What he is entitled to'),
    plural('roles', 'His roles'),
    plural('x509Certificates', 'His certificates', [], { type: 'binary', caseExact: true }),
  ],
}

const ENTERPRISE_SCHEMA: Schema = {
  id: 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User',
  name: 'EnterpriseUser',
  description: 'What companies know of their people',
  attributes: [
    attribute('employeeNumber', 'His number'),
    attribute('costCenter', 'Where he is booked'),
    attribute('organization', 'His organization'),
    attribute('division', 'His division'),
    attribute('department', 'His department'),
    attribute('manager', 'Who leads him', {
      type: 'complex',
      subAttributes: [
        attribute('value', 'The manager’s id', { caseExact: true }),
        attribute('$ref', 'Where the manager is', {
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
  description: 'Users that belong together',
  attributes: [
    attribute('displayName', 'The group’s name', { required: true }),
    attribute('members', 'Who is in it', {
      type: 'complex',
      multiValued: true,
      subAttributes: [
        attribute('value', 'The user’s id', { caseExact: true, required: true }),
        attribute('$ref', 'Where the user is', {
          ...readOnly,
          type: 'reference',
          caseExact: true,
          referenceTypes: ['User'],
        }),
        attribute('display', 'The user’s name', readOnly),
        attribute('type', 'What kind of member it is', { ...readOnly, canonicalValues: ['User'] }),
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
  description: 'Users that are put into workspaces together',
  schema: GROUP_SCHEMA,
  extensions: [],
}

/** Every kind of resource, and every schema of theirs. */
export const RESOURCE_TYPES: ResourceType[] = [USER, GROUP]
export const SCHEMAS: Schema[] = [USER_SCHEMA, GROUP_SCHEMA, ENTERPRISE_SCHEMA]
