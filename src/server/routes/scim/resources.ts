import { Elysia } from 'elysia'
import type { Gateway } from '../../../core/gateway.ts'
import type { Actor } from '../../../core/identity/actor.ts'
import type { ResourceType } from '../../../core/identity/scim/attributes.ts'
import {
  createScimGroup,
  deleteScimGroup,
  getScimGroup,
  patchScimGroup,
  replaceScimGroup,
  type ScimGroup,
} from '../../../core/identity/scim/groups.ts'
import {
  parseProjection,
  parseQuery,
  parseSearch,
  type ResourceQuery,
} from '../../../core/identity/scim/query.ts'
import { applyProjection } from '../../../core/identity/scim/resource.ts'
import { GROUP, USER } from '../../../core/identity/scim/schemas.data.ts'
import type { ScimUser } from '../../../core/identity/scim/users/store.ts'
import {
  createScimUser,
  deleteScimUser,
  getScimUser,
  patchScimUser,
  replaceScimUser,
} from '../../../core/identity/scim/users.ts'
import type { Precondition } from '../../../core/identity/scim/version.ts'
import {
  searchScimGroups,
  searchScimUsers,
  showGroups,
  showUsers,
} from '../../../core/identity/scim/view.ts'
import type { Json } from '../../../core/kernel/json.ts'
import { requireScimToken } from '../../access.ts'
import { readBody } from '../../body.ts'
import { readSearchParams } from '../../request-target.ts'
import {
  createResourceResponse,
  createScimResponse,
  describeScimOperation,
  getScimBase,
  readPrecondition,
  ScimBody,
  ScimProjection,
  ScimQuery,
} from '../../scim.ts'

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

/** Creates the routes of users: members as the identity provider knows them. */
export const createUserRoutes = (gateway: Gateway) => createResourceRoutes(gateway, USERS)

/** Creates the routes of the identity provider’s groups. */
export const createGroupRoutes = (gateway: Gateway) => createResourceRoutes(gateway, GROUPS)

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
    const body = await readBody(request, ScimBody)
    return respond(request, await apply(gateway, actor, id, body, readPrecondition(request)))
  }
  return new Elysia({ prefix: type.endpoint })
    .use(requireScimToken(gateway))
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
            parseSearch(await readBody(request, ScimBody)),
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
        respond(request, await kind.create(gateway, actor, await readBody(request, ScimBody)), 201),
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
      async ({ params, request }) => respond(request, await kind.get(gateway, params.id)),
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
      ({ actor, params, request }) => change(request, kind.replace, actor, params.id),
      describeScimOperation({
        id: `replaceScim${type.name}Resource`,
        summary: `Replace a ${type.name}`,
        ...changeOptions,
      }),
    )
    .patch(
      '/:id',
      ({ actor, params, request }) => change(request, kind.patch, actor, params.id),
      describeScimOperation({
        id: `patchScim${type.name}Resource`,
        summary: `Change a ${type.name}`,
        ...changeOptions,
      }),
    )
    .delete(
      '/:id',
      async ({ actor, params, request }) => {
        await kind.remove(gateway, actor, params.id, readPrecondition(request))
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

const readParameters = (request: Request): Json => Object.fromEntries(readSearchParams(request))
