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

/** What an identity provider speaks with: SCIM 2.0 (RFC 7643 and 7644). */
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
        summary: 'What of SCIM is spoken here',
        ...discovery,
      }),
    )
    .get(
      '/ResourceTypes',
      ({ request }) => scimResponse(listResponse(resourceTypes(unfiltered(siteUrl, request)))),
      scimV2Operation({
        id: 'listScimResourceTypes',
        summary: 'The kinds of resources',
        ...discovery,
      }),
    )
    .get(
      '/ResourceTypes/:name',
      ({ request, params }) =>
        scimResponse(resourceTypeNamed(scimBase(siteUrl, request), params.name)),
      scimV2Operation({
        id: 'getScimResourceType',
        summary: 'One kind of resources',
        params: { name: 'User or Group' },
        ...discovered,
      }),
    )
    .get(
      '/Schemas',
      ({ request }) => scimResponse(listResponse(schemas(unfiltered(siteUrl, request)))),
      scimV2Operation({
        id: 'listScimSchemas',
        summary: 'What resources are made of',
        ...discovery,
      }),
    )
    .get(
      '/Schemas/:id',
      ({ request, params }) => scimResponse(schemaNamed(scimBase(siteUrl, request), params.id)),
      scimV2Operation({
        id: 'getScimSchema',
        summary: 'One schema',
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

// A filter on what does not differ could only be a mistake (RFC 7644, 4).
function unfiltered(siteUrl: string, request: Request): string {
  if (new URL(request.url).searchParams.has('filter'))
    throw denied('There is nothing to filter here')
  return scimBase(siteUrl, request)
}
