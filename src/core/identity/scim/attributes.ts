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

/** Attributes under a name of their own. */
export interface Schema {
  id: string
  name: string
  description: string
  attributes: Attribute[]
}

/** A kind of resource: where it is, and what it is made of. */
export interface ResourceType {
  name: 'User' | 'Group'
  endpoint: '/Users' | '/Groups'
  description: string
  schema: Schema
  extensions: Schema[]
}

type Rest = Partial<Omit<Attribute, 'name' | 'type' | 'description'>>

/** An attribute as most are: one text, in any case, that may be read and written. */
export const attribute = (
  name: string,
  description: string,
  rest: Rest & { type?: Attribute['type'] } = {},
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
  ...rest,
})

/** What every resource has besides its schema's (RFC 7643, 3.1). They are in no schema's list. */
const COMMON: Attribute[] = [
  attribute('schemas', 'The schemas of what is in it', {
    multiValued: true,
    caseExact: true,
    mutability: 'readOnly',
    returned: 'always',
  }),
  attribute('id', 'Its identifier here', {
    caseExact: true,
    mutability: 'readOnly',
    returned: 'always',
    uniqueness: 'server',
  }),
  attribute('externalId', 'Its identifier at the identity provider', { caseExact: true }),
  attribute('meta', 'What is known of the resource itself', {
    type: 'complex',
    mutability: 'readOnly',
    subAttributes: [
      attribute('resourceType', 'Its kind', { caseExact: true, mutability: 'readOnly' }),
      attribute('created', 'When it was made', { type: 'dateTime', mutability: 'readOnly' }),
      attribute('lastModified', 'When it was changed last', {
        type: 'dateTime',
        mutability: 'readOnly',
      }),
      attribute('location', 'Where it is', {
        type: 'reference',
        caseExact: true,
        mutability: 'readOnly',
      }),
      attribute('version', 'Changes with it', { caseExact: true, mutability: 'readOnly' }),
    ],
  }),
]

/** The attribute of this name, which is the same in any case (RFC 7643, 2.1). */
export function named(attributes: Attribute[] | undefined, name: string): Attribute | undefined {
  const wanted = name.toLowerCase()
  return attributes?.find(one => one.name.toLowerCase() === wanted)
}

/** The attributes at the top of such a resource. */
export const attributesOf = ({ schema }: ResourceType): Attribute[] => [
  ...COMMON,
  ...schema.attributes,
]

/** The extension of this name, in any case. */
export function extensionOf({ extensions }: ResourceType, id: string): Schema | undefined {
  const wanted = id.toLowerCase()
  return extensions.find(one => one.id.toLowerCase() === wanted)
}
