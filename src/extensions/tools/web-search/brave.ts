import { isObject, readObject, readObjects, readString } from '../../../base/json.ts'
import { addSiteOperators, buildKeyHeader, type SearchEngine } from './engine.ts'

const LONGEST_QUERY = 400

/** Brave: `GET /res/v1/web/search` (Brave Search API, "Web Search"). Domains become operators. */
export const brave: SearchEngine = {
  name: 'brave',
  baseUrl: 'https://api.search.brave.com',
  needsKey: true,
  maxResults: 20,
  modes: [],
  buildRequest(search, settings) {
    const query = new URLSearchParams({
      q: addSiteOperators(search, LONGEST_QUERY),
      count: String(search.maxResults),
      result_filter: 'web',
      extra_snippets: 'true',
      text_decorations: 'false',
      ...(search.location?.country ? { country: search.location.country } : {}),
    })
    return {
      path: `/res/v1/web/search?${query}`,
      headers: buildKeyHeader('x-subscription-token', settings),
    }
  },
  readPages(answer) {
    if (!isObject(answer) || answer.type !== 'search') return null
    return readObjects(readObject(answer, 'web').results).map(
      ({ url, title, description, extra_snippets }) => ({
        url: readString(url) ?? '',
        title: readString(title),
        text: [description, ...(Array.isArray(extra_snippets) ? extra_snippets : [])]
          .filter(snippet => typeof snippet === 'string')
          .join('\n'),
      }),
    )
  },
  buildProbe: settings => ({
    path: '/res/v1/web/search',
    headers: buildKeyHeader('x-subscription-token', settings),
  }),
}
