import { type Static, Type } from '@sinclair/typebox'
import { isObject, type Json, omitUndefined, readObject } from '../../../base/json.ts'
import { closed, list, oneOf, optional } from '../../../base/schema-builders.ts'
import { ENGINE_NAMES } from '../../../config/tools.ts'
import { type DomainLists, readDomainLists } from '../domains.ts'
import { listNone, type NativeForm } from '../native-form.ts'
import { requireMatch } from '../parameters.ts'
import type { SearchLocation } from './engine.ts'
import { ENGINES } from './registry.ts'
import { readXSearch, XSearchOptions } from './x-search.ts'

const Count = (maximum: number) => Type.Integer({ minimum: 1, maximum })
const Domains = list(Type.String({ maxLength: 300 }))
const Place = optional(Type.String({ maxLength: 200 }))

/** Every mode that an engine has a word for. */
const MODES = [...new Set(ENGINES.flatMap(({ modes }) => modes))].sort()

/** The parameters of the tool (wire reference D.6). */
export const WebSearchParameters = Type.Object(
  {
    engine: Type.Optional(oneOf('auto', 'native', ...ENGINE_NAMES)),
    max_results: optional(Count(25)),
    max_characters: optional(Count(100_000)),
    max_total_results: optional(Count(50)),
    max_uses: optional(Count(1_000_000)),
    allowed_domains: optional(Domains),
    excluded_domains: optional(Domains),
    search_context_size: optional(oneOf('low', 'medium', 'high')),
    mode: optional(Type.Union(MODES.map(mode => Type.Literal(mode)))),
    x_search: optional(XSearchOptions),
    user_location: optional(
      Type.Object(
        {
          type: Type.Optional(Type.Literal('approximate')),
          city: Place,
          region: Place,
          country: optional(Type.String({ pattern: '^[A-Za-z]{2}$', title: 'two letters' })),
          timezone: Place,
        },
        closed,
      ),
    ),
  },
  closed,
)

type Parameters = Static<typeof WebSearchParameters>

/** What the parameters of the tool say; null where they say nothing. */
export interface WebSearchOptions {
  engine: NonNullable<Parameters['engine']>
  max_results: number | null
  max_characters: number | null
  max_total_results: number | null
  max_uses: number | null
  search_context_size: 'low' | 'medium' | 'high' | null
  mode: string | null
  domains: DomainLists
  /** What a search of X is limited to; null if X is not searched. */
  x_search: XSearchOptions | null
  user_location: SearchLocation | null
  /** The tool as an API has it for its own providers; absent for the gateway's own. */
  native?: NativeForm
}

/**
 * Reads the tool as the Responses or the Messages API has it; null for what engines have no word
 * for. They answer from an index, so that a client that wants no access to the web itself may have
 * them.
 */
export function readNativeSearch(entry: Json, at: number): WebSearchOptions | null {
  const filters = readObject(entry, 'filters')
  const location = readObject(entry, 'user_location')
  const places = ['city', 'region', 'country', 'timezone'].filter(
    name => typeof location[name] === 'string',
  )
  const parameters = omitUndefined({
    search_context_size: entry.search_context_size ?? undefined,
    max_uses: entry.max_uses ?? undefined,
    allowed_domains: listNone(entry.allowed_domains ?? filters.allowed_domains),
    excluded_domains: listNone(entry.blocked_domains ?? filters.blocked_domains),
    user_location: Object.fromEntries(places.map(name => [name, location[name]])),
  })
  if (Object.keys(filters).some(name => !FILTERS.includes(name))) return null
  try {
    return { ...readWebSearchOptions(parameters, ''), native: { value: entry, at } }
  } catch {
    return null
  }
}

const FILTERS = ['allowed_domains', 'blocked_domains']

/** Reads the parameters of the tool, which are at `path`. Throws 400 naming the field. */
export function readWebSearchOptions(parameters: Json, path: string): WebSearchOptions {
  const read = requireMatch(WebSearchParameters, parameters, path)
  return {
    engine: read.engine ?? 'auto',
    max_results: read.max_results ?? null,
    max_characters: read.max_characters ?? null,
    max_total_results: read.max_total_results ?? null,
    max_uses: read.max_uses ?? null,
    search_context_size: read.search_context_size ?? null,
    mode: read.mode ?? null,
    domains: readDomainLists(
      [read.allowed_domains, `${path}.allowed_domains`],
      [read.excluded_domains, `${path}.excluded_domains`],
    ),
    x_search: readXSearch(read.x_search, `${path}.x_search`),
    user_location: isObject(read.user_location) ? readLocation(read.user_location) : null,
  }
}

const readLocation = (location: NonNullable<Parameters['user_location']>): SearchLocation => ({
  city: location.city ?? null,
  region: location.region ?? null,
  country: location.country?.toUpperCase() ?? null,
  timezone: location.timezone ?? null,
})
