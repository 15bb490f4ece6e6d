import { isObject, omitUndefined, readObjects, readString } from '../../../base/json.ts'
import { buildKeyHeader, omitEmpty, type SearchEngine } from './engine.ts'

/** Exa: `POST /search` (Exa, "Search API reference"). */
export const exa: SearchEngine = {
  name: 'exa',
  baseUrl: 'https://api.exa.ai',
  needsKey: true,
  maxResults: 25,
  modes: ['instant', 'fast', 'auto', 'deep-lite', 'deep', 'deep-reasoning'],
  buildRequest: (search, settings) => ({
    path: '/search',
    headers: buildKeyHeader('x-api-key', settings),
    body: omitUndefined({
      query: search.query,
      numResults: search.maxResults,
      type: search.mode ?? undefined,
      includeDomains: omitEmpty(search.allowedDomains),
      excludeDomains: omitEmpty(search.excludedDomains),
      userLocation: search.location?.country ?? undefined,
      contents: { text: { maxCharacters: search.maxCharacters } },
    }),
  }),
  readPages: answer =>
    isObject(answer) && Array.isArray(answer.results)
      ? readObjects(answer.results).map(({ url, title, text, summary }) => ({
          url: readString(url) ?? '',
          title: readString(title),
          text: readString(text) ?? readString(summary) ?? '',
        }))
      : null,
  buildProbe: settings => ({
    path: '/search',
    headers: buildKeyHeader('x-api-key', settings),
    body: {},
  }),
}
