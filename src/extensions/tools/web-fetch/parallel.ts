import { isObject, readObjects, readString } from '../../../base/json.ts'
import { buildKeyHeader } from '../web-search/engine.ts'
import { type FetchEngine, readStatus } from './engine.ts'

/** Parallel: `POST /v1/extract` (Parallel, "Extract"), with the whole text of the page. */
export const parallel: FetchEngine = {
  name: 'parallel',
  baseUrl: 'https://api.parallel.ai',
  buildRequest: ({ url, maxCharacters }, settings) => ({
    path: '/v1/extract',
    headers: buildKeyHeader('x-api-key', settings),
    body: {
      urls: [url],
      advanced_settings: { full_content: { max_chars_per_result: maxCharacters } },
    },
  }),
  readPage(answer) {
    if (!isObject(answer) || !Array.isArray(answer.results)) return null
    const [page] = readObjects(answer.results)
    const text = page ? readString(page.full_content) : null
    if (page && text !== null)
      return { url: readString(page.url), title: readString(page.title), text, status: null }
    const [told = {}] = readObjects(answer.errors)
    return { failed: readStatus(told.http_status_code) }
  },
  buildProbe: settings => ({
    path: '/v1/extract',
    headers: buildKeyHeader('x-api-key', settings),
    body: {},
  }),
}
