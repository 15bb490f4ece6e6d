import { isObject, omitUndefined, readObjects, readString } from '../../../base/json.ts'
import { buildKeyHeader, cutQuery, listHosts, omitEmpty, type SearchEngine } from './engine.ts'

const LONGEST_QUERY = 200

/** Parallel: `POST /v1/search` (Parallel, "Search API"). */
export const parallel: SearchEngine = {
  name: 'parallel',
  baseUrl: 'https://api.parallel.ai',
  needsKey: true,
  maxResults: 25,
  modes: ['turbo', 'basic', 'advanced'],
  buildRequest: (search, settings) => ({
    path: '/v1/search',
    headers: buildKeyHeader('x-api-key', settings),
    body: omitUndefined({
      objective: search.query,
      search_queries: [cutQuery(search.query, LONGEST_QUERY)],
      mode: search.mode ?? undefined,
      advanced_settings: omitUndefined({
        max_results: search.maxResults,
        excerpt_settings: { max_chars_per_result: search.maxCharacters },
        location: search.location?.country?.toLowerCase(),
        source_policy:
          search.allowedDomains.length + search.excludedDomains.length === 0
            ? undefined
            : omitUndefined({
                include_domains: omitEmpty(listHosts(search.allowedDomains)),
                exclude_domains: omitEmpty(listHosts(search.excludedDomains)),
              }),
      }),
    }),
  }),
  readPages: answer =>
    isObject(answer) && Array.isArray(answer.results)
      ? readObjects(answer.results).map(({ url, title, excerpts }) => ({
          url: readString(url) ?? '',
          title: readString(title),
          text: Array.isArray(excerpts)
            ? excerpts.filter(excerpt => typeof excerpt === 'string').join('\n')
            : '',
        }))
      : null,
  buildProbe: settings => ({
    path: '/v1/search',
    headers: buildKeyHeader('x-api-key', settings),
    body: {},
  }),
}
