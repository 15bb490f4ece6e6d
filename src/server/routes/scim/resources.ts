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
import { projectionOf, type Query, queryOf, searchOf } from '../../../core/identity/scim/query.ts'
import { projected } from '../../../core/identity/scim/resource.ts'
import { GROUP, USER } from '../../../core/identity/scim/schemas.data.ts'
import {
  searchScimGroups,
  searchScimUsers,
  shownGroups,
  shownUsers,
} from '../../../core/identity/scim/shown.ts'
import type { ScimUser } from '../../../core/identity/scim/users/store.ts'
import {
  createScimUser,
  deleteScimUser,
  getScimUser,
  patchScimUser,
  replaceScimUser,
} from '../../../core/identity/scim/users.ts'
import type { Precondition } from '../../../core/identity/scim/version.ts'
import type { Json } from '../../../core/kernel/json.ts'
import { scimToken } from '../../access.ts'
import { readBody } from '../../body.ts'
import {
  preconditionOf,
  resourceResponse,
  ScimBody,
  ScimProjection,
  ScimQuery,
  scimBase,
  scimResponse,
  scimV2Operation,
} from '../../scim.ts'

/** The operations on one type of resources. */
interface Kind<One extends { id: string; version: number }> {
  type: ResourceType
  create(gateway: Gateway, actor: Actor, body: unknown): Promise<One>
  get(gateway: Gateway, id: string): Promise<One>
  replace(
    gateway: Gateway,
    actor: Actor,
    id: string,
    body: unknown,
    when: Precondition,
  ): Promise<One>
  patch(gateway: Gateway, actor: Actor, id: string, body: unknown, when: Precondition): Promise<One>
  remove(gateway: Gateway, actor: Actor, id: string, when: Precondition): Promise<void>
  search(gateway: Gateway, base: string, query: Query): Promise<Json>
  show(gateway: Gateway, base: string, some: One[]): Promise<Json[]>
}

const USERS: Kind<ScimUser> = {
  type: USER,
  create: createScimUser,
  get: getScimUser,
  replace: replaceScimUser,
  patch: patchScimUser,
  remove: deleteScimUser,
  search: searchScimUsers,
  show: shownUsers,
}

const GROUPS: Kind<ScimGroup> = {
  type: GROUP,
  create: createScimGroup,
  get: getScimGroup,
  replace: replaceScimGroup,
  patch: patchScimGroup,
  remove: deleteScimGroup,
  search: searchScimGroups,
  show: shownGroups,
}

/** Creates the routes of users: members as the identity provider knows them. */
export const users = (gateway: Gateway, siteUrl: string) => resources(gateway, siteUrl, USERS)

/** Creates the routes of the identity provider’s groups. */
export const groups = (gateway: Gateway, siteUrl: string) => resources(gateway, siteUrl, GROUPS)

const id = { id: 'The resource’s id' }
const changing = {
  params: id,
  query: ScimProjection,
  body: ScimBody,
  statuses: [200, 400, 401, 403, 404, 409, 412, 413, 500],
}

function resources<One extends { id: string; version: number }>(
  gateway: Gateway,
  siteUrl: string,
  kind: Kind<One>,
) {
  const { type } = kind
  const one = async (request: Request, found: One, status = 200) => {
    const base = scimBase(siteUrl, request)
    const [shown = {}] = await kind.show(gateway, base, [found])
    const headers: Record<string, string> =
      status === 201 ? { location: `${base}${type.endpoint}/${found.id}` } : {}
    const body = projected(type, shown, projectionOf(parametersOf(request)))
    return resourceResponse(request, body, found, { status, headers })
  }
  const change = async (request: Request, by: Kind<One>['replace'], actor: Actor, id: string) => {
    const body = await readBody(request, ScimBody)
    return one(request, await by(gateway, actor, id, body, preconditionOf(request)))
  }
  return new Elysia({ prefix: type.endpoint })
    .use(scimToken(gateway))
    .get(
      '/',
      async ({ request }) =>
        scimResponse(
          await kind.search(gateway, scimBase(siteUrl, request), queryOf(parametersOf(request))),
        ),
      scimV2Operation({
        id: `listScim${type.name}Resources`,
        summary: `Find ${type.name}s`,
        query: ScimQuery,
        statuses: [200, 400, 401, 403, 500],
      }),
    )
    .post(
      '/.search',
      async ({ request }) =>
        scimResponse(
          await kind.search(
            gateway,
            scimBase(siteUrl, request),
            searchOf(await readBody(request, ScimBody)),
          ),
        ),
      scimV2Operation({
        id: `searchScim${type.name}Resources`,
        summary: `Find ${type.name}s`,
        body: ScimBody,
        statuses: [200, 400, 401, 403, 413, 500],
      }),
    )
    .post(
      '/',
      async ({ actor, request }) =>
        one(request, await kind.create(gateway, actor, await readBody(request, ScimBody)), 201),
      scimV2Operation({
        id: `createScim${type.name}Resource`,
        summary: `Create a ${type.name}`,
        query: ScimProjection,
        body: ScimBody,
        statuses: [201, 400, 401, 403, 409, 413, 500],
      }),
    )
    .get(
      '/:id',
      async ({ params, request }) => one(request, await kind.get(gateway, params.id)),
      scimV2Operation({
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
      scimV2Operation({
        id: `replaceScim${type.name}Resource`,
        summary: `Replace a ${type.name}`,
        ...changing,
      }),
    )
    .patch(
      '/:id',
      ({ actor, params, request }) => change(request, kind.patch, actor, params.id),
      scimV2Operation({
        id: `patchScim${type.name}Resource`,
        summary: `Change a ${type.name}`,
        ...changing,
      }),
    )
    .delete(
      '/:id',
      async ({ actor, params, request }) => {
        await kind.remove(gateway, actor, params.id, preconditionOf(request))
        return new Response(null, { status: 204 })
      },
      scimV2Operation({
        id: `deleteScim${type.name}Resource`,
        summary: `Delete a ${type.name}`,
        params: id,
        statuses: [204, 401, 403, 404, 412, 500],
      }),
    )
}

const parametersOf = ({ url }: Request): Json => Object.fromEntries(new URL(url).searchParams)
