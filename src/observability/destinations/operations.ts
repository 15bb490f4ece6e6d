import { defineNoun, defineOperation } from '../../resources/operation.ts'
import {
  createDestination,
  deleteDestination,
  getDestination,
  listDestinations,
  updateDestination,
} from '../destinations.ts'
import { DestinationChange, DestinationQuery, NewDestination } from './schema.ts'

const params = { id: 'The destination’s id' }

/** What can be done with destinations (specification E7, wire reference G.1). */
export const destinations = defineNoun(
  { tag: 'Observability', access: 'management', params },
  {
    list: defineOperation(
      'GET /observability/destinations',
      'listObservabilityDestinations',
      'List destinations',
      listDestinations,
      { query: DestinationQuery },
    ),
    create: defineOperation(
      'POST /observability/destinations',
      'createObservabilityDestination',
      'Add a destination',
      createDestination,
      { body: NewDestination, status: 201, refusals: [409] },
    ),
    get: defineOperation(
      'GET /observability/destinations/:id',
      'getObservabilityDestination',
      'Get a destination',
      getDestination,
    ),
    update: defineOperation(
      'PATCH /observability/destinations/:id',
      'updateObservabilityDestination',
      'Change a destination',
      updateDestination,
      { body: DestinationChange },
    ),
    delete: defineOperation(
      'DELETE /observability/destinations/:id',
      'deleteObservabilityDestination',
      'Delete a destination',
      deleteDestination,
    ),
  },
)
