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
  const pick = (list: Endpoint[]): Endpoint[] =>
    list
      .filter(isFreeEndpoint)
      .map(endpoint => ({ ...endpoint, id: `${endpoint.id} free`, model: id }))
  const { spoken, ...rest } = model
  const endpoints = pick(model.endpoints)
  if (endpoints.length === 0) return undefined
  const inDialects = Object.entries(spoken ?? {}).map(([dialect, list]) => [dialect, pick(list)])
  return {
    ...rest,
    ...{ id, name: `${model.name} (free)`, endpoints },
    ...(spoken ? { spoken: Object.fromEntries(inDialects) } : {}),
  }
}
