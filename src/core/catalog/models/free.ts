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
  const endpoints = model.endpoints
    .filter(isFreeEndpoint)
    .map(endpoint => ({ ...endpoint, id: `${endpoint.id} free`, model: id }))
  return endpoints.length > 0
    ? { ...model, id, name: `${model.name} (free)`, endpoints }
    : undefined
}
