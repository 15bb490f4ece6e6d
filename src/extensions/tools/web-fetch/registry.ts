import { isObject, readObject, readObjects, readString } from '../../../base/json.ts'
import { buildBearer, buildKeyHeader } from '../web-search/engine.ts'
import { type FetchEngine, readStatus } from './engine.ts'

/** Parallel: `POST /v1/extract` (Parallel, "Extract"), with the whole text of the page. */
const parallel: FetchEngine = {
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

/** Firecrawl: `POST /v2/scrape` (Firecrawl, "Scrape"), the main content of a page as Markdown. */
const firecrawl: FetchEngine = {
  name: 'firecrawl',
  baseUrl: 'https://api.firecrawl.dev',
  buildRequest: ({ url }, settings) => ({
    path: '/v2/scrape',
    headers: buildBearer(settings),
    body: { url, formats: ['markdown'], onlyMainContent: true },
  }),
  readPage(answer) {
    if (!isObject(answer) || typeof answer.success !== 'boolean') return null
    const data = readObject(answer, 'data')
    const metadata = readObject(data, 'metadata')
    const status = readStatus(metadata.statusCode)
    const text = readString(data.markdown)
    if (!answer.success || text === null) return { failed: status }
    const url = readString(metadata.url) ?? readString(metadata.sourceURL)
    return { url, title: readString(metadata.title), text, status }
  },
  buildProbe: settings => ({ path: '/v2/team/credit-usage', headers: buildBearer(settings) }),
}

/** Exa: `POST /contents` (Exa, "Get contents"). What fails is told in `statuses`, with 200. */
const exa: FetchEngine = {
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

/** Every service that can read pages. `config/tools.ts` has their names. */
export const FETCH_ENGINES: FetchEngine[] = [exa, firecrawl, parallel]
