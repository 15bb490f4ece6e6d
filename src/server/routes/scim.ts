import { Type } from '@sinclair/typebox'
import type { Gateway } from '../../app/gateway.ts'
import {
  matchesTag,
  type Precondition,
  readPrecondition,
  renderTag,
} from '../../base/entity-tag.ts'
import { denied } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import { lowerUuid } from '../../base/schema.ts'
import { list, Name } from '../../base/schema-builders.ts'
import type { Actor } from '../../resources/actor.ts'
import type { ResourceType } from '../../resources/scim/attributes.ts'
import {
  createScimGroup,
  deleteScimGroup,
  getScimGroup,
  patchScimGroup,
  replaceScimGroup,
} from '../../resources/scim/groups.ts'
import {
  parseProjection,
  parseQuery,
  parseSearch,
  type ResourceQuery,
} from '../../resources/scim/query.ts'
import { applyProjection } from '../../resources/scim/resource.ts'
import { GROUP, USER } from '../../resources/scim/schemas.data.ts'
import { identifyScim } from '../../resources/scim/tokens.ts'
import {
  createScimUser,
  deleteScimUser,
  getScimUser,
  patchScimUser,
  replaceScimUser,
} from '../../resources/scim/users.ts'
import {
  buildListResponse,
  describeServiceProvider,
  getResourceType,
  getSchema,
  listResourceTypes,
  listSchemas,
  searchScim,
  searchScimGroups,
  searchScimUsers,
  showGroups,
  showUsers,
} from '../../resources/scim/view.ts'
import type { ScimGroup, ScimUser } from '../../resources/scim.ts'
import { requireScimToken } from '../access.ts'
import { readBody } from '../body.ts'
import { readSearchParams } from '../headers.ts'
import { describeOperation, type Operation, type Refusal } from '../operation.ts'
import { Routes } from '../routes.ts'

const discovery = { statuses: [200, 401, 403, 500] }
const discoveryById = { statuses: [200, 401, 403, 404, 500] }

/** Creates the routes for identity providers: SCIM 2.0 (RFC 7643 and 7644). */
export const createProvisioningRoutes = (gateway: Gateway) => [
  createResourceRoutes(gateway, USERS),
  createResourceRoutes(gateway, GROUPS),
  createDiscoveryRoutes(gateway),
]

// No honest client names more schemas, or sends a longer filter or list of attributes.
const MAX_SCHEMAS = 100
const LONGEST_LIST = 10_000

/** The field of every SCIM body. The schemas that it names define the other fields. */
const ScimBody = Type.Object({ schemas: list(Name, { maxItems: MAX_SCHEMAS }) })

const Names = Type.Optional(
  Type.String({ maxLength: LONGEST_LIST, description: 'Names of attributes, separated by commas' }),
)

/** The query parameters that select attributes of an answer (RFC 7644, 3.9). */
const ScimProjection = Type.Object({ attributes: Names, excludedAttributes: Names })

/**
 * The query parameters of a list (RFC 7644, 3.4.2), for the description only: core reads them, with
 * SCIM’s own refusals.
 */
const ScimQuery = Type.Object({
  filter: Type.Optional(
    Type.String({ maxLength: LONGEST_LIST, description: 'As in RFC 7644, 3.4.2.2' }),
  ),
  startIndex: Type.Optional(Type.Integer({ description: 'From 1' })),
  count: Type.Optional(Type.Integer({ description: '100, at most 200' })),
  sortBy: Type.Optional(Name),
  sortOrder: Type.Optional(Type.Union([Type.Literal('ascending'), Type.Literal('descending')])),
  ...ScimProjection.properties,
})

const createDiscoveryRoutes = (gateway: Gateway) =>
  new Routes(requireScimToken(gateway), '/scim/v2')
    .get(
      '/ServiceProviderConfig',
      ({ request }) =>
        createScimResponse(describeServiceProvider(getUnfilteredBase(gateway, request))),
      describeScimOperation({
        id: 'getScimServiceProviderConfig',
        summary: 'Get the supported features of SCIM',
        ...discovery,
      }),
    )
    .get(
      '/ResourceTypes',
      ({ request }) =>
        createScimResponse(
          buildListResponse(listResourceTypes(getUnfilteredBase(gateway, request))),
        ),
      describeScimOperation({
        id: 'listScimResourceTypes',
        summary: 'List the types of resources',
        ...discovery,
      }),
    )
    .get(
      '/ResourceTypes/:name',
      ({ params }) => createScimResponse(getResourceType(getScimBase(gateway), params.name)),
      describeScimOperation({
        id: 'getScimResourceType',
        summary: 'Get a type of resources',
        params: { name: 'User or Group' },
        ...discoveryById,
      }),
    )
    .get(
      '/Schemas',
      ({ request }) =>
        createScimResponse(buildListResponse(listSchemas(getUnfilteredBase(gateway, request)))),
      describeScimOperation({
        id: 'listScimSchemas',
        summary: 'List the schemas of resources',
        ...discovery,
      }),
    )
    .get(
      '/Schemas/:id',
      ({ params }) => createScimResponse(getSchema(getScimBase(gateway), params.id)),
      describeScimOperation({
        id: 'getScimSchema',
        summary: 'Get a schema',
        params: { id: 'Its URN' },
        ...discoveryById,
      }),
    )
    .post(
      '/.search',
      async ({ request }) => {
        const query = parseSearch(await readScimBody(gateway, request))
        return createScimResponse(await searchScim(gateway, getScimBase(gateway), query))
      },
      describeScimOperation({
        id: 'searchScim',
        summary: 'Find users and groups',
        body: ScimBody,
        statuses: [200, 400, 401, 403, 413, 500],
      }),
    )

// Discovery answers all clients alike, so a filter is refused (RFC 7644, 4).
function getUnfilteredBase(gateway: Gateway, request: Request): string {
  if (readSearchParams(request).has('filter')) throw denied('Filters are not supported here')
  return getScimBase(gateway)
}

/** The operations on one type of resources. */
interface ScimKind<One extends { id: string; version: number }> {
  type: ResourceType
  create(gateway: Gateway, actor: Actor, body: unknown): Promise<One>
  get(gateway: Gateway, id: string): Promise<One>
  replace(
    gateway: Gateway,
    actor: Actor,
    id: string,
    body: unknown,
    precondition: Precondition,
  ): Promise<One>
  patch(
    gateway: Gateway,
    actor: Actor,
    id: string,
    body: unknown,
    precondition: Precondition,
  ): Promise<One>
  remove(gateway: Gateway, actor: Actor, id: string, precondition: Precondition): Promise<void>
  search(gateway: Gateway, base: string, query: ResourceQuery): Promise<Json>
  show(gateway: Gateway, base: string, resources: One[]): Promise<Json[]>
}

const USERS: ScimKind<ScimUser> = {
  type: USER,
  create: createScimUser,
  get: getScimUser,
  replace: replaceScimUser,
  patch: patchScimUser,
  remove: deleteScimUser,
  search: searchScimUsers,
  show: showUsers,
}

const GROUPS: ScimKind<ScimGroup> = {
  type: GROUP,
  create: createScimGroup,
  get: getScimGroup,
  replace: replaceScimGroup,
  patch: patchScimGroup,
  remove: deleteScimGroup,
  search: searchScimGroups,
  show: showGroups,
}

const id = { id: 'The resource’s id' }
const changeOptions = {
  params: id,
  query: ScimProjection,
  body: ScimBody,
  statuses: [200, 400, 401, 403, 404, 409, 412, 413, 500],
}

function createResourceRoutes<One extends { id: string; version: number }>(
  gateway: Gateway,
  kind: ScimKind<One>,
) {
  const { type } = kind
  const respond = async (request: Request, resource: One, status = 200) => {
    const base = getScimBase(gateway)
    const [rendered = {}] = await kind.show(gateway, base, [resource])
    const headers: Record<string, string> =
      status === 201 ? { location: `${base}${type.endpoint}/${resource.id}` } : {}
    const body = applyProjection(type, rendered, parseProjection(readParameters(request)))
    return createResourceResponse(request, body, resource, { status, headers })
  }
  const change = async (
    request: Request,
    apply: ScimKind<One>['replace'],
    actor: Actor,
    id: string,
  ) => {
    const body = await readScimBody(gateway, request)
    return respond(request, await apply(gateway, actor, id, body, readPrecondition(request)))
  }
  return new Routes(requireScimToken(gateway), `/scim/v2${type.endpoint}`)
    .get(
      '/',
      async ({ request }) =>
        createScimResponse(
          await kind.search(gateway, getScimBase(gateway), parseQuery(readParameters(request))),
        ),
      describeScimOperation({
        id: `listScim${type.name}Resources`,
        summary: `Find ${type.name}s`,
        query: ScimQuery,
        statuses: [200, 400, 401, 403, 500],
      }),
    )
    .post(
      '/.search',
      async ({ request }) =>
        createScimResponse(
          await kind.search(
            gateway,
            getScimBase(gateway),
            parseSearch(await readScimBody(gateway, request)),
          ),
        ),
      describeScimOperation({
        id: `searchScim${type.name}Resources`,
        summary: `Find ${type.name}s`,
        body: ScimBody,
        statuses: [200, 400, 401, 403, 413, 500],
      }),
    )
    .post(
      '/',
      async ({ actor, request }) =>
        respond(
          request,
          await kind.create(gateway, actor, await readScimBody(gateway, request)),
          201,
        ),
      describeScimOperation({
        id: `createScim${type.name}Resource`,
        summary: `Create a ${type.name}`,
        query: ScimProjection,
        body: ScimBody,
        statuses: [201, 400, 401, 403, 409, 413, 500],
      }),
    )
    .get(
      '/:id',
      async ({ params, request }) =>
        respond(request, await kind.get(gateway, lowerUuid(params.id))),
      describeScimOperation({
        id: `getScim${type.name}Resource`,
        summary: `Get a ${type.name}`,
        params: id,
        query: ScimProjection,
        statuses: [200, 304, 400, 401, 403, 404, 500],
      }),
    )
    .put(
      '/:id',
      ({ actor, params, request }) => change(request, kind.replace, actor, lowerUuid(params.id)),
      describeScimOperation({
        id: `replaceScim${type.name}Resource`,
        summary: `Replace a ${type.name}`,
        ...changeOptions,
      }),
    )
    .patch(
      '/:id',
      ({ actor, params, request }) => change(request, kind.patch, actor, lowerUuid(params.id)),
      describeScimOperation({
        id: `patchScim${type.name}Resource`,
        summary: `Change a ${type.name}`,
        ...changeOptions,
      }),
    )
    .delete(
      '/:id',
      async ({ actor, params, request }) => {
        await kind.remove(gateway, actor, lowerUuid(params.id), readPrecondition(request))
        return new Response(null, { status: 204 })
      },
      describeScimOperation({
        id: `deleteScim${type.name}Resource`,
        summary: `Delete a ${type.name}`,
        params: id,
        statuses: [204, 401, 403, 404, 412, 500],
      }),
    )
}

/** Reads a body, whose token has to be valid still once all of it is there. */
async function readScimBody(gateway: Gateway, request: Request): Promise<unknown> {
  const body = await readBody(request, ScimBody)
  await identifyScim(gateway, request.headers.get('authorization'))
  return body
}

const readParameters = (request: Request): Json => Object.fromEntries(readSearchParams(request))

/** The media type of SCIM messages (RFC 7644, 8.1). */
const SCIM_JSON = 'application/scim+json'

/** Returns SCIM's base URL: under the site's URL, whatever Host a client has sent. */
const getScimBase = ({ instance: { siteUrl } }: Gateway): string =>
  `${siteUrl.replace(/\/$/, '')}/api/v1/scim/v2`

/** Creates a response in SCIM's media type. */
const createScimResponse = (
  body: Json,
  status = 200,
  headers: Record<string, string> = {},
): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': SCIM_JSON, ...headers } })

/** Creates the response with a resource of this version; 304 if the client has it already. */
function createResourceResponse(
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
const describeScimOperation = (details: Omit<Operation, 'tag' | 'produces' | 'refusal'>) =>
  describeOperation({
    tag: 'SCIM provisioning',
    produces: [SCIM_JSON],
    refusal: scimRefusal,
    ...details,
  })
