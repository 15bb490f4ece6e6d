import { Elysia } from 'elysia'
import { denied } from '../../../core/errors.ts'
import type { Gateway } from '../../../core/gateway.ts'
import {
  describeServiceProvider,
  getResourceType,
  getSchema,
  listResourceTypes,
  listSchemas,
} from '../../../core/identity/scim/discovery.ts'
import { parseSearch } from '../../../core/identity/scim/query.ts'
import { buildListResponse, searchScim } from '../../../core/identity/scim/view.ts'
import { requireScimToken } from '../../access.ts'
import { readBody } from '../../body.ts'
import { readSearchParams } from '../../request-target.ts'
import { createScimResponse, describeScimOperation, getScimBase, ScimBody } from '../../scim.ts'
import { createGroupRoutes, createUserRoutes } from './resources.ts'

const discovery = { statuses: [200, 401, 403, 500] }
const discoveryById = { statuses: [200, 401, 403, 404, 500] }

/** Creates the routes for identity providers: SCIM 2.0 (RFC 7643 and 7644). */
export const createProvisioningRoutes = (gateway: Gateway) =>
  new Elysia({ prefix: '/scim/v2' })
    .use(createUserRoutes(gateway))
    .use(createGroupRoutes(gateway))
    .use(requireScimToken(gateway))
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
        const query = parseSearch(await readBody(request, ScimBody))
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
