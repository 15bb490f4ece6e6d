import type { Json } from '../../src/base/json.ts'
import type { EngineName } from '../../src/config/tools.ts'
import { type Hit, json, type Script } from './upstream.ts'

/** A page that a peer finds. */
export interface PeerPage {
  url: string
  title: string
  text: string
}

/** What a peer understood of a request. */
export interface PeerSearch {
  query: string
  count: number | null
  allowed: string[]
  excluded: string[]
  country: string | null
  mode: string | null
  characters: number | null
}

/** A server with the form of one engine's public API, as its documentation describes it. */
export interface SearchPeer {
  /** Reads a search; null if the request is none that the API accepts. */
  read(hit: Hit): PeerSearch | null
  /** Whether the request carries this key, where the API wants it. */
  hasKey(hit: Hit, key: string): boolean
  render(pages: PeerPage[], search: PeerSearch): unknown
  /** Answers a request that is no search; null if the API has no such request. */
  answerOther?(hit: Hit): Script | null
}

/** The key that peers accept. */
export const PEER_KEY = 'key-that-nobody-should-see-1234567890'

/** Answers as a peer does: 401 without the key, 400 for what is no search, and pages. */
export function answerAsPeer(
  peer: SearchPeer,
  hit: Hit,
  pages: PeerPage[],
  noted: PeerSearch[] = [],
): Script {
  if (!peer.hasKey(hit, PEER_KEY))
    return json({ error: { message: `Wrong key: ${hit.headers.authorization}` } }, { status: 401 })
  const other = peer.answerOther?.(hit)
  if (other) return other
  const search = peer.read(hit)
  if (!search) return json({ error: 'query is required' }, { status: 400 })
  noted.push(search)
  return json(peer.render(pages, search))
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
const listTexts = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : [])
const count = (value: unknown) => (typeof value === 'number' ? value : null)
const text = (value: unknown) => (isText(value) ? value : null)
const hasBearer = ({ headers }: Hit, key: string) => headers.authorization === `Bearer ${key}`

function readPost({ method, path, json: body }: Hit, wanted: string): Json | null {
  const isPost = method === 'POST' && path.endsWith(wanted)
  return isPost && typeof body === 'object' && body !== null ? (body as Json) : null
}

function readOperators(q: string): Pick<PeerSearch, 'query' | 'allowed' | 'excluded'> {
  const of = (pattern: RegExp) => [...q.matchAll(pattern)].map(([, domain = '']) => domain)
  const query = q.replace(/\s*\(?(-?site:\S+( OR )?)+\)?/g, '').trim()
  return {
    query,
    allowed: of(/(?<!-)site:([^\s)]+)/g),
    excluded: of(/-site:([^\s)]+)/g),
  }
}

const exa: SearchPeer = {
  hasKey: ({ headers }, key) => headers['x-api-key'] === key,
  read(hit) {
    const body = readPost(hit, '/search')
    if (!body || !isText(body.query)) return null
    const contents = body.contents as { text?: { maxCharacters?: number } } | undefined
    return {
      query: body.query,
      count: count(body.numResults),
      allowed: listTexts(body.includeDomains),
      excluded: listTexts(body.excludeDomains),
      country: text(body.userLocation),
      mode: text(body.type),
      characters: count(contents?.text?.maxCharacters),
    }
  },
  render: pages => ({
    requestId: 'b5947044c4b78efa9552a7c89b306d95',
    resolvedSearchType: 'neural',
    results: pages.map(({ url, title, text }) => ({
      ...{ id: url, url, title, text, author: null, publishedDate: '2026-01-01T00:00:00.000Z' },
    })),
    costDollars: { total: 0.005 },
  }),
}

const firecrawl: SearchPeer = {
  hasKey: hasBearer,
  read(hit) {
    const body = readPost(hit, '/v2/search')
    if (!body || !isText(body.query) || body.query.length > 500) return null
    return {
      query: body.query,
      count: count(body.limit),
      allowed: listTexts(body.includeDomains),
      excluded: listTexts(body.excludeDomains),
      country: text(body.country),
      ...{ mode: null, characters: null },
    }
  },
  render: pages => ({
    success: true,
    data: {
      web: pages.map(({ url, title, text }, i) => ({
        ...{ url, title, description: text, position: i + 1 },
      })),
    },
    creditsUsed: 2,
  }),
  answerOther: ({ method, path }) =>
    method === 'GET' && path.endsWith('/v2/team/credit-usage')
      ? json({ success: true, data: { remainingCredits: 1_000 } })
      : null,
}

const parallel: SearchPeer = {
  hasKey: ({ headers }, key) => headers['x-api-key'] === key,
  read(hit) {
    const body = readPost(hit, '/v1/search')
    const queries = listTexts(body?.search_queries)
    if (!body || queries.length === 0 || queries.some(query => query.length > 200)) return null
    const settings = (body.advanced_settings ?? {}) as Json
    const policy = (settings.source_policy ?? {}) as Json
    const excerpts = (settings.excerpt_settings ?? {}) as Json
    return {
      query: String(body.objective),
      count: count(settings.max_results),
      allowed: listTexts(policy.include_domains),
      excluded: listTexts(policy.exclude_domains),
      country: text(settings.location)?.toUpperCase() ?? null,
      mode: text(body.mode),
      characters: count(excerpts.max_chars_per_result),
    }
  },
  render: pages => ({
    search_id: 'search_fcb2b4f3c75e418687bccaa1a8381331',
    results: pages.map(({ url, title, text }) => ({
      ...{ url, title, publish_date: '2026-01-15', excerpts: [text] },
    })),
    warnings: null,
  }),
}

const perplexity: SearchPeer = {
  hasKey: hasBearer,
  read(hit) {
    const body = readPost(hit, '/search')
    if (!body || !isText(body.query) || Number(body.max_results) > 20) return null
    const domains = listTexts(body.search_domain_filter)
    return {
      query: body.query,
      count: count(body.max_results),
      allowed: domains.filter(domain => !domain.startsWith('-')),
      excluded: domains.filter(domain => domain.startsWith('-')).map(domain => domain.slice(1)),
      country: text(body.country),
      mode: null,
      characters: Number(body.max_tokens_per_page) * 4,
    }
  },
  render: pages => ({
    id: 'e2a1b1d2-0f0e-4b6e-9d9c-7d6f5e4d3c2b',
    results: pages.map(({ url, title, text }) => ({
      ...{ url, title, snippet: text, date: '2026-01-01', last_updated: null },
    })),
  }),
}

const tavily: SearchPeer = {
  hasKey: hasBearer,
  read(hit) {
    const body = readPost(hit, '/search')
    if (!body || !isText(body.query) || Number(body.max_results) > 20) return null
    return {
      query: body.query,
      count: count(body.max_results),
      allowed: listTexts(body.include_domains),
      excluded: listTexts(body.exclude_domains),
      country: body.country === 'germany' ? 'DE' : text(body.country),
      mode: text(body.search_depth),
      characters: null,
    }
  },
  render: (pages, { query }) => ({
    query,
    answer: null,
    images: [],
    results: pages.map(({ url, title, text }) => ({
      ...{ url, title, content: text, score: 0.9, raw_content: null },
    })),
    response_time: 1.2,
  }),
  answerOther: ({ method, path }) =>
    method === 'GET' && path.endsWith('/usage')
      ? json({ key: { usage: 1, limit: null }, account: { current_plan: 'Researcher' } })
      : null,
}

const brave: SearchPeer = {
  hasKey: ({ headers }, key) => headers['x-subscription-token'] === key,
  read({ method, path }) {
    const { pathname, searchParams } = new URL(path, 'http://peer')
    const q = searchParams.get('q')
    if (method !== 'GET' || !pathname.endsWith('/res/v1/web/search') || !q || q.length > 400)
      return null
    const number = Number(searchParams.get('count'))
    if (number < 1 || number > 20) return null
    const [country, mode, characters] = [searchParams.get('country'), null, null]
    return { ...readOperators(q), count: number, country, mode, characters }
  },
  render: (pages, { query }) => ({
    type: 'search',
    query: { original: query },
    web: {
      type: 'search',
      results: pages.map(({ url, title, text }) => ({
        ...{ type: 'search_result', url, title, description: text, extra_snippets: [] },
      })),
    },
  }),
}

const searxng: SearchPeer = {
  hasKey: () => true,
  read({ method, path }) {
    const { pathname, searchParams } = new URL(path, 'http://peer')
    const q = searchParams.get('q')
    if (method !== 'GET' || !pathname.endsWith('/search') || !q) return null
    if (searchParams.get('format') !== 'json') return null
    return { ...readOperators(q), count: null, country: null, mode: null, characters: null }
  },
  render: (pages, { query }) => ({
    ...{ query, number_of_results: 0, answers: [], corrections: [], infoboxes: [] },
    results: pages.map(({ url, title, text }) => ({
      ...{ url, title, content: text, engine: 'duckduckgo', score: 1, category: 'general' },
    })),
  }),
  answerOther: ({ method, path }) =>
    method === 'GET' && path.endsWith('/config') ? json({ categories: ['general'] }) : null,
}

/** A peer for every engine. */
export const SEARCH_PEERS: Record<EngineName, SearchPeer> = {
  ...{ brave, exa, firecrawl, parallel, perplexity, searxng, tavily },
}
