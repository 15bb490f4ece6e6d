import {
  DestinationChange,
  DestinationQuery,
  NewDestination,
} from '../../observability/destinations/schema.ts'
import {
  createDestination,
  deleteDestination,
  getDestination,
  listDestinations,
  updateDestination,
} from '../../observability/destinations.ts'
import { defineResource, defineRoute } from '../resource.ts'

const params = { id: 'The destination’s id' }

/** Creates the routes of destinations (specification E7, wire reference G.1). */
export const createDestinationRoutes = defineResource(
  { tag: 'Observability', access: 'management', params },
  [
    defineRoute(
      'GET /observability/destinations',
      'listObservabilityDestinations',
      'List destinations',
      listDestinations,
      { query: DestinationQuery },
    ),
    defineRoute(
      'POST /observability/destinations',
      'createObservabilityDestination',
      'Add a destination',
      createDestination,
      { body: NewDestination, status: 201, refusals: [409] },
    ),
    defineRoute(
      'GET /observability/destinations/:id',
      'getObservabilityDestination',
      'Get a destination',
      getDestination,
    ),
    defineRoute(
      'PATCH /observability/destinations/:id',
      'updateObservabilityDestination',
      'Change a destination',
      updateDestination,
      { body: DestinationChange },
    ),
    defineRoute(
      'DELETE /observability/destinations/:id',
      'deleteObservabilityDestination',
      'Delete a destination',
      deleteDestination,
    ),
  ],
)
