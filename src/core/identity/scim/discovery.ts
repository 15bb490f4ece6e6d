import { notFound } from '../../errors.ts'
import { defined, type Json } from '../../kernel/json.ts'
import type { Attribute, ResourceType, Schema } from './attributes.ts'
import { MOST_RESULTS } from './query.ts'
import { RESOURCE_TYPES, SCHEMAS } from './schemas.data.ts'

/** Describes the supported features of SCIM (RFC 7643, 5). `base` is the URL of SCIM. */
export const serviceProviderConfig = (base: string): Json => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig'],
  patch: { supported: true },
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
  filter: { supported: true, maxResults: MOST_RESULTS },
  changePassword: { supported: false },
  sort: { supported: true },
  etag: { supported: true },
  authenticationSchemes: [
    {
      type: 'oauthbearertoken',
      name: 'Bearer token',
      description: 'A token of “gateway scim token create”',
      primary: true,
    },
  ],
  meta: { resourceType: 'ServiceProviderConfig', location: `${base}/ServiceProviderConfig` },
})

/** Lists all resource types (RFC 7643, 6). */
export const resourceTypes = (base: string): Json[] =>
  RESOURCE_TYPES.map(type => resourceType(base, type))

/** Gets a resource type by name. Throws 404. */
export function resourceTypeNamed(base: string, name: string): Json {
  const type = RESOURCE_TYPES.find(one => one.name === name)
  if (!type) throw notFound()
  return resourceType(base, type)
}

const resourceType = (
  base: string,
  { name, endpoint, description, schema, extensions }: ResourceType,
): Json => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ResourceType'],
  id: name,
  name,
  endpoint,
  description,
  schema: schema.id,
  schemaExtensions: extensions.map(({ id }) => ({ schema: id, required: false })),
  meta: { resourceType: 'ResourceType', location: `${base}/ResourceTypes/${name}` },
})

/** Lists all schemas (RFC 7643, 7). */
export const schemas = (base: string): Json[] => SCHEMAS.map(schema => shownSchema(base, schema))

/** Gets a schema by id. Throws 404. */
export function schemaNamed(base: string, id: string): Json {
  const schema = SCHEMAS.find(one => one.id === id)
  if (!schema) throw notFound()
  return shownSchema(base, schema)
}

const shownSchema = (base: string, { id, name, description, attributes }: Schema): Json => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:Schema'],
  id,
  name,
  description,
  attributes: attributes.map(shownAttribute),
  meta: { resourceType: 'Schema', location: `${base}/Schemas/${id}` },
})

const shownAttribute = ({ subAttributes, ...attribute }: Attribute): Json =>
  defined({ ...attribute, subAttributes: subAttributes?.map(shownAttribute) })
