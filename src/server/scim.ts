import { Type } from '@sinclair/typebox'
import type { Gateway } from '../app/gateway.ts'
import { matchesTag, renderTag } from '../base/entity-tag.ts'
import type { Json } from '../base/json.ts'
import { list, Name } from '../base/schema-builders.ts'
import { describeOperation, type Operation, type Refusal } from './operation.ts'

/** The media type of SCIM messages (RFC 7644, 8.1). */
const SCIM_JSON = 'application/scim+json'

/** Returns SCIM's base URL: under the site's URL, whatever Host a client has sent. */
export const getScimBase = ({ instance: { siteUrl } }: Gateway): string =>
  `${siteUrl.replace(/\/$/, '')}/api/v1/scim/v2`

// No honest client names more schemas, or sends a longer filter or list of attributes.
const MAX_SCHEMAS = 100
const LONGEST_LIST = 10_000

/** The field of every SCIM body. The schemas that it names define the other fields. */
export const ScimBody = Type.Object({ schemas: list(Name, { maxItems: MAX_SCHEMAS }) })

const Names = Type.Optional(
  Type.String({ maxLength: LONGEST_LIST, description: 'Names of attributes, separated by commas' }),
)

/** The query parameters that select attributes of an answer (RFC 7644, 3.9). */
export const ScimProjection = Type.Object({ attributes: Names, excludedAttributes: Names })

/**
 * The query parameters of a list (RFC 7644, 3.4.2), for the description only: core reads them, with
 * SCIM’s own refusals.
 */
export const ScimQuery = Type.Object({
  filter: Type.Optional(
    Type.String({ maxLength: LONGEST_LIST, description: 'As in RFC 7644, 3.4.2.2' }),
  ),
  startIndex: Type.Optional(Type.Integer({ description: 'From 1' })),
  count: Type.Optional(Type.Integer({ description: '100, at most 200' })),
  sortBy: Type.Optional(Name),
  sortOrder: Type.Optional(Type.Union([Type.Literal('ascending'), Type.Literal('descending')])),
  ...ScimProjection.properties,
})

/** Creates a response in SCIM's media type. */
export const createScimResponse = (
  body: Json,
  status = 200,
  headers: Record<string, string> = {},
): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': SCIM_JSON, ...headers } })

/** Creates the response with a resource of this version; 304 if the client has it already. */
export function createResourceResponse(
  request: Request,
  body: Json,
  versioned: { version: number },
  { status = 200, headers = {} }: { status?: number; headers?: Record<string, string> } = {},
): Response {
  const etag = renderTag(versioned)
  const knownTags = request.method === 'GET' ? request.headers.get('if-none-match') : null
  if (knownTags !== null && matchesTag(knownTags, versioned))
    return new Response(null, { status: 304, headers: { etag } })
  return createScimResponse(body, status, { etag, ...headers })
}

/** The form of SCIM's refusals (RFC 7644, 3.12): the status is a string. */
const scimRefusal: Refusal = {
  name: 'ScimError',
  contentType: SCIM_JSON,
  schema: {
    type: 'object',
    required: ['schemas', 'status'],
    properties: {
      schemas: { type: 'array', items: { type: 'string' } },
      status: { type: 'string' },
      scimType: { type: 'string' },
      detail: { type: 'string' },
    },
  },
  renderError: ({ status, message, metadata: { scimType } }) => ({
    schemas: ['urn:ietf:params:scim:api:messages:2.0:Error'],
    status: String(status),
    ...(typeof scimType === 'string'
      ? { scimType }
      : status === 400
        ? { scimType: 'invalidSyntax' }
        : {}),
    detail: message,
  }),
}

/** Returns the hooks of a SCIM route. */
export const describeScimOperation = (details: Omit<Operation, 'tag' | 'produces' | 'refusal'>) =>
  describeOperation({
    tag: 'SCIM provisioning',
    produces: [SCIM_JSON],
    refusal: scimRefusal,
    ...details,
  })
