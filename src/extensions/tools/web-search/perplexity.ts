import { isObject, omitUndefined, readObjects, readString } from '../../../base/json.ts'
import { buildBearer, listHosts, omitEmpty, type SearchEngine } from './engine.ts'

/** The most domains of its filter. Results are checked anyway. */
const MOST_DOMAINS = 20
/** English texts have about four characters a token. */
const CHARACTERS_PER_TOKEN = 4

/** Perplexity: `POST /search` (Perplexity, "Search API"). */
export const perplexity: SearchEngine = {
  name: 'perplexity',
  baseUrl: 'https://api.perplexity.ai',
  needsKey: true,
  maxResults: 20,
  modes: [],
  buildRequest: (search, settings) => ({
    path: '/search',
    headers: buildBearer(settings),
    body: omitUndefined({
      query: search.query,
      max_results: search.maxResults,
      max_tokens_per_page: Math.max(1, Math.ceil(search.maxCharacters / CHARACTERS_PER_TOKEN)),
      search_domain_filter: omitEmpty(
        [
          ...listHosts(search.allowedDomains),
          ...listHosts(search.excludedDomains).map(host => `-${host}`),
        ].slice(0, MOST_DOMAINS),
      ),
      country: search.location?.country ?? undefined,
    }),
  }),
  readPages: answer =>
    isObject(answer) && Array.isArray(answer.results)
      ? readObjects(answer.results).map(({ url, title, snippet }) => ({
          url: readString(url) ?? '',
          title: readString(title),
          text: readString(snippet) ?? '',
        }))
      : null,
  buildProbe: settings => ({ path: '/search', headers: buildBearer(settings), body: {} }),
}
