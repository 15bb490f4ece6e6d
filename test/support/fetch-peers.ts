import type { Json } from '../../src/base/json.ts'
import type { FetchEngineName } from '../../src/config/tools.ts'
import { PEER_KEY } from './search-peers.ts'
import { type Hit, json, type Script } from './upstream.ts'

/** A page that a peer reads, or what its server answers. */
export interface PeerAnswer {
  url?: string
  title?: string | null
  text?: string
  /** Set: the page could not be read. */
  failed?: number
}

/** A server with the form of one service's public API, as its documentation describes it. */
export interface FetchPeer {
  hasKey(hit: Hit): boolean
  /** Reads the URL; null if the request is none that the API accepts. */
  read(hit: Hit): string | null
  render(url: string, page: PeerAnswer): unknown
  /** Answers a request that reads no page; null if the API has no such request. */
  answerOther?(hit: Hit): Script | null
}

/** Answers as a peer does: 401 without the key, 400 for what names no page, and the page. */
export function answerAsFetchPeer(
  peer: FetchPeer,
  hit: Hit,
  page: PeerAnswer,
  noted: string[] = [],
): Script {
  if (!peer.hasKey(hit)) return json({ error: 'Wrong key' }, { status: 401 })
  const other = peer.answerOther?.(hit)
  if (other) return other
  const url = peer.read(hit)
  if (url === null) return json({ error: 'urls is required' }, { status: 400 })
  noted.push(url)
  return json(peer.render(url, page))
}

const readPost = ({ method, path, json: body }: Hit, wanted: string): Json | null =>
  method === 'POST' && path.endsWith(wanted) && typeof body === 'object' ? (body as Json) : null

const only = (urls: unknown): string | null =>
  Array.isArray(urls) && urls.length === 1 ? String(urls[0]) : null

const hasApiKey = ({ headers }: Hit) => headers['x-api-key'] === PEER_KEY

const exa: FetchPeer = {
  hasKey: hasApiKey,
  read(hit) {
    const body = readPost(hit, '/contents')
    const { maxCharacters } = (body?.text ?? {}) as Json
    return body && Number(maxCharacters) > 0 ? only(body.urls) : null
  },
  render: (url, { failed, ...page }) => ({
    requestId: 'e492118ccdedcba5088bfc4357a8a125',
    results: failed ? [] : [{ id: url, url, author: null, ...page }],
    statuses: [
      failed
        ? { id: url, status: 'error', error: { tag: 'CRAWL_NOT_FOUND', httpStatusCode: failed } }
        : { id: url, status: 'success', source: 'cached' },
    ],
    costDollars: { total: 0.001 },
  }),
}

const firecrawl: FetchPeer = {
  hasKey: ({ headers }) => headers.authorization === `Bearer ${PEER_KEY}`,
  read(hit) {
    const body = readPost(hit, '/v2/scrape')
    return body && JSON.stringify(body.formats) === '["markdown"]' ? String(body.url) : null
  },
  render: (url, { failed, text, title, url: final = url }) => ({
    success: true,
    data: {
      markdown: failed ? 'Not found' : text,
      metadata: { title, sourceURL: url, url: final, statusCode: failed ?? 200 },
    },
  }),
  answerOther: ({ method, path }) =>
    method === 'GET' && path.endsWith('/v2/team/credit-usage')
      ? json({ success: true, data: { remainingCredits: 1_000 } })
      : null,
}

const parallel: FetchPeer = {
  hasKey: hasApiKey,
  read(hit) {
    const body = readPost(hit, '/v1/extract')
    const { full_content } = (body?.advanced_settings ?? {}) as Json
    return body && typeof full_content === 'object' ? only(body.urls) : null
  },
  render: (url, { failed, text, ...page }) => ({
    extract_id: 'extract_8a911eb27c7a4afaa20d0d9dc98d07c0',
    results: failed ? [] : [{ url, ...page, excerpts: [], full_content: text }],
    errors: failed
      ? [{ url, error_type: 'fetch_error', http_status_code: failed, content: 'Error fetching' }]
      : [],
    session_id: 'session_8a911eb27c7a4afaa20d0d9dc98d07c0',
  }),
}

/** A peer for every service. */
export const FETCH_PEERS: Record<FetchEngineName, FetchPeer> = { exa, firecrawl, parallel }
