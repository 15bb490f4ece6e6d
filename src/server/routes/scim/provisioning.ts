import { Elysia } from 'elysia'
import { denied } from '../../../core/errors.ts'
import type { Gateway } from '../../../core/gateway.ts'
import {
  resourceTypeNamed,
  resourceTypes,
  schemaNamed,
  schemas,
  serviceProviderConfig,
} from '../../../core/identity/scim/discovery.ts'
import { searchOf } from '../../../core/identity/scim/query.ts'
import { listResponse, searchScim } from '../../../core/identity/scim/shown.ts'
import { scimToken } from '../../access.ts'
import { readBody } from '../../body.ts'
import { ScimBody, scimBase, scimResponse, scimV2Operation } from '../../scim.ts'
import { groups, users } from './resources.ts'

const discovery = { statuses: [200, 401, 403, 500] }
const discovered = { statuses: [200, 401, 403, 404, 500] }

/** Creates the routes for identity providers: SCIM 2.0 (RFC 7643 and 7644). */
export const provisioning = (gateway: Gateway, siteUrl: string) =>
  new Elysia({ prefix: '/scim/v2' })
    .use(users(gateway, siteUrl))
    .use(groups(gateway, siteUrl))
    .use(scimToken(gateway))
    .get(
      '/ServiceProviderConfig',
      ({ request }) => scimResponse(serviceProviderConfig(unfiltered(siteUrl, request))),
      scimV2Operation({
        id: 'getScimServiceProviderConfig',
        summary: 'Get the supported features of SCIM',
        ...discovery,
      }),
    )
    .get(
      '/ResourceTypes',
      ({ request }) => scimResponse(listResponse(resourceTypes(unfiltered(siteUrl, request)))),
      scimV2Operation({
        id: 'listScimResourceTypes',
        summary: 'List the types of resources',
        ...discovery,
      }),
    )
    .get(
      '/ResourceTypes/:name',
      ({ request, params }) =>
        scimResponse(resourceTypeNamed(scimBase(siteUrl, request), params.name)),
      scimV2Operation({
        id: 'getScimResourceType',
        summary: 'Get a type of resources',
        params: { name: 'User or Group' },
        ...discovered,
      }),
    )
    .get(
      '/Schemas',
      ({ request }) => scimResponse(listResponse(schemas(unfiltered(siteUrl, request)))),
      scimV2Operation({
        id: 'listScimSchemas',
        summary: 'List the schemas of resources',
        ...discovery,
      }),
    )
    .get(
      '/Schemas/:id',
      ({ request, params }) => scimResponse(schemaNamed(scimBase(siteUrl, request), params.id)),
      scimV2Operation({
        id: 'getScimSchema',
        summary: 'Get a schema',
        params: { id: 'Its URN' },
        ...discovered,
      }),
    )
    .post(
      '/.search',
      async ({ request }) => {
        const query = searchOf(await readBody(request, ScimBody))
        return scimResponse(await searchScim(gateway, scimBase(siteUrl, request), query))
      },
      scimV2Operation({
        id: 'searchScim',
        summary: 'Find users and groups',
        body: ScimBody,
        statuses: [200, 400, 401, 403, 413, 500],
      }),
    )

// Discovery answers all clients alike, so a filter is refused (RFC 7644, 4).
function unfiltered(siteUrl: string, request: Request): string {
  if (new URL(request.url).searchParams.has('filter'))
    throw denied('Filters are not supported here')
  return scimBase(siteUrl, request)
}
