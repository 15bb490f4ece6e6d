import { isObject, omitUndefined, readObject, readObjects, readString } from '../../../base/json.ts'
import {
  buildBearer,
  cutQuery,
  listHosts,
  omitEmpty,
  type SearchEngine,
  type SearchLocation,
} from './engine.ts'

const LONGEST_QUERY = 500

/**
 * Firecrawl: `POST /v2/search` (Firecrawl, "Search"). Pages are not scraped, as that costs extra:
 * the model gets their descriptions.
 */
export const firecrawl: SearchEngine = {
  name: 'firecrawl',
  baseUrl: 'https://api.firecrawl.dev',
  needsKey: true,
  maxResults: 25,
  modes: [],
  buildRequest: (search, settings) => ({
    path: '/v2/search',
    headers: buildBearer(settings),
    body: omitUndefined({
      query: cutQuery(search.query, LONGEST_QUERY),
      limit: search.maxResults,
      sources: [{ type: 'web' }],
      includeDomains: omitEmpty(listHosts(search.allowedDomains)),
      excludeDomains: omitEmpty(listHosts(search.excludedDomains)),
      country: search.location?.country ?? undefined,
      location: renderPlace(search.location),
    }),
  }),
  readPages(answer) {
    const { web } = isObject(answer) ? readObject(answer, 'data') : {}
    if (!isObject(answer) || answer.success !== true) return null
    return readObjects(web).map(({ url, title, description, markdown }) => ({
      url: readString(url) ?? '',
      title: readString(title),
      text: readString(markdown) ?? readString(description) ?? '',
    }))
  },
  buildProbe: settings => ({ path: '/v2/team/credit-usage', headers: buildBearer(settings) }),
}

const renderPlace = (location: SearchLocation | null): string | undefined =>
  location?.city
    ? [location.city, location.region, location.country].filter(Boolean).join(',')
    : undefined
