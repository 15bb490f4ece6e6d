import type { ModelConfig } from '../../config.ts'
import { listNearest } from '../../kernel/nearest.ts'
import type { BuiltInModels } from './built-in.ts'

/** The models that a name without an author may mean, by that name. */
export interface PlainNames {
  /** By what stands after the slash of their slugs and aliases. */
  slugs: Map<string, Set<string>>
  /** By what their providers call them. */
  upstream: Map<string, Set<string>>
}

/** Indexes the models by the names that their authors and providers use: `gpt-4o-mini`. */
export function indexPlainNames(
  configured: Map<string, ModelConfig>,
  { rows, aliases }: BuiltInModels,
): PlainNames {
  const names: PlainNames = { slugs: new Map(), upstream: new Map() }
  for (const [id, { endpoints }] of [...rows, ...configured]) {
    addName(names.slugs, removeAuthor(id), id)
    for (const { model } of endpoints) addName(names.upstream, model, id)
  }
  for (const [alias, id] of aliases) addName(names.slugs, removeAuthor(alias), id)
  return names
}

function addName(names: Map<string, Set<string>>, name: string, id: string): void {
  const ids = names.get(name) ?? new Set()
  names.set(name, ids.add(id))
}

const removeAuthor = (slug: string) => slug.slice(slug.indexOf('/') + 1)

/** Lists the models that a plain name may mean. A model's own name hides names of providers. */
export const listMeant = ({ slugs, upstream }: PlainNames, name: string): string[] => [
  ...(slugs.get(name) ?? upstream.get(name) ?? []),
]

/**
 * Lists the slugs that an unknown one may be a misspelling of: at most three, the nearest first.
 * The right name by a wrong author counts as near.
 */
export function listNearestModels({ slugs }: PlainNames, slug: string): string[] {
  const meant = slugs.get(removeAuthor(slug).toLowerCase())
  if (meant) return [...meant].slice(0, 3)
  const names = listNearest(removeAuthor(slug), slugs.keys())
  const found = [...new Set(names.flatMap(name => [...(slugs.get(name) ?? [])]))]
  const author = slug.includes('/') ? slug.slice(0, slug.indexOf('/') + 1).toLowerCase() : ''
  const [same, others] = [true, false].map(is => found.filter(id => id.startsWith(author) === is))
  return [...(same ?? []), ...(others ?? [])].slice(0, 3)
}
