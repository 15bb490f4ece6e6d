import { isObject, readObject, readObjects, readString } from '../../../base/json.ts'
import { buildKeyHeader } from '../web-search/engine.ts'
import { type FetchEngine, readStatus } from './engine.ts'

/** Exa: `POST /contents` (Exa, "Get contents"). What fails is told in `statuses`, with 200. */
export const exa: FetchEngine = {
  name: 'exa',
  baseUrl: 'https://api.exa.ai',
  buildRequest: ({ url, maxCharacters }, settings) => ({
    path: '/contents',
    headers: buildKeyHeader('x-api-key', settings),
    body: { urls: [url], text: { maxCharacters } },
  }),
  readPage(answer) {
    if (!isObject(answer) || !Array.isArray(answer.results)) return null
    const [page] = readObjects(answer.results)
    const text = page ? readString(page.text) : null
    if (page && text !== null)
      return { url: readString(page.url), title: readString(page.title), text, status: null }
    const [told = {}] = readObjects(answer.statuses)
    return { failed: readStatus(readObject(told, 'error').httpStatusCode) }
  },
  buildProbe: settings => ({
    path: '/contents',
    headers: buildKeyHeader('x-api-key', settings),
    body: {},
  }),
}
