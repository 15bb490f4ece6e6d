import { Type } from '@sinclair/typebox'
import { isNamed, type Precondition, tagOf } from '../core/identity/scim/version.ts'
import type { Json } from '../core/kernel/json.ts'
import { type Operation, operation, type Refusal } from './operation.ts'

/** The media type of everything that SCIM says (RFC 7644, 8.1). */
const SCIM_JSON = 'application/scim+json'

/** Where SCIM is: under the site's address, or under the one that was asked where the site has none. */
export const scimBase = (siteUrl: string, { url }: Request): string =>
  `${URL.canParse(siteUrl) ? siteUrl.replace(/\/$/, '') : new URL(url).origin}/api/v1/scim/v2`

/** What every body of SCIM has. The rest is for the schemas that it names. */
export const ScimBody = Type.Object({ schemas: Type.Array(Type.String()) })

const Names = Type.Optional(
  Type.String({ description: 'Names of attributes, with commas between' }),
)

/** What may be asked of an answer (RFC 7644, 3.9). */
export const ScimProjection = Type.Object({ attributes: Names, excludedAttributes: Names })

/** What may be asked of a list (RFC 7644, 3.4.2), for the description: it is read with SCIM’s own refusals. */
export const ScimQuery = Type.Object({
  filter: Type.Optional(Type.String({ description: 'As in RFC 7644, 3.4.2.2' })),
  startIndex: Type.Optional(Type.Integer({ description: 'From 1' })),
  count: Type.Optional(Type.Integer({ description: '100, at most 200' })),
  sortBy: Type.Optional(Type.String()),
  sortOrder: Type.Optional(Type.Union([Type.Literal('ascending'), Type.Literal('descending')])),
  ...ScimProjection.properties,
})

/** An answer in SCIM's media type. */
export const scimResponse = (
  body: Json,
  status = 200,
  headers: Record<string, string> = {},
): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': SCIM_JSON, ...headers } })

/** A resource of this version; nothing but that it has not changed, where the client has it already. */
export function resourceResponse(
  request: Request,
  body: Json,
  versioned: { version: number },
  status = 200,
  headers = {},
): Response {
  const etag = tagOf(versioned)
  const known = request.method === 'GET' ? request.headers.get('if-none-match') : null
  if (known !== null && isNamed(known, versioned))
    return new Response(null, { status: 304, headers: { etag } })
  return scimResponse(body, status, { etag, ...headers })
}

/** What a request asks of the version that it changes. */
export const preconditionOf = ({ headers }: Request): Precondition => ({
  ifMatch: headers.get('if-match'),
})

/** How SCIM refuses (RFC 7644, 3.12): the status is a text. */
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
  envelope: ({ status, message, metadata: { scimType } }) => ({
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

/** An operation of SCIM as a route carries it. */
export const scimV2Operation = (described: Omit<Operation, 'tag' | 'produces' | 'refusal'>) =>
  operation({ tag: 'SCIM provisioning', produces: [SCIM_JSON], refusal: scimRefusal, ...described })
