import { notFound } from '../../base/errors.ts'
import { type Json, omitUndefined } from '../../base/json.ts'
import type { Attribute, ResourceType, Schema } from './attributes.ts'
import { MAX_RESULTS } from './query.ts'
import { RESOURCE_TYPES, SCHEMAS } from './schemas.data.ts'

/** Describes the supported features of SCIM (RFC 7643, 5). `base` is the URL of SCIM. */
export const describeServiceProvider = (base: string): Json => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig'],
  patch: { supported: true },
  bulk: { supported: false, maxOperations: 0, maxPayloadSize: 0 },
  filter: { supported: true, maxResults: MAX_RESULTS },
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
export const listResourceTypes = (base: string): Json[] =>
  RESOURCE_TYPES.map(type => showResourceType(base, type))

/** Gets a resource type by name. Throws 404. */
export function getResourceType(base: string, name: string): Json {
  const type = RESOURCE_TYPES.find(candidate => candidate.name === name)
  if (!type) throw notFound()
  return showResourceType(base, type)
}

const showResourceType = (
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
export const listSchemas = (base: string): Json[] => SCHEMAS.map(schema => showSchema(base, schema))

/** Gets a schema by id. Throws 404. */
export function getSchema(base: string, id: string): Json {
  const schema = SCHEMAS.find(candidate => candidate.id === id)
  if (!schema) throw notFound()
  return showSchema(base, schema)
}

const showSchema = (base: string, { id, name, description, attributes }: Schema): Json => ({
  schemas: ['urn:ietf:params:scim:schemas:core:2.0:Schema'],
  id,
  name,
  description,
  attributes: attributes.map(showAttribute),
  meta: { resourceType: 'Schema', location: `${base}/Schemas/${id}` },
})

const showAttribute = ({ subAttributes, ...attribute }: Attribute): Json =>
  omitUndefined({ ...attribute, subAttributes: subAttributes?.map(showAttribute) })
