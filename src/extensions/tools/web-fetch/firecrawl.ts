import { isObject, readObject, readString } from '../../../base/json.ts'
import { buildBearer } from '../web-search/engine.ts'
import { type FetchEngine, readStatus } from './engine.ts'

/** Firecrawl: `POST /v2/scrape` (Firecrawl, "Scrape"), the main content of a page as Markdown. */
export const firecrawl: FetchEngine = {
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
