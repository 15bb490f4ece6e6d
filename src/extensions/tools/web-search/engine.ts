import type { EngineConfig, EngineName } from '../../../config/tools.ts'

/** What to search for, as every engine is asked. */
export interface Search {
  query: string
  maxResults: number
  /** The most characters of one result. */
  maxCharacters: number
  /** Hosts, perhaps with a path: `example.com/docs`. At most one of the two lists has any. */
  allowedDomains: string[]
  excludedDomains: string[]
  location: SearchLocation | null
  /** How thoroughly to search, in the engine's own word. */
  mode: string | null
}

/** Where the user is, roughly. */
export interface SearchLocation {
  city: string | null
  region: string | null
  /** Two letters, in upper case (ISO 3166-1). */
  country: string | null
  timezone: string | null
}

/** One page that an engine found, as it says. */
export interface FoundPage {
  url: string
  title: string | null
  text: string
}

/** A request to an engine; `path` follows its address. A GET has no body. */
export interface EngineRequest {
  path: string
  headers: Record<string, string>
  /** Absent: a GET. */
  body?: Record<string, unknown>
}

/** A search engine: its name, its limits, and the form of its requests and answers. Pure. */
export interface SearchEngine {
  name: EngineName
  /** Its public address; null if it has none, and the config must name one. */
  baseUrl: string | null
  /** Whether it needs a key. */
  needsKey: boolean
  /** The most results of one search. */
  maxResults: number
  /** The modes that it has a word for. */
  modes: string[]
  /** Returns the request for a search. */
  buildRequest(search: Search, settings: EngineConfig): EngineRequest
  /** Reads the pages of a JSON answer, in its order. Returns null if it is no answer to a search. */
  readPages(answer: unknown): FoundPage[] | null
  /**
   * Returns a request that costs nothing and needs the key, for `gateway providers check`: either
   * one that succeeds, or a search that is not complete, which only a right key gets to hear.
   */
  buildProbe(settings: EngineConfig): EngineRequest
}

/** Settings that may have a key. */
type WithKey = Pick<EngineConfig, 'api_key'>

/** Builds the header of a key that is sent as a bearer token. */
export const buildBearer = ({ api_key }: WithKey): Record<string, string> =>
  api_key === undefined ? {} : { authorization: `Bearer ${api_key}` }

/** Builds a header that is named for the engine. */
export const buildKeyHeader = (name: string, { api_key }: WithKey): Record<string, string> =>
  api_key === undefined ? {} : { [name]: api_key }

/** Lists the hosts of domains, without their paths: for engines that know hosts only. */
export const listHosts = (domains: string[]): string[] => [
  ...new Set(domains.map(domain => domain.split('/', 1)[0] ?? domain)),
]

/** Returns the list unless it is empty: engines read an empty list in different ways. */
export const omitEmpty = (list: string[]): string[] | undefined =>
  list.length > 0 ? list : undefined

/**
 * Adds the domains to a query as operators, for engines that have no field for them. Operators that
 * make it longer than `longest` are left out, as results are checked anyway.
 */
export function addSiteOperators(
  { query, allowedDomains, excludedDomains }: Search,
  longest: number,
): string {
  const allowed = allowedDomains.map(domain => `site:${domain}`).join(' OR ')
  const excluded = excludedDomains.map(domain => `-site:${domain}`).join(' ')
  const operators = allowedDomains.length > 1 ? `(${allowed})` : allowed || excluded
  const full = `${query} ${operators}`.trim()
  return full.length <= longest ? full : cutQuery(query, longest)
}

/** Cuts a query to what an engine accepts. */
export const cutQuery = (query: string, longest: number): string =>
  query.length <= longest ? query : query.slice(0, longest).toWellFormed().trim()
