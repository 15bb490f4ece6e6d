import { isObject, readObjects, readString } from '../../../base/json.ts'
import { addSiteOperators, buildBearer, type SearchEngine } from './engine.ts'

const LONGEST_QUERY = 2_000

/**
 * SearXNG, which operators host themselves: `GET /search?format=json` (SearXNG, "Search API"). Its
 * settings must allow the format json. Domains become operators.
 */
export const searxng: SearchEngine = {
  name: 'searxng',
  baseUrl: null,
  needsKey: false,
  maxResults: 25,
  modes: [],
  buildRequest: (search, settings) => ({
    path: `/search?${new URLSearchParams({ q: addSiteOperators(search, LONGEST_QUERY), format: 'json' })}`,
    headers: buildBearer(settings),
  }),
  readPages: answer =>
    isObject(answer) && Array.isArray(answer.results)
      ? readObjects(answer.results).map(({ url, title, content }) => ({
          url: readString(url) ?? '',
          title: readString(title),
          text: readString(content) ?? '',
        }))
      : null,
  buildProbe: settings => ({ path: '/config', headers: buildBearer(settings) }),
}
