import { type GatewayError, invalid } from '../../base/errors.ts'
import { isObject, type Json, omitUndefined } from '../../base/json.ts'
import { ENGINE_NAMES, type EngineName } from '../../config/tools.ts'
import type { Config } from '../../config.ts'
import type { AnswerFilter } from '../../engine/kind.ts'
import { addRequiredCapability } from '../../engine/kinds/text/understanding.ts'
import type { Run } from '../../engine/run.ts'
import type { TextCall, WebSearch } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import type { Tool } from '../../language/tool.ts'
import { listSpoken } from '../../resources/models.ts'
import { type Enrichment, type Plugin, requireOptions } from '../plugin.ts'
import { listOpeningUses, runOpeningUse } from '../server-tool/opening-use.ts'
import { readPlace, renderSource, type TextPlace } from '../server-tool/sources.ts'
import { prepareUse, type ToolUse } from '../server-tool/use.ts'
import type { ServerTool, ToolResult, ToolSource, ToolWorld } from '../server-tool.ts'
import { readDomainLists } from '../tools/domains.ts'
import { cleanText } from '../tools/untrusted-text.ts'
import {
  chooseEngine,
  findEngineObstacle,
  findOwnEngine,
} from '../tools/web-search/choose-engine.ts'
import { isLeftToProvider } from '../tools/web-search/delegate.ts'
import type { WebSearchOptions } from '../tools/web-search/options.ts'
import { ENGINES } from '../tools/web-search/registry.ts'
import { NO_X_SEARCH, readXSearch } from '../tools/web-search/x-search.ts'
import { webSearch } from '../tools/web-search.ts'
import type { ExtensionWorld } from '../world.ts'
import { requireTool } from './require-tool.ts'

/**
 * The `web` plugin: the call's provider searches the web itself as the options say, or an engine of
 * the config searches once before the model's turn (wire reference C.4). Calls with `:online` use
 * it unasked, and those with `web_search_options` that only an engine can serve.
 */
export const web: Plugin<WebOptions> = {
  id: 'web',
  readOptions: readWebOptions,
  imply: (world, call) => (call.kind === 'text' ? implySearch(world, call) : undefined),
  prepare: (world, run, options) =>
    run.call.kind === 'text' ? prepareSearch(world, run, run.call, options) : run.call,
  enrich: async (world: ToolWorld, run, call, options) =>
    isOwnEngine(options) ? searchOnce(world, run, call, options) : null,
  before: (call, options) =>
    call.kind === 'text' && !isOwnEngine(options) ? addSearch(call, options) : call,
  after: (_, run) =>
    SourceFilter.create(
      listOpeningUses(run).flatMap(({ offered, result }) =>
        offered?.request.type === 'web' ? (result?.sources ?? []) : [],
      ),
    ),
}

function prepareSearch(
  world: ExtensionWorld,
  run: Run,
  call: TextCall,
  options: WebOptions,
): TextCall {
  const prepared = chooseSearcher(world, call, options)
  if (prepared !== call) requireTool(world, run, 'web_search')
  return prepared
}

/** Adds a search by the provider. The call's own `web_search_options` overrule the plugin's. */
function addSearch(call: TextCall, options: WebOptions): TextCall {
  const { web_search_options: callOptions } = call.params
  const { max_uses, allowed_domains, excluded_domains, user_location, x_search } = options
  const search = omitUndefined({
    ...{ max_uses, allowed_domains, excluded_domains, user_location, x_search },
  })
  return addRequiredCapability('web_search', {
    ...call,
    params: {
      ...call.params,
      web_search_options: { ...search, ...(isObject(callOptions) ? callOptions : {}) },
    },
  })
}

/** What is kept of one choice of an answer. */
interface ReadChoice {
  words: string
  /** Where the last of them stand. */
  place: TextPlace
  /** The URLs that its annotations name already. */
  cited: Set<unknown>
}

/** Adds the sources of a search to each choice of an answer that has words, before its end. */
class SourceFilter implements AnswerFilter<TextPart> {
  readonly blocked: GatewayError | null = null
  readonly #sources: ToolSource[]
  readonly #choices = new Map<number, ReadChoice>()

  private constructor(sources: ToolSource[]) {
    this.#sources = sources
  }

  /** Creates the filter; null if there are no sources. */
  static create(sources: ToolSource[]): SourceFilter | null {
    return sources.length > 0 ? new SourceFilter(sources) : null
  }

  async read(parts: TextPart[]): Promise<TextPart[]> {
    return parts.flatMap(part => this.#readPart(part))
  }

  async end(): Promise<TextPart[]> {
    return []
  }

  #readPart(part: TextPart): TextPart[] {
    if (part.type === 'text-delta') this.#noteWords(part)
    if (part.type === 'annotation') this.#noteCited(part)
    return part.type === 'finish' ? [...this.#renderSources(part.choice), part] : [part]
  }

  #noteWords(part: Extract<TextPart, { type: 'text-delta' }>): void {
    const read = this.#getChoice(part.choice)
    read.words += part.text
    read.place = readPlace(part)
  }

  #noteCited({ choice, annotation }: Extract<TextPart, { type: 'annotation' }>): void {
    const citation = isObject(annotation) ? annotation.url_citation : undefined
    if (isObject(citation)) this.#getChoice(choice).cited.add(citation.url)
  }

  #renderSources(choice: number): TextPart[] {
    const { words, place, cited } = this.#getChoice(choice)
    if (words === '') return []
    return this.#sources
      .filter(({ url }) => !cited.has(url))
      .map(source => ({ ...renderSource(source, words, place), choice }) as TextPart)
  }

  #getChoice(choice: number): ReadChoice {
    const known = this.#choices.get(choice) ?? { words: '', place: {}, cited: new Set() }
    this.#choices.set(choice, known)
    return known
  }
}

/**
 * Searches once with the last message of the user and returns what was found, for the model. It is
 * a use of the tool that searches, so it has that one's price, limits and record. Throws as
 * `runOpeningUse` does.
 */
async function searchOnce(
  world: ToolWorld,
  run: Run,
  call: TextCall,
  options: WebOptions,
): Promise<Enrichment | null> {
  const query = buildQuery(call)
  if (query === '' || run.isDry) {
    const outcome = run.isDry ? 'not searched: a dry run' : 'not searched: no text to search for'
    addStage(run, options, null, outcome)
    return null
  }
  const use = buildSearch(world, run, query, options)
  await runOpeningUse(world, run, use)
  const { result } = use
  if (!result) return null
  addStage(run, options, result, result.isError ? 'failed' : 'searched')
  return { instruction: buildInstruction(world, result, options), content: result.text }
}

const buildSearch = (world: ToolWorld, run: Run, query: string, options: WebOptions): ToolUse =>
  prepareUse(world, run, {
    call: { id: 'web', name: webSearch.name, input: JSON.stringify({ query }) },
    offered: {
      tool: webSearch as ServerTool,
      request: {
        ...{ name: webSearch.name, identity: webSearch.name, type: 'web', field: 'plugins' },
        options: toToolOptions(options),
      },
    },
    ...{ turn: 0, uses: 0 },
  })

/** The most characters of a query. */
const LONGEST_QUERY = 2_000

/** Returns the text of the last message of the user, as content filters leave it. */
function buildQuery({ messages }: TextCall): string {
  const blocks = messages.findLast(({ role }) => role === 'user')?.blocks ?? []
  const texts = blocks.flatMap(block => (block.type === 'text' ? block.text : []))
  const words = cleanText(texts.join(' ')).replace(/\s+/g, ' ').trim()
  return words.slice(0, LONGEST_QUERY).toWellFormed().trim()
}

/** Wire reference C.4: a dated text, which `search_prompt` replaces. */
function buildInstruction(
  { clock }: ToolWorld,
  { isError }: ToolResult,
  { search_prompt }: WebOptions,
): string {
  const day = clock.now().toISOString().slice(0, 10)
  if (isError)
    return `A web search was attempted on ${day} and failed. Say so if the answer depends on it.`
  return (
    search_prompt ??
    `A web search was conducted on ${day}. Incorporate the following web search results into ` +
      'your response. IMPORTANT: Cite the results that you use as Markdown links named for the ' +
      'domain of the source, for example [nytimes.com](https://nytimes.com/some-page).'
  )
}

function addStage(
  run: Run,
  { engine }: WebOptions,
  result: ToolResult | null,
  outcome: string,
): void {
  const results = result?.sources?.length ?? 0
  run.pluginStages.push({
    type: 'plugin',
    name: 'web',
    summary: `engine=${engine}, results=${results}, ${outcome}`,
    data: { engine, results, searched: result !== null && !result.isError },
  })
}

/**
 * Returns the options for a call that asks for a search without naming the plugin: by `:online`, or
 * by `web_search_options` where none of its models can search. Undefined if its provider searches,
 * or no search is possible.
 */
function implySearch(world: ExtensionWorld, call: TextCall): WebOptions | undefined {
  const isOnline = call.models.some(model => model.endsWith(ONLINE))
  const { web_search_options: asked } = call.params
  if (!isOnline && asked === undefined) return undefined
  if (!isOwnSearch(world, call, readEngineWishes(world, call))) return undefined
  const isForEngine = isOnline || hasEngineWishes(asked) || !canProviderSearch(world, call)
  return isForEngine ? {} : undefined
}

const ONLINE = ':online'

/**
 * Returns the call with the engine of the gateway that searches for it, in place of a search by its
 * provider; the call itself if that searches. Throws 400 for search options that no engine reads.
 */
function chooseSearcher(world: ExtensionWorld, call: TextCall, options: WebOptions): TextCall {
  if (!isOwnSearch(world, call, { ...options, ...readEngineWishes(world, call) })) return call
  const { web_search_options: asked, ...params } = call.params
  const whole = {
    ...options,
    ...(isObject(asked) ? readCallOptions(asked, world.config) : {}),
  }
  const found = findOwnEngine(world.config, toToolOptions(whole))
  if ('obstacle' in found) throw invalid(`plugins: the web cannot be searched: ${found.obstacle}`)
  const web = { ...whole, engine: found.engine.name }
  return { ...call, params, plugins: { ...call.plugins, web } }
}

/** Whether an engine of the gateway searches for the call, rather than its provider. */
function isOwnSearch(world: ExtensionWorld, call: TextCall, options: WebOptions): boolean {
  if (options.engine === 'native') return false
  if (needsOwnEngine(options)) return true
  if (!world.config.web_search.enabled) return false
  return !isLeftToProvider(world, toSearchingCall(world, call), toToolOptions(options))
}

/** Whether any endpoint of the call's models might search itself; true if a model is not known. */
function canProviderSearch(world: ExtensionWorld, call: TextCall): boolean {
  const { models, ...searching } = toSearchingCall(world, call)
  const endpoints = models.map(slug => {
    const model = world.catalog.models.get(slug)
    return model && listSpoken(model, searching.dialect)
  })
  return endpoints.some(
    ofModel =>
      ofModel === undefined ||
      ofModel.some(endpoint => {
        const choice = chooseEngine(world, toToolOptions({}), endpoint, searching)
        return 'engine' in choice && choice.engine === 'native'
      }),
  )
}

/** Returns the call with models as the catalog has them, and with a function if it will have one. */
function toSearchingCall(
  { catalog }: ExtensionWorld,
  { serverTools, ...call }: TextCall,
): TextCall {
  const { tool_choice: _, ...params } = call.params
  return {
    ...call,
    params,
    models: call.models.map(model =>
      catalog.models.has(model) ? model : (model.split(':')[0] ?? model),
    ),
    tools: serverTools?.requests.length ? [...call.tools, OFFERED] : call.tools,
  }
}

// Some providers do not search beside functions.
const OFFERED: Tool = { type: 'function', name: 'offered', parameters: {} }

/** What `web_search_options` may say to engines alone: clients of the public service send it. */
const ENGINE_WISHES = ['engine', 'max_results', 'search_prompt']

const hasEngineWishes = (asked: unknown): asked is Json =>
  isObject(asked) && ENGINE_WISHES.some(name => asked[name] != null)

/** Returns what a call wishes of engines; nothing if the config has none. */
function readEngineWishes({ config }: ExtensionWorld, { params }: TextCall): WebOptions {
  const { web_search_options: asked } = params
  const isNone = 'obstacle' in findOwnEngine(config, { engine: 'auto', mode: null })
  return isNone || !hasEngineWishes(asked) ? {} : readCallOptions(asked, config)
}

const CALL_OPTIONS = [
  ...ENGINE_WISHES,
  ...['search_context_size', 'user_location', 'max_uses', 'allowed_domains', 'excluded_domains'],
]
const SIZES = ['low', 'medium', 'high'] as const

/** Reads a call's `web_search_options`, in OpenAI's form. Throws 400 naming the field. */
function readCallOptions(asked: Json, config: Config): WebOptions {
  const at = 'web_search_options'
  const stray = Object.keys(asked).find(name => !CALL_OPTIONS.includes(name))
  if (stray !== undefined)
    throw invalid(
      `${at}: expected ${CALL_OPTIONS.join(', ')}, which search engines read`,
      `${at}.${stray.slice(0, 64)}`,
    )
  const { search_context_size: size, user_location: place } = asked
  const wishes = omitUndefined({
    engine: asked.engine === 'auto' ? undefined : (asked.engine ?? undefined),
    max_results: asked.max_results ?? undefined,
    search_prompt: asked.search_prompt ?? undefined,
    max_uses: asked.max_uses ?? undefined,
  })
  const isSize = size == null || SIZES.some(one => one === size)
  if (!isSize)
    throw invalid(
      `${at}.search_context_size: expected ${SIZES.join(', ')}`,
      `${at}.search_context_size`,
    )
  const domains = readDomainLists(
    [asked.allowed_domains, `${at}.allowed_domains`],
    [asked.excluded_domains, `${at}.excluded_domains`],
  )
  return omitUndefined({
    ...readWebOptions(wishes, at, config),
    search_context_size: (size as WebOptions['search_context_size'] | null) ?? undefined,
    allowed_domains: domains.allowed.length > 0 ? domains.allowed : undefined,
    excluded_domains: domains.excluded.length > 0 ? domains.excluded : undefined,
    user_location: place == null ? undefined : readUserLocation(place, `${at}.user_location`),
  })
}

// OpenAI's chat API has the place one level deeper than its Responses API.
const readUserLocation = (place: unknown, at: string): Json =>
  isObject(place) && isObject(place.approximate)
    ? readLocation(place.approximate, `${at}.approximate`)
    : readLocation(place, at)

/** What an entry of the plugin says: what a provider's own search reads, and what engines read. */
interface WebOptions extends WebSearch {
  /** Absent: the provider if it searches itself, or else the first engine of the config. */
  engine?: 'native' | EngineName
  max_results?: number
  mode?: string
  search_prompt?: string
  /** Only from a call's own `web_search_options`. */
  search_context_size?: 'low' | 'medium' | 'high'
}

/** The options that only an engine of the gateway has a word for. */
const ENGINE_OPTIONS = ['max_results', 'mode', 'search_prompt'] as const

const SEARCH_OPTIONS = [
  ...['engine', 'max_uses', 'include_domains', 'exclude_domains', 'user_location', 'x_search'],
  ...ENGINE_OPTIONS,
]

const MOST_RESULTS = 25
const MOST_USES = 1_000_000
const LONGEST_PROMPT = 10_000

/**
 * Reads an entry (wire reference C.4). Throws 400 naming the field, also for what neither a
 * provider nor an engine of the config could do.
 */
function readWebOptions(entry: Json, at: string, config: Config): WebOptions {
  requireOptions(entry, at, SEARCH_OPTIONS)
  const { engine, max_results, max_uses, mode, search_prompt, user_location, x_search } = entry
  const domains = readDomainLists(
    [entry.include_domains, `${at}.include_domains`],
    [entry.exclude_domains, `${at}.exclude_domains`],
  )
  const options: WebOptions = omitUndefined({
    engine: engine === undefined ? undefined : readEngine(engine, `${at}.engine`),
    max_results: readCount(max_results, `${at}.max_results`, MOST_RESULTS),
    max_uses: readCount(max_uses, `${at}.max_uses`, MOST_USES),
    mode: mode === undefined ? undefined : readMode(mode, `${at}.mode`),
    search_prompt: readPrompt(search_prompt, `${at}.search_prompt`),
    allowed_domains: domains.allowed.length > 0 ? domains.allowed : undefined,
    excluded_domains: domains.excluded.length > 0 ? domains.excluded : undefined,
    user_location:
      user_location == null ? undefined : readLocation(user_location, `${at}.user_location`),
    x_search: readXSearch(x_search, `${at}.x_search`) ?? undefined,
  })
  checkEngine(options, at, config)
  return options
}

/** Whether a search needs an engine of the gateway, as no provider has a word for its options. */
const needsOwnEngine = (options: WebOptions): boolean =>
  isOwnEngine(options) || ENGINE_OPTIONS.some(name => options[name] !== undefined)

/** Whether the options name an engine of the gateway. */
const isOwnEngine = ({ engine }: WebOptions): boolean => engine !== undefined && engine !== 'native'

/** Converts the options to those of the tool that searches the web. */
const toToolOptions = (options: WebOptions): WebSearchOptions => ({
  engine: options.engine ?? 'auto',
  max_results: options.max_results ?? null,
  max_characters: null,
  max_total_results: null,
  max_uses: options.max_uses ?? null,
  search_context_size: options.search_context_size ?? null,
  mode: options.mode ?? null,
  x_search: options.x_search ?? null,
  domains: { allowed: options.allowed_domains ?? [], excluded: options.excluded_domains ?? [] },
  user_location: options.user_location ? toLocation(options.user_location) : null,
})

const toLocation = ({ city, region, country, timezone }: Record<string, unknown>) => ({
  city: typeof city === 'string' ? city : null,
  region: typeof region === 'string' ? region : null,
  country: typeof country === 'string' ? country.toUpperCase() : null,
  timezone: typeof timezone === 'string' ? timezone : null,
})

/** Throws 400 for an engine that cannot be asked, and for options that need one where none is. */
function checkEngine(options: WebOptions, at: string, config: Config): void {
  if (options.x_search && needsOwnEngine(options))
    throw invalidOption(`${at}.x_search`, `none beside options of search engines: ${NO_X_SEARCH}`)
  const own = ENGINE_OPTIONS.find(name => options[name] !== undefined)
  if (options.engine === 'native' && own !== undefined)
    throw invalidOption(`${at}.${own}`, `none: ${NO_WORD}`)
  if (!needsOwnEngine(options)) return
  const { engine = 'auto', mode = null } = options
  const isSwitchedOff = !config.web_search.enabled
  const field = isOwnEngine(options) ? 'engine' : (own ?? 'engine')
  const anyMode = findOwnEngine(config, { engine, mode: null })
  if (isSwitchedOff || 'obstacle' in anyMode) {
    const reason = describeObstacle(engine, config)
    const expected = field === 'engine' ? `native: ${reason}` : `none: ${NO_WORD}, and ${reason}`
    throw invalidOption(`${at}.${field}`, expected)
  }
  const found = findOwnEngine(config, { engine, mode })
  if ('obstacle' in found) throw invalidOption(`${at}.mode`, `another: ${found.obstacle}`)
}

const NO_WORD = 'providers that search the web themselves have no word for it'

function describeObstacle(name: string, config: Config): string {
  if (!config.web_search.enabled) return 'web_search.enabled is false'
  const engine = ENGINES.find(one => one.name === name)
  if (!engine) return 'this gateway has no search engine (web_search.engines)'
  return `${name} cannot be used: ${findEngineObstacle(config, engine)}`
}

const ENGINE_CHOICES = ['native', ...ENGINE_NAMES] as const

function readEngine(value: unknown, at: string): WebOptions['engine'] {
  const engine = ENGINE_CHOICES.find(name => name === value)
  if (engine !== undefined) return engine
  throw invalidOption(at, `one of ${ENGINE_CHOICES.join(', ')}`)
}

const MODES = [...new Set(ENGINES.flatMap(({ modes }) => modes))].sort()

function readMode(value: unknown, at: string): string {
  const mode = MODES.find(name => name === value)
  if (mode !== undefined) return mode
  throw invalidOption(at, `one of ${MODES.join(', ')}`)
}

function readPrompt(value: unknown, at: string): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string' && value.trim() !== '' && value.length <= LONGEST_PROMPT)
    return value
  throw invalidOption(at, `a text of 1 to ${LONGEST_PROMPT} characters`)
}

function readCount(value: unknown, at: string, most: number): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= most)
    return value
  throw invalidOption(at, `a whole number from 1 to ${most}`)
}

const LOCATION_FIELDS = ['city', 'region', 'country', 'timezone']
const LONGEST_PLACE = 200

/** Reads where the user is. Throws 400 naming the field. */
function readLocation(value: unknown, at: string): Json {
  if (!isObject(value)) throw invalidOption(at, 'an object')
  const fields = LOCATION_FIELDS.filter(name => value[name] != null)
  for (const name of fields) {
    const place = value[name]
    if (typeof place !== 'string' || place.length > LONGEST_PLACE)
      throw invalidOption(`${at}.${name}`, `a text of at most ${LONGEST_PLACE} characters`)
    if (name === 'country' && !/^[A-Za-z]{2}$/.test(place))
      throw invalidOption(`${at}.country`, 'two letters')
  }
  return { type: 'approximate', ...Object.fromEntries(fields.map(name => [name, value[name]])) }
}

const invalidOption = (field: string, expected: string) =>
  invalid(`${field}: expected ${expected}`, field)
