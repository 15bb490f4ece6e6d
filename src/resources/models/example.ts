import type { Catalog, Model } from './catalog.ts'

/** How many of a provider's newest models are compared. */
const NEWEST = 5

/**
 * Finds a model for a first call: the cheapest of a provider's newest priced models that answer
 * with text. Undefined where the catalogue knows none.
 */
export function findExampleModel({ models }: Catalog, provider: string): Model | undefined {
  const served = [...models.listServedBy(provider)]
  const known = served.filter(model => getPrice(model, provider) > 0n)
  const newest = known.toSorted((a, b) => (b.created ?? 0) - (a.created ?? 0)).slice(0, NEWEST)
  const findPrice = (model: Model) => Number(getPrice(model, provider))
  return newest.toSorted((a, b) => findPrice(a) - findPrice(b))[0]
}

function getPrice({ endpoints, output_modalities, router }: Model, provider: string): bigint {
  if (router || !output_modalities.includes('text')) return 0n
  return endpoints.find(one => one.provider.slug === provider)?.prices?.prompt ?? 0n
}
