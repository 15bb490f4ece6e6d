import { GenerationQuery, getGeneration } from '../../core/telemetry/generations.ts'
import { defineResource, defineRoute } from '../resource.ts'

/** Creates the route of the record of a finished call. */
export const createGenerationRoutes = defineResource({ tag: 'Generations', access: 'key' }, [
  defineRoute(
    'GET /generation',
    'getGeneration',
    'Get the usage, cost and attempts of a finished call',
    (gateway, actor, { id }) => getGeneration(gateway, actor, id),
    { query: GenerationQuery, refusals: [404] },
  ),
])
