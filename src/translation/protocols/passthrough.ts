import { invalid } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'

/**
 * Returns the parameters that a call names for the endpoint's provider alone, of `options` by slug.
 * Throws 400 for one that is not among `passthrough`: what the endpoint is known to take.
 */
export function readPassthrough(
  options: Record<string, Json>,
  { provider: { slug } }: Endpoint,
  passthrough: readonly string[],
): Json {
  const own = Object.hasOwn(options, slug) ? (options[slug] ?? {}) : {}
  const unknown = Object.keys(own).find(name => !passthrough.includes(name))
  if (unknown === undefined) return own
  const field = `provider.options.${slug}.${unknown}`
  const known = passthrough.length > 0 ? `one of ${passthrough.join(', ')}` : 'none'
  throw invalid(`${field}: expected ${known} for this model’s provider`, field)
}
