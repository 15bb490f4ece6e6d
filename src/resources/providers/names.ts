import { SERVICE_NAMES } from '../../config/tools.ts'
import type { Provider } from './provider.ts'

/** The public service's slugs of providers that have another slug here. */
export const ALIASES: Record<string, string[]> = {
  'amazon-bedrock': ['bedrock'],
  'arcee-ai': ['arcee'],
  'google-ai-studio': ['google'],
  'google-vertex': ['vertex', 'vertex-anthropic'],
  voyageai: ['voyage'],
  'z-ai': ['zai'],
}

const aliases = new Map<string, string[]>(Object.entries(ALIASES))
const publicSlugs = new Map(
  Object.entries(ALIASES).flatMap(([publicSlug, slugs]) => slugs.map(slug => [slug, publicSlug])),
)

/** Returns the public service's slug of one of our providers. */
export const getPublicSlug = (slug: string): string => publicSlugs.get(slug) ?? slug

/** Returns whether a caller's name for a provider, also in lower case, means this one. */
type NameMatcher = (provider: Provider, query: string, lower: string) => boolean

/**
 * From the narrowest to the widest. The first matcher that fits any provider decides, so that no
 * name hides another.
 */
const NAME_MATCHERS: NameMatcher[] = [
  ({ slug }, query) => slug === query || slug.startsWith(`${query}/`),
  ({ name }, query) => name === query,
  ({ slug }, _, lower) => aliases.get(lower)?.includes(slug) ?? false,
  ({ slug }, _, lower) => slug.toLowerCase() === lower,
  ({ name }, _, lower) => name.toLowerCase() === lower,
]

/**
 * Finds the slugs of the providers that a caller names: by our slug, by the public service's, or by
 * the displayed name, in the catalogue's order. A base slug includes its variants (wire reference
 * C.3). A service that serves no models has its own name. Returns none for an unknown name.
 */
export function findProviderSlugs(providers: Iterable<Provider>, query: string): string[] {
  const all = [...providers]
  const lower = query.toLowerCase()
  const matches = NAME_MATCHERS.find(fits => all.some(provider => fits(provider, query, lower)))
  const slugs = all.filter(provider => matches?.(provider, query, lower)).map(({ slug }) => slug)
  const service = SERVICE_NAMES.find(name => name === lower)
  return service === undefined || slugs.includes(service) ? slugs : [...slugs, service]
}

/** Lists every name of a provider, in lower case. */
export const listProviderNames = ({ slug, name }: Provider): string[] =>
  [slug, name, ...listPublicSlugs(slug)].map(one => one.toLowerCase())

const listPublicSlugs = (slug: string) =>
  [...aliases].flatMap(([publicSlug, slugs]) => (slugs.includes(slug) ? [publicSlug] : []))
