/** One attribute of a resource (RFC 7643, 2.2 and 7). */
export interface Attribute {
  name: string
  type: 'string' | 'boolean' | 'dateTime' | 'reference' | 'binary' | 'complex'
  description: string
  multiValued: boolean
  required: boolean
  caseExact: boolean
  mutability: 'readWrite' | 'readOnly' | 'writeOnly'
  returned: 'default' | 'always' | 'never'
  uniqueness: 'none' | 'server'
  canonicalValues?: string[]
  referenceTypes?: string[]
  subAttributes?: Attribute[]
}

/** A named set of attributes. */
export interface Schema {
  id: string
  name: string
  description: string
  attributes: Attribute[]
}

/** A type of resource with its path and its schemas. */
export interface ResourceType {
  name: 'User' | 'Group'
  endpoint: '/Users' | '/Groups'
  description: string
  schema: Schema
  extensions: Schema[]
}

type AttributeOptions = Partial<Omit<Attribute, 'name' | 'type' | 'description'>>

/** Defines an attribute. By default it is one case-insensitive text, readable and writable. */
export const defineAttribute = (
  name: string,
  description: string,
  options: AttributeOptions & { type?: Attribute['type'] } = {},
): Attribute => ({
  name,
  type: 'string',
  description,
  multiValued: false,
  required: false,
  caseExact: false,
  mutability: 'readWrite',
  returned: 'default',
  uniqueness: 'none',
  ...options,
})

/** The attributes of every resource (RFC 7643, 3.1). No schema lists them. */
const COMMON: Attribute[] = [
  defineAttribute('schemas', 'The schemas of the resource', {
    multiValued: true,
    caseExact: true,
    mutability: 'readOnly',
    returned: 'always',
  }),
  defineAttribute('id', 'The identifier at the gateway', {
    caseExact: true,
    mutability: 'readOnly',
    returned: 'always',
    uniqueness: 'server',
  }),
  defineAttribute('externalId', 'The identifier at the identity provider', { caseExact: true }),
  defineAttribute('meta', 'Metadata of the resource', {
    type: 'complex',
    mutability: 'readOnly',
    subAttributes: [
      defineAttribute('resourceType', 'The resource type', {
        caseExact: true,
        mutability: 'readOnly',
      }),
      defineAttribute('created', 'The time of creation', {
        type: 'dateTime',
        mutability: 'readOnly',
      }),
      defineAttribute('lastModified', 'The time of the last change', {
        type: 'dateTime',
        mutability: 'readOnly',
      }),
      defineAttribute('location', 'The URL of the resource', {
        type: 'reference',
        caseExact: true,
        mutability: 'readOnly',
      }),
      defineAttribute('version', 'The version, which changes with the resource', {
        caseExact: true,
        mutability: 'readOnly',
      }),
    ],
  }),
]

/** Finds an attribute by name, in any case (RFC 7643, 2.1). */
export function findAttribute(
  attributes: Attribute[] | undefined,
  name: string,
): Attribute | undefined {
  const lowerName = name.toLowerCase()
  return attributes?.find(candidate => candidate.name.toLowerCase() === lowerName)
}

/** Lists the top-level attributes of a resource type. */
export const listAttributes = ({ schema }: ResourceType): Attribute[] => [
  ...COMMON,
  ...schema.attributes,
]

/** Finds an extension by id, in any case. */
export function findExtension({ extensions }: ResourceType, id: string): Schema | undefined {
  const lowerId = id.toLowerCase()
  return extensions.find(extension => extension.id.toLowerCase() === lowerId)
}
