import type { Json } from '../../base/json.ts'
import { toNanos } from '../../base/money.ts'
import type { EngineConfig } from '../../config/tools.ts'
import { WEB_SEARCH } from '../../engine/kinds/text/web-search.ts'
import type { Run } from '../../engine/run.ts'
import type { UpstreamWorld } from '../../network/world.ts'
import type {
  ServerTool,
  ToolInvocation,
  ToolReach,
  ToolResult,
  ToolSource,
} from '../server-tool.ts'
import type { ExtensionWorld } from '../world.ts'
import { allowsUrl } from './domains.ts'
import { cleanText, cutText, markAsData } from './untrusted-text.ts'
import type { UseLimit } from './use-limit.ts'
import { buildFailedResult, runUse, ToolFailure } from './use-limit.ts'
import {
  type ConfiguredEngine,
  chooseEngine,
  findEngineObstacle,
  findOwnEngine,
  findSearchObstacle,
  SWITCHED_OFF,
} from './web-search/choose-engine.ts'
import { addNativeSearch, isLeftToProvider, leaveNativeSearch } from './web-search/delegate.ts'
import type { FoundPage, Search, SearchEngine } from './web-search/engine.ts'
import {
  readNativeSearch,
  readWebSearchOptions,
  type WebSearchOptions,
  WebSearchParameters,
} from './web-search/options.ts'
import { ENGINES } from './web-search/registry.ts'
import { describeStatus, readJson, sendToEngine } from './web-search/search.ts'

/**
 * The tool that searches the web with an engine of the config, unless the model's provider searches
 * itself (wire reference D.6).
 */
export const webSearch: ServerTool<WebSearchOptions> = {
  name: 'web_search',
  schema: WebSearchParameters,
  readOptions: readWebSearchOptions,
  readNative({ config }, entry, { at = 0 }) {
    const options = config.web_search.enabled ? readNativeSearch(entry, at) : null
    return options && !('obstacle' in findOwnEngine(config, options)) ? options : null
  },
  nativeTypes: { responses: WEB_SEARCH, messages: WEB_SEARCH },
  // Of a native form, that depends on what the call's providers have themselves.
  findObstacle: ({ config }, options) =>
    options.native ? null : findSearchObstacle(config, options),
  delegate(world, call, options) {
    if (options.native) return leaveNativeSearch(world, call, options, options.native)
    return isLeftToProvider(world, call, options) ? addNativeSearch(call, options) : null
  },
  listParts: ({ config }) =>
    ENGINES.map(engine => ({ name: engine.name, obstacle: findEngineObstacle(config, engine) })),
  findReach: world =>
    'engine' in findOwnEngine(world.config, ANY_ENGINE) ? null : findNativeReach(world),
  shorthands: [
    ...['web_search', 'web_search_2025_08_26'],
    ...['web_search_preview', 'web_search_preview_2025_03_11'],
  ],
  findService({ config }, options) {
    const found = findOwnEngine(config, options)
    if ('obstacle' in found) return null
    const { engine, settings } = found
    const { data_policy } = settings
    const name = `the search engine ${engine.name}`
    return { name, provider: engine.name, model: engine.name, data_policy }
  },
  priceUse({ config }, options) {
    const found = findOwnEngine(config, options)
    return 'obstacle' in found ? 0n : toNanos(found.settings.usd_per_search ?? 0)
  },
  describeUse: (_, { input, options, run }) => {
    const query = readQuery(input)
    const isOwnItem =
      options.native && run.call?.kind === 'text' && run.call.dialect === 'responses'
    return {
      ...(isOwnItem ? { type: 'web_search_call' } : {}),
      ...(query === null ? {} : { action: { type: 'search', query } }),
    }
  },
  listFunctions: () => [FUNCTION],
  async run(world, invocation) {
    const result = await runSearch(world, invocation)
    // OpenAI's item has a word of its own for that.
    return invocation.options.native && result.isError
      ? { ...result, item: { ...result.item, status: 'failed' } }
      : result
  },
}

const ANY_ENGINE = { engine: 'auto', mode: null } as const

/** Says which models search where no engine of the gateway does: those whose provider does. */
function findNativeReach(world: ExtensionWorld): ToolReach {
  const options = readWebSearchOptions({ engine: 'native' }, 'parameters')
  const works = [...world.catalog.models.values()].some(({ endpoints }) =>
    endpoints.some(
      endpoint =>
        endpoint.provider.configured && 'engine' in chooseEngine(world, options, endpoint),
    ),
  )
  const whose = works ? 'only with models whose provider searches' : 'no provider here searches'
  return { works, reason: `${whose}, and no engine is configured (web_search.engines)` }
}

const FUNCTION = {
  name: 'web_search',
  description:
    'Searches the web. Returns pages with their URL, title and an excerpt. Cite the URLs you use.',
  parameters: {
    type: 'object',
    properties: { query: { type: 'string', description: 'What to search for, in a few words' } },
    required: ['query'],
    additionalProperties: false,
  },
}

async function runSearch(
  world: ExtensionWorld,
  invocation: ToolInvocation<WebSearchOptions>,
): Promise<ToolResult> {
  const { options, input, uses } = invocation
  const { web_search: settings } = world.config
  const most = Math.min(options.max_uses ?? Number.POSITIVE_INFINITY, settings.max_uses)
  if (!settings.enabled) return buildFailedResult(SWITCHED_OFF)
  if (uses >= most) return buildFailedResult(`No more searches: this call may make ${most}`)
  const query = readQuery(input)
  if (query === null) return buildFailedResult(`query: expected 1 to ${LONGEST_QUERY} characters`)
  const found = findOwnEngine(world.config, options)
  if ('obstacle' in found) return buildFailedResult(`The web cannot be searched: ${found.obstacle}`)
  return searchWithin(world, invocation, query, found)
}

const LONGEST_QUERY = 2_000

function readQuery({ query }: Json): string | null {
  const text = typeof query === 'string' ? cleanText(query).trim() : ''
  return text.length >= 1 && text.length <= LONGEST_QUERY ? text : null
}

/** Searches for at most as many results as the call may still have. */
async function searchWithin(
  world: ExtensionWorld,
  invocation: ToolInvocation<WebSearchOptions>,
  query: string,
  { engine, settings }: ConfiguredEngine,
): Promise<ToolResult> {
  const { options, run } = invocation
  const most = Math.min(
    options.max_results ?? DEFAULT_RESULTS,
    settings.max_results ?? engine.maxResults,
    engine.maxResults,
  )
  const taken = takeResults(run, options.max_total_results ?? MOST_TOTAL_RESULTS, most)
  if (taken.count === 0) return buildFailedResult('No more results: this call has all it may have')
  const search = buildSearch(query, taken.count, options)
  const seconds = settings.timeout_seconds ?? world.config.web_search.timeout_seconds
  let used = 0
  try {
    return await runUse(invocation, seconds * 1000, async limit => {
      const pages = await askEngine(world, engine, settings, search, limit)
      const sources = selectSources(pages, search, options)
      used = sources.length
      return { ...renderResult(query, sources), ...priceSearch(settings.usd_per_search) }
    })
  } finally {
    taken.giveBack(taken.count - used)
  }
}

const DEFAULT_RESULTS = 5
const MOST_TOTAL_RESULTS = 50
/** The most characters of one result, by `search_context_size`. */
const CONTEXT_CHARACTERS = { low: 800, medium: 1_500, high: 4_000 }

const buildSearch = (query: string, maxResults: number, options: WebSearchOptions): Search => ({
  query,
  maxResults,
  maxCharacters:
    options.max_characters ?? CONTEXT_CHARACTERS[options.search_context_size ?? 'medium'],
  allowedDomains: options.domains.allowed,
  excludedDomains: options.domains.excluded,
  location: options.user_location,
  mode: options.mode,
})

const LONGEST_URL = 2_048
const LONGEST_TITLE = 300

/** Returns the pages that the call allows, each once, cut to its limits: engines may err. */
function selectSources(
  pages: FoundPage[],
  { maxResults, maxCharacters }: Search,
  { domains }: WebSearchOptions,
): ToolSource[] {
  const sources = new Map<string, ToolSource>()
  for (const { url, title, text } of pages) {
    if (sources.size === maxResults) break
    if (url.length > LONGEST_URL || !allowsUrl(domains, url)) continue
    const { href, username, password } = new URL(url)
    if (sources.has(href) || username !== '' || password !== '') continue
    sources.set(href, {
      url: href,
      title: title === null ? null : cutText(cleanText(title), LONGEST_TITLE),
      text: cutText(cleanText(text).trim(), maxCharacters),
    })
  }
  return [...sources.values()]
}

function renderResult(query: string, sources: ToolSource[]): ToolResult {
  const action = {
    type: 'search',
    query,
    sources: sources.map(({ url }) => ({ type: 'url', url })),
  }
  if (sources.length === 0)
    return { text: 'The search found no pages', isError: false, sources, item: { action } }
  const pages = sources.map(
    ({ url, title, text }, i) => `[${i + 1}] ${title ?? url}\n${url}\n${text}`,
  )
  const text = markAsData('results of a web search', pages.join('\n\n'))
  return { text, isError: false, sources, item: { action } }
}

// What an engine did is paid for, also when the call allows none of it.
const priceSearch = (usd: number | undefined) => (usd === undefined ? {} : { cost: toNanos(usd) })

/** Results that a search may still bring. */
interface TakenResults {
  count: number
  /** Gives back those that it did not bring. */
  giveBack(count: number): void
}

// How many results each call has taken. Searches of one call may run in parallel.
const counts = new WeakMap<Run, number>()

/** Takes up to `most` of the `total` results that one call may have. */
function takeResults(run: Run, total: number, most: number): TakenResults {
  const taken = counts.get(run) ?? 0
  const count = Math.max(0, Math.min(most, total - taken))
  counts.set(run, taken + count)
  return {
    count,
    giveBack(unused) {
      counts.set(run, (counts.get(run) ?? 0) - unused)
    },
  }
}

/**
 * Asks an engine. Returns the pages as it names them, unchecked. Throws `ToolFailure` with a
 * sentence that has nothing of the engine's own words, which might repeat the key.
 */
async function askEngine(
  world: UpstreamWorld,
  engine: SearchEngine,
  settings: EngineConfig,
  search: Search,
  limit: UseLimit,
): Promise<FoundPage[]> {
  const branch = limit.open()
  try {
    const incoming = await sendToEngine(
      world,
      engine,
      settings,
      engine.buildRequest(search, settings),
      branch,
    )
    if (incoming.status !== 200)
      throw new ToolFailure(
        describeStatus(`The search engine ${engine.name}`, 'searches', incoming.status),
      )
    const pages = engine.readPages(await readJson(incoming))
    if (!pages) throw new ToolFailure(`The search engine ${engine.name} sent no results`)
    return pages
  } finally {
    limit.release(branch)
  }
}
