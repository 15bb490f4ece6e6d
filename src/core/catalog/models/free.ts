import type { Endpoint, Model } from '../models.ts'
import { isFree } from '../prices.ts'

/** What a slug ends with that asks for what costs nothing. */
export const FREE_VARIANT = ':free'

/** Whether a call of it costs nothing. */
export const costsNothing = ({ prices }: Endpoint): boolean => prices !== null && isFree(prices)

/** A model of those endpoints of another that cost nothing (wire reference K.4). Undefined where all of them cost something. */
export function freeVariantOf(model: Model): Model | undefined {
  const id = model.id + FREE_VARIANT
  const endpoints = model.endpoints
    .filter(costsNothing)
    .map(endpoint => ({ ...endpoint, id: `${endpoint.id} free`, model: id }))
  return endpoints.length > 0
    ? { ...model, id, name: `${model.name} (free)`, endpoints }
    : undefined
}
