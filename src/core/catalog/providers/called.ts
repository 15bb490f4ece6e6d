import type { Provider } from '../providers.ts'
import { ALIASES } from './aliases.data.ts'

const aliases = new Map<string, string[]>(Object.entries(ALIASES))
const publicSlugs = new Map(
  Object.entries(ALIASES).flatMap(([said, slugs]) => slugs.map(slug => [slug, said])),
)

/** Returns the public service's slug of one of our providers. */
export const publicSlugOf = (slug: string): string => publicSlugs.get(slug) ?? slug

/** Returns whether a caller's name for a provider means this one. */
type Meaning = (provider: Provider, said: string) => boolean

/**
 * From the narrowest to the widest. The first matcher that fits any provider decides, so that no
 * name hides another.
 */
const MEANINGS: Meaning[] = [
  ({ slug }, said) => slug === said || slug.startsWith(`${said}/`),
  ({ name }, said) => name === said,
  ({ slug }, said) => aliases.get(said.toLowerCase())?.includes(slug) ?? false,
  ({ slug }, said) => slug.toLowerCase() === said.toLowerCase(),
  ({ name }, said) => name.toLowerCase() === said.toLowerCase(),
]

/**
 * Finds the slugs of the providers that a caller names: by our slug, by the public service's, or by
 * the displayed name, in the catalogue's order. A base slug includes its variants (wire reference
 * C.3). Returns none for an unknown name.
 */
export function slugsOfCalled(providers: Iterable<Provider>, said: string): string[] {
  const all = [...providers]
  const meaning = MEANINGS.find(means => all.some(provider => means(provider, said)))
  return meaning ? all.filter(provider => meaning(provider, said)).map(({ slug }) => slug) : []
}

/** Lists every name of a provider, in lower case. */
export const namesOf = ({ slug, name }: Provider): string[] =>
  [slug, name, ...publicSlugsOf(slug)].map(one => one.toLowerCase())

const publicSlugsOf = (slug: string) =>
  [...aliases].flatMap(([said, slugs]) => (slugs.includes(slug) ? [said] : []))
