import type { Endpoint, Model } from '../models.ts'
import { isFree } from '../prices.ts'

/** The suffix of a slug that asks for a free variant. */
export const FREE_VARIANT = ':free'

/** Returns whether a call of the endpoint costs nothing. */
export const isFreeEndpoint = ({ prices }: Endpoint): boolean => prices !== null && isFree(prices)

/**
 * Builds the free variant of a model from its endpoints that cost nothing (wire reference K.4).
 * Returns undefined where all of them cost something.
 */
export function buildFreeVariant(model: Model): Model | undefined {
  const id = model.id + FREE_VARIANT
  const free = changeEndpoints(model, endpoint =>
    isFreeEndpoint(endpoint) ? { ...endpoint, id: `${endpoint.id} free`, model: id } : undefined,
  )
  return free.endpoints.length > 0 ? { ...free, id, name: `${model.name} (free)` } : undefined
}

/** Returns the model with other endpoints in every dialect. `change` leaves out with undefined. */
export function changeEndpoints(
  { spoken, ...model }: Model,
  change: (endpoint: Endpoint) => Endpoint | undefined,
): Model {
  const pick = (list: Endpoint[]): Endpoint[] => list.flatMap(endpoint => change(endpoint) ?? [])
  const inDialects = Object.entries(spoken ?? {}).map(([dialect, list]) => [dialect, pick(list)])
  return {
    ...model,
    endpoints: pick(model.endpoints),
    ...(spoken ? { spoken: Object.fromEntries(inDialects) } : {}),
  }
}
