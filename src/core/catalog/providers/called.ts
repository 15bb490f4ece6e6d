import type { Provider } from '../providers.ts'
import { ALIASES } from './aliases.data.ts'

const aliases = new Map<string, string[]>(Object.entries(ALIASES))
const publicSlugs = new Map(
  Object.entries(ALIASES).flatMap(([said, slugs]) => slugs.map(slug => [slug, said])),
)

/** What the public service calls a provider of ours. */
export const publicSlugOf = (slug: string): string => publicSlugs.get(slug) ?? slug

/** Whether this provider is meant by what a caller said. */
type Meaning = (provider: Provider, said: string) => boolean

/** From the narrowest: the first by which anybody is meant holds, so that no name takes another's place. */
const MEANINGS: Meaning[] = [
  ({ slug }, said) => slug === said || slug.startsWith(`${said}/`),
  ({ name }, said) => name === said,
  ({ slug }, said) => aliases.get(said.toLowerCase())?.includes(slug) ?? false,
  ({ slug }, said) => slug.toLowerCase() === said.toLowerCase(),
  ({ name }, said) => name.toLowerCase() === said.toLowerCase(),
]

/**
 * The slugs of the providers that a caller means: by our slug, by the public service's, or by the name that is shown; in the catalogue's order.
 * A base slug means its variants too (wire reference C.3). What nobody is called means nobody.
 */
export function slugsOfCalled(providers: Iterable<Provider>, said: string): string[] {
  const all = [...providers]
  const meaning = MEANINGS.find(means => all.some(provider => means(provider, said)))
  return meaning ? all.filter(provider => meaning(provider, said)).map(({ slug }) => slug) : []
}

/** Every name by which a provider may be meant, in lower case. */
export const namesOf = ({ slug, name }: Provider): string[] =>
  [slug, name, ...publicSlugsOf(slug)].map(one => one.toLowerCase())

const publicSlugsOf = (slug: string) =>
  [...aliases].flatMap(([said, slugs]) => (slugs.includes(slug) ? [said] : []))
