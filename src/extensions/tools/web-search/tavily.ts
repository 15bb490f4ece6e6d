import { isObject, omitUndefined, readObjects, readString } from '../../../base/json.ts'
import { buildBearer, cutQuery, listHosts, omitEmpty, type SearchEngine } from './engine.ts'

const LONGEST_QUERY = 400

/** Tavily: `POST /search` (Tavily, "Search"). */
export const tavily: SearchEngine = {
  name: 'tavily',
  baseUrl: 'https://api.tavily.com',
  needsKey: true,
  maxResults: 20,
  modes: ['fast', 'basic', 'advanced'],
  buildRequest: (search, settings) => ({
    path: '/search',
    headers: buildBearer(settings),
    body: omitUndefined({
      query: cutQuery(search.query, LONGEST_QUERY),
      max_results: search.maxResults,
      search_depth: search.mode ?? undefined,
      include_domains: omitEmpty(listHosts(search.allowedDomains)),
      exclude_domains: omitEmpty(listHosts(search.excludedDomains)),
      country: nameCountry(search.location?.country ?? null),
    }),
  }),
  readPages: answer =>
    isObject(answer) && Array.isArray(answer.results)
      ? readObjects(answer.results).map(({ url, title, content }) => ({
          url: readString(url) ?? '',
          title: readString(title),
          text: readString(content) ?? '',
        }))
      : null,
  buildProbe: settings => ({ path: '/usage', headers: buildBearer(settings) }),
}

/** Tavily names countries in English words: `united states`. */
function nameCountry(code: string | null): string | undefined {
  if (code === null) return undefined
  const name = new Intl.DisplayNames(['en'], { type: 'region' }).of(code)
  return name === undefined || name === code ? undefined : name.toLowerCase()
}
